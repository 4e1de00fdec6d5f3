"""The Samwise gateway beside the broker, asked at the socket that it has for operators.

It is a process of its own that may be busy, hang or be gone: every question has ANSWER_S, and what is no answer is a
sentence for the operator. What is asked there stands in `client_sdk.gateways.samwise.control`.
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
from broker.config.sections.samwise import SamwiseOptions
from broker.config.sections.samwise_checks import CONTROL_NAME
from broker.views.samwise import (
    ChangedMessages,
    ChangedMessageView,
    GatewayView,
    MessageIds,
    MessagesView,
    SamwiseView,
)

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
        state = await self._ask("GET", "/state", GatewayView)
        assert self._process is not None  # it has answered
        return Answer(
            SamwiseView(
                **msgspec.structs.asdict(state),
                pid=self._process.pid,
                restarts=self._process.restarts,
                backend=self._options.backend,
                endpoints=list(self._options.endpoints),
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
        return Answer(await self._ask("GET", "/messages", MessagesView, query))

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
        body = msgspec.json.encode(MessageIds([id]))
        return (await self._ask("POST", f"/messages/{change}", ChangedMessages, body=body)).changed

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
