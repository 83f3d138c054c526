"""What TiCDC registered, as a registry for encoders that must register the same."""

from __future__ import annotations

from tests.support.vectors import Config


class Recorded:
    """A registry with what TiCDC registered, and nothing else."""

    def __init__(self, config: Config) -> None:
        self.ids = {(entry["subject"], entry["schema"]): entry["id"] for entry in config.schemas}
        self.used: set[int] = set()
        self.wrong: list[tuple[str, str]] = []

    def register(self, subject: str, schema: str) -> int:
        number: int = self.ids.get((subject, schema), 0)
        if not number:
            self.wrong.append((subject, schema))
        self.used.add(number)
        return number
