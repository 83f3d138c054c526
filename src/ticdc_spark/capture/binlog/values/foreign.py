"""Types that only MariaDB has, as the texts that they are presented as."""

from __future__ import annotations

import ipaddress
import uuid


def uuid_text(data: bytes) -> str:
    """A UUID."""
    return str(uuid.UUID(bytes=data))


def inet6_text(data: bytes) -> str:
    """An INET6 as MariaDB prints it: addresses of IPv4 inside it are written with dots."""
    head, tail = data[:12], data[12:]
    if head == b"\0" * 10 + b"\xff\xff":
        return f"::ffff:{inet4_text(tail)}"
    if head == bytes(12) and any(tail[:2]):
        return f"::{inet4_text(tail)}"
    return str(ipaddress.IPv6Address(data))


def inet4_text(data: bytes) -> str:
    """An INET4."""
    return ".".join(map(str, data))
