"""Which other brokers to dial, and when: the URLs that are to lead to a link each.

    waiting ──take──► dialling ──linked──► linked ──lost──► waiting
       ▲                  │
       └─────failed───────┘         after 0.1 s, 0.2 s, 0.4 s … up to `redial_max_s`, each cut by chance to 50..100 %

A URL comes from the configuration, from a DNS name, or from what other brokers say (`source`), and is forgotten when
none of them names it any more and what was begun has ended. It is not dialled while the broker that it led to is linked
through another connection, which may be one that came in. When it led to ourselves it is dialled again only while
nobody is linked, every SELF_S: behind a balancer there may be somebody else the next time.

Knows no sockets: whoever takes a URL dials it and says what became of it.
"""

from typing import Final

from broker.routing.rng import Rng

MAX_TARGETS: Final = 1000  # URLs; later ones are not dialled
FIRST_REDIAL_S: Final = 0.1  # before the second attempt
REFUSED_S: Final = 5.0  # before a broker is dialled again that does not know the secret, or says that we do not
SELF_S: Final = 10.0  # before the next one where we found ourselves
_DOUBLINGS: Final = 20  # more change nothing: 29 hours
_JITTER_STEPS: Final = 1000


class Dial:
    """One URL. For others to look at; `Dials` changes it."""

    def __init__(self, url: str) -> None:
        self.url: Final = url
        self.sources: set[str] = set()  # who names it; empty: nobody any more
        self.attempts = 0  # that failed since it was last linked
        self.error = ""  # of the latest of them; empty: none
        self.next_at = 0.0  # not before that, seconds, monotonic; 0: at once
        self.is_dialling = False
        self.is_linked = False  # by a connection that was dialled here
        self.is_self = False  # it led to ourselves
        self.broker_id = b""  # of the broker that it led to; empty: it never led to one


class Dials:
    """All of them."""

    def __init__(self, rng: Rng, redial_max_s: float) -> None:
        self._rng: Final = rng
        self._redial_max_s: Final = redial_max_s
        self._dials: dict[str, Dial] = {}  # by URL, in the order in which they were first named
        self._linked_ids: set[bytes] = set()
        self.refused_n = 0  # URLs for which there was no room, each time that they were named

    def set_targets(self, source: str, urls: list[str]) -> None:
        """Sets all that a source names now; `source` is `config`, `dns:` and a name, or `learned`."""
        named = set(urls)
        for dial in self._dials.values():
            if dial.url not in named:
                dial.sources.discard(source)
        for url in urls:
            found = self._dials.get(url)
            if found is None:
                if len(self._dials) >= MAX_TARGETS:
                    self._forget_unnamed(None)
                if len(self._dials) >= MAX_TARGETS:
                    self.refused_n += 1
                    continue
                found = self._dials[url] = Dial(url)
            found.sources.add(source)

    def set_linked_ids(self, ids: set[bytes]) -> None:
        """Sets which brokers are linked now, whoever dialled."""
        self._linked_ids = ids

    def take(self, now: float) -> list[str]:
        """Takes the URLs that are to be dialled now; of each must be told what became of it: `linked` or `failed`."""
        self._forget_unnamed(now)
        taken: list[str] = []
        for dial in self._dials.values():
            if now >= dial.next_at and dial.sources and not self._is_settled(dial):
                dial.is_dialling = True
                taken.append(dial.url)
        return taken

    def failed(self, url: str, text: str, now: float, is_refused: bool = False) -> None:
        """Notes that it led to no link, or to one that is lost; `text` says why, for people.

        `is_refused`: one end does not want the other, and asking again soon changes nothing.
        """
        dial = self._dials.get(url)
        if dial is not None:
            dial.error = text
            self._wait(dial, now)
            if is_refused:
                dial.next_at = max(dial.next_at, now + REFUSED_S)

    def linked(self, url: str, broker_id: bytes) -> None:
        """Notes that it led to a link with that broker; until `failed`."""
        dial = self._dials.get(url)
        if dial is not None:
            dial.is_dialling = False
            dial.is_linked = True
            dial.is_self = False
            dial.broker_id = broker_id
            dial.attempts = 0
            dial.error = ""

    def know(self, url: str, broker_id: bytes) -> None:
        """Notes that it leads to that broker, whatever becomes of this connection."""
        dial = self._dials.get(url)
        if dial is not None:
            dial.broker_id = broker_id

    def is_self(self, url: str) -> None:
        """Notes that it leads to this broker itself."""
        dial = self._dials.get(url)
        if dial is not None:
            dial.is_self = True

    def state(self) -> list[Dial]:
        """What is to be dialled, is being dialled, or was."""
        return [dial for dial in self._dials.values() if dial.sources or dial.is_dialling or dial.is_linked]

    def _is_settled(self, dial: Dial) -> bool:
        if dial.is_self and self._linked_ids:
            return True
        return dial.is_dialling or dial.is_linked or dial.broker_id in self._linked_ids

    def _wait(self, dial: Dial, now: float) -> None:
        dial.is_dialling = False
        dial.is_linked = False
        whole_s = min(FIRST_REDIAL_S * (1 << min(dial.attempts, _DOUBLINGS)), self._redial_max_s)
        # Brokers that have lost the same one must not all come back to it at once.
        dial.next_at = now + whole_s * (0.5 + self._rng.below(_JITTER_STEPS + 1) / (2 * _JITTER_STEPS))
        if dial.is_self:
            dial.next_at = now + SELF_S
        dial.attempts += 1

    def _forget_unnamed(self, now: float | None) -> None:
        """Drops what nobody names and nothing is left of; None: also what would have to wait.

        A URL that is named again soon must not come back without its wait.
        """
        for dial in list(self._dials.values()):
            is_idle = not dial.is_dialling and not dial.is_linked
            if not dial.sources and is_idle and (now is None or now >= dial.next_at):
                del self._dials[dial.url]
