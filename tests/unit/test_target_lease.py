"""The lease of a target that is kept in its catalog: one claim an epoch, made by one process."""

import threading
from collections.abc import Callable

import pytest

from ticdc_spark.errors import LeaseHeld, SinkFault
from ticdc_spark.replicate.state.lease import Lease, acquire
from ticdc_spark.replicate.state.lease_store import Owner, this_process
from ticdc_spark.replicate.state.processes import Process
from ticdc_spark.replicate.state.target_lease import ClaimLeaseStore, Leases


class Catalog:
    """``Claims`` in memory, for several processes."""

    where = "lake.lease_*"

    def __init__(self) -> None:
        self.texts: dict[int, str] = {}
        self.calls: list[str] = []
        self.before: Callable[[str], None] = lambda _: None
        """Called first, with the name of the method."""
        self.lost: str = ""
        """The method whose next answer is lost."""
        self._lock = threading.Lock()

    def _done(self, what: str) -> None:
        if self.lost == what:
            self.lost = ""
            raise SinkFault("no answer")

    def newest(self) -> int:
        self.before("newest")
        return max(self.texts, default=0)

    def read(self, number: int) -> str | None:
        self.before("read")
        return self.texts.get(number)

    def make(self, number: int, text: str) -> bool:
        self.before("make")
        with self._lock:
            made = self.texts.setdefault(number, text) is text
        self._done("make")
        return made

    def write(self, number: int, text: str) -> bool:
        self.before("write")
        if number not in self.texts:
            return False
        self.texts[number] = text
        self._done("write")
        return True

    def remove(self, number: int) -> None:
        self.texts.pop(number, None)

    def remove_before(self, number: int) -> None:
        for one in [one for one in self.texts if one < number]:
            self.remove(one)


ELSEWHERE = Owner(job="j", host="other", machine="other", process=Process(pid=1, started="1"))


def take(catalog: Catalog, owner: Owner | None = None, **more: float) -> Lease:
    return acquire(ClaimLeaseStore(catalog), owner or this_process("j"), commit_window=0.2, **more)


def test_it_is_taken_renewed_released_and_taken_again() -> None:
    catalog = Catalog()
    with take(catalog) as lease:
        lease.check()
        with pytest.raises(LeaseHeld, match=r"lake\.lease_\* is held by job 'j'.*it is running"):
            take(catalog)
    with take(catalog) as lease:
        assert lease.epoch == 2
    assert list(catalog.texts) == [2]


def test_an_owner_elsewhere_keeps_it_while_its_heart_beats() -> None:
    catalog = Catalog()
    with take(catalog, ELSEWHERE, ttl=0.2) as lease:
        with pytest.raises(LeaseHeld, match="stop it there first"):
            take(catalog)
        lease.check()


def test_an_owner_that_was_suspended_writes_nothing_more() -> None:
    catalog = Catalog()
    slow = take(catalog, ELSEWHERE, ttl=1000)
    catalog.texts[1] = catalog.texts[1].replace('"ttl":1000', '"ttl":0.1')
    with take(catalog) as lease:
        assert lease.epoch == 2
        with pytest.raises(LeaseHeld, match=r"was taken by job 'j', pid"):
            slow.check()
        slow.release()
        lease.check()
    assert list(catalog.texts) == [2]


def test_of_many_that_take_it_at_once_one_has_it() -> None:
    catalog, barrier, taken = Catalog(), threading.Barrier(8), []
    waits = threading.local()

    def meet(what: str) -> None:
        if what == "make" and not getattr(waits, "over", False):
            waits.over = True
            barrier.wait(10)

    catalog.before = meet

    def run() -> None:
        try:
            taken.append(take(catalog))
        except LeaseHeld:
            return

    threads = [threading.Thread(target=run) for _ in range(8)]
    for thread in threads:
        thread.start()
    for thread in threads:
        thread.join()
    (lease,) = taken
    lease.check()
    lease.release()


def test_one_that_comes_after_two_others_does_not_have_it() -> None:
    """The epoch that it makes was made and removed before."""
    catalog = Catalog()
    take(catalog).release()

    def overtaken(what: str) -> None:
        if what == "make":
            catalog.before = lambda _: None
            take(catalog).release()
            third.append(take(catalog, ELSEWHERE, ttl=0.2))

    third: list[Lease] = []
    catalog.before = overtaken
    with pytest.raises(LeaseHeld):
        take(catalog)
    third[0].check()
    assert list(catalog.texts) == [3]
    third[0].release()


def test_an_answer_that_is_lost_does_not_lock_the_job_out() -> None:
    catalog = Catalog()
    catalog.lost = "make"
    with take(catalog) as lease:
        lease.check()
    assert lease.epoch == 1


def test_a_catalog_that_does_not_answer_is_a_fault() -> None:
    catalog = Catalog()
    lease = take(catalog, ttl=1000)

    def fails(_: str) -> None:
        raise SinkFault("the catalog is gone")

    catalog.before = fails
    with pytest.raises(SinkFault, match="the catalog is gone"):
        lease.check()
    catalog.before = lambda _: None
    lease.check()
    lease.release()


def test_a_record_that_is_none_is_a_fault_that_names_the_place() -> None:
    catalog = Catalog()
    catalog.texts[4] = "{"
    with pytest.raises(SinkFault, match=r"the lease lake\.lease_\* cannot be read"):
        take(catalog)


def test_both_leases_are_checked() -> None:
    own, target = Catalog(), Catalog()
    with take(own) as lease, Leases(lease) as leases:
        leases.check()
        leases.take(target, threading.Event())
        leases.take(target, threading.Event())
        assert list(target.texts) == [1], "once a run"
        leases.check()
        target.texts[2] = target.texts[1].replace('"epoch":1', '"epoch":2')
        with pytest.raises(LeaseHeld):
            leases.check()
    assert '"released":true' in own.texts[1]


def test_a_lease_that_a_person_gave_up_and_another_took_is_lost_though_the_number_is_the_same() -> None:
    catalog = Catalog()
    old = take(catalog, ELSEWHERE, ttl=1000)
    catalog.remove(1)
    with take(catalog) as new:
        assert (old.epoch, new.epoch) == (1, 1)
        with pytest.raises(LeaseHeld, match=r"was taken by job 'j', pid"):
            old.check()
        old.release()
        new.check()


def test_an_answer_to_a_heartbeat_that_is_lost_does_not_end_the_job() -> None:
    catalog = Catalog()
    with take(catalog, ttl=0.3) as lease:
        catalog.lost = "write"
        while catalog.lost:
            threading.Event().wait(0.01)
        lease.check()


def test_a_client_that_creates_twice_finds_its_own_claim() -> None:
    class Twice(Catalog):
        def make(self, number: int, text: str) -> bool:
            super().make(number, text)
            return False

    with take(Twice()) as lease:
        lease.check()


def test_claims_that_cannot_be_removed_are_in_nobodys_way() -> None:
    class Keeps(Catalog):
        def remove(self, number: int) -> None:
            raise SinkFault("403 Forbidden")

    catalog = Keeps()
    take(catalog).release()
    with take(catalog) as lease:
        assert (lease.epoch, list(catalog.texts)) == (2, [1, 2])


def test_a_catalog_that_does_not_list_what_it_makes_is_a_fault() -> None:
    class Hides(Catalog):
        def newest(self) -> int:
            return 0

    with pytest.raises(SinkFault, match="does not list what was made there"):
        take(Hides())
