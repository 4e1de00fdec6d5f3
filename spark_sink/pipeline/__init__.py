"""The PySpark job: event files become the tables of `spark_sink.tables`, each record once."""
