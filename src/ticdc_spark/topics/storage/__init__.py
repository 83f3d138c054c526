"""What TiCDC's storage sink writes: which files there are, in which order they are read, and what is in them."""
