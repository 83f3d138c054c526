"""A key of the configuration: where it may be given, how it is read, and whether it is used."""

from typing import Literal, TypeAlias

import msgspec

from ticdc_spark.changefeed.config.kinds import Kind, text

Use: TypeAlias = Literal["used", "ignored", "refused"]
"""``ignored``: accepted with a warning. ``refused``: any value but the default is an error."""

FEED = ""
FILTER = "filter"
EVENTS = "filter.event-filters[]"
SINK = "sink"
DISPATCHERS = "sink.dispatchers[]"
SELECTORS = "sink.column-selectors[]"
KAFKA = "sink.kafka-config"
CODEC = "sink.kafka-config.codec-config"
LARGE = "sink.kafka-config.large-message-handle"
GLUE = "sink.kafka-config.glue-schema-registry-config"
URI = "sink URI"
"""The section of keys that only a sink URI has."""
OURS = "ticdc-spark"
"""The section that TiCDC does not have."""


class Key(msgspec.Struct, frozen=True, kw_only=True):
    """One key."""

    name: str
    section: str
    """The TOML section's dotted name, with ``[]`` for each table of an array. Or ``URI``."""
    uri: str | None = None
    """Its name in a sink URI, if it is allowed there."""
    kind: Kind
    default: object = None
    """TiCDC's default, as a TOML value; ``None``: there is none."""
    meaning: str
    use: Use = "used"
    reason: str = ""
    """Why it is ignored or refused."""
    option: str | None = None
    """The option of ``protocols.encoder_options.target_encoder`` that it sets."""
    secret: bool = False
    """Whether the value must not be shown. Of a URL, only the password."""
    url: bool = False

    @property
    def id(self) -> str:
        """Its whole name: ``sink.kafka-config.partition-num``."""
        return f"{self.section}.{self.name}" if self.section else self.name

    @property
    def place(self) -> str:
        """Its place in the file: ``[sink.kafka-config] partition-num``."""
        if not self.section or self.section == URI:
            return f"{self.section} {self.name}".strip()
        if self.section.endswith("[]"):
            return f"[[{self.section[:-2]}]] {self.name}"
        return f"[{self.section}] {self.name}"

    @property
    def otherwise(self) -> object:
        """Its default, after reading."""
        if self.default is None:
            return None
        return self.kind.read(list(self.default) if isinstance(self.default, tuple) else self.default)


def url_key(name: str, section: str, meaning: str) -> Key:
    """A key for a URL that may have a password."""
    return Key(name=name, section=section, kind=text(), meaning=meaning, secret=True, url=True)
