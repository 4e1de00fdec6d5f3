"""How long something took is counted by bucket."""

from broker.event_log.histogram import Histogram


def test_durations_are_counted_by_bucket() -> None:
    durations = Histogram()
    for seconds, times in ((0.0, 1), (0.000_031, 2), (-5.0, 3), (1e9, 4)):
        durations.add(seconds, times)
    found = {bucket: times for bucket, times in enumerate(durations.numbers) if times}
    assert found == {0: 4, 31: 2, len(durations.numbers) - 1: 4}
    assert (durations.number, durations.sum_us, durations.max_us) == (10, 62 + 4 * 10**15, 10**15)
