"""Who can end a connection: the core, for those of its rooms that find out that it must be."""

from broker.forwarding.peer import Peer


class Ends:
    """A base, and no more: mypyc's classes have one."""

    def end(self, peer: Peer, word: str, text: str, now: float, code: int = 0) -> None:
        """Ends a connection with an ERROR on stream 0; its route leaves and its streams end at once.

        `code` 0 means the RSocket code of the word, or what stands for it in the state of the connection.
        """

    def end_slow(self, peer: Peer, word: str, text: str, now: float) -> None:
        """The same for what waits for it, which is told as an event of its own."""

    def shed_largest(self, peer: Peer, text: str, now: float) -> bool:
        """Ends the request of which most waits for the peer with `over-limit:`; False: nothing is won by that."""
        return False

    def outbid(self, peer: Peer, text: str, now: float) -> None:
        """Another connection has come with its Route Id, elsewhere in the cluster: its route leaves (D-09)."""

    def withdraw(self, peer: Peer, reason: str, now: float) -> None:
        """The route of a connection leaves; what runs there goes on. `reason`: code word, or "left"."""
