"""`rsocket-broker ctl`: tables and sentences of a running broker."""

import asyncio
import json
import socket
import ssl
from pathlib import Path

import pytest
from aiohttp import web
from aiohttp.test_utils import TestServer
from click.testing import CliRunner
from msgspec.structs import replace

from admin_api.ctl.client import AdminClient
from admin_api.ctl.commands import check_of
from admin_api.ctl.place import DEFAULT_ADMIN
from admin_api.ctl.tables import LINKS, state_text, tags_text
from admin_api.errors import AdminError
from broker import exit_status
from broker.commands.main import main
from rsocket_wire.rsocket.foreign import NO_HTTP
from tests.admin_api.asking import Api, run, said, squeezed
from tests.admin_api.fakes import PIPE_STATE, FakeAdmin
from tests.admin_api.gateway import FakeGateway

CERTIFICATE = Path(__file__).parents[2] / "client_sdk/localhost.pem"
ORDERS_EU = "00000000-0000-0000-0000-000000000001"


@pytest.fixture
def url(client: Api) -> str:
    return str(client.make_url("")).rstrip("/")


async def rows(*arguments: str) -> list[str]:
    """Its lines below the head of the table."""
    return squeezed(await said(*arguments))[1:]


@pytest.mark.parametrize("error, shown", [("", "90 records sealed"), ("disk full", "disk full")])
async def test_status_tells_how_the_event_files_are(admin: FakeAdmin, url: str, error: str, shown: str) -> None:
    admin.files = replace(PIPE_STATE, error=error)
    assert (await run("status", "--admin", url)).stdout.splitlines()[-1].split(maxsplit=2)[2].strip() == shown


@pytest.mark.parametrize(
    "arguments, found",
    [
        (("--service", "orders", "--tag", "region=eu"), [1]),
        (("--service", "orders", "--service", "billing"), [1, 2, 3]),
        (("--tag", "zone=a", "--tag", "region=us"), [2]),
        (("--tag", "canary"), [3]),
    ],
)
async def test_routes_by_tags(url: str, arguments: tuple[str, ...], found: list[int]) -> None:
    result = await run("routes", "--admin", url, "--json", *arguments)
    assert [int(route["route_id"][-1]) for route in json.loads(result.stdout)["items"]] == found


async def test_no_routes(url: str) -> None:
    assert (await run("routes", "--admin", url, "--tag", "region=mars")).stdout == "no routes\n"


@pytest.mark.parametrize("command", ["routes", "traffic"])
async def test_a_service_that_is_not_there_is_told_beside_an_empty_list(url: str, command: str) -> None:
    near, far = [await run(command, "--admin", url, "--service", name) for name in ("order", "mars")]
    assert (near.exit_code, near.stderr) == (0, "no route offers the service 'order'; did you mean 'orders'?\n")
    assert far.stderr == f"no route offers the service 'mars'; rsocket-broker ctl --admin {url} services lists all\n"


async def test_a_drain_of_what_is_not_there_says_so_and_how_it_is_taken_back(url: str) -> None:
    told = await said("drain", "tag", "region=mars", "--admin", url)
    assert told == (
        "the tag region=mars is drained: no route is there now, whichever comes is drained; ctl undrain tag region=mars"
        " takes it back"
    )


async def test_a_list_is_asked_for_part_by_part(url: str) -> None:
    body = await asyncio.to_thread(AdminClient(url).get_all, "/api/v1/routes", part_n=2)
    assert (len(body["items"]), body["total"]) == (3, 3)


async def test_a_tag_is_drained_listed_and_undrained(admin: FakeAdmin, url: str) -> None:
    assert (await run("drains", "--admin", url)).stdout == "nothing is drained\n"
    told = await said("drain", "tag", "region=eu", "--grace", "1.5", "--spread", "60", "--admin", url)
    assert told == "the tag region=eu is drained: 2 routes; 2 connections are closed within 61.5 s"
    assert await rows("drains", "--admin", url) == ["tag region=eu 0.0 s 1.5 s 60 s 2 2"]
    assert (await rows("routes", "--service", "billing", "--admin", url))[0].startswith(
        "billing 00000000-0000-0000-0000-000000000003 region=eu canary draining broker-00000000 tcp"
    )
    admin.world.now += 3
    assert await said("undrain", "tag", "region=eu", "--admin", url) == (
        "the tag region=eu is in service again after 3.0 s"
    )
    assert (await run("drains", "--admin", url)).stdout == "nothing is drained\n"


async def test_the_routes_of_a_service_are_drained_by_their_tag(url: str) -> None:
    """As the text of `ctl drain orders` advises."""
    told = await said("drain", "tag", "service=orders", "--keep", "--admin", url)
    assert told == "the tag service=orders is drained: 2 routes; none is closed"


async def test_a_route_is_drained_and_keeps_its_connection(url: str) -> None:
    told = await said("drain", "route", f"Id{{{ORDERS_EU}}}", "--keep", "--admin", url)
    assert told == f"the route {ORDERS_EU} is drained: 1 routes; none is closed"
    assert await rows("drains", "--admin", url) == [f"route {ORDERS_EU} 0.0 s 10 s 30 s 1 stay open"]
    body = json.loads(await said("undrain", "route", ORDERS_EU, "--json", "--admin", url))
    assert (body["kind"], body["name"], body["close"]) == ("route", ORDERS_EU, False)


async def test_the_broker_is_drained_as_configured(url: str) -> None:
    body = json.loads(await said("drain", "broker", "--json", "--admin", url))
    assert (body["kind"], body["grace_s"], body["spread_s"], body["close"]) == ("broker", 10.0, 30.0, True)
    assert (await run("status", "--admin", url)).stdout.count("drained      1") == 1
    assert await said("undrain", "broker", "--admin", url) == "the broker is in service again after 0.0 s"


async def test_a_tag_with_a_value_of_any_text_is_drained(admin: FakeAdmin, url: str) -> None:
    await said("drain", "tag", "path=a/b?c=d&e #%2F", "--admin", url)
    await said("drain", "tag", "canary", "--admin", url)
    assert [drain.name for drain in admin.core.lifecycle.drains.all()] == ["path=a/b?c=d&e #%2F", "canary"]


async def test_a_connection_is_closed(admin: FakeAdmin, url: str) -> None:
    assert await said("close", "2", "--admin", url) == "connection 2 (tcp 127.0.0.1:1) closed after 8.0 s"
    assert admin.world.wires[2].is_closed
    result = await run("close", "2", "--admin", url)
    assert (result.exit_code, result.stderr) == (
        4,
        "rsocket-broker ctl: no-such-connection: no connection has the number 2;"
        f" rsocket-broker ctl --admin {url} connections lists all\n",
    )
    assert json.loads(await said("close", "1", "--json", "--admin", url))["reason"] == "closed-by-operator"


@pytest.mark.parametrize(
    "arguments, sentence",
    [
        (("drain", "broker", "eu"), "the broker needs no name"),
        (("drain", "route"), "a route needs its id"),
        (("undrain", "tag"), "a tag needs KEY=VALUE"),
        (("drain", "tag", "region:eu"), "the tag 'region:eu' is no NAME=VALUE; write region=eu"),
        (("routes", "--tag", "region:eu"), "--tag 'region:eu' is no NAME=VALUE; write region=eu"),
        (("drain", "service", "orders"), "'service' is not one of 'route', 'tag', 'broker'"),
        (("close", "0"), "0 is not in the range x>=1"),
    ],
)
async def test_a_change_that_is_said_wrongly_is_never_asked_for(
    admin: FakeAdmin, url: str, arguments: tuple[str, ...], sentence: str
) -> None:
    result = await run(*arguments, "--admin", url)
    assert (result.exit_code, result.stdout) == (2, "")
    assert sentence in result.stderr
    assert admin.core.lifecycle.drains.all() == []


async def test_what_the_broker_refuses_to_change_is_its_sentence_and_exit_status_4(url: str) -> None:
    result = await run("drain", "broker", "--grace", "3601", "--admin", url)
    sentence = "bad-body: grace_s must be a number from 0 to 3600, not 3601.0"
    assert (result.exit_code, result.stderr) == (4, f"rsocket-broker ctl: {sentence}\n")


def test_states_of_a_route_are_shown_with_how_long_it_is_still_ejected() -> None:
    assert state_text({"states": ["draining", "ejected"], "ejected_s": 12.4}) == "draining ejected(12 s)"
    assert state_text({"states": [], "ejected_s": 0.0}) == "ready"


async def test_the_options_may_stand_before_the_command(url: str) -> None:
    body = json.loads((await run("--admin", url.removeprefix("http://"), "--json", "status")).stdout)
    assert body["name"] == "eu-1"


async def test_what_peers_are_called_does_not_reach_the_terminal_as_control_characters(
    admin: FakeAdmin, url: str
) -> None:
    admin.world.service("\x1b[31mred[bold]", 9)
    result = await run("services", "--admin", url)
    assert "\x1b" not in result.stdout
    assert "\N{REPLACEMENT CHARACTER}[31mred[bold]" in result.stdout


@pytest.mark.parametrize("command", ["status", "routes", "services", "connections"])
async def test_one_sentence_and_exit_status_3_when_nobody_answers(command: str) -> None:
    with socket.socket() as probe:  # bound and not listening: nobody else can answer there
        probe.bind(("127.0.0.1", 0))
        nowhere = f"http://127.0.0.1:{probe.getsockname()[1]}"
        result = await run(command, "--admin", nowhere)
    assert (result.exit_code, result.stdout) == (3, "")
    sentence = f"no broker answers at {nowhere} (connection refused); --admin says where"
    assert result.stderr == f"rsocket-broker ctl: {sentence}\n"


async def test_https_where_the_admin_api_speaks_http_says_which_to_use(url: str) -> None:
    secure = url.replace("http://", "https://")
    result = await run("status", "--admin", secure)
    assert (result.exit_code, result.stdout) == (3, "")
    assert result.stderr == f"rsocket-broker ctl: the server at {secure} does not speak TLS; use http:// in --admin\n"


async def test_another_server_than_the_admin_api_is_one_sentence_and_exit_status_3() -> None:
    """A port of frames, of WebSockets and of TLS, asked by http and by https."""
    context = ssl.SSLContext(ssl.PROTOCOL_TLS_SERVER)
    context.load_cert_chain(CERTIFICATE)
    where = "--admin is the address of the REST API, usually http://127.0.0.1:7070"
    for answer, tls, scheme, sentence in (
        (b"\0\0\x0e", None, "http", f"does not speak HTTP; {where}, and if it speaks TLS, use https://"),
        (NO_HTTP, None, "http", f"speaks RSocket without HTTP; {where}"),
        (b"HTTP/1.1 426 Upgrade Required\r\n\r\n", None, "http", f"speaks RSocket over WebSocket; {where}"),
        (b"HTTP/1.1 200 OK\r\n\r\n[]", None, "http", f"is not an admin API; {where}"),
        (b"", context, "http", f"does not speak HTTP; {where}, and if it speaks TLS, use https://"),
        (b"", context, "https", "is not trusted: self-signed certificate; SSL_CERT_FILE=FILE trusts the CA in FILE"),
    ):

        async def say(reader: asyncio.StreamReader, writer: asyncio.StreamWriter, answer: bytes = answer) -> None:
            await reader.readuntil(b"\r\n\r\n")
            writer.write(answer)
            writer.close()

        async with await asyncio.start_server(say, "127.0.0.1", 0, ssl=tls) as server:
            admin = f"{scheme}://127.0.0.1:{server.sockets[0].getsockname()[1]}"
            result = await run("status", "--admin", admin)
        subject = f"the certificate of {admin}" if scheme == "https" else f"the server at {admin}"
        assert (result.exit_code, result.stderr) == (3, f"rsocket-broker ctl: {subject} {sentence}\n")


async def test_a_refusal_is_its_sentence_and_exit_status_4(url: str) -> None:
    result = await run("route", "mars", "--admin", url)
    assert (result.exit_code, result.stdout) == (4, "")
    assert result.stderr == (
        f"rsocket-broker ctl: no-such-route: mars is not a Route Id; rsocket-broker ctl --admin {url} routes lists all,"
        " with --service NAME those of a service\n"
    )


async def test_who_finds_no_token_is_told_whose_it_is_and_where_it_was_looked_for(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    async def answer(_request: web.Request) -> web.Response:
        refused = AdminError("no-token", "this needs a token with the role operator, as Authorization: Bearer …")
        return web.json_response({"code": refused.code, "detail": refused.detail}, status=401)

    monkeypatch.setenv("RSB_ADMIN__TOKEN_FILE", str(tmp_path / "its.token"))
    other = web.Application()
    other.router.add_route("*", "/{path:.*}", answer)
    async with TestServer(other) as server:
        result = await run("drain", "broker", "--admin", str(server.make_url("")))
    assert (result.exit_code, result.stderr) == (
        4,
        "rsocket-broker ctl: no-token: this needs a token with the role operator; the one of this machine is for the"
        " broker's user only: run this as that user, or give --token-file FILE"
        f" ({tmp_path}/its.token is not there, or not for you)\n",
    )


@pytest.mark.parametrize(
    "body, status", [("[]", 200), ("{}", 200), ("<html>", 200), ("gone", 404), ("{}", 500), ("", 302)]
)
async def test_another_server_is_told_from_a_broker(body: str, status: int) -> None:
    async def answer(_request: web.Request) -> web.Response:
        return web.Response(text=body, status=status, headers={"Location": "/elsewhere"})

    app = web.Application()
    app.router.add_get("/{path:.*}", answer)
    async with TestServer(app) as server:
        result = await run("status", "--admin", str(server.make_url("")))
    assert (result.exit_code, result.stdout) == (3, "")
    assert result.stderr.count("\n") == 1


@pytest.mark.parametrize("url", ["file:///etc/passwd", "ftp://x", "http://", "http://a?b=c"])
async def test_what_is_no_url_is_refused_before_anything_is_asked(url: str) -> None:
    result = await run("status", "--admin", url)
    assert result.exit_code == 2
    assert f"{url!r} is no URL like {DEFAULT_ADMIN}" in result.stderr


def test_tags_are_shown_without_those_that_have_columns() -> None:
    tags = [
        {"key": "io.rsocket.routing.ServiceName", "name": "service", "value": "orders"},
        {"key": "io.rsocket.routing.ServiceName", "name": "service", "value": "alias"},
        {"key": "io.rsocket.routing.RouteId", "name": "route_id", "value": ORDERS_EU},
    ]
    assert tags_text({"service": "orders", "route_id": ORDERS_EU, "tags": tags}) == "service=alias"


# The Samwise gateway


@pytest.fixture
def beside(admin: FakeAdmin, gateway: FakeGateway) -> FakeGateway:
    admin.keep(gateway)
    return gateway


async def test_messages_are_listed_part_by_part(beside: FakeGateway, url: str) -> None:
    beside.ids, beside.page_n = set(range(1, 22)), 3
    assert [line.split()[0] for line in await rows("samwise", "messages", "--limit", "2", "--admin", url)] == ["1", "3"]
    body = json.loads(await said("samwise", "messages", "--limit", "9999", "--json", "--admin", url))
    assert [each["id"] for each in body["items"]] == sorted(beside.ids - beside.dead)


async def test_dead_letters_are_requeued_by_id_or_all(beside: FakeGateway, url: str) -> None:
    beside.dead = {1, 2, 4, 5}
    assert await said("samwise", "requeue", "4", "2", "--admin", url) == "2 messages requeued"
    assert beside.dead == {1, 5}
    assert await said("samwise", "requeue", "--all", "--admin", url) == "2 messages requeued"
    assert await said("samwise", "messages", "--dead", "--admin", url) == "no messages"
    assert await said("samwise", "requeue", "--all", "--admin", url) == "0 messages requeued"


async def test_messages_are_removed_up_to_one_that_is_not_there(beside: FakeGateway, url: str) -> None:
    assert await said("samwise", "remove", "1", "2", "--admin", url) == "2 messages removed"
    result = await run("samwise", "remove", "3", "1", "5", "--admin", url)
    assert (result.exit_code, result.stderr) == (
        4,
        "rsocket-broker ctl: no-such-message: no message has the id 1\n",
    )
    assert beside.ids == {4, 5}


async def test_all_dead_letters_are_removed_and_nothing_else(beside: FakeGateway, url: str) -> None:
    beside.page_n = 1
    assert await said("samwise", "remove", "--dead", "--admin", url) == "2 messages removed"
    assert (beside.dead, beside.ids) == (set(), {1, 3, 5})
    assert await said("samwise", "remove", "--dead", "--admin", url) == "0 messages removed"


@pytest.mark.parametrize("arguments", [(), ("--dead", "2")])
async def test_what_is_to_be_removed_is_named_once(beside: FakeGateway, url: str, arguments: tuple[str, ...]) -> None:
    result = await run("samwise", "remove", *arguments, "--admin", url)
    assert (result.exit_code, result.stderr.splitlines()[-1]) == (
        2,
        "Error: name messages by their ids, or all dead letters by --dead",
    )
    assert beside.ids == {1, 2, 3, 4, 5}


@pytest.mark.parametrize("arguments", [(), ("--all", "1")])
async def test_what_is_to_be_requeued_is_named_once(beside: FakeGateway, url: str, arguments: tuple[str, ...]) -> None:
    result = await run("samwise", "requeue", *arguments, "--admin", url)
    assert (result.exit_code, result.stderr.splitlines()[-1]) == (
        2,
        "Error: name dead letters by their ids, or all by --all",
    )
    assert beside.dead == {2, 4}


async def test_check_tells_by_the_exit_status_whether_the_broker_is_well(admin: FakeAdmin, url: str) -> None:
    well = await run("status", "--check", "--admin", url)
    assert (well.exit_code, well.stdout) == (exit_status.DONE, "ready\n")
    await said("drain", "broker", "--keep", "--admin", url)
    drained = await run("status", "--check", "--admin", url, "--json")
    assert (drained.exit_code, json.loads(drained.stdout)["is_drained"]) == (exit_status.DRAINED, True)
    admin.files = replace(PIPE_STATE, error="disk full")
    unwell = await run("status", "--check", "--admin", url)
    assert (unwell.exit_code, unwell.stdout) == (exit_status.UNWELL, "event files: disk full\n")


def test_brokers_that_cannot_be_reached_are_told() -> None:
    body = {"state": "ready", "event_files": None, "cluster": {"brokers": 3, "reachable": 1}}
    assert check_of(body, is_drained=True) == (exit_status.UNWELL, ["2 of 3 brokers cannot be reached"])
    body["cluster"] = {"brokers": 1, "reachable": 1}
    assert check_of({**body, "state": "stopping"}, is_drained=False)[0] == exit_status.DRAINED
    assert check_of({**body, "state": "starting"}, is_drained=False)[0] == exit_status.UNWELL


async def test_a_command_that_watches_asks_again_until_it_is_interrupted(
    url: str, monkeypatch: pytest.MonkeyPatch
) -> None:
    waits: list[float] = []

    def sleep(seconds: float) -> None:
        waits.append(seconds)
        if len(waits) == 3:
            raise KeyboardInterrupt

    monkeypatch.setattr("admin_api.ctl.commands.time.sleep", sleep)
    words = ["ctl", "services", "--watch", "2", "--json", "--admin", url]
    result = await asyncio.to_thread(CliRunner().invoke, main, words)
    assert (result.exit_code, waits) == (exit_status.INTERRUPTED, [2.0, 2.0, 2.0])
    assert len({json.loads(line)["total"] for line in result.stdout.splitlines()}) == 1


async def test_limits_are_listed_with_their_reasons(url: str) -> None:
    lines = squeezed(await said("limits", "--admin", url))
    assert any(line.startswith("limits.max_connections 50000") for line in lines), lines


def test_links_whose_brokers_have_other_roles_say_so() -> None:
    (column,) = [each for each in LINKS.columns if each.head == "roles"]
    assert [column.cell({"has_other_roles": each}) for each in (True, False)] == ["differ", "-"]
