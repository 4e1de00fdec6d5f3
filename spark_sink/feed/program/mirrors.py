"""The mirrors of one feed: each made of its options, and what operators see of it."""

from collections.abc import Mapping
from dataclasses import replace
from pathlib import Path
from typing import Final

from broker.config.certificates import client_context
from broker.config.folders import make_folder
from broker.config.sections.feed import SubscribeOptions
from broker.views.feed import MirrorView, SourceView
from spark_sink.feed.consumer.mirror import MirrorOptions
from spark_sink.feed.consumer.subscriber import Subscriber, SubscriberOptions
from spark_sink.feed.program.assignment import Assignment
from spark_sink.feed.program.links import passed_to, report_sinks_of, sources_of
from spark_sink.feed.program.positions import FilePositions
from spark_sink.feed.records import FileRecords, Tell
from spark_sink.feed.transport import Source


class Mirrors:
    """Those of one assignment, from `start` to `stop`."""

    def __init__(self, assignment: Assignment, tell: Tell | None) -> None:
        """Opens nothing yet. `tell`: what becomes of files. BadLink: a broker cannot be spoken to."""
        self._options: Final = assignment.options.subscribe
        folder = Path(assignment.options.dir)
        self._sources: Final[Mapping[str, list[Source]]] = {
            name: sources_of(assignment, name, options, FilePositions(folder / f"{name}.positions"))
            for name, options in self._options.items()
        }
        self._mirrors: Final = {
            name: Subscriber(
                self._sources[name],
                subscriber_options_of(options, folder / f"{name}.mirror"),
                reports=report_sinks_of(assignment, name),
                onward=passed_to(assignment, name, options),
                records=FileRecords(name, tell),
            )
            for name, options in self._options.items()
        }
        self._started: Final[list[Subscriber]] = []

    async def start(self) -> None:
        """SinkError, BrokerError: one cannot start; then `stop` ends the others."""
        for name, mirror in self._mirrors.items():
            make_folder(f"feed.subscribe.{name}.into", self._options[name].into)
            self._started.append(mirror)
            await mirror.start()

    async def stop(self) -> None:
        """What is under way comes again after the next start."""
        for mirror in self._started:
            await mirror.stop()

    def views(self) -> list[MirrorView]:
        """All of them."""
        return [self._view(name, mirror) for name, mirror in self._mirrors.items()]

    def _view(self, name: str, mirror: Subscriber) -> MirrorView:
        state = mirror.state
        return MirrorView(
            name=name,
            folder=self._options[name].into,
            received=state.received_n,
            done=state.written_n,
            bytes=state.bytes,
            repeats=state.repeats_n,
            refused=state.refused_n,
            failed=state.failed_n,
            given_up=state.given_up_n,
            retries=state.retries_n,
            reports=state.reports_n,
            problem=state.trouble,
            sources=[SourceView(each.name, each.state()) for each in self._sources[name]],
        )


def subscriber_options_of(options: SubscribeOptions, memory: Path) -> SubscriberOptions:
    """`memory`: the file that is kept over restarts. BrokerError: `ca` is not what it should be."""
    mirror = MirrorOptions(
        accept=options.accept,
        reject=options.reject,
        basis=options.basis,
        ttl_s=options.remember,
        removes=options.removals,
        strip=options.strip,
    )
    given = SubscriberOptions(
        root=Path(options.into),
        memory=memory,
        mirror=mirror,
        tries=options.tries,
        base_url=options.base_url,
        tls=client_context(options.ca) if options.ca else None,
    )
    return given if not options.user else replace(given, user=options.user)
