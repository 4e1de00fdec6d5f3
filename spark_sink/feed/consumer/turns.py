"""Who works at which place: posts of one place are carried out one after the other, in the order in which they came.

A post CLAIMS the place that it changes for itself, and SHARES the folders above it with others. So a folder that goes,
or gets another name, waits for what is under way below it, and what comes later waits for the folder. Whoever waits
does so for those who came before only, so nobody waits for himself.

Claims hold as long as a post is under way, which is bounded by who begins them.
"""

import asyncio
from collections.abc import Iterable
from typing import Final, NamedTuple


class Claim(NamedTuple):
    """A place, and whether others may share it."""

    place: str
    is_shared: bool = False


class _Claimed:
    """A place that somebody wants."""

    __slots__ = ("last", "sharing")

    def __init__(self) -> None:
        self.last: asyncio.Future[None] | None = None  # of who has it, or will have it, alone; None: nobody
        self.sharing: set[asyncio.Future[None]] = set()  # of those who came after that


class Turns:
    """All places of one mirror."""

    def __init__(self) -> None:
        self._places: Final[dict[str, _Claimed]] = {}

    def __len__(self) -> int:
        """Places that somebody wants."""
        return len(self._places)

    def turn(self, claims: Iterable[Claim]) -> "Turn":
        """Begins when nobody who came before has any of these in a way that does not allow it; says whether it had to
        wait for that."""
        return Turn(self, list(claims))

    def enter(self, claims: list[Claim], mine: "asyncio.Future[None]") -> "list[asyncio.Future[None]]":
        """Takes them, in turn; those to wait for."""
        before: list[asyncio.Future[None]] = []
        for place, is_shared in claims:
            claimed = self._places.get(place)
            if claimed is None:
                claimed = self._places[place] = _Claimed()
            if claimed.last is not None and claimed.last is not mine:
                before.append(claimed.last)
            if is_shared:
                if claimed.last is not mine:
                    claimed.sharing.add(mine)
            else:
                before += [each for each in claimed.sharing if each is not mine]
                claimed.last, claimed.sharing = mine, set()
        return before

    def leave(self, claims: list[Claim], mine: "asyncio.Future[None]") -> None:
        """Those who came later may have them."""
        mine.set_result(None)
        for place, _ in claims:
            claimed = self._places.get(place)
            if claimed is None:
                continue
            claimed.sharing.discard(mine)
            if claimed.last is mine:
                claimed.last = None
            if claimed.last is None and not claimed.sharing:
                del self._places[place]


class Turn:
    """Of one post, as `async with`."""

    __slots__ = ("_before", "_claims", "_mine", "_turns")

    def __init__(self, turns: Turns, claims: list[Claim]) -> None:
        self._turns: Final = turns
        self._claims: Final = claims
        self._mine: Final[asyncio.Future[None]] = asyncio.get_running_loop().create_future()
        self._before: list[asyncio.Future[None]] = []  # those to wait for

    async def __aenter__(self) -> bool:
        self._before = self._turns.enter(self._claims, self._mine)
        try:
            for each in self._before:
                if not each.done():
                    await asyncio.wait((each,))
        except BaseException:
            await self.__aexit__()
            raise
        return bool(self._before)

    async def __aexit__(self, *_: object) -> None:
        turns, claims, mine = self._turns, self._claims, self._mine
        waits_for = [each for each in self._before if not each.done()]
        if waits_for:  # cancelled: those who came later wait for those whom this one has waited for
            asyncio.gather(*waits_for).add_done_callback(lambda _: turns.leave(claims, mine))
        else:
            turns.leave(claims, mine)


def claims_of(names: list[str], *, is_shared: bool = False) -> list[Claim]:
    """Of a path: itself, and the folders above it, which others share."""
    found = []
    path = ""
    for name in names[:-1]:
        path = f"{path}/{name}"
        found.append(Claim(path, is_shared=True))
    found.append(Claim(f"{path}/{names[-1]}", is_shared))
    return found
