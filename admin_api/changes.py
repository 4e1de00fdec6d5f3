"""What each path changes: drains, redirects, and connections that are closed. All the rest of this API only looks.

Decides who may: see `guard`. The changes themselves are the broker's; each is one of its events, so that
it stands in the log and in the event files.
"""

import ipaddress
from collections.abc import Callable
from functools import partial
from typing import Final

from aiohttp import web
from msgspec.structs import astuple

from admin_api.admin import Admin
from admin_api.bodies import Terms, destination_of, terms_of
from admin_api.errors import AdminError, shown
from admin_api.schemas import json_response
from broker.config.options import Config
from broker.views import cluster_queries, queries
from broker.views.schemas import DrainView, Part
from rsocket_wire.errors import BrokerError
from rsocket_wire.wire.ids import parse_id
from rsocket_wire.wire.tags import Tag

MAX_ID_DIGITS: Final = 18  # of a connection's number


class Changes:
    """The changes of one broker."""

    def __init__(self, admin: Admin) -> None:
        self._admin = admin

    def guard(self, request: web.Request) -> None:
        """AdminError unless whoever asks may change something."""
        guard(request, self._admin.config, self._admin.is_stopping)

    async def drain_route(self, request: web.Request) -> web.Response:
        """A route gets no new requests, now or when it comes."""
        route_id = _route_id(request)
        terms = await self._terms(request)
        return self._begun(partial(self._admin.drain_route, route_id, *astuple(terms)), self._of_route(route_id))

    async def drain_tag(self, request: web.Request) -> web.Response:
        """Routes with a tag get no new requests."""
        tag = _tag(request)
        terms = await self._terms(request)
        return self._begun(partial(self._admin.drain_tag, tag, *astuple(terms)), self._of_tag(tag))

    async def drain_broker(self, request: web.Request) -> web.Response:
        """Nobody gets new requests."""
        terms = await self._terms(request)
        return self._begun(partial(self._admin.drain_broker, *astuple(terms)), self._of_broker())

    def undrain_route(self, request: web.Request) -> web.Response:
        """A route is in service again."""
        route_id = _route_id(request)
        return self._ended(partial(self._admin.undrain_route, route_id), self._of_route(route_id))

    def undrain_tag(self, request: web.Request) -> web.Response:
        """Routes with a tag are in service again."""
        tag = _tag(request)
        return self._ended(partial(self._admin.undrain_tag, tag), self._of_tag(tag))

    def undrain_broker(self, request: web.Request) -> web.Response:
        """The broker is in service again."""
        return self._ended(self._admin.undrain_broker, self._of_broker())

    async def redirect(self, request: web.Request) -> web.Response:
        """Requests for a service go to another one."""
        service = request.match_info["service"]
        to = await destination_of(request)
        try:
            self._admin.set_redirect(service, to)
        except BrokerError as error:
            raise AdminError(error.word, error.text) from None
        found = cluster_queries.redirect(self._admin.core, self._admin.moment(), service)
        assert found is not None  # it was just set, and what was heard before is older
        return json_response(found)

    def unredirect(self, request: web.Request) -> web.Response:
        """They go where they ask for again."""
        service = request.match_info["service"]
        found = cluster_queries.redirect(self._admin.core, self._admin.moment(), service)
        if found is None or not self._admin.remove_redirect(service):
            raise AdminError("no-such-redirect", f"the service {shown(service)!r} is not redirected")
        return json_response(found)

    def close(self, request: web.Request) -> web.Response:
        """A connection ends."""
        text = request.match_info["id"]
        is_number = text.isascii() and text.isdigit() and len(text) <= MAX_ID_DIGITS
        if not is_number or not self._admin.close_connection(int(text)):
            raise AdminError("no-such-connection", f"no connection has the number {shown(text)}")
        return json_response(queries.closed(self._admin.core, Part(limit=1)).items[0])

    async def _terms(self, request: web.Request) -> Terms:
        return await terms_of(request, self._admin.config.server)

    def _begun(self, begin: Callable[[], None], find: Callable[[], DrainView | None]) -> web.Response:
        try:
            begin()
        except BrokerError as error:
            raise AdminError(error.word, error.text) from None
        drain = find()
        assert drain is not None  # it has just begun, and nothing else has happened since
        return json_response(drain)

    def _ended(self, end: Callable[[], bool], find: Callable[[], DrainView | None]) -> web.Response:
        drain = find()
        if drain is None or not end():
            raise AdminError("no-such-drain", "exactly this is not drained; /api/v1/drains lists what is")
        return json_response(drain)

    def _of_route(self, route_id: bytes) -> Callable[[], DrainView | None]:
        return lambda: queries.drain_of_route(self._admin.core, self._admin.moment(), route_id)

    def _of_tag(self, tag: Tag) -> Callable[[], DrainView | None]:
        return lambda: queries.drain_of_tag(self._admin.core, self._admin.moment(), tag)

    def _of_broker(self) -> Callable[[], DrainView | None]:
        return lambda: queries.drain_of_broker(self._admin.core, self._admin.moment())


def guard(request: web.Request, config: Config, is_stopping: bool) -> None:
    """AdminError unless whoever asks may change something.

    No page in a browser may, not even one that says to be from here (its server's name may have been made to mean
    this machine): every browser names the origin of such a request.
    """
    who = config.admin.changes
    if who == "off":
        raise AdminError("not-allowed", "changes are switched off (admin.changes)")
    if "Origin" in request.headers:
        raise AdminError("not-allowed", "pages in a browser may not change anything")
    if who == "local" and not is_local(request.remote):
        raise AdminError("not-allowed", "only programs on the broker's machine may change anything (admin.changes)")
    if is_stopping:
        raise AdminError("not-ready", "the broker is stopping", ["stopping: nothing can be changed any more"])


def _route_id(request: web.Request) -> bytes:
    text = request.match_info["id"]
    try:
        return parse_id(text)
    except BrokerError:
        raise AdminError("no-such-route", f"{shown(text)} is no Route Id") from None


def _tag(request: web.Request) -> Tag:
    """An empty value is none (D-07)."""
    key, value = request.match_info["key"], request.match_info.get("value", "")
    try:
        return Tag.of(key, value or None)
    except BrokerError as error:
        raise AdminError("bad-filter", f"{shown(key)}: {error.text}") from None


def is_local(remote: str | None) -> bool:
    """The address of the other end is one of this machine alone; None: it is gone already."""
    try:
        address = ipaddress.ip_address(remote or "")
    except ValueError:
        return False
    mapped = address.ipv4_mapped if isinstance(address, ipaddress.IPv6Address) else None
    return (mapped or address).is_loopback
