"""The columns of a net change beside those of its table."""

from ticdc_spark.spark.decode import rows

OP = rows.OP
"""``d``: the key is deleted. Anything else: the row has the key's last image."""
FIRST = "_ticdc_first"
"""The op of the key's first event. ``i``: the key was new then."""
TIES, ALWAYS = "_ticdc_ties", "_ticdc_always"
"""Of an ordered net change: whether it wins over a row of the same time, and over any row."""
COUNT = "_ticdc_count"
"""Of a whole row of a table without a key: how many copies of it come, or go where it is negative. Never 0."""
