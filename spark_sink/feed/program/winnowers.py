"""What one feed winnows without fetching: each made of its options, and what operators see of it."""

from pathlib import Path
from typing import Final

from broker.config.sections.feed import WinnowOptions
from broker.views.feed import SourceView, WinnowView
from spark_sink.feed.consumer.mirror import MAX_POSTS
from spark_sink.feed.consumer.passing import Passer
from spark_sink.feed.consumer.winnow import Winnow
from spark_sink.feed.program.assignment import Assignment
from spark_sink.feed.program.links import passed_to, sources_of
from spark_sink.feed.program.patterns import accepts_of
from spark_sink.feed.program.positions import FilePositions
from spark_sink.feed.records import FileRecords, Tell


class Winnowers:
    """Those of one assignment, from `start` to `stop`."""

    def __init__(self, assignment: Assignment, tell: Tell | None) -> None:
        """Opens nothing yet. `tell`: what becomes of posts. BadLink: a broker cannot be spoken to."""
        self._passers: Final = {
            name: _passer(assignment, name, options, tell) for name, options in assignment.options.winnow.items()
        }
        self._started: Final[list[Passer]] = []

    async def start(self) -> None:
        """SinkError: one cannot start; then `stop` ends the others."""
        for passer in self._passers.values():
            self._started.append(passer)
            await passer.start()

    async def stop(self) -> None:
        """What is under way comes again after the next start."""
        for passer in self._started:
            await passer.stop()

    def views(self) -> list[WinnowView]:
        """All of them."""
        return [_view(name, passer) for name, passer in self._passers.items()]


def _passer(assignment: Assignment, name: str, options: WinnowOptions, tell: Tell | None) -> Passer:
    folder = Path(assignment.options.dir)
    return Passer(
        sources_of(assignment, name, options, FilePositions(folder / f"{name}.positions")),
        passed_to(assignment, name, options),
        folder / f"{name}.winnow",
        Winnow(basis=options.basis, max_posts=MAX_POSTS, ttl_s=options.remember),
        accepts_of(options.accept, options.reject),
        records=FileRecords(name, tell),
    )


def _view(name: str, passer: Passer) -> WinnowView:
    return WinnowView(
        name=name,
        received=passer.received_n,
        passed=passer.passed_n,
        repeats=passer.repeats_n,
        refused=passer.refused_n,
        problem=passer.problem,
        sources=[SourceView(each.name, each.state()) for each in passer.sources],
    )
