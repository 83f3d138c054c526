"""Full reads of tables, whose rows go to Kafka before their changes do."""
