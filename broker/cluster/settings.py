"""What can be set about the cluster. Plain values, no files."""

from typing import Final


class ClusterSettings:
    """One broker's part in a cluster; without a secret and without TLS names nobody can link to it."""

    __slots__ = (
        "auth",
        "client_urls",
        "digest_s",
        "hello_s",
        "is_mesh",
        "link_cost",
        "mates",
        "max_brokers",
        "max_links",
        "max_routes",
        "peers",
        "principals",
        "redial_max_s",
        "secret",
        "silent_s",
        "urls",
        "version",
    )

    def __init__(
        self,
        secret: bytes = b"",
        auth: str = "secret",
        principals: list[str] | None = None,
        peers: list[str] | None = None,
        is_mesh: bool = True,
        urls: list[str] | None = None,
        client_urls: list[str] | None = None,
        link_cost: int = 10,
        hello_s: float = 1.0,
        silent_s: float = 3.0,
        digest_s: float = 2.0,
        redial_max_s: float = 1.0,
        max_brokers: int = 256,
        max_links: int = 64,
        max_routes: int = 200_000,
        version: int = 1,
        mates: list[bytes] | None = None,
    ) -> None:
        self.secret: Final = secret  # empty: none
        self.auth: Final = auth  # secret, or tls: a verified certificate whose subject is among `principals`
        self.principals: Final[list[str]] = principals if principals is not None else []
        self.peers: Final[list[str]] = peers if peers is not None else []  # URLs to dial
        self.is_mesh: Final = is_mesh  # brokers that it learns of are dialled, too
        self.urls: Final[list[str]] = urls if urls is not None else []  # where other brokers reach this one
        self.client_urls: Final[list[str]] = client_urls if client_urls is not None else []  # and clients
        self.link_cost: Final = link_cost  # of each of its links, as others add them up
        self.hello_s: Final = hello_s  # between signs of life on a link
        self.silent_s: Final = silent_s  # a neighbour that says nothing for so long is lost
        self.digest_s: Final = digest_s  # between comparisons of what neighbours know
        self.redial_max_s: Final = redial_max_s  # between attempts to reach a peer, at most
        self.max_brokers: Final = max_brokers  # known ones, this one included
        self.max_links: Final = max_links
        self.max_routes: Final = max_routes  # entries about routes of other brokers, tombstones included
        self.mates: Final[list[bytes]] = mates if mates is not None else []  # whose routes count as its own: D-64
        self.version: Final = version  # of the router annotations that it speaks; 0: none
