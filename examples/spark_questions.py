"""Five common questions about traffic, answered from the tables with Spark SQL, as cells of a notebook.

Run it: `rsocket-broker demo`, then `python examples/spark_questions.py`; or with a folder of tables of your own.
"""

# %% The tables as views, empty ones where nothing has happened yet
import sys
from pathlib import Path

from spark_sink.columns import spark_ddl
from spark_sink.session import nothing, open_session
from spark_sink.tables import COLUMNS, table_files

tables = Path(sys.argv[1] if len(sys.argv) > 1 else "demo-data/tables").absolute()
spark = open_session("local[2]", name="questions")
for name, columns in COLUMNS.items():
    files = [f"file://{path}" for path in table_files(tables, name)]
    rows = spark.read.schema(spark_ddl(columns)).parquet(*files) if files else nothing(spark, columns)
    rows.createOrReplaceTempView(name)


def ask(sql: str) -> None:
    print(sql.partition("\n")[0].removeprefix("-- "))
    spark.sql(sql).show(10, truncate=36)


# %% Histograms of all rows merge by adding; docs/spark/events.md says what the number of a bucket means
ask("""-- Who is slow? Latency in microseconds
    WITH bucket AS (
      SELECT service, pair.latency_buckets AS bucket, sum(pair.latency_counts) AS n
      FROM traffic LATERAL VIEW explode(arrays_zip(latency_buckets, latency_counts)) AS pair GROUP BY ALL),
    running AS (
      SELECT *, IF(bucket < 32, bucket, (bucket - 16 * (bucket DIV 16 - 1)) << INT(bucket DIV 16 - 1)) AS low_us,
        sum(n) OVER (PARTITION BY service ORDER BY bucket) / sum(n) OVER (PARTITION BY service) AS share FROM bucket)
    SELECT service, sum(n) AS requests, min(low_us) FILTER (WHERE share >= 0.5) AS p50,
      min(low_us) FILTER (WHERE share >= 0.95) AS p95, min(low_us) FILTER (WHERE share >= 0.99) AS p99
    FROM running GROUP BY service ORDER BY p99 DESC""")
# %%
ask("""-- Who calls whom, and how much?
    SELECT caller_service, service, sum(requests) AS requests, sum(bytes_in + bytes_out) AS bytes
    FROM callers GROUP BY ALL ORDER BY requests DESC""")
# %% Of what found no route, `emptied_by` is the tag that nobody has
ask("""-- What fails, and why?
    SELECT service, outcome, word, '' AS emptied_by, sum(requests) AS requests FROM traffic
    WHERE outcome IN ('error', 'route_lost') GROUP BY ALL
    UNION ALL SELECT service, 'rejected', word, emptied_by, sum(requests) FROM rejections GROUP BY ALL
    ORDER BY requests DESC""")
# %% The busiest route of each service against the mean of all
ask("""-- Is the load even?
    SELECT service, count(*) AS routes, sum(n) AS requests, round(try_divide(max(n), avg(n)), 2) AS max_to_mean
    FROM (SELECT service, route_id, sum(requests) AS n FROM traffic WHERE route_id != '' GROUP BY ALL)
    GROUP BY service ORDER BY max_to_mean DESC""")
# %%
ask("""-- Who comes and goes?
    SELECT service, count(*) AS stays, count(DISTINCT route_id) AS routes, min(uptime_ms) AS shortest_ms,
      sort_array(collect_set(reason)) AS reasons FROM sessions GROUP BY service ORDER BY stays DESC""")
