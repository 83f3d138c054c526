"""Where a changefeed sends it: topics and partitions, as TiCDC chooses them."""
