"""Brokers of tests that are started or asked in a way that cannot work."""

from collections.abc import Iterable, Mapping, Sequence
from typing import Final, NoReturn

from client_sdk.mistakes.attributes import missing_told
from client_sdk.mistakes.likeness import near
from client_sdk.mistakes.options import unknown_option

SCHEMES: Final = ("tcp", "ws", "unix")  # that stand for a free place
LOCAL_BROKER_HAS: Final = "it has urls, connections, routes, requests, wait_for_routes, drop_connections and restart"
LOCAL_BROKER_HAS_NOT: Final = {
    **dict.fromkeys(("url", "address", "uri"), "it is the URL itself: connect(broker)"),
    **dict.fromkeys(("port", "host"), "it is in the URL: urllib.parse.urlsplit(broker)"),
    **dict.fromkeys(("stop", "close", "shutdown", "start"), "it runs as long as the block of `with` or `async with`"),
    "services": "write {route.service for route in broker.routes()}",
}


RUNS: Final = "it is the URL of a broker that runs already: write connect(broker)"


@missing_told("it is a dict: broker.urls['tcp']")
class Urls(dict[str, str]):
    """By scheme."""

    def __missing__(self, scheme: str) -> NoReturn:
        text = f"the broker listens at {', '.join(self)}, not at {scheme}"
        if scheme in SCHEMES:
            listen = [*self, scheme] if all(each in SCHEMES for each in self) else [scheme]
            text += f": write listen={listen}, in a test @pytest.mark.rsocket_broker(listen={listen})"
        elif scheme in ("tls", "wss"):
            text += f": write listen=['{scheme}://127.0.0.1:0'] and options={{'tls.certificate': ..., 'tls.key': ...}}"
        raise KeyError(text)


def check_wanted(service: object, tags: Mapping[str, object]) -> None:
    """TypeError for what no route has."""
    if service is not None and not isinstance(service, str):
        raise TypeError(f"service is {type(service).__name__}, it must be str, the name of a service")
    for name, value in tags.items():
        if value is not None and not isinstance(value, str):
            how = near(f"{name}=", ("timeout_s=",)) or f"write {name}={str(value)!r}"
            raise TypeError(f"the value of tag {name} is {type(value).__name__}, it must be str; {how}")


def check_place(listen: object) -> None:
    """ValueError for what is no place to listen at."""
    if listen not in SCHEMES and "://" not in str(listen):
        how = f"it must be {', '.join(map(repr, SCHEMES))} or a URL, such as 'tcp://127.0.0.1:7878'"
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
            how = "a port is chosen, or given by listen=['tcp://127.0.0.1:7878']"
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
            raise unknown_option("local_broker()", name, ("listen", "options", "process"), example)
