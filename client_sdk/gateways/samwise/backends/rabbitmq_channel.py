"""aiormq's channel, with confirms and returns by their numbers and by the gateway's own id.

aiormq matches a returned message by its message_id, which it invents where there is none and which need not be unique;
and it makes several futures, locks and tasks for each message. So messages are written and confirmed here; opening,
closing and all else is aiormq's. RabbitMQ, "Publisher Confirms": an ack with `multiple` is for all up to its number.
"""

import asyncio
from collections.abc import Callable, Sequence
from itertools import takewhile
from typing import Final

from aiormq import Connection
from aiormq.abc import ChannelFrame, ConfirmationFrameType
from aiormq.channel import Channel
from pamqp.commands import Basic
from pamqp.commands import Channel as ChannelCommands
from pamqp.header import ContentHeader

from client_sdk.gateways.samwise.backends.rabbitmq_frames import CHANNEL
from client_sdk.gateways.samwise.backends.rabbitmq_publication import Publication
from client_sdk.gateways.samwise.values import ID_HEADER


class ConfirmChannel(Channel):
    """Channel 1 of a connection, in confirm mode."""

    def __init__(self, connection: Connection, on_change: Callable[[], None]) -> None:
        """`on_change`: called when something was written, when all is confirmed, and when the channel is closed."""
        super().__init__(connection, CHANNEL)
        self._connection: Final = connection
        self._on_change: Final = on_change
        self._sent_n = 0  # messages; the number of the latest
        self._written: asyncio.Future[None] | None = None  # of what is being written; None before
        self._is_ending = False  # RabbitMQ has closed it: a message behind our channel.close-ok closes the connection
        self._unroutable: Final[dict[str, str]] = {}  # by id: why; of messages that are in flight
        # By number, ascending; bounded by how many deliveries the gateway has under way.
        self.in_flight: Final[dict[int, Publication]] = {}
        self.closing.add_done_callback(lambda _: on_change())

    async def open_it(self) -> None:
        """Opens it; raises what aiormq does."""
        self._connection.channels[CHANNEL] = self
        await self.open()

    def write(self, publications: Sequence[Publication]) -> None:
        """Hands them to the connection, which writes them at once; `is_writable` says when the next may come."""
        frame_bytes = self._connection.connection_tune.frame_max or 0
        parts: list[bytes] = []
        for publication in publications:
            if publication.longest_bytes > frame_bytes > 0:  # it would close the connection
                size = publication.longest_bytes
                publication.failed(f"options and headers have {size} bytes, the broker's frame_max is {frame_bytes}")
                continue
            self._sent_n += 1
            self.in_flight[self._sent_n] = publication
            parts += publication.frames(frame_bytes)
        self._written = asyncio.get_running_loop().create_future()
        self._written.add_done_callback(lambda _: self._on_change())
        # Never full: one such frame at a time, and heartbeats.
        self.write_queue.put_nowait(ChannelFrame(b"".join(parts), should_close=False, drain_future=self._written))

    @property
    def is_writable(self) -> bool:
        """All that was given to `write` has been, and the broker has not closed the channel."""
        return not self._is_ending and (self._written is None or self._written.done())

    @property
    def end(self) -> BaseException | None:
        """Why it was closed; None while it is open."""
        if not self.is_closed:
            return None
        closing = self.closing
        return asyncio.CancelledError() if closing.cancelled() else closing.exception() or ConnectionError("closed")

    async def _on_close_frame(self, frame: ChannelCommands.Close) -> None:
        self._is_ending = True
        await super()._on_close_frame(frame)

    async def _on_confirm_frame(self, frame: ConfirmationFrameType) -> None:
        number = frame.delivery_tag or 0
        is_for_all = isinstance(frame, Basic.Ack | Basic.Nack) and frame.multiple
        numbers = list(takewhile(lambda each: each <= number, self.in_flight)) if is_for_all else [number]
        for each in numbers:
            publication = self.in_flight.pop(each, None)
            if publication is None:
                continue
            unroutable = self._unroutable.pop(publication.uid, "")
            if unroutable:
                publication.failed(unroutable)
            elif isinstance(frame, Basic.Ack):
                publication.acknowledged()
            else:
                publication.failed("RabbitMQ could not store it (basic.nack)")
        if not self.in_flight:
            self._on_change()

    async def _on_return_frame(self, frame: Basic.Return) -> None:
        """Of a message with `mandatory`; its ack comes after it."""
        header = await self._get_frame()
        assert isinstance(header, ContentHeader)
        await self._read_content(frame, header)
        uid = (header.properties.headers or {}).get(ID_HEADER)
        self._unroutable[str(uid)] = f"unroutable: {frame.reply_code} {frame.reply_text}"
