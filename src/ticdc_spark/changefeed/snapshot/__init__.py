"""Full reads of tables. Their rows go to Kafka before their changes."""
