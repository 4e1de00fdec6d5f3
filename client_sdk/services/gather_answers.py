"""The words of a gather: one request to all routes of a multicast, and of each answer who gave it.

    caller ── REQUEST_STREAM, multicast, entry GATHER_MIME ──► broker ──► every route that matches
    caller ◄── one PAYLOAD per answer, entry ANSWERED_BY_MIME first ◄── broker merges ◄── service

A multicast request/response ends with the first answer; a stream brings all of them, but an ERROR of one route would
end it for all. So a service answers a stream that carries GATHER_MIME like this; the broker passes it all untouched:

  * its request_response handler for the route answers: one item (`answer_payload`), then COMPLETE;
  * without one its request_stream handler does: each of its items goes through `answer_payload`, then COMPLETE;
  * whatever fails, a handler that is missing or busy included, is an item too (`failure_payload`), then COMPLETE. Never
    an ERROR.

A request whose GATHER_MIME ends with `what` = 1 asks who is there: no handler gets it, and each service answers with an
item without data, or with a failure when it takes no requests now. One that is older asks its handler. With `what` = 2
the answers are those of any gather, and say the tags of the service, too.

The metadata of an item is composite:

    GATHER_MIME        | version = 1 (8) | what (8), absent: an answer |                     of the request
    ANSWERED_BY_MIME   | version = 1 (8) | route id (128) | length (8) | service name … |    of each item, first
    TAGS_MIME          | version = 1 (8) | tags, a map as in a ROUTE_SETUP … |           of each, where it was asked for
    FAILED_MIME        | version = 1 (8) | RSocket code (32) | text, "word: sentence" … |    of an item that failed
    application/octet-stream | the metadata that the handler gave, absent if it gave none |

What follows the named fields is ignored, so that a later version may say more. D-57. Knows no connections.
"""

from collections.abc import Mapping
from dataclasses import dataclass
from typing import TYPE_CHECKING, Final, Generic, cast

from client_sdk.addresses import route_tags
from client_sdk.errors import ClientError, error_of
from client_sdk.metadata import OCTET_STREAM_MIME, entry_bytes, read_entries
from client_sdk.mistakes.attributes import ANSWER_HAS, ANSWER_HAS_NOT, missing_told
from client_sdk.mistakes.operators import refused
from client_sdk.payload import Payload
from rsocket_wire.errors import InvalidFrame
from rsocket_wire.wire.buffer import Reader, Writer
from rsocket_wire.wire.ids import ID_BYTES, id_text
from rsocket_wire.wire.ints import u32_at
from rsocket_wire.wire.tags import decode_map, encode_map, filled

if TYPE_CHECKING:  # a default is of Python 3.13
    from typing_extensions import TypeVar

    T = TypeVar("T", default=bytes)
else:
    from typing import TypeVar

    T = TypeVar("T")

GATHER_MIME: Final = "message/x.rsocket.broker.gather.v0"
ANSWERED_BY_MIME: Final = "message/x.rsocket.broker.answered-by.v0"
TAGS_MIME: Final = "message/x.rsocket.broker.tags.v0"
FAILED_MIME: Final = "message/x.rsocket.broker.failed.v0"
VERSION: Final = b"\x01"
GATHER_ENTRY: Final = entry_bytes(GATHER_MIME, VERSION)  # of the request
WHO: Final = VERSION + b"\x01"  # content of the entry of a request that asks who is there
TAGGED: Final = VERSION + b"\x02"  # likewise, of one that wants the tags of who answers
TAGGED_ENTRY: Final = entry_bytes(GATHER_MIME, TAGGED)
ERROR_HOW: Final = "raised by answer.value: answer.is_ok and answer.error tell it without raising"
RAW: Final = object()
MAX_FAILURE_BYTES: Final = 8192  # of the text of a failure; the rest of a longer one is cut

_NAME_AT: Final = 1 + ID_BYTES


@missing_told(ANSWER_HAS, ANSWER_HAS_NOT)
@dataclass(frozen=True, slots=True, eq=False, repr=False)
class Answer(Generic[T]):
    """What one service answered to a gather, and who it is.

    >>> answer = Answer(b"3 left", None, "11223344-5566-7788-99aa-bbccddeeff00", "stock", None)
    >>> answer.service, answer.is_ok
    ('stock', True)
    """

    data: bytes  # empty when it failed
    metadata: bytes | None  # what the handler gave beside the data; None when it gave none
    route_id: str  # a uuid; empty when the service did not say who it is
    service: str  # its name; empty likewise
    error: ClientError | None  # why this service has no answer; None when it has one
    made: object = RAW  # what `returns` made of the data; RAW: nothing, without it
    tags: Mapping[str, str | None] | None = None  # of the service; None: not asked for (`with_tags`), or not said

    @property
    def is_ok(self) -> bool:
        """It is an answer and no failure.

        >>> Answer(b"", None, "", "stock", ClientError("no")).is_ok
        False
        """
        return self.error is None

    @property
    def value(self) -> T:
        """The answer as `returns` says, without it the data; raises the error of a service that has none.

        >>> Answer(b"3", None, "", "stock", None).value
        b'3'
        """
        if self.error is not None:
            if ERROR_HOW not in getattr(self.error, "__notes__", ()):
                self.error.add_note(ERROR_HOW)
            raise self.error
        return cast("T", self.data if self.made is RAW else self.made)

    if not TYPE_CHECKING:
        __getitem__ = __iter__ = __add__ = __radd__ = __bytes__ = __int__ = __float__ = refused(
            "an Answer is not the value itself: write answer.value"
        )

    def __repr__(self) -> str:
        said = f"{len(self.data)} bytes" if self.error is None else self.error.word
        return f"<{self.service or 'unknown'} {self.route_id or '?'}: {said}>"


def is_gather(entries: list[tuple[str, bytes]]) -> bool:
    """Whether a request with these metadata entries asks for marked answers.

    >>> is_gather([("message/x.rsocket.broker.gather.v0", bytes([1]))])
    True
    """
    return any(mime_type == GATHER_MIME and content[:1] == VERSION for mime_type, content in entries)


def asks_who(entries: list[tuple[str, bytes]]) -> bool:
    """Whether it asks for no answer, but who is there.

    >>> asks_who([("message/x.rsocket.broker.gather.v0", bytes([1, 1]))])
    True
    """
    return any(mime_type == GATHER_MIME and content[:2] == WHO for mime_type, content in entries)


def asks_tags(entries: list[tuple[str, bytes]]) -> bool:
    """Whether it asks for the tags of who answers.

    >>> asks_tags([("message/x.rsocket.broker.gather.v0", bytes([1, 2]))])
    True
    """
    return any(mime_type == GATHER_MIME and content[:2] == TAGGED for mime_type, content in entries)


def tags_entry(tags: Mapping[str, str | None]) -> bytes:
    """The entry that says the tags of who answers; BadAddress for what no route can have.

    >>> who = answered_by(bytes(16), "stock") + tags_entry({"region": "eu"})
    >>> read_answer(answer_payload(who, b"3", None)).tags
    {'region': 'eu'}
    """
    writer = Writer()
    encode_map(writer, filled(route_tags(tags)), last=True)
    return entry_bytes(TAGS_MIME, VERSION + writer.to_bytes())


def answered_by(route_id: bytes, service: str) -> bytes:
    """The entry that says who answers; `route_id` 16 bytes. Always the same for one route: keep it.

    >>> len(answered_by(bytes(16), "stock"))
    66
    """
    name = service.encode()[:255]
    return entry_bytes(ANSWERED_BY_MIME, VERSION + route_id + bytes([len(name)]) + name)


def answer_payload(who: bytes, data: bytes, metadata: bytes | None) -> Payload:
    """The item that carries an answer; `who` is of `answered_by`.

    >>> read_answer(answer_payload(answered_by(bytes(16), "stock"), b"3", None)).data
    b'3'
    """
    return Payload(data, who if metadata is None else who + entry_bytes(OCTET_STREAM_MIME, metadata))


def failure_payload(who: bytes, code: int, message: str) -> Payload:
    """The item that says what would have been an ERROR: its RSocket code and text, "word: sentence".

    >>> read_answer(failure_payload(answered_by(bytes(16), "stock"), 0x201, "sold-out: none is left")).error
    ApplicationError('none is left')
    """
    text = message.encode()[:MAX_FAILURE_BYTES]
    return Payload(b"", who + entry_bytes(FAILED_MIME, VERSION + code.to_bytes(4) + text))


def read_answer(payload: Payload) -> Answer[bytes]:
    """An item of a gather's stream. One that is not marked is an answer of nobody knows whom, with all its metadata.

    >>> read_answer(Payload(b"3")).route_id
    ''
    """
    data = payload.data or b""
    raw = payload.metadata
    found = read_entries(raw) if raw else None
    if not found or found[0][0] != ANSWERED_BY_MIME:
        return Answer(data, raw, "", "", None)
    who = found[0][1]
    if len(who) <= _NAME_AT or who[:1] != VERSION:
        return Answer(data, raw, "", "", None)
    service = who[_NAME_AT + 1 : _NAME_AT + 1 + who[_NAME_AT]].decode("utf-8", "replace")
    metadata: bytes | None = None
    error: ClientError | None = None
    tags: dict[str, str | None] | None = None
    for mime_type, content in found[1:]:
        if mime_type == OCTET_STREAM_MIME:
            metadata = content
        elif mime_type == TAGS_MIME and content[:1] == VERSION:
            tags = _read_tags(content)
        elif mime_type == FAILED_MIME and len(content) >= 5:
            error = error_of(u32_at(content, 1), content[5:].decode("utf-8", "replace"))
    return Answer(data, metadata, id_text(who[1:_NAME_AT]), service, error, tags=tags)


def _read_tags(content: bytes) -> dict[str, str | None] | None:
    """None for what is no map of tags."""
    try:
        tags = decode_map(Reader(content, 1), "tags of an answer", utf8=True, to_end=True)
    except InvalidFrame:
        return None
    return {tag.key.short_name: tag.value for tag in tags}
