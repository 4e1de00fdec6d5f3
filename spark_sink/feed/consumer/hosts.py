"""Which host may be asked for how much, and when what has failed is tried again. Knows no clock and no network.

    reached ──► fails as a whole ──► rests ──► one fetch at a time ──► reached, or rests again

Of a host that has failed, nothing is asked for REST_S; then one post tries it, and the others wait for how that ends.
Posts that find no room wait in memory as long as the host is well, and else on the disk.
"""

import asyncio
import random
from collections import deque
from collections.abc import Callable
from typing import Final, NamedTuple

PER_HOST_N: Final = 32  # fetches from one host at a time
REST_S: Final = 5.0  # of a host that could not be reached
TRIES: Final = 10
FIRST_PAUSE_S: Final = 5.0  # between the first two tries; it doubles
LAST_PAUSE_S: Final = 3_600.0


class Again(NamedTuple):
    """What has failed is tried another time."""

    at: float
    tries: int  # that count
    is_news: bool  # nobody was told so yet, neither of this post nor of its host


class Hosts:
    """All that files are fetched from; the host of what needs none is empty, and has room always. Moments are seconds
    since 1970."""

    def __init__(
        self,
        *,
        tries: int = TRIES,
        first_pause_s: float = FIRST_PAUSE_S,
        chance: Callable[[], float] = random.random,
    ) -> None:
        """`tries`: of one post, the first one included; those that did not reach the host do not count. `chance`: from
        0 to 1, so that what failed together does not come together."""
        self._tries: Final = tries
        self._first_pause_s: Final = first_pause_s
        self._chance: Final = chance
        self._active: Final[dict[str, int]] = {}  # fetches by host
        self._slow: Final[dict[str, int]] = {}  # of these, those that take too long
        self._resting: Final[dict[str, float]] = {}  # hosts that have failed the last time, and until when they rest

    @property
    def known(self) -> set[str]:
        """Those of which less than PER_HOST_N may have room."""
        return {*self._active, *self._resting}

    def active_n(self, host: str) -> int:
        """Fetches that are under way."""
        return self._active.get(host, 0)

    def room_n(self, host: str, now: float) -> int:
        """How many more may be fetched from it."""
        rests_until = self._resting.get(host) if host else None
        if rests_until is None:
            return PER_HOST_N - self.active_n(host)
        return 0 if rests_until > now else 1 - self.active_n(host)

    def begin(self, host: str) -> None:
        """One more; `end` has to follow."""
        if host:
            self._active[host] = self.active_n(host) + 1

    def end(self, host: str, *, was_slow: bool = False) -> None:
        """One less."""
        for counts in (self._active, self._slow) if was_slow else (self._active,):
            if host:
                counts[host] -= 1
                if not counts[host]:
                    del counts[host]

    def slow(self, host: str) -> None:
        """One of its fetches takes too long, until it ends."""
        if host:
            self._slow[host] = self._slow.get(host, 0) + 1

    def is_well(self, host: str) -> bool:
        """Whether there will be room soon."""
        return host not in self._resting and host not in self._slow

    def reached(self, host: str) -> None:
        """It has given what it was asked for."""
        self._resting.pop(host, None)

    def failed(
        self, host: str, now: float, *, tries: int, is_host: bool, is_final: bool, is_again: bool
    ) -> Again | None:
        """After so many other tries. `is_host`: nothing can be had from it. `is_final`: another try would have the same
        end. `is_again`: it is known that it is tried again. None: it is given up."""
        is_news = not is_again and not (is_host and host in self._resting)
        if is_host and host:
            self._resting[host] = now + REST_S
        counted = tries + (not is_host)  # of an outage none counts
        if is_final or counted >= self._tries:
            return None
        pause_s = min(self._first_pause_s * 2 ** max(0, counted - 1), LAST_PAUSE_S)
        return Again(now + pause_s * (0.5 + self._chance() / 2), counted, is_news)


class Waiting:
    """Those that wait in memory for room at a host, in the order in which they came."""

    def __init__(self) -> None:
        self._hosts: Final[dict[str, deque[asyncio.Future[bool]]]] = {}

    async def wait(self, host: str) -> bool:
        """Whether there may be room now; False: it is not worth while to wait."""
        turn: asyncio.Future[bool] = asyncio.get_running_loop().create_future()
        self._hosts.setdefault(host, deque()).append(turn)
        return await turn

    def next(self, host: str) -> None:
        """There is room for one."""
        waiting = self._hosts.get(host)
        while waiting:
            turn = waiting.popleft()
            if not turn.done():  # else who waited was cancelled
                turn.set_result(True)
                return
        self._hosts.pop(host, None)

    def give_up(self, host: str) -> None:
        """Nobody is to wait for it any more."""
        for turn in self._hosts.pop(host, ()):
            if not turn.done():
                turn.set_result(False)


class Rivals:
    """Which file is waited for at one host though another one has it, too: all fetches, by keys that who fetches chose.

    Of posts about the same place one is carried out, and the others wait for their turn (`turns`). Where these would
    fetch the file from elsewhere, a server that says nothing is not waited for so long.
    """

    def __init__(self) -> None:
        self._waiting: Final[dict[object, tuple[str, str]]] = {}  # place and URL
        self._under_way: Final[dict[object, tuple[str, str]]] = {}  # the same

    def wait(self, key: object, place: str, url: str) -> None:
        """Until its turn begins."""
        self._waiting[key] = place, url

    def begin(self, key: object) -> None:
        """It is its turn; nothing, where it has not waited."""
        if key in self._waiting:
            self._under_way[key] = self._waiting.pop(key)

    def end(self, key: object) -> None:
        """It is over, or waits no more."""
        self._waiting.pop(key, None)
        self._under_way.pop(key, None)

    def held_up(self) -> set[str]:
        """URLs that are fetched while somebody waits who would fetch the same file from elsewhere."""
        if not self._waiting:
            return set()
        wanted: dict[str, set[str]] = {}
        for place, url in self._waiting.values():
            wanted.setdefault(place, set()).add(url)
        return {url for place, url in self._under_way.values() if wanted.get(place, set()) - {url}}
