"""client_sdk.gateways.samwise.settings: each option reaches what it is for."""

from dataclasses import fields, replace
from pathlib import Path
from typing import Any

import pytest

from broker.config.options import Config
from broker.config.sections.samwise import (
    ExchangeOptions,
    MessageDefaults,
    RabbitmqOptions,
    RetryOptions,
    SamwiseOptions,
)
from broker.config.sections.samwise_checks import VERSIONS as CONFIGURED_VERSIONS
from broker.config.urls import Listen
from client_sdk.gateways.samwise.assignment import Assignment, assignment_of
from client_sdk.gateways.samwise.delivery import Retry
from client_sdk.gateways.samwise.endpoint.server import ServerSettings
from client_sdk.gateways.samwise.layouts import VERSIONS
from client_sdk.gateways.samwise.requests import Defaults, Rules
from client_sdk.gateways.samwise.settings import backend_of, retry_of, rules_of, server_settings_of, store_of
from client_sdk.gateways.samwise.values import Publish
from rsocket_wire.errors import BrokerError

pytestmark = pytest.mark.filterwarnings("ignore:connect:RuntimeWarning")  # backends that never start

ELSEWHERE = {"brokers", "strict_redundancy"}  # used by `assignment_of` and `program.serve`


class Watched:
    """Options that note which of them were looked at."""

    def __init__(self, options: object, seen: set[str], prefix: str = "") -> None:
        self._options, self._seen, self._prefix = options, seen, prefix

    def __getattr__(self, key: str) -> Any:
        value = getattr(self._options, key)
        self._seen.add(self._prefix + key)
        if isinstance(value, RetryOptions | MessageDefaults):
            return Watched(value, self._seen, f"{key}.")
        if isinstance(value, dict):
            return {name: Watched(each, self._seen, f"{key}.") for name, each in value.items()}
        return value


def names_of(kind: Any, prefix: str = "") -> set[str]:
    return {prefix + each.name for each in fields(kind)}


def assigned(options: SamwiseOptions, *brokers: str) -> Assignment:
    assignment = assignment_of(Config(samwise=options), ["tcp://127.0.0.1:7878"])
    return replace(assignment, brokers=brokers or assignment.brokers)


async def test_every_option_is_used(tmp_path: Path) -> None:
    seen: set[str] = set()
    options = SamwiseOptions(
        dir=str(tmp_path),
        rabbitmq={"r": RabbitmqOptions(tls=True)},
        exchange={"e": ExchangeOptions()},
    )
    for backend in ("services", "rabbitmq"):
        watched: Any = Watched(replace(options, backend=backend), seen)
        for use in (rules_of, server_settings_of, retry_of, store_of):
            use(watched)
        backend_of(replace(assigned(options, "tls://127.0.0.1:7878"), options=watched))
    every = names_of(SamwiseOptions) | names_of(RetryOptions, "retry.") | names_of(MessageDefaults, "defaults.")
    every |= names_of(RabbitmqOptions, "rabbitmq.") | names_of(ExchangeOptions, "exchange.")
    assert every - seen == ELSEWHERE


def test_rules_have_what_the_options_say() -> None:
    defaults = MessageDefaults(
        distribution="redundant", min_acknowledged=2, exchange="e", routing_key="k", priority="5", app_id="shop"
    )
    options = SamwiseOptions(
        strict=True, min_version=110, controls=("stop",), max_frames=64, max_message_bytes=2048, defaults=defaults
    )
    assert rules_of(options) == Rules(
        strict=True,
        min_version=110,
        controls=frozenset({"stop"}),
        defaults=Defaults(
            distribution="redundant",
            acks_n=2,
            exchange="e",
            routing_key="k",
            options={"priority": "5", "app_id": "shop"},
        ),
        max_frames=64,
        max_message_bytes=2048,
    )


def test_without_options_the_parts_have_their_own_defaults() -> None:
    assert rules_of(SamwiseOptions()) == Rules()
    assert retry_of(SamwiseOptions()) == Retry()


def test_the_server_has_what_the_options_say() -> None:
    options = SamwiseOptions(
        endpoints=("ipc:///a",),
        max_callers=3,
        max_requests_per_s=4,
        max_requests_per_caller_per_s=5,
        curve_key="k",
        curve_clients="c",
    )
    assert server_settings_of(options) == ServerSettings(
        endpoints=("ipc:///a",),
        rules=Rules(),
        max_callers=3,
        max_requests_per_s=4,
        max_requests_per_caller_per_s=5,
        curve_key=Path("k"),
        curve_clients=Path("c"),
    )


def test_retries_are_those_of_the_options() -> None:
    options = SamwiseOptions(retry=RetryOptions(tries=7, interval=1.5, threshold=2.5))
    assert retry_of(options) == Retry(tries=7, interval_s=1.5, threshold_s=2.5)


async def test_the_backend_is_the_one_that_the_options_name(tmp_path: Path) -> None:
    options = SamwiseOptions(dir=str(tmp_path), rabbitmq={"r1": RabbitmqOptions(), "r2": RabbitmqOptions(port=1)})
    assert [each.name for each in backend_of(assigned(replace(options, backend="rabbitmq"))).state()] == ["r1", "r2"]
    assert [each.name for each in backend_of(assigned(options)).state()] == ["services"]


async def test_exchanges_of_the_options_are_those_of_the_backend(tmp_path: Path) -> None:
    exchange = {"long": ExchangeOptions(service="s" * 127), "news": ExchangeOptions(type="fanout")}
    backend = backend_of(assigned(SamwiseOptions(dir=str(tmp_path), exchange=exchange)))
    backend.check(message("long", 2))
    with pytest.raises(Exception, match="'news' is a fanout"):
        backend.check(message("news", 2))


async def test_a_file_of_declared_exchanges_that_is_broken_is_told(tmp_path: Path) -> None:
    (tmp_path / "exchanges.json").write_text("{")
    with pytest.raises(BrokerError, match=r"exchanges\.json"):
        backend_of(assigned(SamwiseOptions(dir=str(tmp_path))))


async def test_a_broker_in_the_clear_beside_an_encrypted_one_is_told(tmp_path: Path) -> None:
    with pytest.raises(BrokerError) as caught:
        backend_of(assigned(SamwiseOptions(dir=str(tmp_path)), "tls://a.example:1", "tcp://b.example:1"))
    said = "samwise.brokers: all need tls:// or wss://, and tcp://b.example:1 is not encrypted: write tls://b.example:1"
    assert caught.value.text == said


def message(exchange: str, acks_n: int) -> Publish:
    return Publish(
        version=110,
        distribution="redundant",
        acks_n=acks_n,
        exchange=exchange,
        routing_key="",
        options={},
        headers=(),
        payload=b"",
    )


@pytest.mark.parametrize(
    "listener, url",
    [
        ("tcp://127.0.0.1:7878", "tcp://127.0.0.1:7878"),
        ("tcp://0.0.0.0:7878", "tcp://127.0.0.1:7878"),
        ("wss://[::]:7879/rsocket", "wss://[::1]:7879/rsocket"),
        ("unix:///run/broker.sock", "unix:///run/broker.sock"),
    ],
)
def test_the_first_listener_is_dialled_where_no_broker_is_named(listener: str, url: str) -> None:
    assert assignment_of(Config(), [listener, "tcp://127.0.0.1:1"]).brokers == (url,)


def test_brokers_that_are_named_are_dialled() -> None:
    config = Config(samwise=SamwiseOptions(brokers=(Listen.parse("tcp://10.0.0.4:7878"),)))
    assert assignment_of(config, ["tcp://127.0.0.1:1"]).brokers == ("tcp://10.0.0.4:7878",)


def test_a_listener_at_any_free_port_cannot_be_dialled_before_it_listens() -> None:
    with pytest.raises(BrokerError, match=r"samwise\.brokers: is needed"):
        assignment_of(Config(), ["tcp://127.0.0.1:0"])
    rabbitmq = Config(samwise=SamwiseOptions(backend="rabbitmq"))
    assert assignment_of(rabbitmq, ["tcp://127.0.0.1:0"]).brokers == ()


def test_an_assignment_goes_through_a_pipe_whole_or_not_at_all(tmp_path: Path) -> None:
    given = assigned(SamwiseOptions(dir="d", rabbitmq={"r": RabbitmqOptions(password="p")}))
    data = given.encode()
    for cut in (0, 2, 4, len(data) - 1):
        (tmp_path / "pipe").write_bytes(data[:cut])
        with (tmp_path / "pipe").open("rb") as file:
            assert Assignment.read(file) is None
    (tmp_path / "pipe").write_bytes(data)
    with (tmp_path / "pipe").open("rb") as file:
        assert Assignment.read(file) == given


def test_the_configuration_knows_the_versions_that_are_spoken() -> None:
    assert CONFIGURED_VERSIONS == VERSIONS
