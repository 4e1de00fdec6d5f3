"""Which routes a role may reach: the set of their slots, which is ANDed into the candidates of an address (D-98).

    role orders                 ->   0 1   3     7    made of the tag index when an address is looked up first
    role tenants, name ada      ->     1     4        for each name that needs it, where addresses have `${name}`

    join, leave ──► changes: slot and tags, slot … ──► a set catches up with them when it is asked for again

So a request costs no look at a role: what is remembered of an address holds for one generation of the table, and for
one role. Decides nothing about identities, and does not know who is refused for it.
"""

from typing import Final

from broker.access.roles import Offer, Role, Wanted, fits_any, meant_by, name_of
from broker.routing.bitmaps import Slots
from broker.routing.index import TagIndex
from rsocket_wire.wire.tags import Tag

MAX_BUILT: Final = 1024  # sets, up to 8 KiB for each 65,536 slots; the one made first gives way, and is made anew
MAX_REACHES: Final = 16_384  # roles and names that are told apart; at one more all are forgotten, and found again
MAX_CHANGES: Final = 1024  # joins and leaves to catch up with, some 4 µs each; behind more a set is made anew


class Reach:
    """The routes that connections of one role, and where that matters of one name, may reach."""

    __slots__ = ("_all", "key", "name", "role", "seen_n", "slots_or_none", "told_as")

    def __init__(self, every: "Reaches", number: int, role: Role, name: str) -> None:
        self.role: Final = role
        self.name: Final = name  # of the identity; empty where the role's addresses do not depend on it
        self.key: Final = number.to_bytes(8, "big")  # stands for it in what is remembered: 8 bytes
        self.slots_or_none: Slots | None = None  # None: not made yet, or it has given way
        self.seen_n = 0  # changes of the table that these slots are good for
        self.told_as = ""  # to other brokers; empty until it is needed, see `interbroker.annotations`
        self._all: Final = every

    def slots(self) -> Slots:
        """The slots of all routes that may be reached now, live: do not change them."""
        return self._all.slots_of(self)


class Change:
    """A slot has another route, or none."""

    def __init__(self, slot: int, tags: list[Tag] | None) -> None:
        self.slot: Final = slot
        self.tags: Final = tags  # of the route that has joined; None: the one that was there has left


class Reaches:
    """All of one table."""

    def __init__(self, index: TagIndex) -> None:
        self._index: Final = index
        self._known: dict[tuple[Role, str], Reach] = {}  # bounded by MAX_REACHES
        self._made_n = 0
        self._built: Final[list[Reach]] = []  # those that have slots, in the order in which these were made
        self._changes: Final[list[Change]] = []  # bounded by MAX_CHANGES; the oldest first
        self._forgotten_n = 0  # changes before these

    def find(self, role: Role, principal: str) -> Reach:
        """What an identity of this role may reach."""
        return self.find_named(role, name_of(principal))

    def find_named(self, role: Role, name: str) -> Reach:
        """As `find`, by the name in the identity's text."""
        if not role.has_name:
            name = ""
        key = (role, name)
        reach = self._known.get(key)
        if reach is None:
            if len(self._known) >= MAX_REACHES:
                self._known.clear()
            self._made_n += 1
            reach = self._known[key] = Reach(self, self._made_n, role, name)
        return reach

    def built_n(self) -> int:
        """How many have slots."""
        return len(self._built)

    def changed(self, slot: int, tags: list[Tag] | None) -> None:
        """A route with these tags has joined in this slot; None: the route there has left."""
        if not self._built:  # nobody has to catch up
            return
        if len(self._changes) >= MAX_CHANGES:
            del self._changes[: MAX_CHANGES // 2]
            self._forgotten_n += MAX_CHANGES // 2
        self._changes.append(Change(slot, tags))

    def slots_of(self, reach: Reach) -> Slots:
        """See `Reach.slots`."""
        changes_n = self._forgotten_n + len(self._changes)
        slots = reach.slots_or_none
        if slots is None:
            if len(self._built) >= MAX_BUILT:
                self._built.pop(0).slots_or_none = None
            self._built.append(reach)
        if slots is None or reach.seen_n < self._forgotten_n:
            slots = reach.slots_or_none = _fitting(self._index, reach.role.address, reach.name)
        elif reach.seen_n < changes_n:
            for change in self._changes[reach.seen_n - self._forgotten_n :]:
                if change.tags is not None and reach.role.may_address(change.tags, reach.name):
                    slots.add(change.slot)
                else:
                    slots.discard(change.slot)
        reach.seen_n = changes_n
        return slots


def _fitting(index: TagIndex, offers: list[Offer], name: str) -> Slots:
    """The slots of routes that one of these entries fits: what `Role.may_address` says of each, by bitmaps."""
    found = Slots()
    for offer in offers:
        slots = _having(index, offer.wanted, name)
        for each in offer.excepted:
            slots = slots.without(_having(index, each.wanted, name))
        found.add_all(slots)
    return found


def _having(index: TagIndex, every: list[Wanted], name: str) -> Slots:
    """The slots of routes that have, of each of these keys, a value that fits."""
    found: Slots | None = None
    for wanted in every:
        slots = Slots()
        if wanted.is_open:
            for value, carriers in index.values_of(wanted.key):
                if fits_any(wanted.patterns, value, name):
                    slots.add_all(carriers)
        else:
            for pattern in wanted.patterns:
                exact = index.find(Tag(wanted.key, meant_by(pattern, name).encode()).token())
                if exact is not None:
                    slots.add_all(exact)
        found = slots if found is None else found.meet(slots)
    return found if found is not None else Slots()
