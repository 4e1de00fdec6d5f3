"""Brokers of tests that are started or asked in a way that cannot work."""

import functools
from collections.abc import Callable, Iterable, Mapping, Sequence
from typing import TYPE_CHECKING, Any, Final, NoReturn, TypeVar, cast

from client_sdk.clock import is_in_loop
from client_sdk.mistakes.attributes import missing_told
from client_sdk.mistakes.likeness import near
from client_sdk.mistakes.operators import refused
from client_sdk.mistakes.options import unknown_option
from rsocket_wire.ports import MAX_PORT, TCP_PORT

SCHEMES: Final = ("tcp", "ws", "unix")  # that stand for a free place
LOCAL_BROKER_HAS: Final = "it has urls, connections, routes, requests, wait_for_routes, drop_connections and restart"
LOCAL_BROKER_HAS_NOT: Final = {
    **dict.fromkeys(("url", "address", "uri"), "it is the URL itself: connect(broker)"),
    **dict.fromkeys(("port", "host"), "it is in the URL: urllib.parse.urlsplit(broker)"),
    **dict.fromkeys(("stop", "close", "shutdown", "start"), "it runs as long as the block of `with` or `async with`"),
    "services": "write {route.service for route in broker.routes()}",
}


F = TypeVar("F", bound=Callable[..., Any])
_NOT_AWAITED: Final = refused("this is not awaited: leave `await` out")
RUNS: Final = "it is the URL of a broker that runs already: write connect(broker)"


@missing_told("it is a dict: broker.urls['tcp']")
class Urls(dict[str, str]):
    """By scheme."""

    if not TYPE_CHECKING:
        __call__ = refused("it is a dict: write broker.urls['tcp']")

    def __missing__(self, scheme: str) -> NoReturn:
        text = f"the broker listens at {', '.join(self)}, not at {scheme}"
        if scheme in SCHEMES:
            listen = [*self, scheme] if all(each in SCHEMES for each in self) else [scheme]
            text += f": write listen={listen}, in a test @pytest.mark.rsocket_broker(listen={listen})"
        elif scheme in ("tls", "wss"):
            text += f": write listen=['{scheme}://127.0.0.1:0'] and options={{'tls.certificate': ..., 'tls.key': ...}}"
        raise KeyError(text)


class Number(int):
    """What is counted."""

    if not TYPE_CHECKING:
        __call__ = refused("it is a number: leave the parentheses out")
        __await__ = _NOT_AWAITED


class Found(list[Any]):
    """What is found."""

    if not TYPE_CHECKING:
        __await__ = _NOT_AWAITED

    def __contains__(self, wanted: object) -> bool:
        if isinstance(wanted, str):
            raise TypeError(f"routes are no text: write `assert broker.routes({wanted!r})`")
        return super().__contains__(wanted)


class Nothing:
    """What a method gives that gives None, where somebody may await it."""

    if not TYPE_CHECKING:
        __await__ = _NOT_AWAITED

    def __repr__(self) -> str:
        return "None"


class Method(functools.partial[Any]):
    """A method, which knows when it is taken for what it gives."""

    if not TYPE_CHECKING:
        __eq__ = __lt__ = __gt__ = __le__ = __ge__ = __bool__ = __len__ = __iter__ = __getitem__ = __await__ = refused(
            "methods of a broker are called: write broker.requests() or broker.routes(), with parentheses"
        )
        __hash__ = None

    def __get__(self, broker: object, kind: type | None = None) -> "Method":
        return self if broker is None else Method(self.func, broker)

    def __call__(self, /, *given: Any, **named: Any) -> Any:
        found = super().__call__(*given, **named)
        if found is None:
            return Nothing() if is_in_loop() else None
        kind = {int: Number, list: Found}.get(type(found))
        return kind(found) if kind else found


def called(method: F) -> F:
    """For a method that is taken for an attribute, or awaited though it blocks."""
    return cast("F", functools.update_wrapper(Method(method), method))


def check_wanted(service: object, tags: Mapping[str, object]) -> None:
    """TypeError for what no route has."""
    if service is not None and not isinstance(service, str):
        raise TypeError(f"service is {type(service).__name__}, it must be str, the name of a service")
    for name, value in tags.items():
        if value is not None and not isinstance(value, str):
            how = near(f"{name}=", ("timeout_s=",)) or f"write {name}={str(value)!r}"
            if isinstance(value, Mapping):
                how = f"each tag is an argument of its own: write **{dict(value)!r}"
            elif isinstance(value, list | tuple | set):
                how = "ask for one value at a time"
            raise TypeError(f"the value of tag {name} is {type(value).__name__}, it must be str; {how}")


def check_place(listen: object) -> None:
    """ValueError for what is no place to listen at."""
    if listen not in SCHEMES and "://" not in str(listen):
        near_one = near(str(listen), SCHEMES)
        how = near_one or f"it must be {', '.join(map(repr, SCHEMES))} or a URL, such as 'tcp://127.0.0.1:7878'"
        raise ValueError(f"listen= has {listen!r}; {how}")


def check_start(arguments: Sequence[object], listen: object, options: object, keys: Mapping[str, object]) -> None:
    """TypeError for what no broker can be started with, whatever its options are."""
    first = next(iter(arguments), None)
    if isinstance(first, Mapping):
        raise TypeError(f"local_broker(): options stand behind a name: write options={first!r}")
    if isinstance(first, list | tuple) or (isinstance(first, str) and (first in SCHEMES or "://" in first)):
        places = [first] if isinstance(first, str) else [*first]
        raise TypeError(f"local_broker(): places to listen at stand behind a name: write listen={places}")
    for argument in arguments:
        if not isinstance(argument, str):
            how = f"a port is chosen, or given by listen=[{_place(argument)!r}]"
            raise TypeError(f"local_broker(): {argument!r} is no argument of `rsocket-broker serve`; {how}")
    if first and not str(first).startswith("-"):
        how = "write options={'limits.max_connections': 10}"
        raise TypeError(f"local_broker(): {first!r} is no option of `rsocket-broker serve`; {how}")
    if isinstance(listen, str) or not isinstance(listen, Iterable):
        how = f", as listen=[{listen!r}]" if isinstance(listen, str) else ": listen=['tcp', 'ws']"
        raise TypeError(f"listen= is {type(listen).__name__}, it must be a list{how}")
    if options is not None and not isinstance(options, Mapping):
        raise TypeError(f"options= is {type(options).__name__}, it must be a dict: {{'limits.max_connections': 10}}")
    for name, value in (options or {}).items():
        if isinstance(value, Mapping):
            section = next(iter(value), "max_connections")
            raise TypeError(f"options= has a dict as {name!r}; write {{'{name}.{section}': ...}}")
    for name in keys:
        if "__" not in name and "." not in name:
            example = "local_broker(listen=['tcp', 'ws'], limits__max_connections=10)"
            error = unknown_option("local_broker()", name, ("listen", "options", "process"), example)
            raise TypeError(str(error).replace(_place(TCP_PORT), _place(keys.get("port"))))


def _place(port: object) -> str:
    """Where the example listens: at the port that was given, if it was one."""
    return f"tcp://127.0.0.1:{port if type(port) is int and 0 <= port <= MAX_PORT else TCP_PORT}"
