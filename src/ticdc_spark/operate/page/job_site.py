"""The page of a job, with its settings and its routes."""

from typing import Any

import msgspec

from ticdc_spark.config.job import Identity
from ticdc_spark.operate.page.changes import Changes
from ticdc_spark.operate.page.job_source import JobSource, Seen
from ticdc_spark.operate.page.job_view import job_view
from ticdc_spark.operate.page.settings import settings, versions
from ticdc_spark.operate.page.site import json_answer, page_routes
from ticdc_spark.operate.page.tables import find
from ticdc_spark.operate.page.view import Query, View, query_of
from ticdc_spark.operate.serving import Answer, Asked, Route, Routes


def job_page(seen: Seen, identity: Identity, query: Query, *, is_running: bool) -> View:
    """The page of a job, with its settings. ``is_running``: this process runs the job."""
    more = (settings(identity.file), versions(is_running=is_running))
    return job_view(seen, identity.file.name, query, more)


def job_routes(source: JobSource, identity: Identity, changes: Changes, *, is_running: bool) -> Routes:
    """The routes of a job's page."""

    def view(query: Query) -> View:
        return job_page(source.seen(), identity, query, is_running=is_running)

    def status(_: Asked) -> Answer:
        found: dict[str, Any] = msgspec.to_builtins(source.seen().status)
        del found["tables"]
        return json_answer(found)

    def tables(asked: Asked) -> Answer:
        query = query_of(asked.query)
        found = find(source.seen().status.tables, query)
        return json_answer(
            {"found": found.number, "offset": query.offset, "states": found.states, "tables": found.tables}
        )

    more = {"status.json": Route(answer=status), "tables.json": Route(answer=tables)}
    return {**page_routes(view, changes), **more}
