"""The producing side: changes of a source, filtered, dispatched and encoded, sent to Kafka as TiCDC sends them."""
