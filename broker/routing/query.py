"""From the bytes of an ADDRESS to the routes that match it.

Decides what an address asks for (routing type, hints, shard keys), which routes match, and which one is chosen. The
answer is remembered under the raw bytes and is good for one generation of the table, so the same address costs one look
into a dict.

    spec "Creating list of Routable Destinations": look up the bitmap of each tag; a tag without one: no route;
    AND them; empty: no route.
"""

from typing import Final

from broker.errors import BrokerError, InvalidFrame, Refusal
from broker.routing.bitmaps import Slots
from broker.routing.candidates import Candidates
from broker.routing.choosers import ROUND_ROBIN, Chooser, Turn, choosers, plain_name
from broker.routing.dice import Dice
from broker.routing.shards import choose_owner, key_hash
from broker.routing.table import Route, Table, normal_tag
from broker.wire.frames import MULTICAST, SHARD, UNICAST, Address, decode_frame
from broker.wire.keys import LB_METHOD, SERVICE_NAME, SHARD_KEY, Key, keys_named
from broker.wire.tags import Tag

# What is remembered of one address is bounded twice, or one peer with long addresses could fill the memory: at worst
# it is some 10 KiB, and not the 50 KiB of 255 short tags. An address beyond that is looked up each time.
MAX_REMEMBERED_BYTES: Final = 2048
MAX_REMEMBERED_TAGS: Final = 32  # of both maps together
MAX_LABEL: Final = 512  # characters; a label goes into tables and events, and an address may have 128 tags
MAX_DEADLINE_MS: Final = 0x7FFFFFFF  # 24 days: longer ones are no deadlines
DEADLINE: Final = Key.text("deadline_ms")  # of the metadata of an ADDRESS (D-41)
_ORIGIN_AT: Final = 6  # the origin's Route Id does not take part in the answer: 16 bytes from here
_REST_AT: Final = 22

_ROUTING_NAMES: Final[dict[int, str]] = {0: "unicast", UNICAST: "unicast", MULTICAST: "multicast", SHARD: "shard"}


class Target:
    """What one address resolves to. `refusal` is set when it can never be routed, or not now."""

    __slots__ = (
        "_label",
        "blocked",
        "candidates",
        "chooser",
        "deadline_ms",
        "generation",
        "number",
        "refusal",
        "routing",
        "selectors",
        "shard_hash",
        "tags_n",
        "turn",
        "wanted",
        "wrapped_bytes",
    )

    def __init__(self, number: int) -> None:
        self.number: Final = number  # 1, 2, 3 … in the order in which addresses were met
        self.generation = 0  # of the table that the answer is good for; 0: none yet
        self.refusal: Refusal | None = None
        self.blocked: Refusal | None = None  # why nobody could be chosen, the last time that nobody could
        self.candidates: Candidates | None = None  # None with a refusal
        self.wrapped_bytes = 0  # of wrapped metadata in the ADDRESS that it was made of
        self.routing = 0  # UNICAST, MULTICAST or SHARD
        self.wanted: list[Tag] = []  # the tags of the AND
        self.selectors: list[Tag] = []  # those of them that are not ShardKeys
        self.tags_n = 0  # entries of both maps
        self.shard_hash = 0
        self.deadline_ms = -1  # how long the caller waits for the end (D-41); -1: it did not say
        self.chooser: Chooser | None = None
        self.turn: Final = Turn()
        self._label = ""

    @property
    def routing_name(self) -> str:
        """`unicast`, `multicast` or `shard`."""
        return _ROUTING_NAMES[self.routing]

    @property
    def label(self) -> str:
        """The selecting tags for people and tables: `service=orders region=eu`; shard keys are left out."""
        if not self._label:
            label = label_of(self.selectors)
            self._label = label if len(label) <= MAX_LABEL else label[: MAX_LABEL - 1] + "…"
        return self._label

    @property
    def service(self) -> str:
        """Value of the ServiceName tag, or empty."""
        for tag in self.wanted:
            if tag.key == SERVICE_NAME:
                return tag.value or ""
        return ""


class Query:
    """Resolves addresses against one table."""

    __slots__ = (
        "_choosers",
        "_default_chooser",
        "_dice",
        "_known",
        "_limit",
        "_strict_hints",
        "_table",
        "hits",
        "misses",
        "unknown_methods",
    )

    def __init__(
        self, table: Table, dice: Dice, chooser: str = ROUND_ROBIN, strict_hints: bool = False, limit: int = 16384
    ) -> None:
        """`limit`: addresses that are remembered, 0 for none; at the bound all are forgotten and learnt again."""
        self._table: Final = table
        self._dice: Final = dice
        self._choosers: Final = choosers()
        self._default_chooser: Final = self._choosers[plain_name(chooser)]
        self._strict_hints: Final = strict_hints
        self._limit: Final = limit
        self._known: dict[bytes, Target] = {}
        self.hits = 0
        self.misses = 0
        self.unknown_methods = 0  # LBMethod hints that name no chooser of ours: the default was taken

    def resolve(self, data: bytes, start: int, end: int) -> Target:
        """The target of the ADDRESS in `data[start:end]`, looked up anew if the table has changed."""
        if end - start < _REST_AT:  # cut within the origin's Route Id: it has no bytes that name it
            return self._meet(data[start:end])  # refused: there is nothing to look up
        key = data[start : start + _ORIGIN_AT] + data[start + _REST_AT : end]
        target = self._known.get(key)
        if target is not None:
            self.refresh(target)
            return target
        target = self._meet(data[start:end])
        if target.wrapped_bytes:
            # What is wrapped says nothing about the way and may differ in every request: the address without it counts.
            key = key[: len(key) - target.wrapped_bytes]
            known = self._known.get(key)
            if known is not None:
                self.refresh(known)
                return known
        if self._limit and len(key) <= MAX_REMEMBERED_BYTES and target.tags_n <= MAX_REMEMBERED_TAGS:
            if len(self._known) >= self._limit:
                self._known.clear()
            self._known[key] = target
        self._look_up(target)
        return target

    def refresh(self, target: Target) -> None:
        """Looks a target up anew if the table has changed since."""
        self.hits += 1
        if target.generation != self._table.generation:
            self._look_up(target)

    def choose(self, target: Target, zone: bytes, origin: bytes, now: float) -> Route | None:
        """One of the candidates, for a unicast or shard target without a refusal.

        `zone`: of the caller, empty if unknown. `origin`: 16 bytes that stand for the caller. `now`: seconds,
        monotonic. None when each candidate is behind a hard mask; then `target.blocked` says why.
        """
        candidates = target.candidates
        assert candidates is not None  # there is no refusal
        if candidates.size == 1:
            return candidates.route_at(0)
        if target.routing == SHARD:
            return choose_owner(candidates, target.shard_hash)
        chooser = target.chooser
        assert chooser is not None  # set with the address
        return chooser.choose(candidates, target.turn, self._dice)

    def members(self, target: Target) -> list[Route]:
        """All that a multicast goes to, for a target without a refusal. Empty: `target.blocked` says why."""
        candidates = target.candidates
        assert candidates is not None  # there is no refusal
        return candidates.routes()

    def find_block(self, target: Target) -> Refusal | None:
        """Why nobody could be chosen for a target without a refusal now; None when somebody could."""
        return target.blocked if not self.members(target) else None

    def matching(self, wanted: list[list[Tag]]) -> list[Route]:
        """Routes that carry, of each list, at least one tag: the same AND, for people. All routes for no lists."""
        if not wanted:
            return self._table.routes()
        found: Slots | None = None
        for choices in wanted:
            slots = Slots()
            for tag in choices:
                more = self._table.index.find(normal_tag(tag).token())
                if more is not None:
                    slots = slots.join(more)
            found = slots if found is None else found.meet(slots)
        assert found is not None  # wanted is not empty
        return [self._table.route_at(slot) for slot in found.to_list()]

    def remembered(self) -> int:
        """How many addresses are remembered."""
        return len(self._known)

    def _meet(self, raw: bytes) -> Target:
        """A new target for an address that is not remembered; not looked up yet."""
        self.misses += 1
        target = Target(self.misses)
        self._understand(target, raw)
        return target

    def _understand(self, target: Target, raw: bytes) -> None:
        """What the address asks for; this part of the answer never changes."""
        try:
            address = decode_frame(raw)
        except InvalidFrame as error:
            target.refusal = Refusal("bad-address", error.text)
            return
        if not isinstance(address, Address):
            target.refusal = Refusal(
                "bad-address", f"the request carries a broker frame of kind {address.kind}, not an ADDRESS"
            )
            return
        target.wrapped_bytes = len(address.wrapped)
        target.tags_n = len(address.metadata) + len(address.tags)
        target.routing = address.flags & (UNICAST | MULTICAST | SHARD)
        if target.routing not in _ROUTING_NAMES:
            # D-11. Spec: "A request that has more than one of these flags set is considered invalid".
            target.routing = 0
            target.refusal = Refusal(
                "bad-address", f"more than one of unicast, multicast and shard is set (flags 0x{address.flags:03x})"
            )
            return
        self._read_hints(target, address)
        if target.refusal is None and not target.wanted:
            target.refusal = Refusal("bad-address", "the ADDRESS names no tag to route by")

    def _read_hints(self, target: Target, address: Address) -> None:
        hints = address.metadata
        tags = address.tags
        if not address.has_metadata:  # D-12: a one-map ADDRESS cannot say them elsewhere
            hints = [tag for tag in tags if tag.key.is_hint]
            if hints and not self._strict_hints:
                tags = [tag for tag in tags if not tag.key.is_hint]
        target.wanted = [normal_tag(tag) for tag in tags]
        target.selectors = target.wanted
        target.chooser = self._default_chooser
        shard_keys: list[str] = []
        for hint in hints:
            value = hint.value or ""
            if hint.key == LB_METHOD:
                chooser = self._choosers.get(plain_name(value))
                if chooser is None:
                    self.unknown_methods += 1
                else:
                    target.chooser = chooser
            elif hint.key == SHARD_KEY:
                shard_keys.append(value)
            elif hint.key == DEADLINE:
                target.deadline_ms = milliseconds_of(value)
        if target.routing == SHARD:
            self._read_shard_keys(target, shard_keys)

    def _read_shard_keys(self, target: Target, names: list[str]) -> None:
        if not names:  # Spec "Shard Routing": one or more ShardKeys MUST be present.
            target.refusal = Refusal("bad-shard-key", "a shard request needs at least one ShardKey")
            return
        by_key: dict[bytes, list[Tag]] = {}
        for tag in target.wanted:
            by_key.setdefault(tag.key.wire, []).append(tag)
        values: list[bytes] = []
        keyed: set[bytes] = set()  # keys that were named; twice, and in many spellings, is as good as once
        for name in names:
            is_found = False
            for wire in _wires_named(name):
                if wire in by_key:
                    is_found = True
                    if wire not in keyed:
                        keyed.add(wire)
                        for tag in by_key[wire]:
                            values.append(tag.raw if tag.raw is not None else b"")
            if not is_found:  # Spec: a ShardKey that is not a tag of the request makes it invalid.
                target.refusal = Refusal("bad-shard-key", f"ShardKey {name!r} names no tag of the ADDRESS")
                return
        target.shard_hash = key_hash(values)
        if not self._strict_hints:
            target.selectors = [tag for tag in target.wanted if tag.key.wire not in keyed]

    def _look_up(self, target: Target) -> None:
        """The candidates in the table as it is now."""
        target.generation = self._table.generation
        if target.refusal is not None and target.refusal.word != "no-route":
            return
        target.refusal = None
        target.candidates = None
        slots = self._intersect(target, target.wanted)
        if (
            slots is None
            and target.routing == SHARD
            and len(target.selectors) != len(target.wanted)
            and target.selectors
        ):
            # D-22: a shard key is usually no route's tag; then it only says which of the others' routes.
            target.refusal = None
            slots = self._intersect(target, target.selectors)
        if slots is not None:
            target.candidates = Candidates(self._table, slots)

    def _intersect(self, target: Target, tags: list[Tag]) -> Slots | None:
        """The AND; None, and a refusal that names the tag that emptied it, when nothing is left."""
        found: Slots | None = None
        for tag in tags:
            slots = self._table.index.find(tag.token())
            if slots is None:
                target.refusal = Refusal("no-route", f"no route has {label_of([tag])}")
                return None
            if found is None:
                found = slots
            else:
                before = found.size()
                found = found.meet(slots)
                if found.size() == 0:
                    before_label = label_of(tags[: tags.index(tag)])
                    text = f"no route has all: {before} have {before_label}, {slots.size()} have {label_of([tag])}"
                    target.refusal = Refusal("no-route", text)
                    return None
        return found


def milliseconds_of(text: str) -> int:
    """A deadline hint: a whole number from 0 to MAX_DEADLINE_MS; -1 for anything else, hints bind nobody."""
    if not (text.isascii() and text.isdigit()) or len(text) > 10:
        return -1
    return min(int(text), MAX_DEADLINE_MS)


def label_of(tags: list[Tag]) -> str:
    """`service=orders region=eu`: well-known keys by their short name."""
    parts: list[str] = []
    for tag in tags:
        value = tag.value
        name = tag.key.short_name
        parts.append(name if value is None else f"{name}={value}")
    return " ".join(parts)


def _wires_named(name: str) -> list[bytes]:
    """What the keys that a ShardKey may mean look like on the wire; none when no key can have that name."""
    try:
        return [key.wire for key in keys_named(name)]
    except BrokerError:  # empty, or over 127 bytes: hints are any bytes
        return []
