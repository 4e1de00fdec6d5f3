"""What an address asks for: routing type, tags, hints. This part of an answer never changes.

Decides which tags select, which of them are only keys of shards and sticky choices (D-12, D-22), and which chooser or
shard method is meant. Does not know which routes there are: that is for `query`.

    spec "Forwarding Semantics", "Unicast Routing", "Shard Routing", "Multicast Routing"
"""

from typing import Final

from broker.events import NO_KEY
from broker.routing.candidates import Candidates
from broker.routing.choosers.chooser import Chooser, Turn
from broker.routing.choosers.registry import ROUND_ROBIN, Method, Methods
from broker.routing.choosers.sticky import sticky_key
from broker.routing.health.loads import ServiceLoad
from broker.routing.policies import Policies, Policy
from broker.routing.reach import Reach
from broker.routing.remarks import Remarks
from broker.routing.sharding.hashes import key_hash
from broker.routing.sharding.methods import ShardMethod, ShardMethods
from broker.routing.table import Route, normal_tag
from rsocket_wire.errors import REJECTED, BrokerError, InvalidFrame, Refusal
from rsocket_wire.methods import CHOOSERS, SHARD_METHODS, WRAPPERS
from rsocket_wire.wire.frames import MULTICAST, SHARD, UNICAST, Address, RouteSetup, decode_frame
from rsocket_wire.wire.keys import (
    DEADLINE,
    EXCLUDE_SELF,
    LB_METHOD,
    MAX_DEADLINE_MS,
    SERVICE_NAME,
    SHARD_KEY,
    SHARD_METHOD,
    STICKY_ROUTE_KEY,
    keys_named,
)
from rsocket_wire.wire.tags import Tag

ORIGIN_AT: Final = 6  # in an ADDRESS the origin's Route Id, which does not take part in the answer: 16 bytes
ORIGIN_TO: Final = 22
MAX_RAW_BYTES: Final = 2048  # of an ADDRESS that its target keeps; the rest of the world has shorter ones
_NO_ORIGIN: Final = bytes(ORIGIN_TO - ORIGIN_AT)
MAX_LABEL: Final = 512  # characters; a label goes into tables and events, and an address may have 128 tags

# Refusals that routes which join or leave may end: there is none, or none that the caller may reach (D-98).
FOR_NOW: Final = ("no-route", "denied")

_ROUTING_NAMES: Final[dict[int, str]] = {0: "unicast", UNICAST: "unicast", MULTICAST: "multicast", SHARD: "shard"}


class Target:
    """What one address resolves to. `refusal` is set when it can never be routed, or not now."""

    __slots__ = (
        "_label",
        "asked",
        "blocked",
        "forced",
        "hints",
        "blocked_service",
        "candidates",
        "chooser",
        "deadline_ms",
        "eligible",
        "emptied_n",
        "excludes_self",
        "generation",
        "is_by_origin",
        "is_announcement",
        "is_decided",
        "is_panic",
        "is_sticky",
        "key_owner",
        "masked_at",
        "matched_by",
        "number",
        "observed",
        "owned_at",
        "owner",
        "policy",
        "raw",
        "reach",
        "redirected",
        "refusal",
        "routing",
        "selectors",
        "shard_hash",
        "shard_method",
        "sticky_key",
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
        self.blocked_service: ServiceLoad | None = None  # whose limit it was, when `blocked` is `over-limit`
        self.candidates: Candidates | None = None  # None with a refusal
        self.reach: Reach | None = None  # of its callers: nobody else is among the candidates; None: all may be
        self.observed: Refusal | None = None  # why its callers would be refused if that were not only observed
        self.matched_by: list[Tag] = []  # the tags that all candidates have: `wanted` or `selectors`, D-22
        self.emptied_n = 0  # which of them, 1, 2 …, left no route over; 0: none did
        self.raw = b""  # the ADDRESS, its origin zeroed, without wrapped metadata; empty when it is too long to keep
        self.masked_at = 0  # generation of the masks that the next four are good for; 0: none yet
        self.eligible: Candidates | None = None  # unicast: those that may be chosen; None when nobody may
        self.is_panic = False  # unicast: ejected and unhealthy routes are among them, because too many are
        self.owner: Route | None = None  # shard: who gets the request; None when nobody may
        self.key_owner: Route | None = None  # shard: whose key it is, whether or not it may get requests now
        self.owned_at = 0  # table and drains that `key_owner` is good for
        self.wrapped_bytes = 0  # of wrapped metadata in the ADDRESS that it was made of
        self.routing = 0  # UNICAST, MULTICAST or SHARD
        self.asked: list[Tag] = []  # the tags of the ADDRESS that select, as it says them
        self.hints: Hints | None = None  # None with a refusal for ever that came before they were read
        self.redirected = ""  # the service that is asked for instead of that of the ADDRESS (D-55); empty: none
        self.forced = ""  # that service, when it was another broker that redirected; empty: none did
        self.is_decided = False  # another broker has decided: `forced` is all that is redirected, no hint is a tag
        self.wanted: list[Tag] = []  # the tags of the AND: what was asked, with the service of a redirect
        self.selectors: list[Tag] = []  # those of them that are neither ShardKeys nor StickyRouteKeys
        self.tags_n = 0  # entries of both maps
        self.shard_hash = 0
        self.shard_method: ShardMethod | None = None  # of a shard request; None with a refusal for ever
        self.is_announcement = False  # it is no ADDRESS but a ROUTE_SETUP
        self.deadline_ms = -1  # how long the caller waits for the end (D-41); -1: it did not say
        self.excludes_self = False  # multicast: not to the caller itself (D-103)
        self.policy: Policy | None = None  # of the service that is asked for; None with a refusal for ever
        self.chooser: Chooser | None = None  # None with a refusal for ever
        self.is_sticky = False  # unicast: who was chosen is chosen again
        self.is_by_origin = False  # for the same origin; else for the same values of tags
        self.sticky_key = b""  # 16 bytes when it is sticky, see `sticky`
        self.turn: Final = Turn()
        self._label = ""

    def means(self, route: Route) -> bool:
        """The route, which is in the table, is one of those that are asked for; or it cannot be told who is."""
        candidates = self.candidates
        if candidates is not None:
            return candidates.slots.has(route.slot)
        return self.refusal is not None and self.refusal.word not in FOR_NOW

    @property
    def routing_name(self) -> str:
        """`unicast`, `multicast` or `shard`."""
        return _ROUTING_NAMES[self.routing]

    @property
    def label(self) -> str:
        """The selecting tags for people and tables: `service=orders region=eu`; keys of shards and sticky choices are
        left out.
        """
        if not self._label:
            label = label_of(self.selectors)
            self._label = label if len(label) <= MAX_LABEL else label[: MAX_LABEL - 1] + "…"
        return self._label

    @property
    def emptied_by(self) -> str:
        """The tag that left no route over, `region=mars`; empty when none did."""
        return label_of([self.matched_by[self.emptied_n - 1]]) if self.emptied_n else ""

    @property
    def key_hash(self) -> int:
        """31 bits that stand for the shard key; NO_KEY: it is no shard request."""
        return self.shard_hash if self.routing == SHARD else NO_KEY

    @property
    def service(self) -> str:
        """Value of the ServiceName tag that is looked for, or empty."""
        return service_of(self.wanted)

    @property
    def asked_service(self) -> str:
        """Value of the ServiceName tag of the ADDRESS, or empty."""
        return service_of(self.asked)


class Hints:
    """What the hints of one address say; of each kind the last counts, of keys all."""

    __slots__ = ("deadline", "excludes_self", "lb_method", "shard_keys", "shard_method", "sticky_keys")

    def __init__(self) -> None:
        self.lb_method: str | None = None
        self.deadline: str | None = None
        self.excludes_self = False
        self.shard_method: str | None = None
        self.shard_keys: list[str] = []
        self.sticky_keys: list[str] = []

    def read(self, tags: list[Tag]) -> None:
        """Takes what is known; other metadata is none of ours."""
        for tag in tags:
            value = tag.value or ""
            if tag.key == LB_METHOD:
                self.lb_method = value
            elif tag.key == SHARD_KEY:
                self.shard_keys.append(value)
            elif tag.key == SHARD_METHOD:
                self.shard_method = value
            elif tag.key == STICKY_ROUTE_KEY:
                self.sticky_keys.append(value)
            elif tag.key == DEADLINE:
                self.deadline = value
            elif tag.key == EXCLUDE_SELF:
                self.excludes_self = value == "true"


class Addresses:
    """Reads addresses for one broker."""

    def __init__(self, policies: Policies, strict_hints: bool, remarks: Remarks) -> None:
        self._policies: Final = policies
        self._remarks: Final = remarks
        self._methods: Final = Methods()
        self._of_services: Final[dict[str, Method]] = {}  # by `Policy.chooser`
        self._shard_methods: Final = ShardMethods()
        self._read_n = 0
        self._strict_hints: Final = strict_hints
        self.unknown_methods = 0  # names of choosers and shard methods that are none of ours: the default was taken

    def read(self, raw: bytes) -> Target:
        """A new target, with a refusal that is for ever or with none; nobody has looked for its routes yet."""
        self._read_n += 1
        target = Target(self._read_n)
        if ORIGIN_TO <= len(raw) <= MAX_RAW_BYTES:
            target.raw = raw[:ORIGIN_AT] + _NO_ORIGIN + raw[ORIGIN_TO:]
        try:
            address = decode_frame(raw)
        except InvalidFrame as error:
            target.refusal = Refusal("bad-address", error.text)
            return target
        if not isinstance(address, Address):
            target.is_announcement = isinstance(address, RouteSetup)
            text = f"the request carries a broker frame of kind {address.kind}, not an ADDRESS"
            target.refusal = Refusal("bad-address", text)
            return target
        target.wrapped_bytes = len(address.wrapped)
        if target.wrapped_bytes and target.raw:
            target.raw = target.raw[: -target.wrapped_bytes]
        target.tags_n = len(address.metadata) + len(address.tags)
        target.routing = address.flags & (UNICAST | MULTICAST | SHARD)
        if target.routing not in _ROUTING_NAMES:
            # D-11. Spec: "A request that has more than one of these flags set is considered invalid".
            target.routing = 0
            text = f"more than one of unicast, multicast and shard is set (flags 0x{address.flags:03x})"
            target.refusal = Refusal("bad-address", text)
            return target
        self._understand(target, address)
        if target.refusal is None and not target.wanted:
            target.refusal = Refusal("bad-address", "the ADDRESS has no tag to route by")
        if target.refusal is None and target.excludes_self and target.routing != MULTICAST:
            text = f"exclude_self is for multicast requests, this one is {target.routing_name}"
            target.refusal = Refusal("bad-address", text)  # D-103
        if target.refusal is None and target.deadline_ms == 0:
            target.refusal = Refusal("deadline", "the deadline had passed when the request arrived", REJECTED)
        return target

    def _understand(self, target: Target, address: Address) -> None:
        tags = address.tags
        said = address.metadata
        if not address.has_metadata:  # D-12: a one-map ADDRESS cannot say them elsewhere
            said = [tag for tag in tags if tag.key.is_hint]
            if said and not self._strict_hints:
                tags = [tag for tag in tags if not tag.key.is_hint]
        hints = Hints()
        hints.read(said)
        target.hints = hints
        target.asked = [normal_tag(tag) for tag in tags]
        target.deadline_ms = milliseconds_of(hints.deadline) if hints.deadline is not None else -1
        target.excludes_self = hints.excludes_self
        self._ask_for(target, hints, target.asked)

    def redirect(self, target: Target, service: str) -> None:
        """Asks for another service than the ADDRESS names; an empty one: for what it names. The rest stays. D-55

        For a target that has been read without a refusal for ever.
        """
        hints = target.hints
        assert hints is not None  # it was read
        target.redirected = service
        tags = target.asked
        if service:
            named = Tag(SERVICE_NAME, service.encode())
            tags = [named if tag.key == SERVICE_NAME else tag for tag in tags]
            if named not in tags:
                tags.append(named)
        self._ask_for(target, hints, tags)
        target._label = ""

    def _ask_for(self, target: Target, hints: Hints, tags: list[Tag]) -> None:
        """What these tags mean together with the hints."""
        target.wanted = target.selectors = tags
        target.is_sticky = target.is_by_origin = False
        policy = self._policies.of(target.service)
        target.policy = policy
        if target.routing == SHARD:
            target.shard_method = self._shard_method_of(hints.shard_method, policy, target)
            self._read_shard_keys(target, hints.shard_keys)
            return
        method = self._method_of(hints.lb_method, policy, target)
        target.chooser = method.chooser
        if (hints.sticky_keys or method.is_sticky) and target.routing != MULTICAST:
            self._read_sticky_keys(target, hints.sticky_keys, method.is_sticky)

    def _method_of(self, hint: str | None, policy: Policy, target: Target) -> Method:
        """The method of an LBMethod hint, or of the service; unknown names are counted."""
        if hint is not None:
            method = self._methods.find(hint, policy.chooser)
            if method is not None:
                return method
            self.unknown_methods += 1
            self._remark(LB_METHOD.short_name, hint, policy.chooser, (*CHOOSERS, *WRAPPERS), target)
        method = self._of_services.get(policy.chooser)
        if method is None:
            method = self._methods.find(policy.chooser, policy.chooser)
            if method is None:  # the configuration knows the names, a program that embeds the broker may not
                self.unknown_methods += 1
                method = self._methods.find(ROUND_ROBIN, ROUND_ROBIN)
                assert method is not None  # every broker can take turns
            self._of_services[policy.chooser] = method
        return method

    def _shard_method_of(self, hint: str | None, policy: Policy, target: Target) -> ShardMethod:
        """The method of a ShardMethod hint, or of the service; unknown names are counted."""
        if hint is not None:
            method = self._shard_methods.find(hint)
            if method is not None:
                return method
            self.unknown_methods += 1
            self._remark(SHARD_METHOD.short_name, hint, policy.shard_method, SHARD_METHODS, target)
        method = self._shard_methods.find(policy.shard_method)
        if method is None:  # as with choosers, only where a program embeds the broker
            self.unknown_methods += 1
            return self._shard_methods.default
        return method

    def _remark(self, kind: str, hint: str, taken: str, known: tuple[str, ...], target: Target) -> None:
        """A hint that binds nobody names no method, so its caller is not told."""
        if self._remarks.is_news(kind, hint):
            label = label_of(target.wanted)[:MAX_LABEL]  # its own is not known before its keys are read
            text = f"{label}: {kind} {hint!r} is no method of this broker, which takes {taken}"
            self._remarks.untold.append(f"{text}; write {', '.join(known[:-1])} or {known[-1]}")

    def _read_shard_keys(self, target: Target, names: list[str]) -> None:
        if not names:  # Spec "Shard Routing": one or more ShardKeys MUST be present.
            target.refusal = Refusal("bad-shard-key", "a shard request needs at least one ShardKey")
            return
        named = Named(target.wanted)
        for name in names:
            if not named.name(name):  # Spec: a ShardKey that is not a tag of the request makes it invalid.
                target.refusal = Refusal("bad-shard-key", f"ShardKey {name!r} names no tag of the ADDRESS")
                return
        target.shard_hash = key_hash([tag.raw if tag.raw is not None else b"" for tag in named.tags])
        if not self._strict_hints:
            target.selectors = named.others()

    def _read_sticky_keys(self, target: Target, names: list[str], is_sticky: bool) -> None:
        """D-35: a StickyRouteKey that names no tag says nothing; unlike a ShardKey it is a mere hint."""
        named = Named(target.wanted)
        for name in names:
            named.name(name)
        if not named.tags and not is_sticky:
            return
        assert target.policy is not None  # read before
        target.is_sticky = target.policy.sticky_ttl_s > 0  # else the tags are keys all the same, of no choice
        target.is_by_origin = not named.tags
        others = named.others()
        if not self._strict_hints:
            target.selectors = others
        target.sticky_key = sticky_key(others, named.tags)


class Named:
    """The tags of a request, and those of them that keys name."""

    def __init__(self, tags: list[Tag]) -> None:
        self.tags: Final[list[Tag]] = []  # that were named, in the order of the names
        self._all: Final = tags
        self._keyed: Final[set[bytes]] = set()  # keys that were named; twice is as good as once
        self._by_key: Final[dict[bytes, list[Tag]]] = {}
        for tag in tags:
            self._by_key.setdefault(tag.key.wire, []).append(tag)

    def name(self, name: str) -> bool:
        """Names the tags of a key, spelt in any way; False when there is none."""
        is_found = False
        for wire in _wires_named(name):
            tags = self._by_key.get(wire)
            if tags is not None:
                is_found = True
                if wire not in self._keyed:
                    self._keyed.add(wire)
                    self.tags.extend(tags)
        return is_found

    def others(self) -> list[Tag]:
        """The tags that were not named."""
        return [tag for tag in self._all if tag.key.wire not in self._keyed]


def service_of(tags: list[Tag]) -> str:
    """Value of the ServiceName tag, or empty."""
    for tag in tags:
        if tag.key == SERVICE_NAME:
            return tag.value or ""
    return ""


def milliseconds_of(text: str) -> int:
    """A deadline hint: a whole number from 0 to MAX_DEADLINE_MS; -1 for anything else, hints bind nobody."""
    if not (text.isascii() and text.isdigit()) or len(text) > 10:
        return -1
    return min(int(text), MAX_DEADLINE_MS)


def label_of(tags: list[Tag]) -> str:
    """`service=orders region=eu`: well-known keys by their short name."""
    return " ".join([str(tag) for tag in tags])


def _wires_named(name: str) -> list[bytes]:
    """What the keys that a hint may mean look like on the wire; none when no key can have that name."""
    try:
        return [key.wire for key in keys_named(name)]
    except BrokerError:  # empty, or over 127 bytes: hints are any bytes
        return []
