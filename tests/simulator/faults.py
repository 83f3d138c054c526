"""Faults at durable actions: a process dies before or after one, does not hear that it succeeded, or sleeps over it."""

from __future__ import annotations

from collections import Counter
from collections.abc import Callable
from typing import Literal, TypeAlias, TypeVar, get_args

import msgspec

from ticdc_spark.errors import SinkFault

FaultKind: TypeAlias = Literal["die_before", "die_after", "answer_lost", "refused", "suspended"]
"""``answer_lost``: it happened, and the caller sees an error. ``refused``: an error, and nothing happened.
``suspended``: before it happens, another owner takes the lease and runs; then it happens after all."""
FAULT_KINDS: tuple[FaultKind, ...] = get_args(FaultKind)
ActionKind: TypeAlias = Literal["store", "log", "sink", "lease"]
"""A write of the state folder; a commit to the change log or the dead letters; a commit or DDL of a table or a
namespace; a swap of the lease's record."""
T = TypeVar("T")


class Fault(msgspec.Struct, frozen=True, kw_only=True):
    """One fault: at the ``at``-th durable action (from 0) after it was armed."""

    at: int
    kind: FaultKind
    others: int = 1
    """``suspended``: batches that the other owner does in the meantime."""


class Died(BaseException):
    """The process is gone: nothing in it runs any more, its memory is lost. Never caught by the job."""


class Injector:
    """Stands between the job and everything durable. Without an armed fault it only counts."""

    def __init__(self) -> None:
        self.actions: Counter[str] = Counter()
        """Durable actions, by kind."""
        self.met: Counter[str] = Counter()
        """Faults that happened, by kind of fault and action."""
        self.fired: Fault | None = None
        """The armed fault, once it has happened."""
        self._fault: Fault | None = None
        self._left = 0
        self._meanwhile: Callable[[Fault], None] | None = None

    def arm(self, fault: Fault | None, meanwhile: Callable[[Fault], None] | None = None) -> None:
        """Let ``fault`` happen once. ``meanwhile`` is called by ``suspended``. ``None`` disarms."""
        self._fault, self._meanwhile, self.fired = fault, meanwhile, None
        self._left = 0 if fault is None else fault.at

    def act(self, kind: ActionKind, what: str, do: Callable[[], T]) -> T:
        """Do a durable action ``do`` (all of it or nothing), named ``what`` in messages, or let the fault happen.

        Raises: Died; SinkFault for ``refused`` and ``answer_lost``; and what ``do`` raises.
        """
        fault = self.begin_action(kind, what)
        done = do()
        self.end_action(fault, what)
        return done

    def begin_action(self, kind: ActionKind, what: str) -> Fault | None:
        """What comes before a durable action. Returns: the fault that is to happen behind it, for ``end_action``.

        Raises: Died; SinkFault for ``refused``.
        """
        self.actions[kind] += 1
        fault = self._fault
        if fault is None:
            return None
        if self._left:
            self._left -= 1
            return None
        self._fault, self.fired = None, fault
        self.met[f"{fault.kind}:{kind}"] += 1
        match fault.kind:
            case "die_before":
                raise Died(what)
            case "refused":
                raise SinkFault(f"{what}: refused (injected)")
            case "suspended" if self._meanwhile is not None:
                self._meanwhile(fault)
        return fault

    def pass_point(self, name: str) -> None:
        """A place inside an action where a process can only die (``ticdc_spark.failpoints``). Raises: Died"""
        fault = self._fault
        if fault is None or fault.kind not in ("die_before", "die_after"):
            return
        if self._left:
            self._left -= 1
            return
        self._fault, self.fired = None, fault
        self.met[f"die:{name}"] += 1
        raise Died(f"the point {name}")

    def end_action(self, fault: Fault | None, what: str) -> None:
        """What comes behind a durable action that was done. Raises: Died; SinkFault for ``answer_lost``."""
        if fault is not None and fault.kind == "die_after":
            raise Died(what)
        if fault is not None and fault.kind == "answer_lost":
            raise SinkFault(f"{what}: the answer was lost (injected)")
