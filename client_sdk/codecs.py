"""Codecs: what bytes mean. Both sides use the same ones: a service for its handlers, a caller for its calls.

    JSON      values <-> JSON, through msgspec: dataclasses, msgspec.Struct, TypedDict, builtins
    BYTES     nothing is changed

Anything with a `mime_type`, `decode` and `encode` is a codec, see `Codec`. Knows nothing of requests.
"""

from collections.abc import Callable
from typing import Any, Final, Protocol

import msgspec

MAX_KEPT_DECODERS: Final = 256  # types; those of further ones are made for each message


class Codec(Protocol):
    """What makes values of bytes and bytes of values.

    >>> class Text:
    ...     mime_type = "text/plain"
    ...     def decode(self, data: bytes, type: object) -> str:
    ...         return data.decode()
    ...     def encode(self, value: object) -> bytes:
    ...         return str(value).encode()
    >>> text: Codec = Text()
    >>> text.decode(text.encode(42), str)
    '42'
    """

    @property
    def mime_type(self) -> str:
        """Of the bytes, as RSocket names it.

        >>> JSON.mime_type
        'application/json'
        """

    def decode(self, data: bytes, type: Any) -> Any:
        """A value of this type; `Any` when nobody says which. ValueError, with a sentence for the sender, if not.

        >>> JSON.decode(b'["a book"]', list[str])
        ['a book']
        """

    def encode(self, value: Any) -> bytes:
        """The bytes of a value; TypeError for one that cannot be said.

        >>> JSON.encode(["a book"])
        b'["a book"]'
        """


class BytesCodec:
    """Bytes are bytes.

    >>> BYTES.decode(b"a", bytes), BYTES.encode(b"a")
    (b'a', b'a')
    """

    mime_type: str = "application/octet-stream"  # no Final: that would be a ClassVar, which no protocol has

    def decode(self, data: bytes, type: Any = bytes) -> bytes:
        """The same bytes; ValueError for any other type.

        >>> BYTES.decode(b"a", int)
        Traceback (most recent call last):
        ValueError: bytes cannot be decoded as int; use a codec like JSON
        """
        if type is bytes or type is Any:
            return data
        raise ValueError(f"bytes cannot be decoded as {_name_of(type)}; use a codec like JSON")

    def encode(self, value: Any) -> bytes:
        """The same bytes; TypeError for anything else.

        >>> BYTES.encode(bytearray(b"a"))
        b'a'
        """
        if isinstance(value, (bytes, bytearray, memoryview)):
            return bytes(value)
        raise TypeError(f"{_name_of(type(value))} is not bytes; use a codec like JSON")


class JsonCodec:
    """JSON, checked against the type while it is read. Made by `json_codec`; `JSON` is one with nothing changed.

    >>> JSON.decode(b'[1, 2]', list[int])
    [1, 2]
    >>> JSON.decode(b'[1, "2"]', list[int])
    Traceback (most recent call last):
    ValueError: Expected `int`, got `str` - at `$[1]`
    """

    mime_type: str = "application/json"

    def __init__(
        self,
        strict: bool,
        enc_hook: Callable[[Any], Any] | None,
        dec_hook: Callable[[type, Any], Any] | None,
    ) -> None:
        self._strict: Final = strict
        self._dec_hook: Final = dec_hook
        self._encode: Final = msgspec.json.Encoder(enc_hook=enc_hook).encode
        self._decoders: Final[dict[Any, Callable[[bytes], Any]]] = {}  # bounded by MAX_KEPT_DECODERS

    def decode(self, data: bytes, type: Any = Any) -> Any:
        """A value of this type; ValueError with the place that does not fit. TypeError for a type that JSON has not.

        >>> JSON.decode(b'{"pieces": 3}', dict[str, int])
        {'pieces': 3}
        """
        decode = self._decoders.get(type) or self.decoder(type)
        try:
            return decode(data)
        except (msgspec.DecodeError, RecursionError, TypeError) as error:
            # TypeError: a set whose items turn out to be lists.
            raise ValueError(str(error)) from None

    def encode(self, value: Any) -> bytes:
        """TypeError, ValueError or OverflowError for what JSON cannot say.

        >>> JSON.encode({"pieces": 3})
        b'{"pieces":3}'
        """
        return self._encode(value)

    def decoder(self, type: Any) -> Callable[[bytes], Any]:
        """What reads values of this type; TypeError for a type that JSON has not.

        >>> JSON.decoder(int)(b"3")
        3
        """
        decode: Callable[[bytes], Any] = msgspec.json.Decoder(type, strict=self._strict, dec_hook=self._dec_hook).decode
        if len(self._decoders) < MAX_KEPT_DECODERS:
            self._decoders[type] = decode
        return decode


def json_codec(
    *,
    strict: bool = True,
    enc_hook: Callable[[Any], Any] | None = None,
    dec_hook: Callable[[type, Any], Any] | None = None,
) -> JsonCodec:
    """JSON with settings of msgspec: not `strict` takes "1" for a number; the hooks are for types that it has not.

    >>> json_codec(strict=False).decode(b'"1"', int)
    1
    """
    return JsonCodec(strict, enc_hook, dec_hook)


def _name_of(type: Any) -> str:
    return getattr(type, "__name__", None) or repr(type)


BYTES: Final = BytesCodec()
JSON: Final = json_codec()
