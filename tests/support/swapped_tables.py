"""Tables that get other names, or are made again, while they are read."""

from collections.abc import Sequence

from tests.support.mariadb_server import Server

LIKE = "(id INT PRIMARY KEY, a INT, b INT, v VARCHAR(20))"
NEW = "INSERT INTO {t} SELECT seq, seq, -seq, 'new' FROM seq_1_to_30"
SWAPS: dict[str, tuple[tuple[str, ...], ...]] = {
    "archived": (("RENAME TABLE {t} TO {t}_old", "CREATE TABLE {t} LIKE {t}_old", NEW),),
    "circle": (("RENAME TABLE {t} TO {t}_between, {t}_other TO {t}, {t}_between TO {t}_other",),),
    "away_and_back": (
        ("RENAME TABLE {t} TO {t}_between, {t}_other TO {t}", "UPDATE {t} SET v = 'under log' WHERE id < 9"),
        ("RENAME TABLE {t} TO {t}_other, {t}_between TO {t}", "UPDATE {t} SET v = 'back' WHERE id > 15"),
    ),
    "gh_ost": (
        (
            "CREATE TABLE {t}_gho LIKE {t}",
            "INSERT INTO {t}_gho SELECT id, a, b, 'copied' FROM {t}",
            "RENAME TABLE {t} TO {t}_del, {t}_gho TO {t}",
            "INSERT INTO {t} VALUES (99, 9, 9, 'new')",
        ),
    ),
    "emptied": (("TRUNCATE TABLE {t}", NEW),),
    "made_again": (("DROP TABLE {t}", f"CREATE TABLE {{t}} {LIKE}", NEW),),
    "rebuilt": (("ALTER TABLE {t} FORCE", "UPDATE {t} SET v = 'rebuilt' WHERE id > 15"),),
    "columns": (
        (
            "ALTER TABLE {t} RENAME COLUMN a TO b, RENAME COLUMN b TO a",
            "ALTER TABLE {t} MODIFY a INT AFTER id",
        ),
    ),
}
"""What happens to a table of each of these names: one step between waves, then the next one."""


def fill(server: Server, names: Sequence[str] = tuple(SWAPS)) -> None:
    """Tables of database ``d``; some have another one beside them."""
    for name in names:
        made = [name, f"{name}_other"] if any("{t}_other" in sql for step in SWAPS[name] for sql in step) else [name]
        for table in made:
            rows = f"SELECT seq, seq, -seq, '{table}' FROM seq_1_to_20"
            server.execute("USE d", f"CREATE TABLE {table} {LIKE}", f"INSERT INTO {table} {rows}")


def swap(server: Server, name: str, step: int) -> None:
    """Do the next step of what happens to a table; nothing where there is none."""
    for sql in SWAPS[name][step] if step < len(SWAPS[name]) else ():
        server.execute("USE d", sql.replace("{t}", name))
