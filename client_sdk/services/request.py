"""One request as a handler sees it. Knows nothing of services.

RSocket extensions "Composite Metadata", "Routing" and "Stream Data MIME Types".
"""

import asyncio
from typing import TYPE_CHECKING, Final

from client_sdk.addresses import Address
from client_sdk.errors import Refused
from client_sdk.metadata import ROUTING_MIME, mime_name, read_entries
from client_sdk.mistakes.operators import refused
from client_sdk.services.caller import CALLER_MIME, Caller, read_caller
from rsocket_wire.errors import INVALID, InvalidFrame
from rsocket_wire.wire.frames import MIME_TYPES, decode_frame
from rsocket_wire.wire.frames import Address as AddressFrame

DATA_MIME: Final = "message/x.rsocket.mime-type.v0"  # the entry 0x7A: what the data of this request is


class DrainingEvent(asyncio.Event):
    """An Event is true before it is set, too."""

    if not TYPE_CHECKING:
        __bool__ = refused("an event is no bool: write request.draining.is_set()")


class Request:
    """One request as a handler sees it.

    >>> Request("request_response", b"hello", None).data
    b'hello'
    """

    __slots__ = ("_draining", "_entries", "data", "metadata", "model")

    def __init__(self, model: str, data: bytes, metadata: bytes | None, draining: asyncio.Event | None = None) -> None:
        """`draining`: of who asks the handler; None: it never drains."""
        self.model: Final = model  # one of `rsocket_wire.models.MODELS`
        self.data: Final = data  # what the caller gave; for metadata_push the bytes that were pushed
        self.metadata: Final = metadata  # composite, as it came: all entries; None when absent
        self._entries: list[tuple[str, bytes]] | None = None  # None until somebody asks for one
        self._draining = draining

    @property
    def draining(self) -> asyncio.Event:
        """Set when its service is about to stop: an endless stream completes then, others finish.

        `while not request.draining.is_set(): yield ...`, or `await request.draining.wait()` beside what is waited for.

        >>> Request("request_stream", b"", None).draining.is_set()
        False
        """
        if self._draining is None:
            self._draining = DrainingEvent()
        return self._draining

    @property
    def entries(self) -> list[tuple[str, bytes]]:
        """(mime type, content) of each entry of the metadata, in its order.

        >>> Request("request_response", b"", None).entries
        []
        """
        if self._entries is None:
            found = read_entries(self.metadata or b"")
            if found is None:
                raise Refused("bad-metadata", "the metadata of the request is not composite metadata", INVALID)
            self._entries = found
        return self._entries

    def entry(self, mime_type: str) -> bytes | None:
        """The content of the first entry with this mime type; None when there is none.

        >>> Request("request_response", b"", None).entry("application/json") is None
        True
        """
        return next((content for name, content in self.entries if name == mime_type), None)

    @property
    def routes(self) -> list[str]:
        """All names of handlers that the caller gave, in its order.

        >>> Request("request_response", b"", None).routes
        []
        """
        return route_names(self.entry(ROUTING_MIME) or b"")

    @property
    def route(self) -> str:
        """The first name of a handler that the caller gave; empty when it gave none.

        >>> Request("request_response", b"", None).route
        ''
        """
        return next(iter(self.routes), "")

    @property
    def data_mime(self) -> str:
        """What the caller says its data is; empty when it says nothing.

        >>> Request("request_response", b"", None).data_mime
        ''
        """
        content = self.entry(DATA_MIME)
        if not content:
            return ""
        if content[0] & 0x80:  # |1| id (7) |, else |0| length - 1 (7) | text |
            return mime_name(content[0] & 0x7F, b"")
        return content[1 : 2 + content[0]].decode("ascii", "replace")

    @property
    def address(self) -> Address | None:
        """The address that brought the request here, with the caller's Route Id; None when the broker took it off.

        >>> Request("request_response", b"", None).address is None
        True
        """
        for mime_type, content in self.entries:
            if mime_type in MIME_TYPES:
                try:
                    frame = decode_frame(content)
                except InvalidFrame:
                    return None
                return Address(frame) if isinstance(frame, AddressFrame) else None
        return None

    @property
    def caller(self) -> Caller | None:
        """Who the broker says that the caller is; None when it says nothing: the service has no `identity = true`.

        It is what the broker has verified: an entry that the caller itself wrote never comes here.

        >>> Request("request_response", b"", None).caller is None
        True
        """
        content = self.entry(CALLER_MIME)
        if content is None:
            return None
        try:
            return read_caller(content)
        except InvalidFrame as error:  # of a broker that is newer
            raise Refused("bad-metadata", f"who the caller is cannot be read: {error.text}", INVALID) from None

    def __repr__(self) -> str:
        return f"<{self.model} {len(self.data)} bytes>"


NO_REQUEST: Final = Request("", b"", None)  # the default of a parameter that the SDK always gives, but a test need not


def route_names(content: bytes) -> list[str]:
    """The names in a routing entry, |length (8) | name …| each; one that is cut off is as long as it is."""
    names: list[str] = []
    at = 0
    while at < len(content):
        names.append(content[at + 1 : at + 1 + content[at]].decode("utf-8", "replace"))
        at += 1 + content[at]
    return names
