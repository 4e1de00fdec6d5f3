"""Who works at which place: posts of one place are carried out one after the other, in the order in which they came.

A post CLAIMS the place that it changes for itself, and SHARES the folders above it with others. So a folder that goes,
or gets another name, waits for what is under way below it, and what comes later waits for the folder. Whoever waits
does so for those who came before only, so nobody waits for himself.

Claims hold as long as a post is under way, which is bounded by who begins them.
"""

import asyncio
import contextlib
from collections.abc import AsyncIterator, Iterable
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

    @contextlib.asynccontextmanager
    async def turn(self, claims: Iterable[Claim]) -> AsyncIterator[bool]:
        """Begins when nobody who came before has any of these in a way that does not allow it; says whether it had to
        wait for that."""
        mine: asyncio.Future[None] = asyncio.get_running_loop().create_future()
        taken = list(claims)
        before = self._enter(taken, mine)
        try:
            for each in before:
                if not each.done():
                    await asyncio.wait((each,))
            yield bool(before)
        finally:
            waits_for = [each for each in before if not each.done()]
            if waits_for:  # cancelled: those who came later wait for those whom this one has waited for
                asyncio.gather(*waits_for).add_done_callback(lambda _: self._leave(taken, mine))
            else:
                self._leave(taken, mine)

    def _enter(self, claims: list[Claim], mine: "asyncio.Future[None]") -> "list[asyncio.Future[None]]":
        """Those to wait for."""
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

    def _leave(self, claims: list[Claim], mine: "asyncio.Future[None]") -> None:
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


def claims_of(names: list[str], *, is_shared: bool = False) -> list[Claim]:
    """Of a path: itself, and the folders above it, which others share."""
    found = []
    path = ""
    for name in names[:-1]:
        path = f"{path}/{name}"
        found.append(Claim(path, is_shared=True))
    found.append(Claim(f"{path}/{names[-1]}", is_shared))
    return found
