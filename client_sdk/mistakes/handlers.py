"""What a handler that has raised may have meant: an end of the line in the service's log."""

import functools
import inspect
import linecache
import logging
import re
import textwrap
from collections.abc import Callable, Mapping
from http import HTTPStatus
from pathlib import Path
from types import NoneType, TracebackType
from typing import Any, Final, get_origin

import msgspec.inspect

from client_sdk.mistakes.likeness import hyphened

_log: Final = logging.getLogger("client_sdk")
_SDK: Final = str(Path(__file__).parents[1])
TELLING: Final = (
    "; a handler tells its caller something by raise ApplicationError('only 3 are left', word='out-of-stock')"
)
REFUSING: Final = f"{TELLING}, and how many requests it takes by max_concurrency="
OWN_CALL: Final = (
    "; a call of the handler's own has failed: catch ClientError, and raise ApplicationError('...') for its caller"
)
NO_JSON: Final = (
    "; this handler reads JSON, and the caller needs connect(url, codec=JSON), or json.dumps(value).encode() as data"
)
NO_JSON_ANSWER: Final = "; the answer is no JSON: returns=bytes gives it as it is"
JSON_MIME: Final = "application/json"
TWICE_JSON: Final = "; the data is JSON within a text of JSON: give the client the value, and not json.dumps(value)"
NO_CALLER: Final = "; request.caller is None unless the broker has auth.mode and, in [service.NAME], identity = true"
NO_ENTRY: Final = "; request.metadata are the bytes of all entries, the content of one is request.entry('mime/type')"
told_files: Final[set[str]] = set()  # of the program, whose exceptions nothing is said of any more
# By the model.
ANSWERS: Final = {
    "request_response": "return b'...', which is the answer",
    **dict.fromkeys(("request_stream", "request_channel"), "yield b'...', which is an item of the answer"),
    **dict.fromkeys(("fire_and_forget", "metadata_push"), "nothing in its place: the caller gets no answer"),
}
RETURNED: Final = "what "  # begins the subject of an error about what a handler returned
INJECTED: Final = ("Depends", "Dependant", "Security", "TaskiqDepends")
_VARIABLE: Final = re.compile(r"\{\w*(?::\w+)?\}|<\w+(?::\w+)?>|(?<=/):\w+")  # in routes of web frameworks
_WILDCARD: Final = re.compile(r"(?<![^/.])(?:\*+|>|#)(?![^/.])")  # in subjects and topics
CONTEXTS: Final = ("context", "ctx", "response", "res", "reply")  # second parameters of handlers of others
# What others call it that a Request, or its caller, has.
INSTEAD: Final = {
    "Request": {
        **dict.fromkeys(("body", "payload", "content", "value", "read"), "request.data"),
        **dict.fromkeys(("text", "decode"), "request.data.decode()"),
        **dict.fromkeys(("headers", "header", "get"), "request.entry('text/plain')"),
        **dict.fromkeys(("path", "topic", "endpoint"), "request.route"),
        **dict.fromkeys(("user", "identity", "principal"), "request.caller"),
        **dict.fromkeys(("respond", "reply", "send", "answer", "write", "ack", "nak", "nack"), ""),  # as ANSWERS says
        "json": "the type of the data in place of Request, and codec=JSON of the service",
    },
    "Caller": {
        **dict.fromkeys(("id", "principal", "subject", "sub"), "caller.identity"),
        **dict.fromkeys(("user", "username", "user_name"), "caller.name"),
        **dict.fromkeys(("roles", "groups", "scopes"), "caller.role"),
        "type": "caller.kind",
    },
}


def advice_of(error: BaseException, is_of_sdk: bool) -> str:
    """With a semicolon before it; empty where nothing is known. `is_of_sdk`: the error is a ClientError."""
    frame = error.__traceback__
    while frame is not None and frame.tb_next is not None:
        frame = frame.tb_next
    if frame is None:
        return ""
    if is_of_sdk:
        return OWN_CALL if frame.tb_frame.f_code.co_filename.startswith(_SDK) else REFUSING
    if isinstance(error, AttributeError) and type(error.obj).__module__.startswith("client_sdk.services."):
        kind, name = type(error.obj).__name__, str(error.name)
        code = INSTEAD.get(kind, {}).get(name)
        if code == "":
            code = ANSWERS.get(getattr(error.obj, "model", ""))
        return "" if code is None else f"; write {code}"
    if isinstance(error, AttributeError) and error.obj is None and "caller." in _line_of(frame):
        return NO_CALLER
    is_dict = isinstance(error, TypeError) or (isinstance(error, AttributeError) and type(error.obj) is bytes)
    if is_dict and re.search(r"metadata(\[|\.\w+\()", _line_of(frame)):
        return NO_ENTRY
    return ""


def raised_advice(error: BaseException) -> str:
    """The same for what the file of the handler raises itself, once for each file; not where nobody gets an answer."""
    own: list[TracebackType] = []  # where it has passed the program
    frame = error.__traceback__
    while frame is not None:
        if not frame.tb_frame.f_code.co_filename.startswith(_SDK):
            own.append(frame)
        frame = frame.tb_next
    files = [each.tb_frame.f_code.co_filename for each in own]
    if not own or files[0] != files[-1] or files[0] in told_files or "raise " not in _line_of(own[-1]):
        return ""
    told_files.add(files[0])
    return TELLING


def took_request(name: str, error: TypeError | AttributeError) -> str:
    """For a handler that has taken the parameter `name` for something else than the Request; empty where it has not."""
    if isinstance(error, AttributeError) and not hasattr(b"", str(error.name)):
        return ""
    text = f"{name} is the Request: write `{name}: bytes` to be given its bytes, or {name}.data"
    if "not subscriptable" in str(error):
        text += f"; for a value give it a type, as `{name}: dict[str, str]`, and its service codec=JSON"
    return text


def warn_dropped(model: str, what: str, gives: Any) -> None:
    """For `what`, which says that it `gives` something, to callers that get nothing."""
    kind = get_origin(gives) or gives
    if isinstance(kind, type) and kind not in (NoneType, object, Any) and not hasattr(kind, "__await__"):
        text = "%s returns %s, which is dropped: a caller of %s gets no answer; write -> None, or @….request_response()"
        _log.warning(text, what, gives.__name__ if isinstance(gives, type) else gives, model)


@functools.cache
def warn_class(name: str) -> None:
    """Once, for a class of the program's own below ApplicationError, whose errors have no word of their own."""
    text = "%s reaches its callers as an ApplicationError: they know it by error.word, so write in the class %s"
    _log.warning(text, name, f"default_word = {hyphened(name)!r}")


def warn_context(model: str, name: str) -> None:
    """For a handler of a request and of `name`, which says no type."""
    text = "%s of a %s handler is given the data: there is no %s, so leave it out; if it is meant, give it a type"
    _log.warning(text, name, model, name)


def warn_route(service: str, model: str, route: str) -> None:
    """For a route that looks like a pattern."""
    if found := _VARIABLE.search(route):
        how = f"leave {found[0]} out, and put it into the data"
    elif found := _WILDCARD.search(route):
        how = f"a handler of all routes that have no other is @….{model}()"
    else:
        return
    _log.warning("service %r: the route %r is a name, callers write it as it stands: %s", service, route, how)


def check_injected(model: str, function: Callable[..., Any], hints: Mapping[str, Any]) -> None:
    """TypeError for a parameter that a web framework would give; not where a decorator may do that."""
    if hasattr(function, "__wrapped__"):
        return
    for name, parameter in inspect.signature(function).parameters.items():
        for mark in (parameter.default, *getattr(hints.get(name), "__metadata__", ())):
            kind = type(mark)
            if kind.__name__ in INJECTED:
                how = "make it before the function, and leave the parameter out"
            elif mark is parameter.default and kind.__module__ == "fastapi.params":
                how = "put it into the data"
            else:
                continue
            text = f"a {model} handler is given no {name}: nothing is injected as by {kind.__name__}()"
            raise TypeError(f"{text}; {how}")


def status_advice(answer: object) -> str:
    """For what a handler has returned, which is no bytes and may have a status of HTTP, with a semicolon behind it."""
    parts: Any = answer if isinstance(answer, tuple) else (answer,)
    if isinstance(answer, dict):
        parts = [answer.get(name) for name in ("status", "status_code", "statusCode")]
    elif not isinstance(answer, int | tuple):
        parts = [getattr(answer, name, None) for name in ("status", "status_code")]
    numbers = [each for each in parts if isinstance(each, int)]
    if len(numbers) != 1 or numbers[0] not in list(HTTPStatus)[3:] or type(answer) is int:
        return ""
    status = HTTPStatus(numbers[0])
    word = hyphened(status.phrase)
    how = f"raise ApplicationError('...', word='{word}') in its place" if status >= 400 else "return its bytes alone"
    return f"if {status:d} is its status, {how}; "


def unbound_advice(model: str, function: Any) -> str:
    """For a function that takes `self`."""
    *of, name = getattr(function, "__qualname__", "").rpartition("<locals>.")[2].split(".")
    if not of:
        return "leave it out"
    return f"after `obj = {'.'.join(of)}()` write `service.{model}('...')(obj.{name})`, and no decorator in the class"


def _line_of(frame: TracebackType) -> str:
    """The line that has failed; without its source, as in a console, what its function may have done with each name."""
    code = frame.tb_frame.f_code
    line = linecache.getline(code.co_filename, frame.tb_lineno)
    return line or " ".join(f"{name}. {name}[" for name in code.co_names)


def reading_advice(mime_type: str, text: str, data: bytes, wanted: Any) -> str:
    """For a caller whose `data` is no JSON, JSON within JSON, or not the object that is `wanted`, as the `text` of the
    handler's codec says; else empty.

    The words are those of msgspec and of pydantic.
    """
    if mime_type != JSON_MIME:
        return ""
    if data.startswith((b'"{', b'"[')) and data.endswith(b'"'):
        return TWICE_JSON
    if text.startswith(("Expected `object", "Object ")) and " - at `$" not in text:
        names = ", ".join(each.encode_name for each in getattr(msgspec.inspect.type_info(wanted), "fields", ()))
        shown = textwrap.shorten(names, 200, placeholder=" …")
        return f"; it takes {wanted.__name__}, an object of JSON with {shown}" if names else ""
    return NO_JSON if _is_no_json(text) else ""


def answer_advice(mime_type: str, text: str) -> str:
    """The same for an answer that is no JSON."""
    return NO_JSON_ANSWER if mime_type == JSON_MIME and _is_no_json(text) else ""


def _is_no_json(text: str) -> bool:
    return text.startswith(("JSON is malformed", "Input data was truncated", "Invalid UTF-8")) or "Invalid JSON" in text
