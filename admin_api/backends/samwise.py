"""The Samwise gateway beside the broker, asked at the socket that it has for operators.

It is a process of its own that may be busy, hang or be gone: every question has ANSWER_S, and what is no answer is a
sentence for the operator. Knows the JSON of `client_sdk.gateways.samwise.control`, and nothing of its code.
"""

from __future__ import annotations

import logging
from collections.abc import Mapping
from pathlib import Path
from typing import Final, TypeVar

import aiohttp
import msgspec
from prometheus_client.metrics_core import Metric

from admin_api.backends.answer import Answer
from admin_api.errors import AdminError, shown
from admin_api.numbers import SAMWISE, SAMWISE_RESTARTS, SAMWISE_UP
from admin_api.processes import GatewayProcess
from broker.config.samwise import CONTROL_NAME
from broker.config.sections.samwise import SamwiseOptions
from broker.views.samwise import ChangedMessageView, DestinationView, MessagesView, MessageView, SamwiseView

ANSWER_S: Final = 0.8  # operators are answered within a second, whatever the gateway does
HOST: Final = "http://gateway"  # the path of the socket says which one

T = TypeVar("T")

_log: Final = logging.getLogger(__name__)


class SamwiseGateway:
    """One gateway, or none. AdminError: "no-samwise", there is none; "samwise-unavailable", it does not answer."""

    def __init__(self, options: SamwiseOptions, process: GatewayProcess | None, answer_s: float = ANSWER_S) -> None:
        """`process`: None where none is kept running."""
        self._options: Final = options
        self._process: Final = process
        self.answer_s: Final = answer_s
        self._session: aiohttp.ClientSession | None = None  # None until the first question

    @property
    def is_there(self) -> bool:
        """One is kept running."""
        return self._process is not None

    async def close(self) -> None:
        """Asks no more."""
        if self._session is not None:
            await self._session.close()

    async def state(self) -> Answer[SamwiseView]:
        """What it has done, and what waits there."""
        state = await self._ask("GET", "/state", _State)
        assert self._process is not None  # it has answered
        return Answer(
            SamwiseView(
                pid=self._process.pid,
                restarts=self._process.restarts,
                backend=self._options.backend,
                endpoints=list(self._options.endpoints),
                started_at_ms=state.started_at_ms,
                accepted=state.accepted_n,
                refused=state.refused,
                quirks=state.quirks,
                delivered=state.delivered_n,
                died=state.died_n,
                events_dropped=state.events_dropped_n,
                under_way=state.under_way_n,
                waiting=state.totals.waiting_n,
                waiting_bytes=state.totals.waiting_bytes,
                oldest_age_s=state.oldest_age_s,
                dead=state.totals.dead_n,
                dead_bytes=state.totals.dead_bytes,
                destinations=state.views(),
            )
        )

    async def families(self) -> list[Metric]:
        """For Prometheus; none where there is no gateway."""
        if self._process is None:
            return []
        try:
            state, _ = await self.state()
        except AdminError:
            return [SAMWISE_UP.family(False), SAMWISE_RESTARTS.family(self._process)]
        numbers = [number.family(state) for number in SAMWISE]
        return [SAMWISE_UP.family(True), SAMWISE_RESTARTS.family(self._process), *numbers]

    async def messages(self, state: str, after: int, limit: int) -> Answer[MessagesView]:
        """Stored messages with greater ids: `waiting`, or `dead` letters."""
        query = {"state": state, "after": str(after), "limit": str(limit)}
        page = await self._ask("GET", "/messages", _Page, query)
        return Answer(MessagesView([each.view() for each in page.messages], state, after, limit))

    async def requeue(self, id: int) -> Answer[ChangedMessageView]:
        """A dead letter is tried again. AdminError "no-such-message"."""
        if not await self._change("requeue", id):
            raise AdminError("no-such-message", f"no dead letter has the id {id}")
        return self._changed(id, "requeued")

    async def remove(self, id: int) -> Answer[ChangedMessageView]:
        """A message or a dead letter is gone. AdminError "no-such-message"."""
        if not await self._change("remove", id):
            raise AdminError("no-such-message", f"no message has the id {id}")
        return self._changed(id, "removed")

    async def _change(self, change: str, id: int) -> int:
        body = msgspec.json.encode({"ids": [id]})
        return (await self._ask("POST", f"/messages/{change}", _Changed, body=body)).changed_n

    def _changed(self, id: int, change: str) -> Answer[ChangedMessageView]:
        _log.info("samwise gateway: message %d %s by an operator", id, change)
        return Answer(ChangedMessageView(id, change))

    async def _ask(
        self, method: str, path: str, kind: type[T], query: Mapping[str, str] | None = None, body: bytes = b""
    ) -> T:
        if self._process is None:
            raise AdminError("no-samwise", "this broker has no Samwise gateway: samwise.endpoints is empty")
        if not self._process.pid:
            raise _unavailable("does not run; the broker's log says why")
        if self._session is None:
            # A connection for each question: the process at the other end may be another one each time.
            connector = aiohttp.UnixConnector(str(Path(self._options.dir) / CONTROL_NAME), force_close=True)
            timeout = aiohttp.ClientTimeout(self.answer_s)
            self._session = aiohttp.ClientSession(connector=connector, timeout=timeout)
        try:
            async with self._session.request(method, HOST + path, params=query, data=body or None) as response:
                data = await response.read()
        except TimeoutError:
            late = "; what was asked for may still be done" if method == "POST" else ""
            raise _unavailable(f"has not answered within {self.answer_s:g} s{late}") from None
        except (aiohttp.ClientError, OSError):
            raise _unavailable("cannot be asked: it is starting, or ending") from None
        if response.status != 200:
            raise _unavailable(f"refuses: {shown(data.decode(errors='replace'))}")
        try:
            return msgspec.json.decode(data, type=kind)
        except (msgspec.MsgspecError, UnicodeDecodeError):
            raise _unavailable("gives an answer that is none") from None


def _unavailable(text: str) -> AdminError:
    return AdminError("samwise-unavailable", f"the Samwise gateway {text}")


class _Totals(msgspec.Struct):
    waiting_n: int
    waiting_bytes: int
    dead_n: int
    dead_bytes: int


class _Destination(msgspec.Struct):
    name: str
    is_up: bool
    waiting_n: int
    detail: str


class _State(msgspec.Struct):
    """The gateway's own answer."""

    started_at_ms: int
    accepted_n: int
    refused: dict[str, int]
    quirks: dict[str, int]
    acknowledged: dict[str, int]  # the three by destination
    retried: dict[str, int]
    failed: dict[str, int]
    delivered_n: int
    died_n: int
    events_dropped_n: int
    totals: _Totals
    oldest_age_s: float | None
    under_way_n: int
    destinations: list[_Destination]

    def views(self) -> list[DestinationView]:
        """Destinations, then those of which there are only counts, by name."""
        known = {each.name: each for each in self.destinations}
        others = sorted((self.acknowledged.keys() | self.retried.keys() | self.failed.keys()) - known.keys())
        views = []
        for name in (*known, *others):
            each = known.get(name)
            views.append(
                DestinationView(
                    name=name,
                    is_up=each.is_up if each is not None else None,
                    waiting=each.waiting_n if each is not None else 0,
                    detail=each.detail if each is not None else "",
                    acknowledged=self.acknowledged.get(name, 0),
                    retried=self.retried.get(name, 0),
                    failed=self.failed.get(name, 0),
                )
            )
        return views


class _Letter(msgspec.Struct):
    id: int
    uid: str
    exchange: str
    routing_key: str
    distribution: str
    acks_n: int
    acknowledged_by: list[str]
    tries_n: int
    stored_at_ms: int
    due_at_ms: int | None
    dead_at_ms: int | None
    reason: str
    payload_bytes: int

    def view(self) -> MessageView:
        return MessageView(
            id=self.id,
            uid=self.uid,
            exchange=self.exchange,
            routing_key=self.routing_key,
            distribution=self.distribution,
            acknowledgements=self.acks_n,
            acknowledged_by=self.acknowledged_by,
            tries=self.tries_n,
            stored_at_ms=self.stored_at_ms,
            due_at_ms=self.due_at_ms,
            dead_at_ms=self.dead_at_ms,
            reason=self.reason,
            payload_bytes=self.payload_bytes,
        )


class _Page(msgspec.Struct):
    messages: list[_Letter]


class _Changed(msgspec.Struct):
    changed_n: int
