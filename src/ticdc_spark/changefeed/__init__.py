"""The producing side: filters, dispatches and encodes a source's changes, and sends them to Kafka as TiCDC does."""
