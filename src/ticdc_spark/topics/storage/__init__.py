"""Files of TiCDC's storage sink: their names, the order in which they are read, and their content."""
