"""The parts of a simulation: what can be replayed apart from all else, and so on several cores.

    real settings   all of an epoch is one part: the choosers of a broker share one Rng
    as asked        one part for each unit of services, each with a Rng of its own; all of an epoch where the question
                    asks for what ran (then nothing may come out differently), or where some request names no service

Knows no files and no Spark.
"""

from collections.abc import Iterator, Sequence
from itertools import pairwise
from typing import Final

import msgspec
import numpy as np
import pyarrow as pa
from msgspec import Struct

from spark_sink.history.epochs import NOBODY, WHOLE, Epoch
from spark_sink.what_if.question import Question
from spark_sink.what_if.records import RESULT_SCHEMA, PartNumbers
from spark_sink.what_if.replay import Replay
from spark_sink.what_if.settings import RunSettings
from spark_sink.what_if.totals import Summary


class Part(Struct, frozen=True):
    """One part; its number is its place in the list."""

    epoch: int  # place in the list of epochs
    unit: str
    is_asked: bool  # its loads are the answer
    compares: bool  # its choices are compared with the real ones


class Plan:
    """All that a worker needs to know; it travels there whole."""

    def __init__(self, epochs: Sequence[Epoch], summaries: Sequence[Summary], question: Question) -> None:
        self.question: Final = question
        self.epochs: Final = list(epochs)
        self.rows: Final = sum(each.rows for each in summaries)  # records; a flow becomes more than one
        self.parts: Final[list[Part]] = []
        self.places: Final[dict[tuple[str, int], PartNumbers]] = {}
        self.speeds: dict[tuple[str, int], dict[tuple[str, str], float]] = {}  # see `Replay`
        known = {epoch.run.key: number for number, epoch in enumerate(self.epochs)}
        for summary in summaries:
            number = known.get(summary.key, -1)
            if number >= 0 and self.epochs[number].can_begin:
                self.places[summary.key] = self._place(number, summary)

    def _place(self, number: int, summary: Summary) -> PartNumbers:
        epoch = self.epochs[number]
        place = PartNumbers(bool(summary.is_flow), self.question.end_us)
        if summary.is_flow:
            place.lifetimes = epoch.lifetimes()
        is_as_it_was = RunSettings(epoch.tags).is_asked_for(self.question)
        if is_as_it_was or summary.has_unnamed:
            place.asked = self._add(number, WHOLE, is_asked=True, compares=is_as_it_was and not summary.is_flow)
        else:
            units = epoch.split()
            by_unit = {
                unit: self._add(number, unit, is_asked=True, compares=False) for unit in sorted(set(units.values()))
            }
            place.by_service = {service: by_unit[unit] for service, unit in units.items()}
            # Whatever names a service that no route ever had: nobody is there in this part.
            place.asked = self._add(number, NOBODY, is_asked=True, compares=False)
        if not is_as_it_was and not summary.is_flow:
            place.checks = self._add(number, WHOLE, is_asked=False, compares=True)
        return place

    def _add(self, epoch: int, unit: str, *, is_asked: bool, compares: bool) -> int:
        self.parts.append(Part(epoch, unit, is_asked, compares))
        return len(self.parts) - 1

    def replay_of(self, number: int) -> Replay:
        """The replay of one part, at its beginning."""
        part = self.parts[number]
        epoch = self.epochs[part.epoch]
        key = epoch.run.key
        question = self.question
        if not part.is_asked:
            kept = {name: getattr(question, name) for name in ("since_us", "until_us", "broker", "service")}
            question = Question(**kept)
        speeds = self.speeds.get(key, {})
        return Replay(epoch, part.unit, question, speeds, by_time=self.places[key].is_flows, compares=part.compares)


def replay_batches(batches: Iterator[pa.RecordBatch], plan: Plan) -> Iterator[pa.RecordBatch]:
    """The results of the parts whose rows these are, each part in its order: `RESULT_SCHEMA`, a row for each part."""
    number = -1
    replay: Replay | None = None
    for batch in batches:
        parts = batch.column("part").to_numpy()
        cuts = np.flatnonzero(np.diff(parts)) + 1
        for begin, end in pairwise([0, *cuts.tolist(), len(parts)]):
            if begin < end and parts[begin] != number:
                if replay is not None:
                    yield _result(number, replay)
                number = int(parts[begin])
                replay = plan.replay_of(number)
            if replay is not None:  # else the batch is empty
                replay.take(batch.slice(begin, end - begin))
    if replay is not None:
        yield _result(number, replay)


def _result(number: int, replay: Replay) -> pa.RecordBatch:
    data = msgspec.json.encode(replay.result)
    return pa.RecordBatch.from_arrays([pa.array([number], pa.int64()), pa.array([data])], schema=RESULT_SCHEMA)
