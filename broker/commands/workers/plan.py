"""What each worker is told: its configuration, derived from that of all (D-53).

    broker.id        uuid5 of the configured id, or of a random one, and the number: the same after a restart
    broker.name      NAME.2, if there is a name; else that of its own id, as of every broker without one
    server.listen    as configured, with ports that are known; Unix sockets are worker 1's, which cannot be shared
    cluster.listen   as server.listen
    cluster.peers    as configured, and the Unix sockets of the workers with smaller numbers
    cluster.secret   as configured; a random one where there is none, so that nobody else is let in
    admin            a Unix socket, at which only the supervisor asks

Decides no more than that. Starts nothing and opens nothing.
"""

from __future__ import annotations

import io
import os
import pickle
import uuid
from collections.abc import Callable
from dataclasses import dataclass, replace
from typing import Final

from broker.access.identities import UID, identity_text
from broker.config.cluster import NO_NAME, is_in_cluster
from broker.config.load import Sources
from broker.config.options import Config
from broker.config.sections.cluster import ClusterOptions
from broker.config.urls import PeerUrl

LENGTH_BYTES: Final = 4  # in front of what a worker is told
ID_NAME: Final = "worker {}"  # in uuid5


@dataclass(frozen=True)
class Assignment:
    """What one worker is told, over its standard input: nobody else can read that, as they could a command line."""

    number: int  # from 1
    config: Config
    mates: tuple[str, ...]  # ids of the other workers, whose routes count as this one's own (D-64)
    link_path: str  # the Unix socket at which they reach it
    admin_path: str  # that at which the supervisor does
    sources: Sources | None  # see `Server`

    def encode(self) -> bytes:
        """For the pipe."""
        data = pickle.dumps(self)  # from the supervisor to its own child, the same program
        return len(data).to_bytes(LENGTH_BYTES, "big") + data

    @staticmethod
    def read(read: Callable[[int], bytes]) -> Assignment | None:
        """From the pipe; None when it ends before, because the supervisor has. `read`: as of a buffered file."""
        length = read(LENGTH_BYTES)
        data = read(int.from_bytes(length, "big")) if len(length) == LENGTH_BYTES else b""
        if not data or len(data) < int.from_bytes(length, "big"):
            return None
        assignment = pickle.load(io.BytesIO(data))
        assert isinstance(assignment, Assignment)
        return assignment


@dataclass(frozen=True)
class Plan:
    """What all workers have in common."""

    config: Config  # as configured, but with ports that are known
    workers_n: int
    folder: str  # of the Unix sockets, for this user only
    broker_id: str  # of all of them together; each has one of its own that comes from it
    secret: str  # for workers, where no secret is configured
    sources: Sources | None = None  # see `Server`

    def assignment(self, number: int) -> Assignment:
        """What worker `number` is told."""
        config = self.config
        limits = config.limits
        per_principal = limits.max_connections_per_principal
        return Assignment(
            number,
            replace(
                config,
                broker=replace(
                    config.broker,
                    id=worker_id(self.broker_id, number),
                    name=config.broker.name if config.broker.name == NO_NAME else f"{config.broker.name}.{number}",
                ),
                server=replace(
                    config.server,
                    listen=tuple(each for each in config.server.listen if number == 1 or each.scheme != "unix"),
                    workers=1,
                ),
                admin=replace(config.admin, listen=None, changes="all"),  # the supervisor has looked who may
                # The other workers come from this user, too.
                limits=replace(
                    limits, max_connections_per_principal=per_principal and per_principal + self.workers_n - 1
                ),
                cluster=self._cluster(number),
            ),
            self._mates(number),
            self.link_path(number),
            self.admin_path(number),
            self.sources,
        )

    def link_path(self, number: int) -> str:
        """Where worker `number` is reached by other workers."""
        return os.path.join(self.folder, f"w{number}.sock")

    def admin_path(self, number: int) -> str:
        """Where worker `number` answers the supervisor."""
        return os.path.join(self.folder, f"a{number}.sock")

    def _mates(self, number: int) -> tuple[str, ...]:
        if self.config.server.worker_locality == "local":
            return ()
        return tuple(worker_id(self.broker_id, other) for other in range(1, self.workers_n + 1) if other != number)

    def _cluster(self, number: int) -> ClusterOptions:
        cluster = self.config.cluster
        others_n = self.workers_n - 1
        secret, principals = cluster.secret, cluster.principals
        if cluster.auth == "tls":
            principals = (*principals, identity_text(UID, str(os.getuid())))  # a Unix socket shows no certificate
        elif not secret and not cluster.secret_file:
            secret = self.secret
        return replace(
            cluster,
            secret=secret,
            principals=principals,
            listen=tuple(each for each in cluster.listen if number == 1 or each.scheme != "unix"),
            peers=(*cluster.peers, *(PeerUrl("unix", path=self.link_path(other)) for other in range(1, number))),
            mesh=cluster.mesh and is_in_cluster(cluster),
            max_links=cluster.max_links + others_n,
            max_brokers=cluster.max_brokers + others_n,
        )


def worker_id(broker_id: str, number: int) -> str:
    """The id of one worker, as text."""
    return str(uuid.uuid5(uuid.UUID(broker_id), ID_NAME.format(number)))


def usable_cores() -> int:
    """How many cores this process may use."""
    if hasattr(os, "sched_getaffinity"):  # not on every system
        return len(os.sched_getaffinity(0))
    return os.cpu_count() or 1
