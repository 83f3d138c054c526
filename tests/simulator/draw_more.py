"""What stories have besides: letters of names, tables of one shape, topics that go. With dice of their own, so that the
seeds of ``draw`` tell the same as ever where none of it is drawn."""

from __future__ import annotations

from random import Random

from msgspec.structs import replace

from tests.simulator.story import Story

_SALT = 0x2B7E15


def with_more(story: Story) -> Story:
    """The story, with what its seed draws besides."""
    rand = Random(story.seed ^ _SALT)
    feed = story.setup.feed
    if rand.random() < 0.12:
        feed = replace(feed, letters=rand.choice(("sql", "messages")))
    return replace(story, setup=replace(story.setup, feed=feed))


__all__ = ["with_more"]
