"""A shop whose changefeed writes to a storage sink."""

from __future__ import annotations

from collections.abc import Callable
from pathlib import Path
from typing import Any

from tests.support.shop import Shop
from tests.support.storage_sink import DEFAULT, SinkOptions, StorageSink
from ticdc_spark.model import Message, Offsets, RowChange, SchemaChange
from ticdc_spark.spark.sources.storage import StorageSinkSource
from ticdc_spark.streams.storage_messages import Form
from ticdc_spark.streams.storage_topic import StorageTopic
from ticdc_spark.topics.storage.files import LocalFiles


class PlainStorage(StorageSinkSource):
    """See ``PlainSource``."""

    def read(self, start: Offsets, end: Offsets, session: Any = None) -> list[Message]:  # type: ignore[override]
        return self.messages(start, end)


class StorageShop(Shop):
    """See ``Shop``. ``watermark`` writes the checkpoint."""

    def __init__(self, folder: Path, options: SinkOptions = DEFAULT, **job: Any) -> None:
        super().__init__("canal-json", **job)
        self.sink = StorageSink(folder, self.encoder, options)
        self.sent: list[RowChange | SchemaChange] = []
        """What the changefeed has sent, in order."""
        self.starting: Any = "earliest"
        self.when: Callable[[], float] = lambda: 0.0

    def open_source(self) -> PlainStorage:
        topic = StorageTopic(LocalFiles(str(self.sink.folder)), Form(csv=self.sink.options.csv))
        return PlainStorage(None, topic, starting=self.starting)

    def send_row(self, change: RowChange, topic: str | None = None) -> None:
        self.sent.append(change)
        self.sink.row(change)

    def send_ddl(self, change: SchemaChange, topic: str | None = None) -> None:
        self.sent.append(change)
        self.sink.ddl(change)

    def watermark(self, *topics: str, partitions: int = 1) -> int:
        ts = self.tick()
        self.sink.checkpoint(ts)
        return ts

    def again(self, since: int) -> None:
        """TiCDC starts again from a checkpoint, and sends everything after it once more."""
        for change in [one for one in self.sent if one.commit_ts > since]:
            if isinstance(change, RowChange):
                self.sink.row(change)
            else:
                self.sink.ddl(change)
