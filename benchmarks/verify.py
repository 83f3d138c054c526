"""``make bench-verify``: ``verify`` of a large table, while it changes and after rows changed behind the job's back.

    python -m benchmarks.verify [--rows 10000000] [--runs 20]

MariaDB → changefeed → Kafka → replicate → Iceberg, as in ``benchmarks.big_snapshot``. First ``verify`` runs some times
while the source changes: it may report no difference. Then, without a line in the binlog, single rows are changed,
removed and added at the source: it must name each of them, and no other. Last it runs again, once the lake has what
changed. Prints Markdown.
"""

from __future__ import annotations

import argparse
import json
import subprocess
import sys
from collections.abc import Sequence

from tests.integration.circle import process

from benchmarks.big_snapshot import Way, Writer, fill, wait
from benchmarks.measure import Measured, measured
from benchmarks.servers import servers

_COMMAND = (sys.executable, "-c", "from ticdc_spark.cli import main; main()")
_CHANGES = (
    "UPDATE big.t SET customer = customer + 1 WHERE id = {key}",
    "UPDATE big.t SET amount = amount + 0.01 WHERE id = {key}",
    "UPDATE big.t SET note = CONCAT(note, ' ') WHERE id = {key}",
    "UPDATE big.t SET created = created + INTERVAL 1 SECOND WHERE id = {key}",
    "UPDATE big.t SET note = NULL WHERE id = {key}",
    "DELETE FROM big.t WHERE id = {key}",
    "INSERT INTO big.t (id, note) VALUES ({key} + 1, 'only here')",
)
"""Single-row changes. ``key``: of a row; the one behind it is free."""


def verify(way: Way, *more: str, report: str = "report") -> tuple[int, dict[str, object], Measured]:
    """Run the command. Gives its exit code, its report and what it took."""
    file = way.folder / f"{report}.json"
    arguments = ["verify", str(way.job), "--report", str(file), "--limit", "1000", *more]
    with (way.folder / "verify.log").open("wb") as log:
        started = subprocess.Popen((*_COMMAND, *arguments), stdout=log, stderr=log, cwd=way.folder)
        with measured(started.pid) as used:
            code = started.wait()
    if code not in (0, 3):
        raise SystemExit((way.folder / "verify.log").read_text(errors="replace")[-3000:])
    (table,) = json.loads(file.read_text())["tables"]
    return code, table, used


def line(what: str, used: Measured, said: str) -> None:
    """A line of the table of results."""
    print(f"| {what} | {used.seconds:,.0f} | {used.cpu:,.0f} | {said} |", flush=True)


def change_unseen(way: Way, keys: Sequence[int]) -> set[str]:
    """Change single rows at the source, of which no binlog tells. Returns their keys."""
    sql = [(_CHANGES[at % len(_CHANGES)], key) for at, key in enumerate(keys)]
    way.server.execute("SET sql_log_bin = 0", *(text.format(key=key) for text, key in sql))
    return {str(key + 1 if text.startswith("INSERT") else key) for text, key in sql}


def run(way: Way, rows: int, rate: float, runs: int, differences: int) -> None:
    """Raises: SystemExit if ``verify`` is wrong"""
    with process(way.folder / "changefeed.log", "changefeed", str(way.feed)) as feed:
        wait(way.started, feed, folder=way.folder)
        with process(way.folder / "replicate.log", "replicate", str(way.job)) as job:
            writer = Writer(way.server, rows, rate)
            writer.start()
            try:
                wait(lambda: way.gathered() < 0, feed, job, folder=way.folder)
                millis = way.now()
                wait(lambda: way.lake_reached(millis), feed, job, folder=way.folder)
                for number in range(1, runs + 1):
                    before = writer.done
                    code, table, used = verify(way)
                    (way.folder / "report.json").unlink()
                    said = f"{table['result']}, {(writer.done - before) / used.seconds:,.0f} transactions a second"
                    line(f"run {number} while rows change", used, said)
                    if code:
                        raise SystemExit(f"a false difference: {table}")
            finally:
                writer.stop()
            millis = way.now()
            wait(lambda: way.lake_reached(millis), feed, job, folder=way.folder)
            code, table, used = verify(way, report="quiet")
            line("nothing changes", used, str(table["result"]))
            code, table, used = verify(way, report="quiet")
            line("again, with the report of that run", used, str(table["result"]))
            alive = [int(row[0]) for row in way.server.execute(_FREE.format(rows=rows * 2, n=differences))]
            wanted = change_unseen(way, alive)
            code, table, used = verify(way)
            found = table["found"]
            assert isinstance(found, list)
            names = {str(one["key"]["id"]) for one in found}
            line(f"{len(wanted)} rows differ", used, f"exit code {code}, {len(names & wanted)} found")
            if names != wanted or code != 3:
                raise SystemExit(f"not found: {sorted(wanted - names)[:9]}; false: {sorted(names - wanted)[:9]}")
            job.terminate()
            job.wait(120)
        feed.terminate()
        feed.wait(60)


_FREE = (
    "SELECT t.id FROM (SELECT DISTINCT FLOOR(RAND(5) * {rows}) & ~1 AS id FROM mysql.seq_1_to_{n}0) r JOIN big.t t "
    "USING (id) LEFT JOIN big.t n ON n.id = t.id + 1 WHERE n.id IS NULL AND t.note IS NOT NULL "
    "AND t.amount IS NOT NULL AND t.created IS NOT NULL LIMIT {n}"
)
"""Random rows without a NULL, behind which a key is free."""


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--rows", type=int, default=10_000_000)
    parser.add_argument("--runs", type=int, default=20, help="while rows change")
    parser.add_argument("--differences", type=int, default=100)
    parser.add_argument("--rate", type=float, default=500, help="transactions a second meanwhile")
    options = parser.parse_args()
    more = ("--innodb-buffer-pool-size=512M", "--innodb-log-file-size=512M")
    with servers(*more) as (server, broker, folder):
        fill(server, options.rows)
        print(
            f"{options.rows:,} rows\n\n| verify | seconds | processor seconds | result |\n|---|---:|---:|---|",
            flush=True,
        )
        way = Way(folder, server, broker, "replicate", 100_000)
        run(way, options.rows, options.rate, options.runs, options.differences)


if __name__ == "__main__":
    main()
