"""broker.config.sections.samwise_checks, and [samwise] with the tables in it."""

from pathlib import Path

import pytest

from broker.config import extras
from broker.config.load import load, load_all
from broker.config.sections.samwise import ExchangeOptions, RabbitmqOptions, RetryOptions
from tests.broker.config.sources import GIVE_ONE, NOT_THERE, mistakes_of, of_file

START = '[samwise]\nendpoints = ["ipc:///run/samwise"]\ndir = "stored"\n'
KEY = f'metadata\ncurve\n    public-key = "{"p" * 40}"\n    secret-key = "{"s" * 40}"\n'


def test_without_endpoints_there_is_no_gateway_and_nothing_is_needed(folder: Path) -> None:
    assert of_file(folder, "[samwise]\n").samwise.endpoints == ()


def test_times_and_sizes_are_numbers_or_texts_with_letters(folder: Path) -> None:
    config = of_file(folder, '[samwise]\nmax_bytes = "10M"\n[samwise.retry]\ninterval = "2m"\nthreshold = 7\n')
    assert config.samwise.max_bytes == 10 << 20
    assert config.samwise.retry == RetryOptions(tries=3, interval=120.0, threshold=7.0)


def test_a_variable_names_an_option_of_a_section_within(folder: Path) -> None:
    environ = {"RSB_SAMWISE__RETRY__INTERVAL": "250M", "RSB_SAMWISE__MAX_MESSAGE_BYTES": "1K"}
    samwise = load(None, environ, {}).samwise
    assert (samwise.retry.interval, samwise.max_message_bytes) == (0.25, 1024)


def test_tables_of_rabbitmq_brokers_and_exchanges_are_kept_by_name(folder: Path) -> None:
    text = '[samwise.rabbitmq.r1]\nhost = "a"\nheartbeat = "5s"\n[samwise.rabbitmq."r 2"]\n'
    text += '[samwise.exchange."amq.direct"]\nservice = "orders"\ntype = "fanout"\n'
    samwise = of_file(folder, text).samwise
    assert samwise.rabbitmq == {"r1": RabbitmqOptions(host="a", heartbeat=5.0), "r 2": RabbitmqOptions()}
    assert samwise.exchange == {"amq.direct": ExchangeOptions(service="orders", type="fanout")}


@pytest.mark.parametrize(
    "text, sentence",
    [
        ('[samwise]\nendpoints = ["ipc:///a"]', "2: samwise.endpoints: needs samwise.dir, where messages are stored"),
        (
            f'{START}endpoint = ["x"]',
            "4: samwise.endpoint: unknown option; did you mean samwise.endpoints?",
        ),
        ("[samwise]\nretry = 3", "2: samwise.retry: must be a section, not 3"),
        (
            "[samwise.retry]\nxyz = 3",
            "2: samwise.retry.xyz: unknown option; rsocket-broker check --options lists all",
        ),
        (
            '[samwise.retry]\ninterval = "5"',
            '2: samwise.retry.interval: must be a number from 0.001 to 86400, or a text like "5s" (M, ms, s, m, h, d), '
            'not "5"',
        ),
        (
            f'{START}backend = "rabbitmq"',
            '4: samwise.backend: "rabbitmq" needs a table [samwise.rabbitmq.NAME]',
        ),
        (
            "[samwise.rabbitmq]\nhost = 'a'",
            '2: samwise.rabbitmq.host: must be a table [samwise.rabbitmq.NAME] of one RabbitMQ broker, not "a"',
        ),
        (
            "[samwise.rabbitmq.a]\nhoost = 'a'",
            "2: samwise.rabbitmq.a.hoost: unknown option of a RabbitMQ broker; did you mean host?",
        ),
        (
            "[samwise.rabbitmq.a]\npassword = 7",
            "2: samwise.rabbitmq.a.password: must be printable text of 0 to 4095 bytes",
        ),
        (
            '[samwise.exchange.a]\ntype = "topic"',
            '2: samwise.exchange.a.type: must be "direct" or "fanout", not "topic"',
        ),
        (
            '[samwise.exchange.a]\nservce = "b"',
            "2: samwise.exchange.a.servce: unknown option of an exchange; did you mean service?",
        ),
        (
            '[samwise.rabbitmq.a]\nca = "nothing"',
            f'2: samwise.rabbitmq.a.ca: "nothing" {NOT_THERE}/nothing{GIVE_ONE}',
        ),
        (
            '[samwise.rabbitmq.a]\nca = "junk"',
            '2: samwise.rabbitmq.a.ca: "junk" holds no certificate in PEM; PEM has a line -----BEGIN CERTIFICATE-----',
        ),
        ("[samwise]\nmin_version = 105", "2: samwise.min_version: must be one of 100, 110, 120, not 105"),
        ('[samwise]\ncontrols = ["exit"]', '2: samwise.controls: "exit" is not "status", "stop" or "restart"'),
        (
            '[samwise]\ncurve_clients = "."',
            "2: samwise.curve_clients: needs samwise.curve_key",
        ),
        ('[samwise]\ncurve_key = "junk"', '2: samwise.curve_key: "junk" holds no secret key of CURVE'),
        (
            '[samwise]\ncurve_key = "gateway.key_secret"\ncurve_clients = "nobody"',
            '3: samwise.curve_clients: "nobody" holds no public key, *.key',
        ),
        (
            f'[samwise]\ndir = "{"d" * 100}"',
            "2: samwise.dir: the path of its control.sock has {size} bytes; a unix socket can have 107",
        ),
    ],
)
def test_each_mistake_is_told_with_its_line_and_key(folder: Path, text: str, sentence: str) -> None:
    (folder / "junk").write_text("junk")
    (folder / "gateway.key_secret").write_text(KEY)
    (folder / "caller.key").write_text(KEY)
    size = len(str(folder)) + 100 + len("//control.sock")
    assert mistakes_of(folder, text) == [f"broker.toml:{sentence.format(size=size)}"]


def test_defaults_that_rabbitmq_would_refuse_in_each_message_are_told(folder: Path) -> None:
    defaults = '[samwise.defaults]\npriority = "256"\nexpiration = "5s"\nuser_id = "bob"\n'
    brokers = '[samwise.rabbitmq.a]\nuser = "bob"\n[samwise.rabbitmq.b]\n'
    assert mistakes_of(folder, f'{START}backend = "rabbitmq"\n{defaults}{brokers}') == [
        'broker.toml:6: samwise.defaults.priority: must be 0 to 255, not "256"',
        'broker.toml:7: samwise.defaults.expiration: must be 0 to 315360000000, not "5s"',
        'broker.toml:8: samwise.defaults.user_id: "bob" is not the user of the RabbitMQ broker "b"',
    ]
    of_services = of_file(folder, START + defaults + brokers)
    assert of_services.samwise.defaults.priority == "256"  # they may know what that is
    right = '[samwise.defaults]\npriority = "255"\nexpiration = "0"\nuser_id = "guest"\n[samwise.rabbitmq.b]\n'
    assert of_file(folder, f'{START}backend = "rabbitmq"\n{right}').samwise.defaults.user_id == "guest"


@pytest.mark.parametrize(
    "endpoint",
    [
        "ipc:///run/samwise",
        "ipc://@samwise",
        "tcp://127.0.0.1:5999",
        "tcp://127.8.0.1:0",
        "tcp://localhost:1",
        "tcp://[::1]:1",
    ],
)
def test_an_endpoint_of_this_machine_needs_no_key(folder: Path, endpoint: str) -> None:
    assert of_file(folder, f'[samwise]\ndir = "d"\nendpoints = ["{endpoint}"]').samwise.endpoints == (endpoint,)


@pytest.mark.parametrize(
    "endpoint",
    ["tcp://*:1", "tcp://0.0.0.0:1", "tcp://10.0.0.4:1", "tcp://[::]:1", "tcp://eth0:1", "tcp://127.evil.example:1"],
)
def test_an_endpoint_that_other_machines_reach_needs_a_key(folder: Path, endpoint: str) -> None:
    text = f'[samwise]\ndir = "d"\nendpoints = [\n  "tcp://127.0.0.1:1",\n  "{endpoint}",\n]\n'
    sentence = "is reachable from other machines, which needs samwise.curve_key"
    assert mistakes_of(folder, text) == [f'broker.toml:5: samwise.endpoints: "{endpoint}" {sentence}']
    (folder / "gateway.key_secret").write_text(KEY)
    assert of_file(folder, f'{text}curve_key = "gateway.key_secret"').samwise.endpoints[1] == endpoint


@pytest.mark.parametrize(
    "endpoint, sentence",
    [
        ("tcp://127.0.0.1", "has no address and port; write tcp://127.0.0.1:5999"),
        ("tcp://127.0.0.1:70000", "has no address and port; write tcp://127.0.0.1:5999"),
        ("tcp://:5999", "has no address and port; write tcp://127.0.0.1:5999"),
        ("ipc://samwise", "has no absolute path of 2 to 107 bytes; write ipc:///run/samwise"),
        (f"ipc:///{'p' * 107}", None),
        ("udp://127.0.0.1:1", "is not an endpoint ipc:// or tcp://"),
        ("inproc://a", "is not an endpoint ipc:// or tcp://"),
        ("", "is not an endpoint ipc:// or tcp://"),
    ],
)
def test_what_is_no_endpoint_is_refused(folder: Path, endpoint: str, sentence: str | None) -> None:
    (mistake,) = mistakes_of(folder, f'[samwise]\ndir = "d"\nendpoints = ["{endpoint}"]')
    if sentence is None:  # too long to be shown whole
        assert mistake.endswith("has no absolute path of 2 to 107 bytes; write ipc:///run/samwise")
    else:
        assert mistake == f'broker.toml:3: samwise.endpoints: "{endpoint}" {sentence}'


def test_an_endpoint_stands_there_once(folder: Path) -> None:
    text = '[samwise]\ndir = "d"\nendpoints = ["ipc:///a", "ipc:///a"]'
    assert mistakes_of(folder, text) == ['broker.toml:3: samwise.endpoints: "ipc:///a" stands there twice']


def test_without_the_extra_rabbitmq_and_keys_are_refused_with_the_line_to_type(
    folder: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(extras, "find_spec", lambda name: None)
    (folder / "gateway.key_secret").write_text(KEY)
    line = 'pip install "rsocket-broker[samwise]"'
    rabbitmq = 'backend = "rabbitmq"\n[samwise.rabbitmq.a]\n'
    assert mistakes_of(folder, START + rabbitmq) == [f"broker.toml:4: samwise.backend: needs aiormq: {line}"]
    keys = '[samwise]\ndir = "d"\ncurve_key = "gateway.key_secret"\nendpoints = ["tcp://127.0.0.1:5999"]\n'
    assert mistakes_of(folder, keys) == [f"broker.toml:3: samwise.curve_key: needs zmq: {line}"]


@pytest.mark.parametrize(
    "lines",
    [
        'endpoints = ["ipc:///run/samwise", "tcp://127.0.0.1:5999"]',
        'endpoints = ["ipc:///run/samwise"]\ncurve_key = "gateway.key_secret"',  # it is for tcp
        'curve_key = "gateway.key_secret"\nbackend = "rabbitmq"\n[samwise.rabbitmq.a]',  # there is no gateway
    ],
)
def test_what_uses_neither_rabbitmq_nor_keys_needs_no_extra(
    folder: Path, monkeypatch: pytest.MonkeyPatch, lines: str
) -> None:
    monkeypatch.setattr(extras, "find_spec", lambda name: None)
    (folder / "gateway.key_secret").write_text(KEY)
    (folder / "broker.toml").write_text(f'[samwise]\ndir = "d"\n{lines}\n')
    assert load("broker.toml", {}, {}).samwise.dir == "d"


def test_keys_and_passwords_that_all_may_read_are_warned_of(folder: Path) -> None:
    (folder / "gateway.key_secret").write_text(KEY)
    text = '[samwise]\ncurve_key = "gateway.key_secret"\n[samwise.rabbitmq.a]\npassword = "p"\n[samwise.rabbitmq.b]\n'
    (folder / "broker.toml").write_text(text)
    for path in ("broker.toml", "gateway.key_secret"):
        (folder / path).chmod(0o644)
    told = [
        str(warning).removesuffix("; chmod o-r prevents that") for warning in load_all("broker.toml", {}, {}).warnings
    ]
    all_may = "every user of this machine may read"
    assert told == [
        f'broker.toml:2: samwise.curve_key: {all_may} "gateway.key_secret"',
        f'broker.toml:4: samwise.rabbitmq.a.password: {all_may} "broker.toml", which holds it',
    ]
    for path in ("broker.toml", "gateway.key_secret"):
        (folder / path).chmod(0o640)
    assert load_all("broker.toml", {}, {}).warnings == []


def test_a_password_is_not_shown_in_a_syntax_error(folder: Path) -> None:
    (mistake,) = mistakes_of(folder, '[samwise.rabbitmq.a]\npassword = "hush" "hush"')
    assert "hush" not in mistake
