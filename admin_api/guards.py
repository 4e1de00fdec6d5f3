"""Refuses who asks for a name that is none of this broker's: a page of a stranger, in somebody's browser (D-61).

A site that lets its own name stand for 127.0.0.1 ("DNS rebinding") would read all that is told here: to the browser the
site itself is asked.
"""

from typing import Final

from aiohttp import web
from aiohttp.typedefs import Middleware

from admin_api.errors import AdminError, Handler, shown
from broker.config.hosts import is_known_host, own_names
from broker.config.options import Config

HOST: Final = "Host"


def known_host_only(config: Config) -> Middleware:
    """A middleware behind which only requests for this broker come. Who says no host is no browser."""
    names = own_names(config)

    @web.middleware
    async def guard(request: web.Request, handler: Handler) -> web.StreamResponse:
        for host in request.headers.getall(HOST, ()):
            if not is_known_host(host, names):
                raise AdminError("wrong-host", f"{shown(host)} is not a name of this broker; add it to server.names")
        return await handler(request)

    return guard
