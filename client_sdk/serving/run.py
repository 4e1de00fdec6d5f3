"""A program that is a service: it runs until it is told to stop, and then loses no request.

    run(urls, service) ──► connected ── SIGTERM, SIGINT, SIGHUP ──► draining ── done, or `drain_s` over ──► end
                              ▲ └── a broker is lost: the clients come back by themselves
                              └─── no broker yet: tried again and again             a second signal: ends at once

Decides what a signal means. Connections are `group`'s.
"""

import asyncio
import contextlib
import inspect
import logging
import signal
import sys
from collections.abc import AsyncIterator, Coroutine, Iterator, Sequence
from types import FrameType
from typing import Any, Final, Unpack

from client_sdk.calls.options import ConnectOptions, OfferOptions
from client_sdk.clock import Clock, find_loop_factory, is_in_loop
from client_sdk.errors import ConnectionLost, NotConnected
from client_sdk.mistakes.arguments import advised
from client_sdk.mistakes.kinds import NUMBER, check_kind
from client_sdk.reconnect.backoff import Backoff
from client_sdk.reconnect.outage import Outage
from client_sdk.services.service import DEFAULT_DRAIN_S, Service, check_service
from client_sdk.serving.group import Group, Offering, check_order, offer
from rsocket_wire.quantities import counted

SAY_LEFT_S: Final = 5.0  # between two lines on what a drain waits for
SIGNALS: Final = (signal.SIGTERM, signal.SIGINT)
HANGUP: Final[signal.Signals | None] = getattr(signal, "SIGHUP", None)  # of a terminal that was closed; not on Windows
_log: Final = logging.getLogger("client_sdk")
# Who is to be told, by event loop: a signal has one handler there, and a program may serve several services.
_listeners: Final[dict[asyncio.AbstractEventLoop, "Listeners"]] = {}


class Stop:
    """How often the program was told to stop."""

    def __init__(self) -> None:
        """Inside a running event loop."""
        self.asked: Final = asyncio.Event()
        self.insisted: Final = asyncio.Event()

    def ask(self) -> None:
        """The first time: finish what runs. From the second on: end now."""
        (self.insisted if self.asked.is_set() else self.asked).set()


class Listeners:
    """Who is told on one event loop, and of which signals."""

    def __init__(self) -> None:
        self.told: Final[list[Stop]] = []
        self.numbers: Final = [*SIGNALS]
        if HANGUP is not None and signal.getsignal(HANGUP) is signal.SIG_DFL:  # else the program, or nohup, has its way
            self.numbers.append(HANGUP)

    def tell(self) -> None:
        """A signal has come."""
        for told in self.told:
            told.ask()


@advised("await serve(url, service)", ConnectOptions)
async def serve(
    urls: str | Sequence[str],
    service: Service,
    *,
    connections: int = 1,
    instance: str | None = None,
    drain_s: float = DEFAULT_DRAIN_S,
    stop: asyncio.Event | None = None,
    **options: Unpack[OfferOptions],
) -> None:
    """Offers the service until SIGTERM or SIGINT comes, or `stop` is set; then drains it and returns.

    Waits for a broker, however long there is none, and comes back when one is lost. A second signal ends the drain.
    SIGHUP is heard, too, unless the program ignores it (`nohup`). `connections`, `instance` and `options` are those of
    `offer`.
    Signals are only heard in the main thread.

    Raises SetupRejected when a broker refuses the service, and ConnectionLost when all of its connections were ended
    for ever because others took their Route Ids.

    >>> stop = asyncio.Event()
    >>> serving = asyncio.create_task(serve("tcp://127.0.0.1:7878", Service("ledger"), stop=stop))
    >>> stop.set()
    >>> await serving
    """
    check_order("await serve", urls)
    check_service(service)
    check_kind("drain_s", drain_s, NUMBER)
    if stop is not None and not isinstance(stop, asyncio.Event):
        raise TypeError(f"stop= is {type(stop).__module__}.{type(stop).__name__}, it must be asyncio.Event()")
    if not any(routes.names for routes in service.routes.values()):
        text = "service %r has no handler: write @….request_response('name') before a function, or import the module "
        _log.warning(text + "that has its handlers", service.name)
    if stop is None:
        _warn_generator(service.name)
    told = Stop()
    with _heard(told):
        async with _running(_first_of(told.asked, stop)) as (asked,):
            group = await _opened(
                offer(urls, service, connections=connections, instance=instance, **options), service.name, asked
            )
            if group is None:
                return
            try:
                await _until_stopped(group, asked)
                await _drained(group, service.name, drain_s, told)
            finally:
                await group.close()


@advised("run(url, service)", ConnectOptions)
def run(
    urls: str | Sequence[str],
    service: Service,
    *,
    connections: int = 1,
    instance: str | None = None,
    drain_s: float = DEFAULT_DRAIN_S,
    **options: Unpack[OfferOptions],
) -> None:
    """The main function of a program that is a service: `serve` in an event loop of its own (uvloop, if it is there).

    RuntimeError where one runs already, as in Jupyter: `await serve(...)` there.

    >>> run("tcp://127.0.0.1:7878", Service("ledger"))  # doctest: +SKIP
    """
    check_order("run", urls)
    check_service(service)
    if is_in_loop():
        raise RuntimeError("run() starts an event loop, and one runs here already: use `await serve(...)`")
    with asyncio.Runner(loop_factory=find_loop_factory()) as runner:
        runner.run(serve(urls, service, connections=connections, instance=instance, drain_s=drain_s, **options))


def _warn_generator(name: str) -> None:
    """Where an async generator awaits `serve`, as the lifespan of a web framework is one."""
    frame: FrameType | None = sys._getframe(1)
    while frame is not None and frame.f_code.co_flags & (inspect.CO_COROUTINE | inspect.CO_ASYNC_GENERATOR):
        if frame.f_code.co_flags & inspect.CO_ASYNC_GENERATOR:
            text = "service %r: serve() goes on until it is stopped, and a yield behind it waits for that: write %s"
            _log.warning(text, name, "`async with connect(url, service=service): yield`")
            return
        frame = frame.f_back


async def _opened(offering: Offering, name: str, asked: asyncio.Task[None]) -> Group | None:
    """None when it was told to stop before there was a broker."""
    backoff = Backoff()
    outage = Outage(f"service {name}: waits for a broker (start it, or correct the URL)", Clock())
    while not asked.done():
        opening = asyncio.ensure_future(offering)
        try:
            await asyncio.wait([opening, asked], return_when=asyncio.FIRST_COMPLETED)
        finally:
            if not opening.done():
                opening.cancel()
                await asyncio.wait([opening])
        if opening.cancelled():
            return None
        error = opening.exception()
        if error is None:
            if outage.has_failed:
                outage.ended(f"service {name}: connected")
            return opening.result()
        if not isinstance(error, NotConnected):
            raise error
        outage.failed(error)
        await asyncio.wait([asked], timeout=backoff.next_s())
    return None


async def _until_stopped(group: Group, asked: asyncio.Task[None]) -> None:
    async with _running(group.closed()) as (closed,):
        await asyncio.wait([closed, asked], return_when=asyncio.FIRST_COMPLETED)
    if not asked.done():
        raise ConnectionLost("all connections of the service ended: other clients use their Route Ids", word="replaced")


async def _drained(group: Group, name: str, drain_s: float, told: Stop) -> None:
    works = (group.drain(drain_s), _first_of(told.insisted, None), _tell_left(group, name, drain_s))
    async with _running(*works) as (draining, insisted, _):
        await asyncio.wait([draining, insisted], return_when=asyncio.FIRST_COMPLETED)
    if not draining.cancelled():
        draining.result()


async def _tell_left(group: Group, name: str, drain_s: float) -> None:
    """Says what the drain waits for, at once and then now and again."""
    loop = asyncio.get_running_loop()
    end_at = loop.time() + drain_s
    while True:
        left_n = sum(client.working_n for client in group.clients)
        if left_n:
            left_s = max(0.0, end_at - loop.time())
            text = f"draining: {counted(left_n, 'request')} left, {left_s:.0f} s; a second signal (Ctrl-C) ends it now"
            _log.warning("service %s: %s", name, text)
        await asyncio.sleep(SAY_LEFT_S)


async def _first_of(event: asyncio.Event, other: asyncio.Event | None) -> None:
    async with _running(*(each.wait() for each in (event, other) if each is not None)) as waits:
        await asyncio.wait(waits, return_when=asyncio.FIRST_COMPLETED)


@contextlib.asynccontextmanager
async def _running(*works: Coroutine[Any, Any, Any]) -> AsyncIterator[list[asyncio.Task[Any]]]:
    """A task for each; those that still run at the end of the block are cancelled."""
    tasks = [asyncio.create_task(work) for work in works]
    try:
        yield tasks
    finally:
        for task in tasks:
            task.cancel()
        await asyncio.wait(tasks)


@contextlib.contextmanager
def _heard(told: Stop) -> Iterator[None]:
    """Signals are told; where nobody can hear them (other threads, Windows) they mean what they mean there."""
    loop = asyncio.get_running_loop()
    if loop not in _listeners:
        _listeners[loop] = Listeners()
        for each in _listeners[loop].numbers:
            with contextlib.suppress(NotImplementedError, RuntimeError, ValueError):
                loop.add_signal_handler(each, _listeners[loop].tell)
    listeners = _listeners[loop]
    listeners.told.append(told)
    try:
        yield
    finally:
        listeners.told.remove(told)
        if not listeners.told:
            del _listeners[loop]
            for each in listeners.numbers:
                with contextlib.suppress(NotImplementedError, RuntimeError, ValueError):
                    loop.remove_signal_handler(each)
