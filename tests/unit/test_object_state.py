"""A state in an object store: its files, the job file's keys, and the lease by conditional writes."""

import threading
from collections.abc import Iterator
from pathlib import Path

import msgspec
import pytest

from tests.plain_store import PlainStore, plain_store
from ticdc_spark.config.load import load_identity, load_job
from ticdc_spark.config.state import StateUri
from ticdc_spark.errors import EnvironmentFault, LeaseHeld, SinkFault, StateFault, UsageError
from ticdc_spark.operate.status import job_status
from ticdc_spark.replicate.run import heart
from ticdc_spark.replicate.run.heart import Heart
from ticdc_spark.replicate.run.preflight import checks
from ticdc_spark.replicate.run.retry import Patience
from ticdc_spark.replicate.state import objects
from ticdc_spark.replicate.state.lease import acquire
from ticdc_spark.replicate.state.lease_store import LeaseStore, lease_store, this_process
from ticdc_spark.replicate.state.progress import Plan, Progress, Status, TableState
from ticdc_spark.replicate.state.requests import Rebuild, Resume, take
from ticdc_spark.replicate.state.store import Store

URI = "s3://bucket/state/shop"
ME = this_process("shop")
ELSEWHERE = msgspec.structs.replace(ME, host="elsewhere", machine="another")


@pytest.fixture
def server() -> Iterator[PlainStore]:
    with plain_store() as started:
        yield started


@pytest.fixture
def state(server: PlainStore) -> StateUri:
    return StateUri(URI, tuple(sorted(server.options().items())))


def lease_of(state: StateUri) -> LeaseStore:
    return lease_store("s3://bucket/lake", "lake", "shop", state)


def job_file(folder: Path, more: str, sink: str = "") -> Path:
    (folder / "topic").mkdir(exist_ok=True)
    file = folder / "job.toml"
    file.write_text(
        f'[job]\nname = "shop"\n{more}\n[source]\nkind = "files"\npath = "topic"\nprotocol = "simple"\n'
        f'[sink]\nkind = "iceberg"\nwarehouse = "s3://bucket/lake"\n"catalog.type" = "glue"\n{sink}\n'
    )
    return file


def test_what_is_written_is_read(state: StateUri, server: PlainStore) -> None:
    store = Store(state)
    assert store.load() is None and store.load_plan() is None and store.load_status() is None
    progress, status = Progress(job="shop", batch=3, applied=7), Status(state="normal", at=1.0, started_at=1.0, pid=1)
    store.save(progress)
    store.save_plan(Plan(generation=1, batch=4, end_offsets=(("x", 0, 5),)))
    store.save_status(status)
    again = Store(state)
    assert (again.load(), again.load_status()) == (progress, status)
    found = again.load_plan()
    assert found is not None and (found.batch, found.end_offsets) == (4, (("x", 0, 5),))
    assert sorted(server.objects) == [f"/bucket/state/shop/{name}.json" for name in ("plan", "progress", "status")]


def test_requests_wait_as_objects_of_their_own(state: StateUri, server: PlainStore) -> None:
    asked = (Rebuild(tables=(("s", "a"),)), Resume(tables=(("s", "b"),)))
    job, person = Store(state), Store(state)
    progress = Progress(job="shop", tables=(TableState(schema="s", name="b", quarantined="bad row"),))
    job.save(progress)
    assert take(job, progress, reads=True) is None
    for request in asked:
        person.ask(request)
    assert tuple(job.requests().values()) == asked
    assert sum("/bucket/state/shop/requests/" in name for name in server.objects) == 2
    after = take(job, progress, reads=True)
    assert after is not None and after.tables[0].quarantined is None and after.wanted[0].name == "a"
    assert Store(state).load() == after and not person.requests()
    assert sorted(server.objects) == ["/bucket/state/shop/progress.json"]


def test_a_request_outlives_a_store_that_goes_away_before_it_is_removed(state: StateUri, server: PlainStore) -> None:
    """The progress is saved, and the answer to that is lost."""
    job, progress = Store(state), Progress(job="shop")
    job.save(progress)
    Store(state).ask(Rebuild(tables=(("s", "a"),)))
    server.lost_answers, server.goes_away = 1, True
    with pytest.raises(StateFault, match=r"progress\.json cannot be"):
        take(job, progress, reads=True)
    with pytest.raises(StateFault, match=rf"^{URI}/requests cannot be listed"):
        job.requests()
    server.failing = False
    again = Store(state)
    found = again.load()
    assert found is not None and len(found.wanted) == 1 and len(again.requests()) == 1
    after = take(again, found, reads=True)
    assert after == found and not again.requests()


def test_a_broken_object_is_named(state: StateUri, server: PlainStore) -> None:
    server.objects["/bucket/state/shop/progress.json"] = b'{"job": '
    with pytest.raises(EnvironmentFault, match=rf"^{URI}/progress\.json cannot be read: .*truncated"):
        Store(state).load()


def test_a_store_that_does_not_answer_is_waited_for(state: StateUri) -> None:
    silent = StateUri(URI, tuple(sorted((dict(state.options) | {"endpoint": "http://127.0.0.1:9"}).items())))
    with pytest.raises(StateFault, match=rf"^{URI}/progress\.json cannot be read: .*127\.0\.0\.1:9") as raised:
        Store(silent).load()
    patience = Patience(60)
    assert patience.pause_after(raised.value) is None, "wrong from the start"
    patience.worked()
    assert patience.pause_after(raised.value)
    with pytest.raises(StateFault, match=r"status\.json cannot be written"):
        Store(silent).save_status(Status(state="normal", at=1.0, started_at=1.0, pid=1))
    Heart(Store(silent)).trouble(SinkFault("the lake is away"))  # what cannot be written down is no further error


def test_an_answer_that_is_lost(state: StateUri, server: PlainStore) -> None:
    server.lost_answers = 1
    Store(state).save(Progress(job="shop", batch=3))
    found = Store(state).load()
    assert found is not None and found.batch == 3
    server.lost_answers = 1
    with acquire(lease_of(state), ME) as lease:
        server.lost_answers = 1
        lease.set_jvm(1)
        lease.check()
        server.lost_answers = 1
    record, _ = lease_of(state).read()
    assert record is not None and record.released and record.epoch == 1


def test_a_second_run_is_kept_out(state: StateUri, server: PlainStore) -> None:
    with acquire(lease_of(state), ME), pytest.raises(LeaseHeld, match=rf"{URI}/lake\.shop\.lease\.json is held by job"):
        acquire(lease_of(state), ME)
    with acquire(lease_of(state), ME) as lease:
        assert lease.epoch == 2
    assert [path for path in server.objects if "probe" in path] == []


def test_an_owner_on_another_machine_is_watched(state: StateUri) -> None:
    first = acquire(lease_of(state), ELSEWHERE, ttl=0.3)
    with pytest.raises(LeaseHeld, match="stop it there first"):
        acquire(lease_of(state), ME, commit_window=1.0)
    first._stop.set()  # it is gone, and gives nothing back
    first._thread.join()
    with acquire(lease_of(state), ME, commit_window=0.2) as second:
        assert second.epoch == 2
        with pytest.raises(LeaseHeld, match="was taken by job 'shop'"):
            first.check()
        second.check()


def test_of_several_at_once_one_has_it(state: StateUri) -> None:
    barrier, won, lost = threading.Barrier(6), [], []

    def take(number: int) -> None:
        owner = msgspec.structs.replace(ELSEWHERE, host=f"host{number}", machine=f"machine{number}")
        barrier.wait()
        try:
            won.append(acquire(lease_of(state), owner, ttl=0.6, commit_window=0.6))
        except LeaseHeld:
            lost.append(number)

    threads = [threading.Thread(target=take, args=(number,)) for number in range(6)]
    for thread in threads:
        thread.start()
    for thread in threads:
        thread.join()
    assert (len(won), len(lost)) == (1, 5)
    won[0].check()
    won[0].release()


def test_a_store_that_ignores_conditions_is_refused(state: StateUri, server: PlainStore) -> None:
    server.careless = True
    with pytest.raises(SinkFault, match="ignores conditions of writes") as raised:
        acquire(lease_of(state), ME)
    assert "keep `state` under [job] on a disk" in str(raised.value)
    assert server.objects == {}, "nothing is left of it"


def test_the_job_file_names_it(tmp_path: Path) -> None:
    more = 'state = "s3://bucket/state/shop/"\n"state.endpoint" = "http://one:9000"\n"state.region" = "eu-west-1"'
    sink = '"catalog.s3.endpoint" = "http://other:9000"\n"catalog.s3.secret-access-key" = "shop-secret-31"\n'
    file = job_file(tmp_path, more, sink)
    for found in (load_job(file).state, load_identity(file).state):
        assert found == StateUri(URI, (("endpoint", "http://one:9000"), ("region", "eu-west-1")))
    of_lake = (("endpoint", "http://other:9000"), ("secret_access_key", "shop-secret-31"))
    file = job_file(tmp_path, 'state = "s3://bucket/state/shop/"', sink)
    for found in (load_job(file).state, load_identity(file).state):
        assert found == StateUri(URI, of_lake)
        assert str(found) == URI and "shop-secret-31" not in repr(found)
    gcs = load_job(job_file(tmp_path, 'state = "gs://bucket/state"', sink)).state
    assert gcs == StateUri("gs://bucket/state"), "the options of S3 are no concern of another store"


@pytest.mark.parametrize(
    ("more", "says"),
    [
        (
            'state = "hdfs://name:8020/state"',
            r"\[job\] state: found 'hdfs://name:8020/state'; allowed: a path, or a URI",
        ),
        ('state = "s3://"', r"\[job\] state: found 's3://'; allowed: a path, or a URI with a bucket: s3, "),
        ('state = "here"\n"state.region" = "x"', r"\[job\] state.region: is an option of an object store"),
        ('state = "s3:/bucket/state"', "found 's3:/bucket/state'; allowed: a path, or a URI"),
        ('state = "s3://bucket/a?job=1"', "allowed: a path, or a URI"),
        ('state = "s3://bucket/a#1"', "allowed: a path, or a URI"),
        ('state = "s3://bucket/a/../b"', "allowed: a path, or a URI"),
        ('state = "s3://bucket//b"', "allowed: a path, or a URI"),
        ('state = "s3://bucket/b%2Fc"', "allowed: a path, or a URI"),
        ('state = "s3://user:word@bucket/b"', "allowed: a path, or a URI"),
    ],
)
def test_what_cannot_be_is_an_error_of_the_job_file(tmp_path: Path, more: str, says: str) -> None:
    with pytest.raises(UsageError, match=says):
        load_job(job_file(tmp_path, more))


def test_an_option_that_there_is_not_is_named(tmp_path: Path) -> None:
    job = load_job(job_file(tmp_path, f'state = "{URI}"\n"state.regoin" = "x"'))
    with pytest.raises(
        UsageError, match=rf"\[job\] state: {URI} cannot be opened: .*'regoin'.*; did you mean `state.region`"
    ):
        Store(job.state)


def test_an_answer_in_xml_is_shown_as_its_code_and_text() -> None:
    answer = (
        '<?xml version="1.0"?>\n<Error><Code>InvalidAccessKeyId</Code><Message>There is no such key</Message></Error>'
    )
    shown = objects.first_line(OSError(f"Generic S3 error: 403 Forbidden: {answer}\n\nDebug source: …"))
    assert shown == "Generic S3 error: 403 Forbidden: InvalidAccessKeyId - There is no such key"


def test_status_and_check_look_there(tmp_path: Path, server: PlainStore) -> None:
    keys = "\n".join(f'"state.{name}" = "{value}"' for name, value in server.options().items())
    file = job_file(tmp_path, f'state = "{URI}"\n{keys}')
    identity, job = load_identity(file), load_job(file)
    assert job_status(identity).state == "pending"
    with acquire(lease_of(identity.state), this_process("shop")):  # type: ignore[arg-type]
        Heart(Store(identity.state)).beat("scan", 1)
        assert job_status(identity).state == "normal"
        found = {checked.what: checked for checked in checks(job)}
        assert isinstance(found["lease"].error, LeaseHeld)
    found = {checked.what: checked for checked in checks(job)}
    assert found["state"].found == f"{URI}, which answers" and found["lease"].error is None


def test_a_warehouse_on_a_disk_keeps_the_state_there(tmp_path: Path) -> None:
    file = job_file(tmp_path, f'state = "{URI}"')
    file.write_text(file.read_text().replace('"s3://bucket/lake"', '"lake"'))
    with pytest.raises(UsageError, match=r"\[job\] state: found 's3://.*', and the warehouse is on a disk"):
        load_job(file)


@pytest.mark.parametrize("option", ["timeout", "aws_endpoint_urls", "proxy_url"])
def test_an_option_that_the_store_does_not_take_is_a_usage_error(option: str) -> None:
    with pytest.raises(UsageError, match=rf"cannot be opened: .*state\.{option}"):
        Store(StateUri(URI, ((option, "5"), ("region", "x"))))


def test_an_endpoint_of_the_environment(server: PlainStore, monkeypatch: pytest.MonkeyPatch) -> None:
    for name, text in server.options().items():
        monkeypatch.setenv(f"AWS_{name.upper()}", text)
    state = StateUri("s3://bucket/state/by-environment")
    Store(state).save(Progress(job="shop", batch=3))
    assert "/bucket/state/by-environment/progress.json" in server.objects


def test_a_renewal_that_was_done_while_the_store_seemed_away(state: StateUri, server: PlainStore) -> None:
    with acquire(lease_of(state), ME) as lease:
        server.lost_answers, server.goes_away = 1, True
        with pytest.raises(SinkFault, match="cannot be"):
            lease.set_jvm(1)
        server.failing = False
        lease.check()
        lease.set_jvm(1)
        record, _ = lease_of(state).read()
        assert record is not None and record.owner.jvm is not None
        server.refusals = 9
        with pytest.raises(SinkFault, match="refused, though it is still ours"):
            lease.set_jvm(1)
        server.refusals = 0
        lease.check()
    record, _ = lease_of(state).read()
    assert record is not None and record.released


def test_a_progress_is_replaced_only_as_it_was_read(state: StateUri, server: PlainStore) -> None:
    ours, theirs = Store(state), Store(state)
    ours.load()
    theirs.load()
    theirs.save(Progress(job="shop", batch=3))
    with pytest.raises(StateFault, match=r"progress\.json was replaced by somebody else"):
        ours.save(Progress(job="shop", batch=2))
    found = Store(state).load()
    assert found is not None and found.batch == 3
    server.lost_answers, server.goes_away = 1, True
    with pytest.raises(StateFault, match="cannot be"):
        theirs.save(Progress(job="shop", batch=4))
    server.failing = False
    theirs.save(Progress(job="shop", batch=5))
    theirs.save(Progress(job="shop", batch=6))
    found = Store(state).load()
    assert found is not None and found.batch == 6


def test_a_bucket_that_is_not_there_is_named(state: StateUri, server: PlainStore) -> None:
    server.has_bucket = False
    for look in (lambda: Store(state).load(), lambda: acquire(lease_of(state), ME)):
        with pytest.raises(EnvironmentFault, match=rf"{URI}: there is no such bucket"):
            look()


def test_a_run_that_is_over_does_not_fail_as_that_cannot_be_written_down(
    state: StateUri, server: PlainStore, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(heart, "_END_PAUSES", (0.0, 0.0))
    server.failing = True
    Heart(Store(state)).end("finished")
    server.failing = False
    Heart(Store(state)).end("finished")
    found = Store(state).load_status()
    assert found is not None and found.state == "finished"
