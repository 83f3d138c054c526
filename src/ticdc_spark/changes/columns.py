"""The columns of a net change, in addition to those of its table."""

from ticdc_spark.spark.decode import rows

OP = rows.OP
"""``d``: the key is deleted. Other values: the row has the key's last image."""
FIRST = "_ticdc_first"
"""The op of the key's first event. ``i``: the key was new at that event."""
TIES, ALWAYS = "_ticdc_ties", "_ticdc_always"
"""In an ordered net change: whether it overwrites a row of the same time, and whether it overwrites any row."""
COUNT = "_ticdc_count"
"""For a row of a table without a key: how many copies are added, or removed if negative. Never 0."""
