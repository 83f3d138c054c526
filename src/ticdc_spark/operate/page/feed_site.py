"""The routes of a changefeed's page."""

from collections.abc import Callable
from pathlib import Path

from ticdc_spark.operate.page.changes import Changes
from ticdc_spark.operate.page.feed import FeedSeen, feed_view
from ticdc_spark.operate.page.settings import settings, versions
from ticdc_spark.operate.page.site import page_routes
from ticdc_spark.operate.serving import Routes


def feed_routes(seen: Callable[[], FeedSeen], file: Path | None, changes: Changes, *, is_running: bool) -> Routes:
    """The page of a changefeed. ``file``: its configuration; ``is_running``: this process runs it."""
    return page_routes(
        lambda query: feed_view(seen(), query, (settings(file), versions(is_running=is_running))), changes
    )
