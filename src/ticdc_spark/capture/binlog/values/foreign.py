"""Types that only MariaDB has, as text."""

from __future__ import annotations

import uuid


def uuid_text(data: bytes) -> str:
    """A UUID."""
    return str(uuid.UUID(bytes=data))


def inet6_text(data: bytes) -> str:
    """An INET6 as MariaDB prints it. The first of the longest runs of zeros is omitted, even a single zero (unlike in
    RFC 5952 and Python). IPv4 addresses in it have dots.
    """
    words = [int.from_bytes(data[at : at + 2], "big") for at in range(0, 16, 2)]
    begin, length = _longest_zeros(words)
    if begin == 0 and (length == 6 or (length == 5 and words[5] == 0xFFFF)):
        return ("::" if length == 6 else "::ffff:") + inet4_text(data[12:])
    texts = [f"{word:x}" for word in words]
    if not length:
        return ":".join(texts)
    return ":".join(texts[:begin]) + "::" + ":".join(texts[begin + length :])


def _longest_zeros(words: list[int]) -> tuple[int, int]:
    longest = (0, 0)
    for begin in range(len(words)):
        length = next((at for at, word in enumerate(words[begin:]) if word), len(words) - begin)
        if length > longest[1]:
            longest = (begin, length)
    return longest


def inet4_text(data: bytes) -> str:
    """An INET4."""
    return ".".join(map(str, data))
