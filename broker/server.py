"""One broker process: a core, its shell, its listeners and its end.

Decides the order of starting and stopping. Stop is a feature: no new connections, clients move to other brokers where
they can (D-54), no new requests, what runs may end within `stop_grace_s`, then everybody is told CONNECTION_CLOSE, the
last events are handed out and their files sealed. A second wish to stop ends every wait, also one that has begun: who
reads is still told, the writer of event files goes on by itself.
"""

from __future__ import annotations

import asyncio
import logging
import math
import os
import time
from collections.abc import Callable
from dataclasses import replace
from functools import partial
from typing import TYPE_CHECKING, TypeVar

from broker.cluster.settings import ClusterSettings
from broker.config.auth import roles_of
from broker.config.cluster import reachable
from broker.config.hosts import own_names
from broker.config.load import Sources
from broker.config.options import Config
from broker.config.sections.admin_checks import AdminToken
from broker.config.settings import cluster_settings_of, settings_of
from broker.config.urls import Listen, cannot_listen
from broker.connections.admission import OFF
from broker.core import Core
from broker.edge.descriptors import DESCRIPTORS
from broker.edge.dialer import Dialer
from broker.edge.event_pipe import EventPipe, PipeState
from broker.edge.frames.log import FrameLog
from broker.edge.frames.shell import FrameLoggingShell
from broker.edge.origins import address_in
from broker.edge.shell import Shell
from broker.edge.tcp import listen_tcp, listen_unix
from broker.edge.tls_port import Handshakes, TlsPort
from broker.edge.websocket import WebSocketListener
from broker.events import BROKER_STARTED, BROKER_STOPPED, FlowRecord, LifecycleEvent
from broker.forwarding.arrival import FOR_ALL, FOR_BROKERS, FOR_CLIENTS
from broker.forwarding.traffic.request_log import RequestRows
from broker.limited_log import STRANGERS
from broker.load_meter import LoadMeter
from broker.log import OF_STRANGERS, Refusals, level_of, line_kind, log_event
from broker.reload import Reloaded, read_again, read_files
from broker.routing.rng import Rng
from broker.views.queries import CORE
from broker.views.schemas import DialView, EdgeView, Moment
from rsocket_wire.errors import BrokerError
from rsocket_wire.quantities import counted
from rsocket_wire.wire.ids import parse_id

if TYPE_CHECKING:
    from broker.edge.admission.doorman import Doorman
    from broker.edge.admission.verdicts import Verifier

T = TypeVar("T")
_log = logging.getLogger("broker")

SAY_LEFT_S = 5.0  # between two lines on what a stop waits for
POLL_S = 0.02  # how often a stopping server looks whether all is done
LAST_WRITES_S = 1.0  # for peers to take the last bytes
ENTROPY_BYTES = 32  # what nobody can guess, for the proofs of this run
EVENTS_STOP_S = 10.0  # for the writer of event files to seal what it has
FORCED_WRITES_S = 0.2  # and after a second wish to stop: peers that read have taken it by then
FORCED_EVENTS_S = 0.1  # an idle writer seals within it


class Server:
    """A broker that can be started and stopped once."""

    def __init__(
        self, config: Config, link_path: str = "", mates: tuple[str, ...] = (), sources: Sources | None = None
    ) -> None:
        """`link_path`: of a worker among several, the Unix socket at which the others reach it; its ports are theirs,
        too, so that nobody else can be told how to reach this one. `mates`: ids of those whose routes count as its own.
        `sources`: of the configuration, whose roles are read again; None: they are not.
        """
        self.config = config
        self._sources = sources
        self._link_path = link_path  # empty: it is no such worker
        self.listeners: list[str] = []  # the URLs that are listened on for clients, ports as the system gave them
        self.link_listeners: list[str] = []  # the same for other brokers, where these have their own
        self.tokens: tuple[AdminToken, ...] | None = None  # of the REST API; None: not configured, not started
        self.operators: Verifier | None = None  # of tokens of the REST API, to be read again; None: there are none
        self.is_ready = False
        self.is_stopping = False
        broker_id = parse_id(config.broker.id) if config.broker.id else os.urandom(16)
        rng = Rng(int.from_bytes(os.urandom(4), "big"))
        self._cluster = cluster_settings_of(config, mates)  # None: it is in none
        self.core = Core(
            settings_of(config),
            broker_id,
            rng,
            time.monotonic(),
            time.time_ns() // 1_000_000,
            self._cluster,
            os.urandom(ENTROPY_BYTES),
        )
        self.event_pipe: EventPipe | None = None  # None when no events are written
        self._shell: Shell | None = None  # None until started
        self._dialer: Dialer | None = None  # None until started, and where there is no cluster
        self._doorman: Doorman | None = None  # None until started, and where no credentials are verified
        self._servers: list[asyncio.Server | TlsPort] = []
        self._handshakes: Handshakes | None = None  # None until started, and where there is no TLS
        self._unix_paths: list[str] = []
        self._websockets: list[WebSocketListener] = []
        self._is_reload_due = False  # somebody wanted it while the server was started
        self._stop_wishes = 0
        self._wish = asyncio.Event()
        self._refusals = Refusals()
        self._stopped: LifecycleEvent | None = None  # None until the core has stopped

    @property
    def shell(self) -> Shell:
        """The shell of a started server."""
        assert self._shell is not None  # start() was called
        return self._shell

    async def start(self) -> None:
        """Listens on everything that is configured, or raises BrokerError and listens on nothing."""
        config = self.config
        self._doorman = _make_doorman(config)
        self._shell = self._make_shell()
        if self._doorman is not None:
            self._doorman.shell = self._shell
        DESCRIPTORS.measure()
        try:
            files = read_files(config)
            self.tokens = files.tokens
            self.core.set_revocations(files.revocations)
            if files.revoked_certificates.by_issuer:
                self.core.set_revoked_certificates(files.revoked_certificates)
            self._handshakes = self._make_handshakes(files)
            if config.events.dir:
                self.event_pipe = EventPipe()
                header = {
                    "broker_id": self.core.id_text,
                    "broker_name": config.broker.name,
                    "epoch": self.core.started_at_ms,
                    "weight": max(1, self.core.settings.single_requests),
                }
                await self.event_pipe.start_as(config.events, config.log, header)
            entrance = FOR_CLIENTS if config.cluster.listen else FOR_ALL
            for listen in config.server.listen:
                self.listeners.append(await self._listen(listen, entrance))
            for listen in config.cluster.listen:
                self.link_listeners.append(await self._listen(listen, FOR_BROKERS))
            if self._link_path:
                await self._listen(Listen("unix", path=self._link_path), FOR_BROKERS)  # nobody else is told
            if self._cluster is not None:
                self._dialer = self._make_dialer(self._cluster, files)
        except BaseException:
            await self._close_listeners()
            if self._doorman is not None:
                await self._doorman.stop()
            if self.event_pipe is not None:
                await self.event_pipe.stop(EVENTS_STOP_S)
            raise
        self.is_ready = True
        DESCRIPTORS.start()
        self._shell.start()
        if self._dialer is not None:
            self._dialer.start()
        if self._is_reload_due:
            self.reload()

    def moment(self) -> Moment:
        """Now, on the core's clock and on the wall."""
        return Moment(time.monotonic(), time.time_ns() // 1_000_000)

    def event_state(self) -> PipeState | None:
        """How the event files are; None when none are written."""
        return self.event_pipe.state() if self.event_pipe is not None else None

    def edge(self) -> EdgeView:
        """What strangers make this process do."""
        return EdgeView(STRANGERS.lines, DESCRIPTORS.refused_n, DESCRIPTORS.none_left_n)

    def lookups(self) -> list[DialView]:
        """Names of other brokers for which nothing was found."""
        moment = self.moment()
        return [
            DialView(str(each.place), each.attempts, each.error, moment.until(each.due_at))
            for each in (self._dialer.failed_lookups() if self._dialer is not None else ())
        ]

    def change(self, change: Callable[[Core, float], T]) -> T:
        """What an operator changes in the core now, monotonic; what follows from it happens at once."""
        changed = change(self.core, time.monotonic())
        self.shell.wake()
        return changed

    def reload(self) -> None:
        """Reads the files of `broker.reload` again; a mistake in one of them is logged, and changes nothing."""
        if not self.is_ready:
            self._is_reload_due = not self.is_stopping
            return
        doorman = self._doorman
        readers = [each for each in (doorman, self.operators) if each is not None]
        prepare = [each.prepare for each in readers]
        files = read_again(self.config, self._sources, prepare, is_worker=bool(self._link_path))
        if files is None:
            return
        if self._handshakes is not None and files.accepting is not None:
            self._handshakes.context = files.accepting
        if self._dialer is not None and files.dialling is not None:
            self._dialer.context = files.dialling
        self.tokens = files.tokens
        if files.options:
            self.change(lambda core, now: core.tell_reloaded(", ".join(files.options), now))
        if self.operators is not None:
            self.operators.commit()
        gone = doorman.commit() if doorman is not None else set()
        if gone:
            self.change(lambda core, now: core.take_back(gone))
        if files.revocations != self.core.lifecycle.revocations.of_file:
            self.change(lambda core, now: core.set_revocations(files.revocations))
        revoked = files.revoked_certificates
        if revoked.by_issuer != self.core.lifecycle.revocations.certificates.by_issuer:
            self.change(lambda core, now: core.set_revoked_certificates(revoked))
        self.config = replace(self.config, admin=files.admin)
        if files.roles != self.config.role:
            self.config = replace(self.config, role=files.roles)
            self.change(lambda core, now: core.set_roles(list(roles_of(files.roles)), now))

    def wish_stop(self) -> None:
        """Somebody wants the server to stop; the second time at once. Safe as a signal handler of the loop."""
        self._stop_wishes += 1
        self._wish.set()

    async def wait_for_wish(self) -> None:
        """Until somebody wants the server to stop."""
        await self._wish.wait()

    async def stop(self) -> None:
        """Stops as the module says; returns when nothing is left."""
        self.is_ready = False
        self.is_stopping = True
        grace_s = self.config.server.stop_grace_s
        end_at = time.monotonic() + grace_s
        # Half of the time for clients to move to other brokers, where there are some; the rest for what runs.
        is_served = self.core.leave(min(self.config.server.drain_spread_s, grace_s / 2), grace_s, time.monotonic())
        if not is_served:
            self.core.drain()
        if self._dialer is not None:
            await self._dialer.stop()
        for server in self._servers:
            server.close()
        for websocket in self._websockets:
            await websocket.stop_accepting()
        telling = asyncio.create_task(self._tell_left(end_at))
        if is_served:
            await self._wait(lambda: self.core.lifecycle.migration.is_over, grace_s, 0.0)
            self.core.drain()
        await self._wait(lambda: not self.core.in_flight_n, max(0.0, end_at - time.monotonic()), 0.0)
        telling.cancel()
        await asyncio.wait([telling])
        left = self.core.in_flight_n
        DESCRIPTORS.stop()
        self.core.stop("the broker stops", time.monotonic())
        self.shell.stop()
        await self._wait(lambda: self.shell.links_open() == 0, LAST_WRITES_S, FORCED_WRITES_S)
        self.shell.abort_all()
        await self._close_listeners()
        if self._doorman is not None:
            await self._doorman.stop()
        await self._stop_events()
        self._say_stopped(left)

    async def _tell_left(self, end_at: float) -> None:
        """Says what the stop waits for, at once and then now and again."""
        while True:
            left_n, left_s = self.core.in_flight_n, max(0.0, end_at - time.monotonic())
            if left_n:
                text = (
                    f"draining: {counted(left_n, 'request')} left, {left_s:.0f} s; a second signal (Ctrl-C) ends it now"
                )
                _log.warning("%s: %s", self._subject(), text)
            await asyncio.sleep(SAY_LEFT_S)

    async def _stop_events(self) -> None:
        if self.event_pipe is None:
            return
        stopping = asyncio.create_task(self.event_pipe.stop(EVENTS_STOP_S))
        await self._wait(stopping.done, math.inf, FORCED_EVENTS_S)
        if not stopping.done():
            self.event_pipe.leave()
        await stopping

    def _say_stopped(self, left: int) -> None:
        """`left`: requests that were unfinished."""
        STRANGERS.flush()
        if self._stopped is None:
            return  # dropped: the core had too many events waiting, which is said
        uptime_s = self._stopped.uptime_ms / 1000
        log_event(self._stopped, f"{self._subject()}: stopped after {uptime_s:.1f} s, {left} requests left unfinished")

    async def _wait(self, is_done: Callable[[], bool], longest_s: float, forced_s: float) -> None:
        """`forced_s`: how long at most when the stop is wished for a second time, before or meanwhile."""
        began_at = time.monotonic()
        while not is_done():
            if time.monotonic() - began_at >= (forced_s if self._stop_wishes > 1 else longest_s):
                return
            await asyncio.sleep(POLL_S)

    def _subject(self) -> str:
        return f"broker {self.config.broker.name} ({self.core.id_text})"

    def _take_events(self, events: list[LifecycleEvent | FlowRecord]) -> None:
        for event in events:
            if not isinstance(event, LifecycleEvent):
                continue
            if event.kind == BROKER_STARTED:
                places = " ".join(self.listeners) or "nothing"
                if self.link_listeners:
                    places += f", for other brokers on {' '.join(self.link_listeners)}"
                log_event(event, f"{self._subject()}: started, core: {CORE}, listening on {places}")
            elif event.kind == BROKER_STOPPED:
                self._stopped = event  # said when all the rest is done
            else:
                self._log(event)
        for text in self.core.query.remarks.take():
            STRANGERS.say("Remark", "requests", logging.WARNING, text)
        if self.event_pipe is not None and events:
            self.event_pipe.append(events)

    def _log(self, event: LifecycleEvent) -> None:
        """Its line, unless there were too many like it."""
        is_news = self._refusals.is_news(event)
        if event.kind not in OF_STRANGERS or STRANGERS.admits(
            line_kind(event), address_in(event.peer), level_of(event, is_news)
        ):
            log_event(event, is_news=is_news)

    def _take_requests(self, requests: RequestRows) -> None:
        if self.event_pipe is not None:
            self.event_pipe.append_requests(requests)

    def _make_shell(self) -> Shell:
        stuck_s = self.config.limits.stuck_s
        on_requests = self._take_requests if self.core.settings.single_requests else None
        load_meter = LoadMeter(self.core, time.monotonic()) if self.config.events.dir else None
        on_asks = self._doorman.take if self._doorman is not None else None
        frames = self.config.log.frames
        make = partial(FrameLoggingShell, FrameLog(frames)) if frames else Shell
        return make(
            self.core, stuck_s, self._take_events, on_requests=on_requests, load_meter=load_meter, on_asks=on_asks
        )

    def _make_handshakes(self, files: Reloaded) -> Handshakes | None:
        if files.accepting is None:
            return None
        return Handshakes(files.accepting, self.config.limits, self.shell.links_open)

    def _make_dialer(self, cluster: ClusterSettings, files: Reloaded) -> Dialer:
        """Others are told where this broker listens."""
        config = self.config
        own = self.link_listeners or self.listeners
        cluster.urls[:] = reachable(config.cluster.advertise, own if not self._link_path else [])
        cluster.client_urls[:] = reachable(config.cluster.client_urls, self.listeners)
        to_look_up = [peer for peer in config.cluster.peers if peer.finder]
        return Dialer(self.shell, self.core.cluster, to_look_up, files.dialling)

    async def _listen(self, listen: Listen, entrance: int) -> str:
        """The URL, with the port that the system gave; BrokerError "cannot-listen"."""
        handshakes = self._handshakes if listen.is_tls else None
        shares_port = bool(self._link_path)
        try:
            if listen.scheme == "unix":
                self._servers.append(await listen_unix(self.shell, listen.path, entrance))
                self._unix_paths.append(listen.path)
                return str(listen)
            if listen.scheme in ("tcp", "tls"):
                host, wanted = listen.host, listen.port
                server, port = await listen_tcp(self.shell, host, wanted, handshakes, shares_port, entrance)
                self._servers.append(server)
            else:
                limits, origins, names = self.config.limits, self.config.server.origins, own_names(self.config)
                websocket = WebSocketListener(self.shell, listen, limits, origins, names, entrance)
                self._websockets.append(websocket)
                port = await websocket.listen(listen.host, listen.port, handshakes, shares_port)
        except OSError as error:
            raise cannot_listen(str(listen), error) from None
        return str(Listen(listen.scheme, listen.host, port, listen.path))

    async def _close_listeners(self) -> None:
        for server in self._servers:
            server.close()
        if self._handshakes is not None:
            await self._handshakes.close()
        for websocket in self._websockets:
            await websocket.close()
        for path in self._unix_paths:
            if os.path.exists(path):
                os.unlink(path)
        self._unix_paths = []


def _make_doorman(config: Config) -> Doorman | None:
    """What verifies credentials; None: nothing is to be. BrokerError "bad-config"."""
    if config.auth.mode == OFF:
        return None  # and nothing of it is imported
    from broker.edge.admission.doorman import make_doorman

    try:
        return make_doorman(config)
    except (OSError, ValueError) as error:
        raise BrokerError("bad-config", f"auth.users: {config.auth.users}: {error}") from None
