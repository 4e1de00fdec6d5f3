"""What the log says once of requests that end otherwise than their callers may think, and that nobody else can be told.

    service=orders: LBMethod 'fastest' …    it names no method, so that of the service is taken (D-35, D-36)
    service=order: a fire-and-forget …      nobody has got it, and RSocket has no frame to say so (D-23)

Decides what is news. Bounded, because strangers can ask for ever new names.
"""

from typing import Final

MAX_SAID: Final = 1_000  # things that are not said again; at one more all are forgotten
MAX_UNTOLD: Final = 16  # that wait to be taken; what is more is not said, and may be later


class Remarks:
    """Of one broker."""

    def __init__(self) -> None:
        self._said: Final[set[tuple[str, str]]] = set()
        self.untold: Final[list[str]] = []  # for the log; MAX_UNTOLD of them

    def take(self) -> list[str]:
        """Takes what the log is to say now."""
        taken = self.untold[:]
        self.untold.clear()
        return taken

    def unheard(self, model: str, label: str, service: str, why: str) -> None:
        """A request of a model without an answer had no route; said once for each service."""
        if self.is_news("unheard", service or label):
            advice = "" if why.endswith("?") else "; start the service or correct the tags"
            self.untold.append(f"{label}: a {model} was dropped, and its caller cannot be told: {why}{advice}")

    def is_news(self, kind: str, name: str) -> bool:
        """It was not said, and there is room for it: the caller says it now."""
        if (kind, name) in self._said or len(self.untold) >= MAX_UNTOLD:
            return False
        if len(self._said) >= MAX_SAID:
            self._said.clear()
        self._said.add((kind, name))
        return True
