"""TiCDC's sink URI and changefeed file, read into one value."""
