"""Changefeed files for tests: values by the ids of keys, written as TOML, and URIs with parameters."""

import json
import urllib.parse
from collections.abc import Mapping
from pathlib import Path
from typing import Any

from ticdc_spark.changefeed.config.keys import BY_ID
from ticdc_spark.changefeed.config.load import load_changefeed
from ticdc_spark.changefeed.config.settings import Changefeed

SERVER = "kafka://broker:9092/topic"


def toml_value(value: object) -> str:
    """A value as TOML writes it."""
    if isinstance(value, bool):
        return str(value).lower()
    if isinstance(value, str):
        # JSON's escapes are TOML's, but for DEL and for pairs of surrogates
        return "".join(f"\\u{ord(c):04x}" if c < " " or c == "\x7f" else c for c in _quoted(value))
    if isinstance(value, Mapping):
        return "{" + ", ".join(f"{toml_value(str(key))} = {toml_value(item)}" for key, item in value.items()) + "}"
    if isinstance(value, list | tuple):
        return "[" + ", ".join(map(toml_value, value)) + "]"
    return repr(value)


def _quoted(value: str) -> str:
    return '"' + value.replace("\\", "\\\\").replace('"', '\\"') + '"'


def toml(values: Mapping[str, object]) -> str:
    """A file of values by id; those of entries (``sink.dispatchers[].topic``) are all of one entry."""
    sections: dict[str, list[str]] = {"": []}
    for name, value in values.items():
        section = BY_ID[name].section if name in BY_ID else name.rpartition(".")[0]
        title = f"[[{section[:-2]}]]" if section.endswith("[]") else f"[{section}]" if section else ""
        key = name[len(section) + 1 :] if section else name
        sections.setdefault(title, []).append(f"{json.dumps(key)} = {toml_value(value)}")
    return "\n".join(line for title, lines in sections.items() for line in (title, *lines)) + "\n"


def sink_uri(server: str = SERVER, **parameters: object) -> str:
    """A URI with parameters, encoded; ``_`` is written ``-``."""
    texts = {name.replace("_", "-"): str(value) for name, value in parameters.items()}
    texts = {name: text.lower() if text in ("True", "False") else text for name, text in texts.items()}
    return server + ("?" + urllib.parse.urlencode(texts) if texts else "")


def load(folder: Path, values: Mapping[str, object], uri: str | None = None, **overrides: Any) -> Changefeed:
    """The changefeed of a file of values and a URI; without one, ``SERVER``."""
    return load_text(folder, toml(values), uri, **overrides)


def load_text(folder: Path, text: str, uri: str | None = None, **overrides: Any) -> Changefeed:
    """The changefeed of a file's text."""
    path = folder / "feed.toml"
    path.write_text(text, encoding="utf-8")
    return load_changefeed(path, SERVER if uri is None else uri, overrides)
