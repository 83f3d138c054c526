"""Faults at a durable action that is known by its name, not by its number."""

from __future__ import annotations

from collections.abc import Callable

from tests.simulator.faults import ActionKind, Died, Injector, T


class Faults(Injector):
    """Faults at an action by its number, or by its name."""

    def __init__(self) -> None:
        super().__init__()
        self.at, self.happens_first = "", False
        self.before: Callable[[], object] | None = None
        """Called before the action named ``at``, in place of a death."""
        self.done: list[str] = []
        """The names of the actions that were carried out."""

    def act(self, kind: ActionKind, what: str, do: Callable[[], T]) -> T:
        if not self.at or not what.startswith(self.at):
            found = super().act(kind, what, do)
            self.done.append(what)
            return found
        self.at, meanwhile, self.before = "", self.before, None
        if meanwhile is not None:
            meanwhile()
            return do()
        if self.happens_first:
            do()
        raise Died(what)
