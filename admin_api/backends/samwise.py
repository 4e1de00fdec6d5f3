"""The Samwise gateway beside the broker, asked at its socket. What is asked there stands in
`client_sdk.gateways.samwise.control`."""

from __future__ import annotations

import logging
from pathlib import Path
from typing import Final

import msgspec
from prometheus_client.metrics_core import Metric

from admin_api.backends.answer import Answer
from admin_api.backends.gateway import ANSWER_S, AskedGateway, Words
from admin_api.errors import AdminError
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

WORDS: Final = Words(
    "the Samwise gateway",
    "no-samwise",
    "this broker has no Samwise gateway: samwise.endpoints is empty; "
    'endpoints = ["tcp://127.0.0.1:5555"] in [samwise] opens one',
    "samwise-unavailable",
)

_log: Final = logging.getLogger(__name__)


class SamwiseGateway(AskedGateway):
    """One gateway, or none. AdminError: "no-samwise", there is none; "samwise-unavailable", it does not answer."""

    def __init__(self, options: SamwiseOptions, process: GatewayProcess | None, answer_s: float = ANSWER_S) -> None:
        """`process`: None where none is kept running."""
        self._options: Final = options
        super().__init__(WORDS, Path(options.dir) / CONTROL_NAME, process, answer_s)

    async def state(self) -> Answer[SamwiseView]:
        """What it has done, and what waits there."""
        state = await self.ask("GET", "/state", GatewayView)
        process = self.process
        assert process is not None  # it has answered
        return Answer(
            SamwiseView(
                **msgspec.structs.asdict(state),
                pid=process.pid,
                restarts=process.restarts,
                backend=self._options.backend,
                endpoints=list(self._options.endpoints),
            )
        )

    async def families(self) -> list[Metric]:
        """For Prometheus; none where there is no gateway."""
        process = self.process
        if process is None:
            return []
        try:
            state, _ = await self.state()
        except AdminError:
            return [SAMWISE_UP.family(False), SAMWISE_RESTARTS.family(process)]
        numbers = [number.family(state) for number in SAMWISE]
        return [SAMWISE_UP.family(True), SAMWISE_RESTARTS.family(process), *numbers]

    async def messages(self, state: str, after: int, limit: int) -> Answer[MessagesView]:
        """Stored messages with greater ids: `waiting`, or `dead` letters."""
        query = {"state": state, "after": str(after), "limit": str(limit)}
        return Answer(await self.ask("GET", "/messages", MessagesView, query))

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
        return (await self.ask("POST", f"/messages/{change}", ChangedMessages, body=body)).changed

    def _changed(self, id: int, change: str) -> Answer[ChangedMessageView]:
        _log.info("samwise gateway: message %d %s by an operator", id, change)
        return Answer(ChangedMessageView(id, change))
