from datetime import timedelta
from pathlib import Path

from spark_sink.report.cluster.load import MAX_LOADS
from spark_sink.report.facts import read_facts
from spark_sink.report.reading import Record
from tests.spark_sink.report.conftest import Case
from tests.spark_sink.report.tables import load_row, origin, write


def test_loads_are_the_largest_in_each_bin(case: Case) -> None:
    loads = case.facts.loads
    step = timedelta(seconds=loads.bins.step_s)
    events = [row for row in case.rows["lifecycle"] if row["event"] == "BrokerLoad"]
    assert [row.broker for row in loads.rows] == [
        one.name for one in case.facts.cluster.brokers if one.name in {event["broker_name"] for event in events}
    ]
    for row in loads.rows:
        for name in ("cpu_permille", "loop_lag_max_us", "connections", "in_flight"):
            for start, value in zip(loads.bins.starts(), getattr(row, name), strict=True):
                told = [
                    int(dict(event["tags"])[name])
                    for event in events
                    if event["broker_name"] == row.broker and start <= event["event_time"] < start + step
                ]
                assert value == max(told, default=None)


def test_odd_loads_are_none_and_brokers_beyond_the_colours_are_counted(tmp_path: Path) -> None:
    events = [load_row(broker, 0) for broker in range(1, MAX_LOADS + 3)]
    odd = load_row(99, 1) | origin(1) | {"tags": [("cpu_permille", "many"), ("connections", "3")]}
    write(tmp_path, {"lifecycle": [*events, odd]})
    told = read_facts(tmp_path).loads
    assert (len(told.rows), told.count) == (MAX_LOADS, MAX_LOADS + 2)
    assert told.rows[0] == Record(
        broker="broker-1", cpu_permille=[100, None], loop_lag_max_us=[0, None], connections=[1, 3], in_flight=[1, None]
    )
