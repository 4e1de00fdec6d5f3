"""The admin API as an aiohttp application, and where it listens.

Decides what stands around each answer: headers, checks, errors. Does not know the paths (`endpoints`, `changes`) nor
how a question is answered (`backends`).
"""

import os
from typing import Final

import msgspec
from aiohttp import web
from aiohttp.typedefs import Middleware

from admin_api.access.gate import Gate
from admin_api.access.trail import Trail
from admin_api.answers.packing import pack
from admin_api.backends.one import OneBroker
from admin_api.backends.workers import NOTES, REVOKED, Backend, Workers
from admin_api.bodies import MAX_BODY_BYTES, ChangeNote
from admin_api.changes import CHANGES, Change, check_allowed
from admin_api.endpoints import ENDPOINTS, Endpoint, Endpoints
from admin_api.errors import AdminError, Handler, problems, shown, with_missing
from admin_api.listener import STOP_S, AdminListener
from admin_api.page import POLICY
from admin_api.parameters import reject_unknown
from admin_api.processes import BrokerProcess, GatewayProcess, Supervisor
from admin_api.schemas import json_response
from broker.config.hosts import is_known_host, own_names
from broker.config.options import Config
from rsocket_wire.errors import BrokerError

HEADERS: Final = {
    "Server": "rsocket-broker",  # aiohttp would tell its version and Python's
    "Cache-Control": "no-store",
    "X-Content-Type-Options": "nosniff",
    "Content-Security-Policy": POLICY,
}


NAMES: Final = {(each.operation.method, each.operation.template): each.name for each in CHANGES}
GATE: Final = web.AppKey("GATE", Gate)  # of an application that has one


def make_app(
    process: BrokerProcess,
    samwise: GatewayProcess | None = None,
    feed: GatewayProcess | None = None,
    gate: Gate | None = None,
) -> web.Application:
    """The application of one broker. `samwise`, `feed`: that this process keeps running; None: it keeps none. `gate`:
    None where whoever reaches the API was looked at before, as the supervisor of a worker is."""
    return app_of(OneBroker(process, samwise, feed), gate)


def make_workers_app(
    supervisor: Supervisor,
    samwise: GatewayProcess | None = None,
    feed: GatewayProcess | None = None,
    gate: Gate | None = None,
) -> web.Application:
    """The application of several workers, in the supervisor's process. `samwise`, `feed`, `gate`: see `make_app`."""
    return app_of(Workers(supervisor, samwise, feed), gate)


def make_worker_app(process: BrokerProcess) -> web.Application:
    """The application of one worker, which its supervisor asks, and tells of changes."""
    backend = OneBroker(process)
    app = app_of(backend)
    app.router.add_put(NOTES, _take_note(backend))
    app.router.add_get(REVOKED, _say_revoked(backend))
    return app


def app_of(backend: Backend, gate: Gate | None = None) -> web.Application:
    """The application that asks this backend, and closes it in the end."""
    guards = [problems, pack, known_host_only(backend.config)]
    if gate is not None:
        guards += [Trail(backend.tell_changed, NAMES).tell, gate.guard]
        if gate.identities is not None:
            gate.identities.is_revoked = backend.is_revoked
    app = web.Application(middlewares=guards, client_max_size=MAX_BODY_BYTES)
    common = Endpoints(backend)
    for endpoint in ENDPOINTS:
        app.router.add_get(endpoint.path, _handler(common, endpoint))
    for change in CHANGES:
        app.router.add_route(change.operation.method, change.operation.path, _change_handler(backend, change))

    async def close(_: web.Application) -> None:
        await backend.close()
        if gate is not None:
            gate.local.remove()
            if gate.identities is not None:
                await gate.identities.close()

    if gate is not None:
        app[GATE] = gate
    app.on_cleanup.append(close)
    app.on_response_prepare.append(_add_headers)
    return app


async def start_admin(app: web.Application, host: str, port: int) -> tuple[AdminListener, int]:
    """Listens, and writes the token of this machine; the listener, whose `cleanup()` ends it, and the port, which the
    system chose if `port` is 0.

    OSError, and nothing is left open, when the place is taken or cannot be.
    """
    listener = AdminListener(app)
    bound = await listener.listen(host, port)
    if GATE in app:
        app[GATE].local.write(bound)
    return listener, bound


async def start_unix(app: web.Application, path: str) -> web.AppRunner:
    """Listens at a Unix socket; the runner, whose `cleanup()` ends it. BrokerError "cannot-listen"."""
    runner = web.AppRunner(app, access_log=None, handle_signals=False, shutdown_timeout=STOP_S)
    await runner.setup()
    try:
        if os.path.exists(path):
            os.unlink(path)  # of a process that was killed
        await web.UnixSite(runner, path).start()
    except OSError as error:
        await runner.cleanup()
        raise BrokerError("cannot-listen", f"admin {path}: {error.strerror or error}") from None
    return runner


def known_host_only(config: Config) -> Middleware:
    """A middleware behind which only requests for this broker come. Who says no host is no browser.

    A site that lets its own name stand for 127.0.0.1 ("DNS rebinding") would read all that is told here: to the
    browser the site itself is asked (D-61).
    """
    names = own_names(config)

    @web.middleware
    async def guard(request: web.Request, handler: Handler) -> web.StreamResponse:
        for host in request.headers.getall("Host", ()):
            if not is_known_host(host, names):
                raise AdminError("wrong-host", f"{shown(host)} is not a name of this broker; add it to server.names")
        return await handler(request)

    return guard


def _handler(endpoints: Endpoints, endpoint: Endpoint) -> Handler:
    async def handle(request: web.Request) -> web.StreamResponse:
        reject_unknown(request, endpoint.operation.parameters)
        return await endpoint.answer(endpoints, request)

    return handle


def _change_handler(backend: Backend, change: Change) -> Handler:
    async def handle(request: web.Request) -> web.StreamResponse:
        check_allowed(request, backend.config, backend.is_stopping)
        reject_unknown(request, ())
        value, missing = await change.change(backend, request)
        return with_missing(json_response(value), missing)

    return handle


def _take_note(backend: Backend) -> Handler:
    async def handle(request: web.Request) -> web.StreamResponse:
        await backend.tell_changed(msgspec.json.decode(await request.read(), type=ChangeNote))
        return web.Response()

    return handle


def _say_revoked(backend: Backend) -> Handler:
    async def handle(request: web.Request) -> web.StreamResponse:
        query = request.query
        return json_response(await backend.is_revoked(query["principal"], int(query["issued_at_ms"])))

    return handle


async def _add_headers(request: web.Request, response: web.StreamResponse) -> None:
    response.headers.update(HEADERS)
