"""What goes to and fro: rsocket-py's `Payload`, so that programs written for rsocket-py fit.

rsocket-py ships without type information; what type checkers shall know of its class is said here. At run time it is
`rsocket.payload.Payload` itself, and what arrives is of a class below it, which says how it is read.
"""

from typing import TYPE_CHECKING, Final, Never

from client_sdk.mistakes.attributes import names_told
from client_sdk.mistakes.handlers import RETURNED, status_advice
from client_sdk.mistakes.kinds import kind_of, no_value

_OR: Final = "or give the call returns="
_CODEC: Final = "with connect(url, codec=JSON)"
# What people ask a Payload for, and what to write.
_ASKED: Final = {
    **{name: f"payload.data.{name}(), {_OR}bytes" for name in ("decode", "hex", "split", "startswith", "strip")},
    "text": f"payload.data.decode(), {_OR}bytes",
    **dict.fromkeys(("body", "content", "message", "result", "value"), f"payload.data, {_OR}"),
    **dict.fromkeys(("json", "get", "keys", "items", "values"), f"json.loads(payload.data), {_OR}dict, {_CODEC}"),
    **dict.fromkeys(("header", "headers"), "payload.metadata, the bytes of all entries"),
    **dict.fromkeys(
        ("error", "ok", "status", "status_code", "raise_for_status"),
        "nothing in its place: a call that fails raises a ClientError",
    ),
}

if not TYPE_CHECKING:
    from rsocket.payload import Payload

    @names_told("Payload", _ASKED)
    class Received(Payload):
        """A Payload that has arrived.

        Equal to any other with the same data and metadata, and copied and pickled as one of rsocket-py.
        """

        __slots__ = ()

        def __add__(self, other: object = b"") -> Never:
            """Nor any other operator: it says what the Payload was taken for, which the other value tells."""
            kind = type(other)
            if kind not in (str, int, float, list):
                raise TypeError(f"a Payload is no bytes and no text: write payload.data, {_OR}bytes")
            data = "payload.data.decode()" if kind is str else "payload.data, which is bytes"
            raise TypeError(f"a Payload is no {kind.__name__}: write {data}, {_OR}{kind.__name__}, {_CODEC}")

        __radd__ = __len__ = __int__ = __float__ = __lt__ = __gt__ = __add__

        def __getitem__(self, index: object) -> Never:
            if isinstance(index, str):
                raise TypeError(f"a Payload is no dict: give the call returns=dict, {_CODEC}")
            self.__add__()

        def __bool__(self) -> bool:
            return True

        __str__ = Payload.__repr__  # a person who prints it wants to see the data

        def __eq__(self, other: object) -> bool:
            try:
                return super().__eq__(other)
            except AttributeError:
                raise TypeError(f"a Payload compared with {type(other).__name__}: write payload.data == ...") from None

        def __reduce__(self) -> tuple[type[Payload], tuple[bytes | None, bytes | None]]:
            return Payload, (self.data, self.metadata)

else:

    class Payload:
        """Data and metadata of one message; None means absent, which is not the same as empty.

        >>> Payload(b"hello").data
        b'hello'
        """

        data: bytes | None
        metadata: bytes | None

        def __init__(self, data: bytes | None = None, metadata: bytes | None = None) -> None: ...

    Received = Payload


def as_bytes(value: object, subject: str) -> bytes:
    """`value` as bytes; None is empty. TypeError for what is not bytes; `subject` names it in the error."""
    if type(value) is bytes:
        return value
    if value is None:
        return b""
    if isinstance(value, (bytes, bytearray, memoryview)):
        return bytes(value)
    is_value = not subject.startswith("metadata")  # which a codec makes bytes of
    hint = no_value(value) or ("other values need a codec, such as codec=JSON" if is_value else "")
    if subject.startswith(RETURNED):
        hint = status_advice(value) + hint
    if subject == "metadata" and isinstance(value, dict | list):
        hint = "write json.dumps(value).encode(), and mime_type='application/json'"
    elif isinstance(value, BaseException):
        hint = "write raise in place of return"
    elif isinstance(value, str):
        hint = "text becomes bytes with text.encode()"
    elif isinstance(getattr(value, "data", None), bytes):
        hint = "its bytes are .data"
    raise TypeError(f"{subject} is {kind_of(value)}, it must be bytes{'; ' * bool(hint)}{hint}")


def as_parts(value: object, subject: str) -> tuple[bytes, bytes | None]:
    """(data, metadata) of bytes or a Payload; TypeError for anything else."""
    if type(value) is bytes:
        return value, None
    if isinstance(value, Payload):
        data = as_bytes(value.data, f"data of {subject}")
        metadata = value.metadata
        return data, None if metadata is None else as_bytes(metadata, f"metadata of {subject}")
    if value is None:
        missing = "a return is missing, and " if subject.startswith(RETURNED) else ""
        raise TypeError(f"{subject} is None, it must be bytes or Payload: {missing}b'' is an empty one")
    return as_bytes(value, subject), None
