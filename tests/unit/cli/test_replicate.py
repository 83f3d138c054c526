"""``ticdc-spark replicate`` before it runs a job."""

import socket
from pathlib import Path

import pytest

from tests.support.job_state import owned
from tests.unit.cli.test_check import job_file
from ticdc_spark.cli.replicate import watching
from ticdc_spark.config.load import load_job
from ticdc_spark.errors import LeaseHeld, UsageError


def test_a_second_start_of_a_job_names_its_owner_and_not_the_port_that_it_listens_at(tmp_path: Path) -> None:
    (tmp_path / "topic").mkdir()
    file = job_file(tmp_path, 'kind = "files"\npath = "topic"')
    with socket.create_server(("127.0.0.1", 0)) as taken:
        file.write_text(f'{file.read_text()}[metrics]\nlisten = "127.0.0.1:{taken.getsockname()[1]}"\n')
        job = load_job(file)
        with pytest.raises(UsageError, match="cannot listen on"), watching(job):
            pass
        with owned(file), pytest.raises(LeaseHeld, match="is held by job 'shop'"), watching(job):
            pass
