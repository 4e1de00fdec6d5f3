"""The PySpark job: event files become the tables of `spark_sink.tables`, each record once."""

from typing import Final

SPARK: Final = "spark"  # engines
LOCAL: Final = "local"
ENGINES: Final = (SPARK, LOCAL)
PARQUET: Final = "parquet"  # formats of tables
DELTA: Final = "delta"
FORMATS: Final = (PARQUET, DELTA)
