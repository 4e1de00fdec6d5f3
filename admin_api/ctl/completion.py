"""What a shell completes with: names that a running broker tells.

It is asked in bounded time, and whatever goes wrong, nothing is said: a person is at the key.
"""

from __future__ import annotations

import contextlib
import json
import threading
from typing import Final

import click

from admin_api.ctl.place import place_of
from spark_sink.event_files.local_token import find_local_token
from spark_sink.terminal import plain

WAIT_S: Final = 1.0  # a person waits with a finger on the key
MAX_BYTES: Final = 1 << 20
MAX_NAMES: Final = 1000  # of one list, the most that the API gives at once


def complete_services(context: click.Context, parameter: click.Parameter, incomplete: str) -> list[str]:
    """Names of services that have a route, or none."""
    return _items(_names(context, "/api/v1/services", "service"), incomplete)


def complete_routes(context: click.Context, parameter: click.Parameter, incomplete: str) -> list[str]:
    """Route Ids, or none."""
    return _items(_names(context, "/api/v1/routes", "route_id"), incomplete)


def _items(names: list[str], incomplete: str) -> list[str]:
    return [name for name in names if name.startswith(incomplete) and plain(name) == name]


def _names(context: click.Context, path: str, field: str) -> list[str]:
    """Asks in a thread: neither looking up a host nor a server that sends a byte now and then can be stopped."""
    import admin_api.ctl.opening  # noqa: F401 -- late, a command that is run does without; the wait is for the server alone

    found: list[str] = []

    def ask() -> None:
        with contextlib.suppress(Exception):  # whatever goes wrong: a shell shows nothing
            found.extend(_asked(context, path, field))

    asking = threading.Thread(target=ask, daemon=True)
    asking.start()
    asking.join(WAIT_S)
    return sorted(set(found))


def _asked(context: click.Context, path: str, field: str) -> list[str]:
    import urllib.request

    from admin_api.ctl.opening import OPENER

    said = {**(context.parent.params if context.parent is not None else {})}
    said.update({name: value for name, value in context.params.items() if value is not None})
    url, token = place_of(said.get("admin"), None, said.get("context") or said.get("context_name"))
    request = urllib.request.Request(f"{url}{path}?{urllib.parse.urlencode({'limit': MAX_NAMES})}")
    if token := token or find_local_token(url):
        request.add_unredirected_header("Authorization", f"Bearer {token}")
    with OPENER.open(request, timeout=WAIT_S) as answer:
        return [item[field] for item in json.loads(answer.read(MAX_BYTES))["items"]]
