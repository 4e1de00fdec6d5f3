"""The settings of a broker in a cluster. Plain values, no files.

The declaration of each: see `broker.forwarding.settings`.
"""

from dataclasses import dataclass, field


@dataclass(frozen=True)
class ClusterSettings:
    """One broker's part in a cluster; without a secret and without TLS names nobody can link to it."""

    secret: bytes = field(default=b"", repr=False)  # empty: none
    plaintext: bool = False  # the secret may be proved over what is not encrypted, to other machines
    auth: str = "secret"  # or tls: a verified certificate whose subject is among `principals`
    principals: list[str] = field(default_factory=list)
    peers: list[str] = field(default_factory=list)  # URLs to dial
    is_mesh: bool = True  # brokers that it learns of are dialled, too
    urls: list[str] = field(default_factory=list)  # where other brokers reach this one
    client_urls: list[str] = field(default_factory=list)  # where clients reach it
    mates: list[bytes] = field(default_factory=list)  # ids of brokers whose routes count as its own: D-64
    link_cost: int = 10  # of each of its links, as others add them up
    hello_s: float = 1.0  # between signs of life on a link
    silent_s: float = 3.0  # a neighbour that says nothing for so long is lost
    digest_s: float = 2.0  # between comparisons of what neighbours know
    redial_max_s: float = 1.0  # between attempts to reach a peer, at most
    max_brokers: int = 256  # known ones, this one included
    max_links: int = 64
    max_routes: int = 200_000  # entries about routes of other brokers, tombstones included
    version: int = 1  # of the router annotations that it speaks; 0: none
