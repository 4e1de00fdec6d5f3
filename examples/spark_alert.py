"""An alert on services whose requests fail too often, from a stream of events.

Run it: `rsocket-broker demo`, then `python examples/spark_alert.py`; or with a folder of events, or the URL of a
broker's admin API, and `--follow` to continue. A checkpoint stores what was read, so nothing is counted twice.
"""

import sys
from pathlib import Path
from typing import Any

from spark_sink.data_source.spark import RSocketBroker
from spark_sink.session import open_session
from spark_sink.tables import FAILED_OUTCOMES

THRESHOLD = 0.05  # of the requests of a service in one batch
FEWEST = 20  # requests: one of two is no rate

arguments = [each for each in sys.argv[1:] if each != "--follow"]
place = arguments[0] if arguments else "demo-data/events"
is_url = place.startswith(("http://", "https://"))
state = "alert-state" if is_url else str(Path(place).absolute().parent / "alert-state")


def alert(batch: Any, number: int) -> None:
    """Called by Spark with each batch; after a crash with the same rows under the same number."""
    batch.createOrReplaceTempView("flows")
    outcomes = ", ".join(f"'{outcome}'" for outcome in FAILED_OUTCOMES)
    rates = batch.sparkSession.sql(f"""
        SELECT service, sum(requests) AS n, sum(IF(outcome IN ({outcomes}), requests, 0)) AS failed,
          sort_array(collect_set(word) FILTER (WHERE word != '')) AS words,
          date_format(max(event_time), 'HH:mm:ss') AS until
        FROM flows GROUP BY service HAVING n >= {FEWEST} AND failed > n * {THRESHOLD} ORDER BY failed / n DESC""")
    found = rates.collect()
    for row in found:
        why = ", ".join(row.words) or "the service's own errors"
        share = f"{100 * row.failed / row.n:.1f} %"
        print(f"{row.until} ALERT {row.service}: {row.failed} of {row.n} requests failed ({share}): {why}")
    if number == 0 or found:
        print(f"batch {number} is dealt with", flush=True)


spark = open_session("local[2]", name="alert")
spark.dataSource.register(RSocketBroker)
flows = spark.readStream.format("rsocket_broker").option("source", "flows").option("url" if is_url else "path", place)
query = flows.load().writeStream.foreachBatch(alert).option("checkpointLocation", state)
when = {"processingTime": "5 seconds"} if "--follow" in sys.argv else {"availableNow": True}
query.trigger(**when).start().awaitTermination()
