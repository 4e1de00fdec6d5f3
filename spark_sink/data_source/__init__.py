"""Event files as a data source of Spark, `format("rsocket_broker")`: see docs/spark/spark-source.md."""
