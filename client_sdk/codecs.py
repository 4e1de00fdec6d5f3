"""Codecs: what bytes mean. Both sides use the same ones: a service for its handlers, a caller for its calls.

    JSON      values <-> JSON, through msgspec: dataclasses, msgspec.Struct, TypedDict, builtins; models of pydantic
    BYTES     nothing is changed

Anything with a `mime_type`, `decode` and `encode` is a codec, see `Codec`. Knows nothing of requests.
"""

import sys
from collections.abc import Callable, Iterator
from types import BuiltinFunctionType, FunctionType, ModuleType
from typing import TYPE_CHECKING, Any, Final, Protocol, TypeVar, overload

import msgspec
from msgspec import inspect

from client_sdk.mistakes.arguments import advised, takes
from client_sdk.mistakes.kinds import kind_of, no_value
from client_sdk.mistakes.operators import refused

MAX_KEPT_DECODERS: Final = 256  # types; those of further ones are made for each message
MAX_PLACES: Final = 3  # that a sender is told of at a time, where a model of pydantic finds many

T = TypeVar("T")


class Codec(Protocol):
    """What makes values of bytes and bytes of values.

    >>> class Text:
    ...     mime_type = "text/plain"
    ...     def decode(self, data: bytes, type: Any) -> Any:
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


_INSTEAD: Final = (
    "take a dataclass, a msgspec.Struct, a TypedDict or a model of pydantic, or say how with "
    "json_codec(enc_hook=..., dec_hook=...)"
)


class JsonCodec:
    """JSON, checked against the type while it is read. Made by `json_codec`; `JSON` is one with nothing changed.

    >>> JSON.decode(b'[1, 2]', list[int])
    [1, 2]
    >>> JSON.decode(b'[1, "2"]', list[int])
    Traceback (most recent call last):
    ValueError: Expected `int`, got `str` - at `$[1]`
    """

    mime_type: str = "application/json"

    if not TYPE_CHECKING:
        __call__ = refused("this is the codec itself: write codec=JSON, without parentheses")

    def __init__(
        self,
        strict: bool,
        enc_hook: Callable[[Any], Any] | None,
        dec_hook: Callable[[type, Any], Any] | None,
    ) -> None:
        self._strict: Final = strict
        self._enc_hook: Final = enc_hook
        self._dec_hook: Final = dec_hook
        self._encode: Final = msgspec.json.Encoder(enc_hook=self._said).encode
        self._decoders: Final[dict[Any, Callable[[bytes], Any]]] = {}  # bounded by MAX_KEPT_DECODERS

    @overload
    def decode(self, data: bytes, type: type[T]) -> T: ...
    @overload
    def decode(self, data: bytes, type: object = Any) -> Any: ...
    def decode(self, data: bytes, type: object = Any) -> Any:
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
        if isinstance(type, (FunctionType, BuiltinFunctionType, ModuleType, JsonCodec)):
            raise TypeError(f"{_name_of(type)} is no type: it must be one, such as list[int]")
        unknown = None if self._dec_hook is not None else next(_unknown_in(type), None)
        if unknown is not None:
            raise TypeError(f"JSON has no {_name_of(unknown)}: {_INSTEAD}")
        decode: Callable[[bytes], Any]
        if _is_model(type):
            decode = _reader_of(type)
        else:
            decode = msgspec.json.Decoder(type, strict=self._strict, dec_hook=self._meant).decode
        if len(self._decoders) < MAX_KEPT_DECODERS:
            self._decoders[type] = decode
        return decode

    def check(self, type: Any) -> None:
        """TypeError for a type that JSON has not.

        >>> JSON.check(dict[str, int])
        """
        if type not in self._decoders:
            self.decoder(type)

    def _said(self, value: Any) -> Any:
        """What stands for a value that msgspec does not know."""
        if _is_model(type(value)):
            return msgspec.Raw(value.model_dump_json(by_alias=True).encode())
        if self._enc_hook is None:
            raise TypeError(f"JSON has no {_name_of(type(value))}: {no_value(value) or _INSTEAD}")
        return self._enc_hook(value)

    def _meant(self, type: type, value: Any) -> Any:
        """The value that it stood for."""
        if _is_model(type):
            return _reader_of(type)(msgspec.json.encode(value))
        if self._dec_hook is None:
            raise TypeError(f"JSON has no {_name_of(type)}: {_INSTEAD}")
        return self._dec_hook(type, value)


def check_codec(codec: object) -> None:
    """TypeError for what is none; of what looks like one it says what is wrong."""
    methods = {"encode": 1, "decode": 2}  # and how many arguments they take
    has = [name for name in methods if callable(getattr(codec, name, None))]
    if not has or isinstance(codec, (_CLASS, str, bytes)):
        is_own = isinstance(codec, _CLASS) and len(has) == len(methods) and codec.__module__ != __name__
        how = f": {no_value(codec)}" if is_own else ""
        raise TypeError(f"codec= is {kind_of(codec)}, it must be a Codec, such as client_sdk.JSON{how}")
    missing = [] if isinstance(getattr(codec, "mime_type", None), str) else ["no text as mime_type"]
    missing += [f"no {name}" for name in methods if name not in has]
    other = [name for name in has if not takes(getattr(codec, name), methods[name])]
    if missing or other:
        wrong = (
            f"which has {' and '.join(missing)}" if missing else f"whose {' and '.join(other)} takes other arguments"
        )
        how = "a codec has mime_type, encode(value) and decode(data, type)"
        raise TypeError(f"codec= is {kind_of(codec)}, {wrong}; {how}, as client_sdk.JSON has")


@advised("json_codec(strict=False)", is_hot=False)
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


def _is_model(type: Any) -> bool:
    """A model of pydantic, which is not imported for it: who has one has imported it."""
    pydantic = sys.modules.get("pydantic")
    return pydantic is not None and isinstance(type, _CLASS) and issubclass(type, pydantic.BaseModel)


def _reader_of(model: Any) -> Callable[[bytes], Any]:
    """What reads a model of pydantic, by its own rules; ValueError with the first places that do not fit."""
    pydantic = sys.modules["pydantic"]

    def read(data: bytes) -> Any:
        try:
            return model.model_validate_json(data)
        except pydantic.ValidationError as error:
            places = (
                ("".join(f".{part}" for part in each["loc"]), each["msg"]) for each in error.errors()[:MAX_PLACES]
            )
            raise ValueError("; ".join(f"{_name_of(model)}{place}: {text}" for place, text in places)) from None

    return read


def _unknown_in(type: Any) -> Iterator[Any]:
    """Classes in a type that msgspec leaves to hooks, but for models of pydantic."""
    seen: set[int] = set()
    waiting: list[Any] = [inspect.type_info(type)]
    while waiting:
        node = waiting.pop()
        if isinstance(node, inspect.CustomType):
            if node.cls is not object and not _is_model(node.cls):
                yield node.cls
        elif isinstance(node, (tuple, list)):
            waiting.extend(node)
        elif isinstance(node, (inspect.Type, inspect.Field)) and id(node) not in seen:
            seen.add(id(node))
            names = set(node.__struct_fields__) - {"cls", "default", "default_factory"}
            waiting.extend(getattr(node, name) for name in sorted(names))


def _name_of(type: Any) -> str:
    return getattr(type, "__name__", None) or repr(type)


_CLASS: Final = type  # parameters here have its name
BYTES: Final = BytesCodec()
JSON: Final = json_codec()
