"""``make bench-restart``: the time of a restart, and of a standby that takes over from a lost machine.

    python -m benchmarks.restart [--tables 300] [--runs 3]

A broker, idle tables with a watermark a second, and processes of one job. A process is up when the state has a resolved
ts from after its start. The standby runs in a PID namespace of its own, which is another machine to the job; so this
needs ``unshare``, and the right to use it.
"""

from __future__ import annotations

import argparse
import subprocess
import sys
import tempfile
import time
from pathlib import Path

from tests.support.kafka_broker import Broker

from benchmarks.accounts import AccountsConfig
from benchmarks.trickle import JOB, PARTITIONS, Feed
from ticdc_spark.config.load import load_identity
from ticdc_spark.operate.status import job_status

ELSEWHERE = ("unshare", "--pid", "--fork", "--kill-child", "--mount-proc")
"""Starts a process on what the job takes for another machine."""


def started(job_file: Path, *where: str) -> subprocess.Popen[bytes]:
    """A process of the job. ``where``: a command before its own."""
    command = [*where, str(Path(sys.executable).with_name("ticdc-spark")), "replicate", str(job_file)]
    with job_file.with_name("replicate.log").open("ab") as log:
        return subprocess.Popen(command, stdout=log, stderr=log)


def seconds_to_follow(job_file: Path, process: subprocess.Popen[bytes], since: float) -> float:
    """Wait until the tables have what the source had at ``since``; the time from then to now. Raises: SystemExit"""
    identity = load_identity(job_file)
    while (job_status(identity).resolved_ts or 0) >> 18 < since * 1000:
        if process.poll() is not None:
            raise SystemExit(job_file.with_name("replicate.log").read_text()[-3000:])
        time.sleep(0.2)
    return time.time() - since


def run(job_file: Path, runs: int) -> None:
    """Print the times in Markdown."""
    process = started(job_file)
    first = seconds_to_follow(job_file, process, time.time())
    print(f"| what | seconds |\n|---|---:|\n| the first start, which makes the tables | {first:.1f} |", flush=True)
    again = []
    for _ in range(runs):
        process.terminate()
        process.wait(120)
        since = time.time()
        process = started(job_file)
        again.append(seconds_to_follow(job_file, process, since))
    print(f"| a restart | {', '.join(f'{one:.1f}' for one in again)} |", flush=True)
    process.terminate()
    process.wait(120)
    owner = started(job_file, *ELSEWHERE)
    seconds_to_follow(job_file, owner, time.time())
    owner.kill()
    since = time.time()
    standby = started(job_file, *ELSEWHERE)
    try:
        took = seconds_to_follow(job_file, standby, since)
        print(f"| a standby, from the kill of the owner | {took:.1f} |", flush=True)
    finally:
        standby.kill()


def main() -> None:
    parser = argparse.ArgumentParser("benchmarks.restart", description=(__doc__ or "").split("\n", 1)[0])
    parser.add_argument("--tables", type=int, default=300)
    parser.add_argument("--runs", type=int, default=3)
    options = parser.parse_args()
    with tempfile.TemporaryDirectory(prefix="ticdc-bench-") as folder:
        broker = Broker(Path(folder, "kafka"), java_options=())
        broker.start()
        try:
            broker.create_topic("accounts", PARTITIONS)
            feed = Feed(broker.servers, AccountsConfig(tables=options.tables, rows=options.tables * 10), 0.0)
            job_file = Path(folder, "job.toml")
            job_file.write_text(JOB.format(interval="1s", servers=broker.servers))
            print(f"{options.tables} idle tables:\n")
            with feed:
                run(job_file, options.runs)
        finally:
            broker.stop()


if __name__ == "__main__":
    main()
