"""What is asked of a replay: which settings are others than those that ran, which routes are not there, or more often.

Plain values that travel to Spark's workers. Knows names of choosers and shard methods, and nothing of events.
"""

import hashlib
import uuid
from collections.abc import Mapping, Sequence
from typing import Any, Final

from msgspec import Struct
from msgspec.structs import replace

from broker.routing.choosers.registry import Methods
from broker.routing.sharding.methods import ShardMethods
from rsocket_wire.errors import BrokerError
from rsocket_wire.wire.keys import NO_TAG, Key, keys_named, parse_key
from spark_sink.errors import SinkError
from spark_sink.history.epochs import FOR_EVER, values_of


class BadQuestion(SinkError):
    """An option that asks for what cannot be; the text names it."""

    exit_status = 2


class Question(Struct, frozen=True):
    """None and empty mean: as it really was."""

    chooser: str | None = None  # of all unicast requests, whatever policy or hint they have
    shard: str | None = None  # of all shard requests, likewise
    without: tuple[tuple[str, str], ...] = ()  # (name, value) of tags: routes that carry one of them never were
    copies_of: tuple[tuple[str, str], ...] = ()  # routes that carry one of them were there `copies` times more
    copies: int = 1
    seed: int | None = None  # of the choosers' rng
    since_us: int | None = None  # requests that began earlier are replayed and not counted
    until_us: int | None = None  # see `end_us`
    broker: str = ""  # id or name; empty: all
    service: str = ""  # only its requests are counted; empty: all

    @property
    def end_us(self) -> int:
        """Requests that began then or later are not read."""
        return self.until_us if self.until_us is not None else FOR_EVER

    def is_without(self, tags: "TagValues") -> bool:
        """A route with these tags never was."""
        return any(tags.has(name, value) for name, value in self.without)

    def copy_ids(self, route_id: str, tags: "TagValues") -> list[str]:
        """The Route Ids of the copies that there were of a route with these tags."""
        is_copied = any(tags.has(name, value) for name, value in self.copies_of)
        return [copy_id(route_id, number) for number in range(1, self.copies + 1)] if is_copied else []

    def as_text(self) -> str:
        """For people: `chooser p2c, without zone=b`; `nothing changed`."""
        parts = [f"chooser {self.chooser}"] if self.chooser is not None else []
        parts += [f"shard method {self.shard}"] if self.shard is not None else []
        parts += [f"without {name}={value}" for name, value in self.without]
        parts += [f"{self.copies} more of each {name}={value}" for name, value in self.copies_of]
        parts += [f"seed {self.seed}"] if self.seed is not None else []
        return ", ".join(parts) if parts else "nothing changed"


class TagValues:
    """The tags of a route as events have them: the values of a repeated name stand together, "eu,us"."""

    def __init__(self, tags: Mapping[str, str | None]) -> None:
        self._values: Final = {key_of(name).wire: values_of(value) for name, value in tags.items()}

    def has(self, name: str, value: str) -> bool:
        """One of the tags is this one; `zone` is the well-known key as well as a text that is spelt like it."""
        return any(value in self._values.get(key.wire, ()) for key in keys_named(name))


def key_of(name: str) -> Key:
    """The key that an event names: by its full name where it is well-known, else by its text."""
    try:
        return parse_key(name) if name.startswith(("well-known-0x", "extension-0x")) else Key.text(name)
    except BrokerError:
        return NO_TAG  # no broker has written this


def question_of(*, without: Sequence[str], copies_of: Sequence[str], **asked: Any) -> Question:
    """As the options say it. BadQuestion: it is none."""
    question = Question(**asked)
    if question.chooser is not None:
        check_chooser(question.chooser)
    if question.shard is not None:
        check_shard(question.shard)
    return replace(question, without=tuple(map(parse_tag, without)), copies_of=tuple(map(parse_tag, copies_of)))


def check_chooser(name: str) -> str:
    """The name, if it is one of a chooser. BadQuestion: it is not."""
    if Methods().find(name, "round_robin") is None:
        raise BadQuestion(
            f"unknown chooser {name!r}: use round_robin, random, weighted, least_busy, power_of_two (p2c), "
            "peak_ewma (ewma), zone_first or sticky; the last two take another one after a colon"
        )
    return name


def check_shard(name: str) -> str:
    """The name, if it is one of a shard method. BadQuestion: it is not."""
    if ShardMethods().find(name) is None:
        raise BadQuestion(f"unknown shard method {name!r}: use rendezvous, maglev, ring, jump or modulo")
    return name


def parse_tag(text: str) -> tuple[str, str]:
    """`zone=b`. BadQuestion: it has no name or no `=`."""
    name, equals, value = text.partition("=")
    try:
        if not equals:
            raise BadQuestion(f"{text!r} is not a tag: write it as name=value, for example zone=b")
        parse_key(name)
    except BrokerError as error:
        raise BadQuestion(f"{text!r} is not a tag: {error.text}") from error
    return name, value


def copy_id(route_id: str, number: int) -> str:
    """The Route Id of a copy of a route; the same in every run."""
    digest = hashlib.blake2b(f"{route_id} copy {number}".encode(), digest_size=16).digest()
    return str(uuid.UUID(bytes=digest))
