"""Where a changefeed sends messages: topics and partitions, as TiCDC chooses them."""
