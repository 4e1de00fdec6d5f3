"""The gateway without its sockets: takes requests, stores what is published, and delivers it.

    request ──► handle ──► backend.check ──► store.put ──► Reply
                                                │ on_stored
                 delivery (who, when) ◄─────────┘
                    │        ▲
                    │ begin  │ acknowledged, failed        fates ──► store
                    ▼        │
                 backend.deliver, a task for each that is under way

One task feeds: it reads from the store what there is room for, and begins what `delivery` says. Tasks of deliveries are
as many as destinations may have under way, however many messages wait. Another task looks at the time.
"""

import asyncio
import logging
import math
import time
from collections.abc import Callable, Iterable, Sequence
from functools import partial
from typing import Any, Final, Protocol

from broker.events import DEAD, DELIVERED, MessageRecord
from broker.log import one_line
from broker.views.samwise import GatewayView
from client_sdk.clock import Clock
from client_sdk.gateways.samwise.backends.backend import ANY, Backend, NotDelivered
from client_sdk.gateways.samwise.decisions import Acknowledged, Dead, Done, Later, Parked, ReadNew, TakeDue, Want
from client_sdk.gateways.samwise.delivery import SAMD_RETRY, WINDOW_N, Delivery, Retry
from client_sdk.gateways.samwise.state import Callers, Counters, count, destination_views, status_text
from client_sdk.gateways.samwise.store import Store
from client_sdk.gateways.samwise.tables import Letter, StoreError
from client_sdk.gateways.samwise.values import (
    TOO_LATE,
    Control,
    Message,
    Ping,
    Publish,
    Refused,
    Reply,
    Request,
    Rpc,
    Status,
)

TICK_S: Final = 0.1  # between two looks at the time: so late may a retry be, or the end of a wait
PAUSE_S: Final = 1.0  # after an error that nobody foresaw, so that it does not fill the log
GRACE_S: Final = 5.0  # for acknowledgements under way when the gateway stops
QUIET_S: Final = 60.0  # between two lines in the log: all that waits may die of the same
MAX_REASON: Final = 255  # characters of why a message is dead, in its record
GATHER_S: Final = 0.005  # between two rounds of deliveries: what goes together costs half of what each costs alone
ACCEPTED: Final = Reply(True)
MAX_UNWRITTEN: Final = WINDOW_N  # ends of deliveries not on disk: a crash repeats no more of them

_log: Final = logging.getLogger("client_sdk")


class Records(Protocol):
    """Takes what became of messages; see `client_sdk.gateways.event_files`."""

    def append(self, record: MessageRecord) -> None:
        """`seq` is 0. Waits for nothing and raises nothing."""

    @property
    def dropped_n(self) -> int:
        """Of what it took, what is lost."""


class Gateway:
    """One store and one backend, from `start` to `stop`."""

    def __init__(
        self,
        store: Store,
        backend: Backend,
        *,
        retry: Retry = SAMD_RETRY,
        strict_redundancy: bool = False,
        records: Records | None = None,
        gather_s: float = GATHER_S,
        clock: Clock | None = None,
    ) -> None:
        """`strict_redundancy`: what wants more acknowledgements than there are destinations now is refused, instead of
        kept until there are enough. `records` gets each acknowledgement and dead letter; None: nobody does. Opens
        nothing yet."""
        self.store: Final = store
        self.backend: Final = backend
        self.delivery: Final = Delivery(retry, has_fixed_destinations=backend.has_fixed_destinations)
        self.counters: Final = Counters()
        self.callers: Callers | None = None  # None: there are no endpoints yet
        self._retry: Final = retry
        self._strict_redundancy: Final = strict_redundancy
        self._records: Final = records
        self._gather_s: Final = gather_s
        self._clock: Final = Clock() if clock is None else clock
        self._epoch_s = 0.0  # of the clock's zero, as of `start`: moments never go back, whatever is set
        self._started_at_ms = 0
        self._is_accepting = False
        self._wake: Final = asyncio.Event()
        self._is_late = False  # something could not be read or written, and is looked at again
        self._tasks: list[asyncio.Task[None]] = []  # from `start` to `stop`
        self._asking: Final[set[asyncio.Task[None]]] = set()  # requests that wait for destinations
        self._attempts: Final[dict[tuple[int, str], asyncio.Future[str]]] = {}  # deliveries under way
        self._overdue: Final[set[tuple[int, str]]] = set()  # those of them that were cancelled for it
        self._untold_n = 0  # dead letters of which the log says nothing yet
        self._quiet_until = -math.inf  # of the clock: until then it says nothing of them
        self._asked: Final[asyncio.Queue[str]] = asyncio.Queue(1)

    async def start(self) -> None:
        """StoreError: the store cannot be used. Destinations may come later."""
        self._epoch_s = time.time() - self._clock.now()
        self._started_at_ms = now_ms = self._now_ms()
        self.store.on_stored = self._stored
        await self.store.open()
        try:
            lanes, due_at_ms = await self.store.resume(now_ms + round(self._retry.interval_s * 1000))
            self.delivery.resume(self.store.totals.next_id - 1, lanes, due_at_ms)
            await self.backend.start(self._changed)
        except BaseException:
            await self.store.close()
            raise
        self._is_accepting = True
        self._wake.set()
        self._tasks = [asyncio.create_task(self._feed()), asyncio.create_task(self._tick())]

    async def stop(self, grace_s: float = GRACE_S) -> None:
        """Accepts nothing, begins nothing, waits so long for acknowledgements, and closes backend and store. What is
        not acknowledged then is delivered after the next start."""
        self._is_accepting = False
        await _end([*self._tasks, *self._asking])
        self._tasks = []
        if self._attempts:
            await asyncio.wait(self._attempts.values(), timeout=grace_s)
        await _end(list(self._attempts.values()))
        await self.backend.close()
        await self.store.close()

    async def asked(self) -> str:
        """STOP or RESTART, when a caller asks for it."""
        return await self._asked.get()

    # Callers

    def handle(self, request: Request, answer: Callable[[Reply], None]) -> None:
        """Carries out one request, and calls `answer` once: of a Publish after it is on disk."""
        try:
            if not self._is_accepting:
                raise Refused(TOO_LATE, "stopping")
            match request:
                case Publish():
                    self.backend.check(request)
                    if not self._must_ask(request):
                        self._store(request, answer)
                        return
                case Ping():
                    answer(ACCEPTED)
                    return
                case Status():
                    answer(Reply(True, status_text(self.state())))
                    return
                case Control():
                    if self._asked.empty():  # the first one counts
                        self._asked.put_nowait(request.action)
                    answer(ACCEPTED)
                    return
        except Exception as error:
            answer(self._reply_to(error))
            return
        task = asyncio.create_task(self._ask(request, answer))
        self._asking.add(task)
        task.add_done_callback(self._asking.discard)

    def refuse(self, refused: Refused) -> Reply:
        """The answer to a request that is not accepted, which is counted."""
        count(self.counters.refused, refused.reason)
        return Reply(False, refused.text)

    def _reply_to(self, error: Exception) -> Reply:
        if isinstance(error, Refused):
            return self.refuse(error)
        _log.error("samwise gateway: a request failed", exc_info=error)
        return self.refuse(Refused("internal error: see the log of the gateway", "internal"))

    def _must_ask(self, publish: Publish) -> bool:
        """Destinations are asked before it is stored."""
        return publish.mandatory or (self._strict_redundancy and publish.acks_n > 1)

    async def _ask(self, request: Publish | Rpc, answer: Callable[[Reply], None]) -> None:
        """Carries out what waits for destinations."""
        try:
            if isinstance(request, Rpc):
                await self.backend.rpc(request)
                answer(ACCEPTED)
                return
            if request.mandatory:
                await self.backend.check_mandatory(request)
            if self._strict_redundancy and request.acks_n > 1:
                await self._check_redundancy(request)
            self._store(request, answer)
        except Exception as error:
            answer(self._reply_to(error))

    def _store(self, publish: Publish, answer: Callable[[Reply], None]) -> None:
        """StoreError: the store is closed."""

        def done(result: Message | Exception) -> None:
            if isinstance(result, Exception):
                answer(self._reply_to(result))
                return
            self.counters.accepted_n += 1
            for quirk in publish.quirks:
                count(self.counters.quirks, quirk)
            answer(ACCEPTED)

        self.store.put(publish, self._now_ms(), done)

    async def _check_redundancy(self, publish: Publish) -> None:
        asked = Message(
            id=0, uid="", stored_at_ms=self._now_ms(), tries_n=0, acknowledged_by=frozenset(), publish=publish
        )
        there_n = len(await self._destinations(asked))
        if there_n < publish.acks_n:
            text = f"redundant: {publish.acks_n} acknowledgements wanted, {there_n} destinations are there"
            raise Refused(text, "backend")

    # Operators. StoreError: the disk does not give it.

    def state(self) -> GatewayView:
        """As it is now; waits for nothing."""
        callers, counters, totals = self.callers, self.counters, self.store.totals
        oldest_at_ms = totals.oldest_at_ms
        return GatewayView(
            started_at_ms=self._started_at_ms,
            callers=0 if callers is None else callers.connected_n,
            callers_refused=0 if callers is None else callers.refused_callers_n,
            requests_waiting=0 if callers is None else callers.waiting_n,
            accepted=counters.accepted_n,
            refused=dict(counters.refused),
            quirks=dict(counters.quirks),
            delivered=counters.delivered_n,
            died=counters.died_n,
            events_dropped=0 if self._records is None else self._records.dropped_n,
            under_way=len(self._attempts),
            waiting=totals.waiting_n,
            waiting_bytes=totals.waiting_bytes,
            oldest_age_s=None if oldest_at_ms is None else max(0, self._now_ms() - oldest_at_ms) / 1000,
            dead=totals.dead_n,
            dead_bytes=totals.dead_bytes,
            destinations=destination_views(counters, self.backend.state()),
        )

    async def list_waiting(self, after_id: int, max_n: int) -> list[Letter]:
        """A page of messages that wait, by id; empty: there are no others."""
        return await self.store.list_waiting(after_id, max_n)

    async def list_dead(self, after_id: int, max_n: int) -> list[Letter]:
        """A page of dead letters, by id; empty: there are no others."""
        return await self.store.list_dead(after_id, max_n)

    async def requeue(self, ids: Sequence[int]) -> int:
        """Dead letters are tried again, at once; how many of these there were."""
        now_ms = self._now_ms()
        n = await self.store.requeue(ids, now_ms)
        self.delivery.requeued(now_ms)
        self._wake.set()
        return n

    async def remove(self, ids: Sequence[int]) -> int:
        """Messages and dead letters are gone; how many of these there were. What is under way may still arrive."""
        n = await self.store.remove(ids)
        for id in ids:
            self.delivery.forget(id)
        self._wake.set()
        return n

    # Delivery

    def _now_ms(self) -> int:
        return int((self._epoch_s + self._clock.now()) * 1000)

    def _stored(self, message: Message) -> None:
        self.delivery.stored(message)
        self._wake.set()

    def _changed(self) -> None:
        self.delivery.changed()
        self._wake.set()

    async def _tick(self) -> None:
        while True:
            await self._clock.sleep(TICK_S)
            at_ms = self.delivery.next_at_ms()
            if self._is_late or (at_ms is not None and at_ms <= self._now_ms()):
                self._wake.set()

    async def _feed(self) -> None:
        loop = asyncio.get_running_loop()
        began_at = -math.inf
        while True:
            await self._wake.wait()
            await asyncio.sleep(max(0.0, began_at + self._gather_s - loop.time()))
            began_at = loop.time()
            self._wake.clear()
            self._is_late = False
            try:
                while await self._round():
                    await asyncio.sleep(0)  # callers and destinations have their turn
            except StoreError:  # said by the store
                self._is_late = True
            except Exception:
                _log.exception("samwise gateway: bug in the delivery")
                self._is_late = True
                await self._clock.sleep(PAUSE_S)

    async def _round(self) -> bool:
        """Reads and begins what there is room for; False: that was nothing."""
        for attempt in self.delivery.overdue(self._now_ms()):
            self._overdue.add(attempt)
            self._attempts[attempt].cancel()
        if self.store.unwritten_n >= MAX_UNWRITTEN:
            self._is_late = True
            return False
        wants = self.delivery.wants(self._now_ms())
        try:
            for want in wants:
                await self._read(want)
        except Exception:
            self.delivery.reading_failed()
            raise
        is_begun = await self._begin()
        return bool(wants) or is_begun

    async def _read(self, want: Want) -> None:
        match want:
            case ReadNew():
                self.delivery.got_new(*await self.store.read_new(want.after_id, want.max_n))
            case TakeDue():
                self.delivery.got_due(*await self.store.take_due(self._now_ms(), want.max_n))
            case _:
                messages, is_all = await self.store.take_lane(want.lane, want.max_n)
                self.delivery.got_lane(want.lane, messages, is_all=is_all)

    async def _begin(self) -> bool:
        """Whether a message had its turn."""
        is_begun = False
        now_ms = self._now_ms()
        while (message := self.delivery.head(now_ms)) is not None:
            is_begun = True
            destinations = await self._destinations(message)
            if not self.backend.has_fixed_destinations:  # they had to be asked for, perhaps
                now_ms = self._now_ms()
            for to in self.delivery.begin(message, destinations, now_ms):
                attempt = asyncio.ensure_future(self.backend.deliver(message, to))
                self._attempts[message.id, to] = attempt
                attempt.add_done_callback(partial(self._ended, message, to))
                if message.tries_n:
                    count(self.counters.retried, _name(message, to))
            self._write()
        self._write()
        return is_begun

    async def _destinations(self, message: Message) -> Sequence[str]:
        """None where the backend does not say, which it does next time perhaps."""
        try:
            return await self.backend.destinations(message)
        except Exception:
            _log.exception("samwise gateway: the backend does not say which destinations there are")
            return ()

    def _ended(self, message: Message, to: str, attempt: "asyncio.Future[str]") -> None:
        """What came of one delivery."""
        each = (message.id, to)
        del self._attempts[each]
        is_overdue = each in self._overdue
        self._overdue.discard(each)
        if attempt.cancelled():
            if not is_overdue:
                return  # the gateway stops; the message is on disk
            self._failed(message, to, f"no acknowledgement within {self._retry.threshold_s:g} s")
        elif (error := attempt.exception()) is None:
            by = attempt.result()
            self.delivery.acknowledged(message.id, to, by)
            self._acknowledged(message, by)
        elif isinstance(error, NotDelivered):
            self._failed(message, to, error.reason, is_away=error.is_away, is_hopeless=error.is_hopeless)
        else:
            _log.error("samwise gateway: a delivery failed", exc_info=error)
            self._failed(message, to, type(error).__name__)
        self._write()
        self._wake.set()

    def _failed(
        self, message: Message, to: str, reason: str, *, is_away: bool = False, is_hopeless: bool = False
    ) -> None:
        count(self.counters.failed, _name(message, to))
        self.delivery.failed(message.id, to, reason, is_away=is_away, is_hopeless=is_hopeless)

    def _acknowledged(self, message: Message, by: str) -> None:
        count(self.counters.acknowledged, by)
        if self._records is not None:
            self._records.append(_record(message, self._now_ms(), message.tries_n + 1, destination=by))

    def _write(self) -> None:
        for fate in self.delivery.take_fates():
            message = fate.message
            match fate:
                case Done():
                    self.counters.delivered_n += 1
                    self.store.delivered(message.id)
                case Acknowledged(names=names):
                    self.store.acknowledged(message.id, names)
                case Later(due_at_ms=due_at_ms, reason=reason):
                    self.store.later(message.id, due_at_ms, message.tries_n, reason)
                case Parked(lane=lane, reason=reason):
                    self.store.park(message.id, lane, message.tries_n, reason)
                case Dead(reason=reason):
                    self._bury(message, reason)

    def _bury(self, message: Message, reason: str) -> None:
        self.counters.died_n += 1
        self.store.bury(message.id, message.tries_n, reason, self._now_ms())
        self._tell_dead(message.publish.exchange, reason)
        if self._records is not None:
            self._records.append(_record(message, self._now_ms(), message.tries_n, reason=reason))

    def _tell_dead(self, exchange: str, reason: str) -> None:
        self._untold_n += 1
        now = self._clock.now()
        if now >= self._quiet_until:
            self._quiet_until = now + QUIET_S
            text = one_line(f"the last one to {exchange}: {reason}")
            _log.warning("samwise gateway: new dead letters: %d, %s", self._untold_n, text)
            self._untold_n = 0


def _name(message: Message, to: str) -> str:
    """Under which a delivery is counted whose destination nobody knows yet."""
    return to if to != ANY else message.publish.exchange


def _record(message: Message, at_ms: int, tries: int, *, destination: str = "", reason: str = "") -> MessageRecord:
    """What became of it now: delivered there, or dead for this reason."""
    return MessageRecord(
        seq=0,
        at_ms=at_ms,
        message_id=message.uid,
        exchange=message.publish.exchange,
        routing_key=message.publish.routing_key,
        destination=destination,
        outcome=DELIVERED if destination else DEAD,
        reason=reason[:MAX_REASON],
        accepted_at_ms=message.stored_at_ms,
        after_ms=max(0, at_ms - message.stored_at_ms),
        tries=tries,
    )


async def _end(tasks: "Iterable[asyncio.Future[Any]]") -> None:
    """Cancels them and waits until they have ended."""
    for task in tasks:
        task.cancel()
    await asyncio.gather(*tasks, return_exceptions=True)
