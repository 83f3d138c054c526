"""A pytest plugin (``-p``, with ``-m "not mariadb"``): the tests that run a MariaDB run a MySQL in its place.

``TICDC_SPARK_MYSQL`` names the folder in which it lies: a distribution's packages of the server (Debian's
``mysql-server-core`` with what it depends on) unpacked there, its loader among them, or a server's tarball.
"""

import os
import re
from pathlib import Path

from tests.support import mariadb_server

_SEQUENCE = re.compile(r"(?:\w+\.)?(seq_(\d+)_to_(\d+))\b")
_OLD_WORDS = {
    "SHOW MASTER STATUS": "SHOW BINARY LOG STATUS",
    "RESET MASTER": "RESET BINARY LOGS AND GTIDS",
    "'Binlog Dump'": "'Binlog Dump GTID'",
}
_OPTIONS_OF_MARIADB = ("--ssl=ON",)
_NO_SYNC = ("--innodb-flush-method=nosync", "--innodb-doublewrite=OFF", "--innodb-flush-log-at-trx-commit=2")
"""As no crash of the machine is tested. A DDL takes a tenth of the time."""
_SETTINGS_OF_MARIADB = ("log_bin_compress", "binlog_alter_two_phase")


class MysqlServer(mariadb_server.Server):
    """See ``Server``; statements are translated where MySQL has other words."""

    is_mariadb = False

    def __init__(self, folder: Path, *options: str) -> None:
        self._options = (
            "--gtid-mode=ON",
            "--enforce-gtid-consistency=ON",
            "--cte-max-recursion-depth=1000000",
            *_NO_SYNC,
            *([] if any(option.startswith("--log-bin") for option in options) else ["--skip-log-bin"]),
            *options,
        )
        self._place(folder)
        at_first = [option for option in options if option.startswith("--lower-case-table-names")]
        mariadb_server.run([*_command(), f"--datadir={self._data}", "--initialize-insecure", *at_first], self._env())
        names = folder / "root.sql"
        names.write_text(
            "CREATE USER IF NOT EXISTS root@127.0.0.1;\nGRANT ALL ON *.* TO root@127.0.0.1 WITH GRANT OPTION;\n"
        )
        self._options += (f"--init-file={names}", "--mysqlx=OFF", "--secure-file-priv=", f"--pid-file={folder / 'pid'}")

    def execute(self, *statements: str) -> list[tuple[object, ...]]:
        known = [one for one in statements if not any(setting in one for setting in _SETTINGS_OF_MARIADB)]
        return super().execute(*map(translated, known or ["SELECT 1"]))

    def words(self, sql: str) -> str:
        return translated(sql)

    def _started(self, options: list[str]) -> list[str]:
        return [*_command(), *(option for option in options if option not in _OPTIONS_OF_MARIADB)]

    def _env(self) -> dict[str, str]:
        return {**os.environ}


def translated(sql: str) -> str:
    """A statement of the tests in the words of MySQL."""
    for old, new in _OLD_WORDS.items():
        sql = sql.replace(old, new)
    rows = (
        r"(WITH RECURSIVE n (seq) AS (SELECT \2 UNION ALL SELECT seq + 1 FROM n WHERE seq < \3) SELECT seq FROM n) \1"
    )
    return _SEQUENCE.sub(rows, sql)


def _command() -> list[str]:
    root = Path(os.environ["TICDC_SPARK_MYSQL"]).resolve()
    binary = next(path for path in (root / "usr/sbin/mysqld", root / "bin/mysqld") if path.exists())
    base = binary.parent.parent
    command = [str(binary), "--no-defaults", f"--basedir={base}"]
    shared = base / "share" / "mysql"
    if shared.exists():
        command += [f"--lc-messages-dir={shared}", f"--character-sets-dir={shared / 'charsets'}"]
    loader = next(base.glob("lib/*/ld-linux-*.so.*"), None)
    if loader is not None:
        libraries = f"{loader.parent}:{base / 'lib' / 'mysql' / 'private'}"
        command = [str(loader), "--library-path", libraries, *command]
    return [*command, *(["--user=root"] if os.geteuid() == 0 else [])]


mariadb_server.Server = MysqlServer  # type: ignore[misc]
