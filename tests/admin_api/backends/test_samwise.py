"""admin_api.backends.samwise: the gateway as operators see it through the API of the broker, whatever it does."""

from collections.abc import AsyncIterator
from pathlib import Path
from typing import Any

import msgspec
import pytest

from admin_api.app import app_of, make_workers_app
from admin_api.backends.gateway import ANSWER_S
from admin_api.backends.one import OneBroker
from admin_api.backends.samwise import SamwiseGateway
from admin_api.metrics import PIECE_LINES
from broker.config.options import Config
from broker.config.sections.process import AdminOptions
from broker.config.sections.samwise_checks import CONTROL_NAME
from broker.views.samwise import GatewayView
from client_sdk.gateways.samwise.control import ControlListener
from client_sdk.gateways.samwise.tables import Letter
from client_sdk.gateways.samwise.values import Message
from tests.admin_api.asking import Api, api_of, change, get, refusal
from tests.admin_api.backends.test_workers import FakeSupervisor
from tests.admin_api.fakes import FakeAdmin
from tests.admin_api.gateway import STATE as ITS_STATE
from tests.admin_api.gateway import FakeGateway, destination, letter
from tests.client_sdk.gateways.samwise.messages import publish_to
from tests.system.support.chromium import browser

STATE = "/api/v1/samwise"
MESSAGES = "/api/v1/samwise/messages"


@pytest.fixture
def admin(admin: FakeAdmin, gateway: FakeGateway) -> FakeAdmin:
    admin.keep(gateway)
    return admin


async def ids(client: Api, query: str) -> list[int]:
    """Of the messages that are found."""
    return [each["id"] for each in (await get(client, f"{MESSAGES}?{query}"))["items"]]


async def test_messages_are_found_by_state_and_page(client: Api) -> None:
    assert await ids(client, "") == [1, 3, 5]
    assert await ids(client, "state=waiting&after=1&limit=1") == [3]
    assert await ids(client, "state=dead") == [2, 4]
    assert await ids(client, "state=dead&after=4") == []


@pytest.mark.parametrize(
    "query, detail",
    [
        ("state=alive", "state must be one of waiting, dead, not 'alive'"),
        ("after=-1", "after must be one whole number from 0 to 9223372036854775807, not '-1'"),
        ("limit=1001", "limit must be one whole number from 1 to 1000, not '1001'"),
        ("offset=1", "unknown parameter 'offset'; allowed: after, limit, state"),
    ],
)
async def test_a_parameter_that_is_none_is_refused(client: Api, query: str, detail: str) -> None:
    assert await refusal(client, "GET", f"{MESSAGES}?{query}") == (400, "bad-parameter", detail)


async def test_a_dead_letter_is_requeued_once(client: Api) -> None:
    assert await change(client, "PUT", f"{MESSAGES}/2/requeue") == {"id": 2, "change": "requeued"}
    assert (await ids(client, "state=dead"), await ids(client, "")) == ([4], [1, 2, 3, 5])
    for id in ("2", "1", "99", "-1", "x", "1" * 19):
        refused = await refusal(client, "PUT", f"{MESSAGES}/{id}/requeue")
        assert refused == (404, "no-such-message", f"no dead letter has the id {id}")


async def test_a_message_is_removed_whatever_its_state(client: Api) -> None:
    for id in (1, 2):
        assert await change(client, "DELETE", f"{MESSAGES}/{id}") == {"id": id, "change": "removed"}
        refused = await refusal(client, "DELETE", f"{MESSAGES}/{id}")
        assert refused == (404, "no-such-message", f"no message has the id {id}")
    assert (await ids(client, "state=dead"), await ids(client, "")) == ([4], [3, 5])


async def test_a_change_is_a_line_of_the_log(client: Api, caplog: pytest.LogCaptureFixture) -> None:
    with caplog.at_level("INFO"):
        await change(client, "PUT", f"{MESSAGES}/2/requeue")
        await refusal(client, "DELETE", f"{MESSAGES}/99")
    lines = [each.message for each in caplog.records if each.name == "admin_api.backends.samwise"]
    assert lines == ["samwise gateway: message 2 requeued by an operator"]


@pytest.mark.parametrize("method, path", [("PUT", f"{MESSAGES}/2/requeue"), ("DELETE", f"{MESSAGES}/2")])
async def test_messages_are_changed_only_by_who_may_change_something(
    admin: FakeAdmin, gateway: FakeGateway, method: str, path: str
) -> None:
    admin.config = Config(samwise=gateway.options, admin=AdminOptions(changes="off"))
    async with api_of(admin) as client:
        assert (await refusal(client, method, path))[:2] == (403, "not-allowed")
    assert gateway.dead == {2, 4}


async def test_without_a_gateway_there_is_nothing_to_ask(admin: FakeAdmin) -> None:
    admin.keep(None)
    sentence = "this broker has no Samwise gateway: samwise.endpoints is empty; "
    sentence += 'endpoints = ["tcp://127.0.0.1:5555"] in [samwise] opens one'
    async with api_of(admin) as client:
        for method, path in (("GET", STATE), ("GET", MESSAGES), ("PUT", f"{MESSAGES}/2/requeue")):
            assert await refusal(client, method, path) == (404, "no-samwise", sentence)


async def test_the_page_shows_the_gateway_where_there_is_one(admin: FakeAdmin, client: Api) -> None:
    async with client.get("/") as answer:
        page = await answer.text()
    for shown in ("<td>14, the oldest for 12 s</td>", "<td>1 of 2 up</td>", f'href="{STATE}"', f'href="{MESSAGES}"'):
        assert shown in page
    admin.keep(None)
    async with api_of(admin) as client, client.get("/") as answer:
        assert "amwise" not in await answer.text()


async def test_the_page_lists_dead_letters_and_how_to_requeue_or_remove_them(gateway: FakeGateway, client: Api) -> None:
    async with client.get("/") as answer:
        page = await answer.text()
    what = "to orders new, 100 bytes; 1 of 2 have acknowledged it, 3 tries; connection refused"
    assert f"<tr><td>4</td><td>{what}</td></tr>" in page
    assert "more</td>" not in page
    for command in ("requeue ID", "requeue --all", "remove ID", "remove --dead"):
        assert f"<code>rsocket-broker ctl samwise {command}</code>" in page
    gateway.dead = set()
    gateway.state["dead"] = 0
    async with client.get("/") as answer:
        assert "samwise requeue" not in await answer.text()


async def test_the_page_has_the_first_dead_letters_and_how_many_more_there_are(
    gateway: FakeGateway, client: Api
) -> None:
    gateway.ids = gateway.dead = set(range(1, 31))
    gateway.state["dead"] = 30
    async with client.get("/") as answer:
        page = await answer.text()
    assert page.count("; connection refused</td>") == 20
    assert "<td>and 10 more</td>" in page


async def test_the_page_escapes_what_senders_have_named(
    gateway: FakeGateway, client: Api, monkeypatch: pytest.MonkeyPatch
) -> None:
    named = {"exchange": "<b>x", "routing_key": "&k", "reason": "<script>alert(1)</script>"}
    monkeypatch.setattr("tests.admin_api.gateway.letter", lambda id, dead_at_ms: {**letter(id, dead_at_ms), **named})
    async with client.get("/") as answer:
        page = await answer.text()
    assert "<td>to &lt;b&gt;x &amp;k, " in page
    assert "<script>" not in page


@pytest.mark.interop
@pytest.mark.slow
async def test_the_page_fits_on_a_phone_and_follows_the_dark(
    client: Api, needs_chromium: str, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr("tests.admin_api.gateway.letter", lambda id, at: {**letter(id, at), "exchange": "x" * 255})
    async with browser(needs_chromium, tmp_path / "browser") as page:
        for width in (390, 1280):
            await page.ask(
                "Emulation.setDeviceMetricsOverride", width=width, height=900, deviceScaleFactor=1, mobile=width < 500
            )
            colours = set()
            for is_dark in (False, True):
                await page.prefer(is_dark=is_dark)
                await page.open(str(client.make_url("/")), "document.readyState == 'complete'")
                assert await page.value("document.documentElement.scrollWidth") <= width
                colours.add(await page.value("getComputedStyle(document.querySelector('th')).color"))
            assert colours == {"rgb(102, 102, 102)", "rgb(170, 170, 170)"}
        assert page.errors == []


async def test_the_page_says_why_there_is_nothing_to_show_of_it(client: Api, gateway: FakeGateway) -> None:
    gateway.pid = 0
    async with client.get("/") as answer:
        assert "<td>the Samwise gateway does not run; the broker&#x27;s log says why</td>" in await answer.text()


async def test_one_that_does_not_run_is_said_to(client: Api, gateway: FakeGateway) -> None:
    gateway.pid = 0
    sentence = "the Samwise gateway does not run; the broker's log says why"
    assert await refusal(client, "GET", STATE) == (503, "samwise-unavailable", sentence)


async def test_one_that_starts_is_said_to_and_answers_when_it_listens(client: Api, gateway: FakeGateway) -> None:
    await gateway.close()
    gateway.restarts = 0
    sentence = "the Samwise gateway cannot be asked: it is starting, or ending"
    assert await refusal(client, "GET", STATE) == (503, "samwise-unavailable", sentence)
    gateway.restarts = 7
    sentence += ", after 7 restarts; the broker's log says why"
    assert await refusal(client, "GET", STATE) == (503, "samwise-unavailable", sentence)
    async with gateway:
        assert (await get(client, STATE))["pid"] == 42


async def test_one_that_hangs_is_not_waited_for(admin: FakeAdmin, gateway: FakeGateway) -> None:
    backend = OneBroker(admin)
    backend.samwise = SamwiseGateway(gateway.options, gateway, answer_s=0.05)  # type: ignore[misc]
    gateway.is_stuck = True
    async with api_of(app_of(backend)) as client:
        sentence = "the Samwise gateway has not answered within 0.05 s"
        assert await refusal(client, "GET", STATE) == (503, "samwise-unavailable", sentence)
        sentence += "; what was asked for may still be done"
        assert await refusal(client, "DELETE", f"{MESSAGES}/2") == (503, "samwise-unavailable", sentence)
        gateway.is_stuck = False
        assert (await get(client, STATE))["pid"] == 42


def test_operators_are_answered_within_a_second() -> None:
    assert ANSWER_S < 0.9  # the rest is for the way there and back


@pytest.mark.parametrize(
    "said, sentence",
    [
        ((503, b"the store is\ngone"), "refuses: the store is\N{REPLACEMENT CHARACTER}gone"),
        ((200, b"{}"), "gives an answer that is none"),
        ((200, b'{"messages": ["\xff"]}'), "gives an answer that is none"),
        ((404, b""), "refuses: "),
    ],
)
async def test_an_answer_that_is_none_is_said_to_be(
    client: Api, gateway: FakeGateway, said: tuple[int, bytes], sentence: str
) -> None:
    gateway.said = said
    for path in (STATE, MESSAGES):
        assert await refusal(client, "GET", path) == (503, "samwise-unavailable", f"the Samwise gateway {sentence}")


async def test_several_workers_have_one_gateway(socket_folder: Path, gateway: FakeGateway, admin: FakeAdmin) -> None:
    supervisor = FakeSupervisor(socket_folder)
    supervisor.config = admin.config
    async with api_of(admin) as one, api_of(make_workers_app(supervisor, gateway)) as workers:
        assert await get(workers, STATE) == await get(one, STATE)
        assert await ids(workers, "state=dead") == [2, 4]
        await change(workers, "PUT", f"{MESSAGES}/2/requeue")
        assert await ids(workers, "state=dead") == [4]


async def metrics(client: Api) -> dict[str, float]:
    """Those of the gateway; each name is described once."""
    async with client.get("/metrics") as answer:
        lines = (await answer.text()).splitlines()
    described = [line.split()[2] for line in lines if line.startswith("# TYPE")]
    assert len(described) == len(set(described))
    found = (line.rpartition(" ") for line in lines if line.startswith("samwise_"))
    return {name: float(value) for name, _, value in found}


async def test_metrics_tell_what_the_state_does(client: Api) -> None:
    """Names and values: see the golden file."""
    found = await metrics(client)
    assert found["samwise_gateway_up"] == 1
    assert found['samwise_stored_messages{state="dead"}'] == 2
    assert found['samwise_deliveries_failed_total{destination="rabbit-2"}'] == 6


async def test_nothing_waits_for_no_time(client: Api, gateway: FakeGateway) -> None:
    gateway.state["oldest_age_s"] = None
    assert (await metrics(client))["samwise_oldest_message_age_seconds"] == 0


async def test_metrics_say_that_the_gateway_does_not_answer(client: Api, gateway: FakeGateway) -> None:
    gateway.pid = 0
    assert await metrics(client) == {"samwise_gateway_up": 0, "samwise_gateway_restarts_total": 1}


async def test_there_are_no_metrics_of_a_gateway_that_is_not_there(admin: FakeAdmin) -> None:
    admin.keep(None)
    async with api_of(admin) as client:
        assert await metrics(client) == {}


@pytest.mark.parametrize("accept", ["text/plain", "application/openmetrics-text; version=1.0.0"])
async def test_more_destinations_than_fit_into_a_piece_are_one_family(
    client: Api, gateway: FakeGateway, accept: str
) -> None:
    numbers = range(2 * PIECE_LINES + 1)
    gateway.state["destinations"] = [destination(f"d{number:04}", acknowledged=number) for number in numbers]
    async with client.get("/metrics", headers={"Accept": accept}) as answer:
        lines = (await answer.text()).splitlines()
    name = "samwise_deliveries_acknowledged"
    at = [number for number, line in enumerate(lines) if name in line]
    assert at == list(range(at[0], at[-1] + 1))  # nothing of another family between them
    assert sum(not lines[number].startswith("#") for number in at) == 2 * PIECE_LINES + 1
    assert f'{name}_total{{destination="d{2 * PIECE_LINES:04}"}} {2 * PIECE_LINES:.1f}' in lines
    assert sum(lines[number].startswith("#") for number in at) == 2


class RealGateway:
    """What `ControlListener` asks of a gateway."""

    def state(self) -> GatewayView:
        return msgspec.convert(ITS_STATE, GatewayView)

    async def list_waiting(self, after_id: int, max_n: int) -> list[Letter]:
        return []

    async def list_dead(self, after_id: int, max_n: int) -> list[Letter]:
        publish = publish_to("orders", "new", b"x", acks_n=2)
        message = Message(
            id=7, uid="00ff", stored_at_ms=1000, tries_n=3, acknowledged_by=frozenset({"b"}), publish=publish
        )
        return [Letter(message, "refused", due_at_ms=None, dead_at_ms=2000)][: max_n if after_id < 7 else 0]

    async def requeue(self, ids: Any) -> int:
        return int(list(ids) == [7])

    async def remove(self, ids: Any) -> int:
        return int(list(ids) == [7])


@pytest.fixture
async def real(admin: FakeAdmin, socket_folder: Path, gateway: FakeGateway) -> AsyncIterator[Api]:
    await gateway.close()
    listener = ControlListener(RealGateway(), socket_folder / CONTROL_NAME)
    await listener.start()
    async with api_of(admin) as client:
        yield client
    await listener.close()


async def test_the_socket_of_the_gateway_is_asked_and_passed_on(real: Api) -> None:
    state = await get(real, STATE)
    assert {name: state[name] for name in ITS_STATE} == ITS_STATE
    (message,) = (await get(real, f"{MESSAGES}?state=dead"))["items"]
    assert (message["id"], message["acknowledgements"], message["tries"]) == (7, 2, 3)
    assert (await get(real, f"{MESSAGES}?state=dead&after=7"))["items"] == []
    assert await change(real, "PUT", f"{MESSAGES}/7/requeue") == {"id": 7, "change": "requeued"}
    assert await change(real, "DELETE", f"{MESSAGES}/7") == {"id": 7, "change": "removed"}
    assert (await refusal(real, "DELETE", f"{MESSAGES}/8"))[:2] == (404, "no-such-message")
