"""Times as people read them."""


def duration(seconds: float | None) -> str:
    """``0.4`` as ``0.4 s``, ``75`` as ``1 min 15 s``, up to days; ``-`` for ``None``."""
    if seconds is None:
        return "-"
    if seconds < 60:
        return f"{seconds:.1f} s" if seconds < 10 else f"{seconds:.0f} s"
    whole = int(seconds)
    for size, big, small, part in ((86400, "d", "h", 3600), (3600, "h", "min", 60), (60, "min", "s", 1)):
        if whole >= size:
            rest = whole % size // part
            return f"{whole // size} {big} {rest} {small}" if rest else f"{whole // size} {big}"
    raise AssertionError(seconds)
