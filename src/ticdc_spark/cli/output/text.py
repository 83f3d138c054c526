"""Numbers and times as people read them."""


def count(number: int) -> str:
    """``1234567`` as ``1,234,567``."""
    return f"{number:,}"


def noun(number: int, one: str, many: str = "") -> str:
    """``1 table``, ``2 tables``, ``2 batches``."""
    return f"{count(number)} {one if number == 1 else many or one + 's'}"
