"""Which of the candidates may get a request now: the candidates without those behind masks (D-34).

        candidates      0 1 2 3 4 5 6 7        what matches the address
        draining    -       2                  hard
        unleased    -             5            hard
        full        -   1                      hard
        ejected     -         3                unless too many are ejected or unhealthy: panic
        unhealthy   -
        congested   -                   7      unless nobody else is left
        elsewhere   -               6          unless nobody else is left, or locality is `even` (D-52)
                        -----------------
        eligible        0       4

One operation on bitmaps for each mask that touches the candidates, none for the others. Does not choose.
"""

from typing import Final

from broker.routing.bitmaps import Slots
from broker.routing.health.masks import Masks
from rsocket_wire.errors import Refusal


class Eligible:
    """Who may get a request. `slots` are the candidates' own when no mask touches them."""

    def __init__(self, slots: Slots, is_panic: bool, refusal: Refusal | None) -> None:
        self.slots: Final = slots
        self.is_panic: Final = is_panic  # more are ejected or unhealthy than `panic_percent`, so nobody is
        self.refusal: Final = refusal  # why there is nobody


def eligible(candidates: Slots, masks: Masks, panic_percent: int, what: str, prefers_local: bool = True) -> Eligible:
    """Who of at least one candidate may get a unicast request. `what` was asked for, for people.

    `prefers_local`: routes of other machines' brokers only when this one has none left.
    """
    left = candidates
    for mask in (masks.draining, masks.unleased, masks.full):
        left = _without(left, mask)
    hard_n = left.size()
    if not hard_n:
        return Eligible(left, False, blocked(candidates, masks, what))
    is_panic = False
    well = _without(_without(left, masks.ejected), masks.unhealthy)
    if well is not left:
        well_n = well.size()
        is_panic = panic_percent > 0 and (hard_n - well_n) * 100 > panic_percent * hard_n
        if not is_panic:
            if not well_n:
                text = f"{hard_n} of {candidates.size()} routes with {what} are ejected or unhealthy"
                if hard_n < candidates.size():
                    text += ", the others draining, full or without a lease"
                return Eligible(well, False, Refusal("unhealthy", text))
            left = well
    relieved = _without(left, masks.congested)
    if relieved is not left and relieved.size():
        left = relieved
    if prefers_local:
        near = _without(left, masks.elsewhere)
        if near is not left and near.size():
            left = near
    return Eligible(left, is_panic, None)


def reachable(candidates: Slots, masks: Masks) -> Slots:
    """Who of the candidates gets a multicast: all but those that are on their way out or grant nothing."""
    return _without(_without(candidates, masks.draining), masks.unleased)


def staying(candidates: Slots, masks: Masks) -> Slots:
    """Among whom a key has its owner: all but those on their way out, so that all brokers agree."""
    return _without(candidates, masks.draining)


def blocked(candidates: Slots, masks: Masks, what: str) -> Refusal:
    """Why each of the candidates is behind a hard mask: `over-limit`, `no-lease` or `draining`, the first that is so.

    The first ones pass the soonest.
    """
    left = _without(candidates, masks.draining)
    draining_n = candidates.size() - left.size()
    granted = _without(left, masks.unleased)
    unleased_n = left.size() - granted.size()
    full_n = granted.size()
    parts: list[str] = []
    if full_n:
        parts.append(f"{full_n} have as many requests in flight as they may")
    if unleased_n:
        parts.append(f"{unleased_n} have no lease left")
    if draining_n:
        parts.append(f"{draining_n} are draining")
    word = "over-limit" if full_n else "no-lease" if unleased_n else "draining"
    return Refusal(word, f"of {candidates.size()} routes with {what}: {', '.join(parts)}")


def _without(slots: Slots, mask: Slots) -> Slots:
    """The slots that the mask leaves; the very same object when it touches none."""
    return slots.without(mask) if slots.meets(mask) else slots
