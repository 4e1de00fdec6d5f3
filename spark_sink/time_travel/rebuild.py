"""`table_at`: the routing table of a broker at an instant, made again from its records.

An instant is a place in the order of the records' numbers: behind the last record whose time is not later. Decides
which broker and which of its runs are meant, what is checked against what the broker wrote, and what is said of gaps.
Where records come from is the matter of a Reader.
"""

import itertools
from collections.abc import Iterable
from datetime import UTC, datetime, timedelta
from pathlib import Path
from typing import Final, TypeAlias

import numpy as np

from broker.events import BROKER_STOPPED, ROUTE_SEEN
from broker.routing.digest import Digest, route_mark
from spark_sink.errors import NotKnown
from spark_sink.history import records as history
from spark_sink.time_travel.segment_reader import SegmentReader
from spark_sink.time_travel.spark_reader import SparkReader
from spark_sink.time_travel.table_reader import TableReader
from spark_sink.time_travel.values import BROKER_START, FIRST_RECORD, SILENT, SNAPSHOT, Check, Gap, SeenRoute, TableAt
from spark_sink.timestamps import micros_of, moment_at, moment_of, moment_text, span_text

Reader: TypeAlias = SegmentReader | TableReader | SparkReader

JITTER_US: Final = 1_000_000  # records that were told together; a clock that was put back by less is not told of
MAX_GAPS: Final = 1000  # that are named; the last then covers all the others


def table_at(
    events: Path | str | Reader, at: datetime | str, broker: str | None = None, epoch: int | None = None
) -> TableAt:
    """The table of `broker` (its name, its id or the beginning of it; None: the only one) at an instant.

    `events`: an events folder, or a reader of another kind. `at`: a moment, UTC if it has no zone, or a text as on the
    command line. `epoch`: of that run; None: of the run that the instant is in.
    NotKnown: no such broker, or nothing is known of the instant. BadMoment: the text is none. BadFolder: no events.
    """
    reader = SegmentReader(Path(events)) if isinstance(events, Path | str) else events
    moment = moment_of(at, datetime.now(UTC)) if isinstance(at, str) else at
    moment = moment.replace(tzinfo=UTC) if moment.tzinfo is None else moment.astimezone(UTC)
    return _Journey(reader, moment, broker, epoch).table()


class _Journey:
    """One question."""

    def __init__(self, reader: Reader, at: datetime, broker: str | None, epoch: int | None) -> None:
        self._reader: Final = reader
        self._near: Final = reader.near if isinstance(reader, SparkReader) else reader
        self._at: Final = at
        self._at_us: Final = micros_of(at)
        self._runs: Final = runs_of(self._near, broker)
        self._notes: Final[list[str]] = []
        self._run, self._spot = self._found(epoch)

    def table(self) -> TableAt:
        run, reader = self._run, self._reader
        spot = self._spot
        start, last = spot.start, spot.last
        checks, state, digest = self._rebuilt()
        routes = [_seen(record, self._at_us) for record in state.routes.values()]
        if state.latest_us > self._at_us + JITTER_US:
            back = span_text(state.latest_us - last.at_us)
            self._notes.append(
                f"the broker's clock was put back by up to {back} before this: the moment was more than once, this is "
                f"the last time; records up to {moment_text(moment_at(state.latest_us))} came before it"
            )
        life = self._life(state.end)
        if life == history.STOPPED:
            routes, digest = [], Digest().text
        return TableAt(
            broker_id=run.broker_id,
            broker_name=run.broker_name,
            epoch=run.epoch,
            at=self._at,
            last_seq=last.seq,
            last_at=moment_at(last.at_us),
            life=life,
            start=SNAPSHOT if start.digest is not None else BROKER_START if start.is_whole else FIRST_RECORD,
            start_at=moment_at(start.at_us),
            routes=tuple(sorted(routes, key=lambda route: (route.service, route.route_id))),
            digest=digest,
            checks=tuple(checks),
            gaps=tuple(self._gaps()),
            problems=(*_beginning(start), *reader.problems),
            notes=tuple(self._notes),
            names={run.broker_id: run.broker_name for run in self._near.runs()},
        )

    def _found(self, epoch: int | None) -> tuple[history.Run, history.Spot]:
        """The run of this epoch, or the latest that had begun; and where the instant lies in it."""
        if epoch is not None:
            runs = [run for run in self._runs if run.epoch == epoch]
            if not runs:
                epochs = ", ".join(str(run.epoch) for run in self._runs)
                raise NotKnown(f"{name_of(self._runs[-1])} has no run {epoch}; there are {epochs}")
        else:
            firsts = ((run, self._near.first(run)) for run in reversed(self._runs))
            began = (run for run, first in firsts if first is not None and first.at_us <= self._at_us)
            # A run whose clock was put back behind its beginning is found by where the instant lies.
            runs = list(itertools.islice(began, 1)) or self._runs[::-1]
        for run in runs:
            spot = self._near.spot(run, self._at_us)
            if spot is not None:
                return run, spot
        raise NotKnown(self._too_early())

    def _too_early(self) -> str:
        firsts = [place for run in self._runs if (place := self._near.first(run)) is not None]
        named = name_of(self._runs[-1])
        if not firsts:
            return f"no record of {named} can be read: {'; '.join(self._reader.problems) or 'there is none'}"
        first = min(firsts, key=lambda place: place.at_us)
        return (
            f"nothing is known of {named} at {moment_text(self._at)}: the first record is of "
            f"{moment_text(moment_at(first.at_us))}, {span_text(first.at_us - self._at_us)} later"
        )

    def _rebuilt(self) -> tuple[list[Check], history.State, str]:
        """The checks, the table at the instant, its digest."""
        stops = self._spot.stops
        states = history.states_of(self._reader.records(self._run, self._spot), [seq for seq, _ in stops])
        checks = []
        for (_, written), each in zip(stops, states, strict=True):
            made = digest_of(each.routes.values())
            if written is None:
                state, digest = each._replace(routes=dict(each.routes)), made
            elif self._at_us - written.at_us <= history.NEAR_US:
                checks.append(Check(moment_at(written.at_us), written.seq, written.tags.get("digest", ""), made))
        return checks, state, digest

    def _life(self, end: history.Record | None) -> str:
        last, after = self._spot.last, self._spot.after
        if end is not None and end.kind == BROKER_STOPPED:
            ago = span_text(max(0, self._at_us - end.at_us))
            self._notes.append(f"the broker had stopped at {moment_text(moment_at(end.at_us))}, {ago} before")
            return history.STOPPED
        if after is not None:
            return history.RUNNING
        if end is not None and end.seq == last.seq:
            self._notes.append(
                f"the broker died, as its writer recorded at {moment_text(moment_at(end.at_us))}; this is the table "
                "at its last record"
            )
            return history.DIED
        silent = span_text(max(0, self._at_us - last.at_us))
        told = f"its last record is of {moment_text(moment_at(last.at_us))}, {silent} before"
        later = [run for run in self._runs if run.epoch > self._run.epoch]
        if later:
            began = self._near.first(later[0])
            when = f" at {moment_text(moment_at(began.at_us))}" if began is not None else ""
            self._notes.append(
                f"the broker ended without BrokerStopped: {told}, and it was started again{when}; this is the table "
                "at its last record"
            )
            return history.DIED
        if self._at_us - last.at_us > history.NEAR_US:
            self._notes.append(
                f"no later record of the broker is there: {told}; it died, or its newer files are not here, or nothing "
                "happened and events.snapshot_s is 0"
            )
        else:
            self._notes.append(f"nothing newer is there: {told}")
        return SILENT

    def _gaps(self) -> list[Gap]:
        start = self._spot.start
        first = start.seq if start.is_whole else 1
        missing = self._reader.missing(self._run, self._spot)
        gaps = []
        if first < start.seq:
            gaps.append(Gap(first, start.seq - 1, start.seq - first, "missing", ""))
        told = [(*history.dropped_range(record), record) for record in sorted(missing.told)]
        for begin, end, record in told:
            records = int(record.tags.get("records") or end - begin + 1)
            gaps.append(Gap(begin, end, records, record.reason, record.detail))
        covered = [(np.array([begin]), np.array([end])) for begin, end, _ in told]
        for begin, end in missing.ranges:
            silent = history.gaps_between(covered, begin, end)
            gaps += [Gap(*some, some[1] - some[0] + 1, "missing", "") for some in silent]
        if not missing.is_known:
            self._notes.append(
                "tables do not hold the numbers of all records: gaps are those that the broker or the pipeline told of"
            )
        gaps.sort()
        if len(gaps) > MAX_GAPS:
            rest = gaps[MAX_GAPS - 1 :]
            text = f"{len(rest)} gaps"
            gaps[MAX_GAPS - 1 :] = [
                Gap(rest[0].first_seq, rest[-1].last_seq, sum(gap.records for gap in rest), "missing", text)
            ]
        return gaps


def runs_of(reader: SegmentReader | TableReader, broker: str | None) -> list[history.Run]:
    """All runs of one broker, in the order of their epochs. NotKnown: there is no such broker, or which is meant is not
    clear; the text lists those that are there."""
    runs = reader.runs()
    if not runs:
        raise NotKnown(f"no event can be read: {'; '.join(reader.problems) or 'there is none'}")
    ids = {run.broker_id for run in runs}
    if broker is not None:
        found = {run.broker_id for run in runs if broker in (run.broker_name, run.broker_id)}
        found = found or {each for each in ids if broker and each.startswith(broker.lower())}
    else:
        found = ids
    if len(found) != 1:
        there = brokers_text(runs)
        if broker is None:
            raise NotKnown(f"there are events of {len(ids)} brokers, say which one with --broker: {there}")
        if not found:
            raise NotKnown(f"there is no broker {broker!r}; there are {there}")
        raise NotKnown(f"{broker!r} is the name of {len(found)} brokers, say which one by its id: {there}")
    return sorted((run for run in runs if run.broker_id in found), key=lambda run: run.epoch)


def brokers_text(runs: Iterable[history.Run]) -> str:
    """`one (7f3a…), two (11b2…)`."""
    named = {run.broker_id: run for run in sorted(runs, key=lambda run: run.epoch)}
    return ", ".join(name_of(run) for run in sorted(named.values(), key=lambda run: (run.broker_name, run.broker_id)))


def name_of(run: history.Run) -> str:
    """`broker one (7f3a…)`."""
    return f"broker {run.broker_name} ({run.broker_id})"


def digest_of(records: Iterable[history.Record]) -> str:
    """Of a table with these routes: 32 hex digits, as the broker writes it."""
    digest = Digest()
    for record in records:
        digest.add(route_mark(record.route_id, record.service, list(record.tags.items())))
    return digest.text


def _beginning(start: history.Start) -> tuple[str, ...]:
    """Says when the history begins, if that is behind the broker's start; else nothing."""
    if start.is_whole:
        return ()
    begins = moment_text(moment_at(start.at_us))
    return (f"the history begins at {begins}: neither BrokerStarted nor a whole snapshot is there",)


def _seen(record: history.Record, at_us: int) -> SeenRoute:
    joined_us = record.at_us - record.uptime_ms * 1000
    return SeenRoute(
        record.route_id,
        record.service,
        record.tags,
        record.peer,
        moment_at(joined_us),
        timedelta(microseconds=max(0, at_us - joined_us)),
        record.requests,
        moment_at(record.at_us),
        record.kind != ROUTE_SEEN or record.uptime_ms > 0,
    )
