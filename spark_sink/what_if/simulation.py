"""A simulation: reads what there is, plans, has it replayed, and says what came out and how far to trust it.

    lifecycle -> epochs      requests, flows -> totals      -> plan -> results of the parts -> Simulation

Where the rows are read and replayed is for an engine (`local`, `spark`). Every record that is not replayed is counted
in a sentence of `notes`.
"""

from collections.abc import Sequence
from datetime import UTC, datetime
from typing import Final

import msgspec

from spark_sink.errors import BadFolder
from spark_sink.history.epochs import Epoch, epochs_of
from spark_sink.what_if.local import LocalEngine
from spark_sink.what_if.parts import Plan
from spark_sink.what_if.question import Question, TagValues
from spark_sink.what_if.results import UnitResult, merged
from spark_sink.what_if.spark import SparkEngine
from spark_sink.what_if.totals import Summary, speeds_of, summaries_of

BY_LOAD: Final = ("least_busy", "power_of_two", "p2c", "ewma")  # in names of methods that look at who is in flight
TIMED: Final = ("peak_ewma", "zone_first:peak_ewma", "sticky peak_ewma")  # methods that choose by the clock


class Simulation:
    """What came out."""

    def __init__(self, question: Question, result: UnitResult, checked: UnitResult, notes: list[str]) -> None:
        self.question: Final = question
        self.result: Final = result  # as asked, beside what really happened
        self.checked: Final = checked  # with the real settings: only `compared` counts
        self.notes: Final = notes  # sentences
        self.span: Final = f"{moment(result.first_us)} to {moment(result.last_us)} UTC" if result.first_us else ""


def simulate(engine: LocalEngine | SparkEngine, question: Question) -> Simulation:
    """Asks the question. BadFolder: there is nothing to replay, or a question about what never was."""
    epochs = [each for each in epochs_of(engine.lifecycle()) if _is_asked(each, question)]
    if not epochs:
        of = f" of a broker {question.broker!r}" if question.broker else ""
        raise BadFolder(f"there are no lifecycle events{of}: without them the routes are unknown")
    _check_tags(epochs, question)
    keys = {each.run.key for each in epochs}
    totals = engine.totals()
    summaries = [each for each in summaries_of(totals) if each.key in keys]
    if question.since_us is not None:
        summaries = [each for each in summaries if each.last_us >= question.since_us]
    if not any(each.rows for each in summaries):
        raise BadFolder("there are no requests and no flow records to replay in the time that is asked for")
    plan = Plan(epochs, summaries, question)
    if not plan.parts:
        raise BadFolder("no epoch of any broker has its beginning or a snapshot: the routes are unknown")
    plan.speeds = speeds_of(totals)
    results = engine.replay(plan)
    parts = [(plan.parts[part], data) for part, data in zip(*results.to_pydict().values(), strict=True)]
    total = merged(msgspec.json.decode(data, type=UnitResult) for part, data in parts if part.is_asked)
    check = merged(msgspec.json.decode(data, type=UnitResult) for part, data in parts if part.compares)
    notes = [*engine.problems, *_notes(epochs, summaries, total, check, question)]
    return Simulation(question, total, check, notes)


def moment(at_us: int) -> str:
    """`2026-11-22 20:00:00`."""
    return datetime.fromtimestamp(at_us / 1e6, UTC).strftime("%Y-%m-%d %H:%M:%S")


def _is_asked(epoch: Epoch, question: Question) -> bool:
    return not question.broker or question.broker in (epoch.run.broker_id, epoch.run.broker_name)


def _check_tags(epochs: Sequence[Epoch], question: Question) -> None:
    """A tag that no route ever had is a slip of the pen and no question."""
    for name, value in (*question.without, *question.copies_of):
        if not any(TagValues(change.tags).has(name, value) for epoch in epochs for change in epoch.changes):
            raise BadFolder(f"no route ever had {name}={value} in these events")


def _notes(
    epochs: Sequence[Epoch],
    summaries: Sequence[Summary],
    total: UnitResult,
    check: UnitResult,
    question: Question,
) -> list[str]:
    """What was not replayed, or not as it was: a sentence each."""
    by_key = {each.run.key: each for each in epochs}
    notes: list[str] = []
    for summary in summaries:
        epoch = by_key[summary.key]
        who = f"{epoch.run.broker_name or epoch.run.broker_id}, epoch {epoch.run.epoch}"
        notes += [f"{who}: {text}" for text in _notes_of(epoch, summary)]
    for why, number in sorted(total.not_replayed.items()):
        notes.append(f"a request was taken as it was, {number:,} times: {why}")
    methods = [*check.compared, *([question.chooser] if question.chooser is not None else [])]
    by_load = sorted({method for method in methods if any(name in method for name in BY_LOAD)})
    if by_load and total.real_branches > total.multicast_requests:
        notes.append(
            f"of {total.multicast_requests:,} multicasts to {total.real_branches:,} routes only the last end is "
            f"recorded, so {' and '.join(by_load)} may see more in flight than there was"
        )
    timed = sum(compared.choices for name, compared in check.compared.items() if name in TIMED)
    if timed:
        notes.append(f"{timed:,} choices went by latencies, which records round to microseconds")
    return notes


def _notes_of(epoch: Epoch, summary: Summary) -> list[str]:
    if not epoch.can_begin:
        why = "the beginning is gone and no snapshot of the table is there"
        return [f"requests that are not replayed, because {why}: {summary.requests:,}"]
    found = []
    if epoch.begins_at is not None:
        at = moment(epoch.begins_at.at_us)
        found.append(f"the beginning is gone: the replay starts at the snapshot of {at}, without whose turn it was")
    if "seed" not in epoch.tags:
        found.append("the seed of the broker's rng is unknown, so random choices differ")
    if summary.is_flow:
        spread = f"{summary.requests:,} requests of flow records are spread evenly over their intervals"
        found.append(f"no single requests were written: {spread}, and in-flight figures are estimates")
    elif summary.max_weight > 1:
        one = f"one of {summary.max_weight:,} requests was written and stands for all of them"
        found.append(f"{one}: in flight, and in the order of choices, the others are missing")
    elif summary.last_choice > summary.choices:
        missing = f"{summary.last_choice - summary.choices:,} of {summary.last_choice:,} choices have no record"
        found.append(
            f"{missing}: first tries of requests that were tried again or had to wait, requests of other brokers, and "
            "what has not ended yet"
        )
    if epoch.lost_n:
        found.append(f"{epoch.lost_n:,} records were lost on their way")
    return found
