"""Events of the broker into sealed Parquet segments, tables made of them with PySpark, and a report of those."""
