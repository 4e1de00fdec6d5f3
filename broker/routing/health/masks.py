"""Masks: sets of slots that requests keep away from. One AND takes a mask's routes out of the candidates of an address.

    draining   hard   it gets no new requests, because somebody said so
    full       hard   it has as many requests in flight as it may have
    unleased   hard   it grants requests one by one (LEASE), and none is left
    ejected    panic  it failed too often in a row
    unhealthy  panic  it says so itself (tag `health=down`)
    congested  soft   it does not take what is written to it, or its socket is gone and may come back
    elsewhere  soft   another broker has it, and no worker that counts as this one (D-52, D-64)
    remote     -      another broker has it

hard: never chosen. panic: not chosen, unless too large a part of the candidates stands behind these two masks
(`Policy.panic_percent`). soft: chosen when nobody else is left; `elsewhere` can be switched off.
"""

from typing import Final

from broker.routing.bitmaps import Slots


class Masks:
    """The masks of one table. `generation` grows with every change, as the table's own does."""

    def __init__(self) -> None:
        self.generation = 1
        self.drains = 1  # grows only with changes of `draining`, which all brokers see alike
        self.draining: Final = Slots()
        self.full: Final = Slots()
        self.unleased: Final = Slots()
        self.ejected: Final = Slots()
        self.unhealthy: Final = Slots()
        self.congested: Final = Slots()
        self.elsewhere: Final = Slots()
        self.remote: Final = Slots()
        self._all: Final = [
            self.draining,
            self.full,
            self.unleased,
            self.ejected,
            self.unhealthy,
            self.congested,
            self.elsewhere,
            self.remote,
        ]

    def put(self, mask: Slots, slot: int) -> None:
        """Puts a slot behind one of the masks. Nothing happens if it is there, or is -1: not in the table."""
        if slot >= 0 and not mask.has(slot):
            mask.add(slot)
            self._changed(mask)

    def take(self, mask: Slots, slot: int) -> None:
        """Takes a slot out again, if it is in."""
        if slot >= 0 and mask.has(slot):
            mask.discard(slot)
            self._changed(mask)

    def set(self, mask: Slots, slot: int, is_masked: bool) -> None:
        """Puts a slot behind one of the masks, or takes it out."""
        if is_masked:
            self.put(mask, slot)
        else:
            self.take(mask, slot)

    def move(self, old: int, new: int) -> None:
        """The route in a slot has another one now, and stands behind the same masks."""
        if old == new:
            return
        for mask in self._all:
            if mask.has(old):
                mask.discard(old)
                mask.add(new)
                self._changed(mask)

    def forget(self, slot: int) -> None:
        """The route in a slot has left."""
        for mask in self._all:
            if mask.has(slot):
                mask.discard(slot)
                self._changed(mask)

    def _changed(self, mask: Slots) -> None:
        self.generation += 1
        if mask is self.draining:
            self.drains += 1
