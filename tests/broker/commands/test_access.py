"""`rsocket-broker access`: what it says is what the broker does."""

import json
import tomllib
from pathlib import Path

import pytest
from click.testing import CliRunner, Result

from broker import exit_status
from broker.commands.main import main
from broker.config import auth
from broker.config.extras import AUTH_LINE
from broker.events import ROUTE_JOINED
from tests.spark_sink.pipeline.batches import told
from tests.spark_sink.pipeline.folders import EventSource, seal
from tests.spark_sink.pipeline.test_identities import call
from tests.spark_sink.records import NOON_MS, Event

CONFIG = """
[auth]
mode = "required"
accept = ["jwt", "uid", "anonymous"]
[jwt]
keys = "https://id.example/jwks.json"
issuer = "https://id.example"
audience = "rsocket-broker"
[role.orders]
who = ["jwt:orders-*", "uid:7"]
announce = [{ service = "orders", region = ["eu", "us"] }, { service = "${name}" }]
address = [{ service = "billing", except = [{ environment = "test" }] }]
[role.guests]
who = ["anonymous"]
"""


def run(*arguments: str) -> Result:
    return CliRunner().invoke(main, ["access", *arguments])


@pytest.fixture
def config(tmp_path: Path) -> Path:
    path = tmp_path / "broker.toml"
    path.write_text(CONFIG)
    return path


REFUSES = "the role orders does not allow to"


@pytest.mark.parametrize(
    ("who", "asked", "tags", "status", "first"),
    [
        (
            "jwt:orders-7",
            "announce",
            "service=orders,region=eu",
            0,
            "the role orders allows service=orders region=eu|us",
        ),
        ("jwt:orders-7", "announce", "service=orders-7", 0, "the role orders allows service=${name}"),
        ("uid:7", "announce", "service=orders,region=mars", 4, f"{REFUSES} announce this route: region=mars"),
        ("uid:7", "announce", "service=billing", 4, f"{REFUSES} announce this route: service=billing"),
        ("uid:7", "address", "service=billing,region=eu", 0, "the role orders allows service=billing"),
        (
            *("uid:7", "address", "service=billing,environment=test", 4),
            f"{REFUSES} address this route: environment=test is excepted",
        ),
        (
            "anonymous",
            "address",
            "service=billing",
            4,
            "the role guests does not allow to address this route: service=billing",
        ),
        ("uid:8", "address", "service=billing", 4, "uid:8 has no role, so the connection is refused"),
        ("user:ada", "address", "service=x", 4, "user is not in auth.accept, so the connection is refused"),
    ],
)
def test_why_says_what_the_roles_of_a_configuration_say(
    config: Path, who: str, asked: str, tags: str, status: int, first: str
) -> None:
    result = run("why", "--as", who, f"--{asked}", tags, "--config", str(config))
    verdict = "denied" if status else "allowed"
    assert (result.exit_code, result.stdout.splitlines()[0]) == (status, f"{verdict}: {first}")


def test_why_tells_each_entry_and_what_is_in_its_way_as_json(config: Path) -> None:
    asked = ["--as", "jwt:orders-7", "--announce", "service=orders", "--announce", "region=mars"]
    result = run("why", *asked, "--config", str(config), "--json")
    assert result.exit_code == 4
    assert json.loads(result.stdout) == {
        "allowed": False,
        "identity": "jwt:orders-7",
        "asked": "announce",
        "tags": [["service", "orders"], ["region", "mars"]],
        "role": "orders",
        "who": "jwt:orders-*",
        "why": f"{REFUSES} announce this route: region=mars",
        "entries": [
            {
                "entry": "service=orders region=eu|us",
                "obstacle": {"tag": "region", "value": "mars", "text": "region=mars"},
            },
            {"entry": "service=${name}", "obstacle": {"tag": "service", "value": "orders", "text": "service=orders"}},
        ],
    }


def test_why_tells_where_nobody_is_judged_or_only_observed(config: Path, tmp_path: Path) -> None:
    off = run("why", "--as", "uid:7", "--address", "service=x")
    assert (off.exit_code, off.stdout) == (0, "allowed: auth.mode is off, so nobody is judged\n")
    config.write_text(CONFIG.replace('"required"', '"observe"'))
    observed = run("why", "--as", "uid:7", "--address", "service=x", "--config", str(config))
    assert observed.stdout.splitlines()[-1] == "auth.mode is observe: the broker tells it and refuses nobody"
    open_to_all = tmp_path / "open.toml"
    open_to_all.write_text('[auth]\nmode = "required"\naccept = ["uid"]\n')
    assert run("why", "--as", "uid:7", "--announce", "service=x", "--config", str(open_to_all)).exit_code == 0


@pytest.mark.parametrize(
    ("arguments", "text"),
    [
        (["--as", "uid:7"], "one of --announce TAGS, --address TAGS is required"),
        (["--as", "uid:7", "--address", "billing"], "--address 'billing': 'billing' is not NAME=VALUE"),
        (["--as", "ada", "--address", "service=x"], "--as 'ada' is no identity"),
        (["--as", "certificate:a=", "--address", "service=x"], '--as "certificate:a=" is not a principal'),
    ],
)
def test_why_says_what_is_wrong_with_its_arguments(arguments: list[str], text: str) -> None:
    result = run("why", *arguments)
    assert (result.exit_code, text in result.stderr) == (2, True)


def test_why_needs_a_configuration_without_mistakes(config: Path) -> None:
    config.write_text("[auth]\nmode = 7\n")
    result = run("why", "--as", "uid:7", "--address", "service=x", "--config", str(config))
    assert (result.exit_code, "auth.mode" in result.stderr) == (2, True)


def joined(seq: int, principal: str, service: str, **tags: str) -> Event:
    named = {"io.rsocket.routing.ServiceName": service, "io.rsocket.routing.RouteId": f"r{seq}"} | tags
    return told(seq, ROUTE_JOINED, NOON_MS, principal=principal, service=service, tags=list(named.items()))


def called(seq: int, principal: str, service: str, address: str, outcome: str = "completed") -> Event:
    return call(seq, principal, outcome, 1)._replace(service=service, address=address)


def suggested(folder: Path, *records: Event) -> Result:
    source = EventSource(folder / "events", folder / "tables")
    seal(source.events, list(records))
    source.run()
    return run("suggest", "--tables", str(source.tables))


REGION = "io.rsocket.routing.Region"
SUGGESTED = """[role.orders-1]
who = ["jwt:orders-1", "jwt:orders-2"]
announce = [{ service = "orders", region = ["eu", "us"], version = "7" }]
address = [{ service = "billing", environment = "prod" }]

[role.7]
who = ["uid:7"]
address = [{ service = "orders" }]
"""


def test_suggested_roles_allow_what_was_recorded_and_nothing_else(tmp_path: Path) -> None:
    result = suggested(
        tmp_path,
        joined(1, "jwt:orders-1", "orders", **{REGION: "eu", "version": "7"}),
        joined(2, "jwt:orders-2", "orders", **{REGION: "eu", "version": "7"}),
        joined(3, "jwt:orders-1", "orders", **{REGION: "us", "version": "7"}),
        joined(4, "jwt:orders-2", "orders", **{REGION: "us", "version": "7"}),
        *[called(seq + 4, f"jwt:orders-{seq}", "billing", "service=billing environment=prod") for seq in (1, 2)],
        called(8, "uid:7", "orders", "service=orders region=eu"),
        called(9, "uid:7", "orders", "service=orders"),
        called(10, "uid:7", "admin", "service=admin", "rejected"),
        called(11, "", "orders", "service=orders"),
    )
    assert (result.exit_code, result.stdout) == (0, SUGGESTED)
    config = tmp_path / "broker.toml"
    config.write_text(CONFIG.partition("[role.")[0] + result.stdout)
    recorded = [
        *[("jwt:orders-2", "announce", f"service=orders,region={name},version=7") for name in ("eu", "us")],
        ("jwt:orders-1", "address", "service=billing,environment=prod"),
        *[("uid:7", "address", f"service=orders{more}") for more in ("", ",region=eu")],
    ]
    others = [
        ("jwt:orders-2", "announce", "service=orders,region=mars,version=7"),
        ("jwt:orders-3", "announce", "service=orders,region=eu,version=7"),
        ("jwt:orders-1", "announce", "service=billing,region=eu,version=7"),
        ("jwt:orders-1", "address", "service=billing,environment=test"),
        ("uid:7", "announce", "service=orders"),
        ("uid:7", "address", "service=admin"),
        ("anonymous", "address", "service=orders"),
    ]
    asked = [*recorded, *others]
    results = [run("why", "--as", who, f"--{what}", tags, "--config", str(config)) for who, what, tags in asked]
    assert [each.exit_code for each in results] == [0] * len(recorded) + [4] * len(others)


def test_what_would_be_a_pattern_or_more_toml_is_not_suggested(tmp_path: Path) -> None:
    result = suggested(
        tmp_path,
        joined(1, "user:ada", "*"),
        joined(2, "user:*", "orders"),
        joined(3, "user:ada", "${name}"),
        joined(4, "user:ada", 'x" }]\n[role.root]\x7f', zone="a*"),
    )
    lines = ['"${name}"', '"*"', '"user:*"']
    assert result.stdout.splitlines()[:3] == [f"# left out, since it would be a pattern: {each}" for each in lines]
    assert tomllib.loads(result.stdout) == {
        "role": {"ada": {"who": ["user:ada"], "announce": [{"service": 'x" }]\n[role.root]\x7f'}]}}
    }


def test_suggest_needs_tables(tmp_path: Path) -> None:
    result = run("suggest", "--tables", str(tmp_path))
    assert (result.exit_code, "holds no tables" in result.stderr) == (2, True)


def test_an_extra_that_is_not_installed_has_its_own_status(config: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(auth, "lack_of_auth", lambda: f"needs jwt: {AUTH_LINE}")
    for words in (
        ("access", "why", "--as", "anonymous", "--announce", "service=orders", "--config", str(config)),
        ("samwise", "messages", "list", "--config", str(config)),
        ("check", str(config)),
    ):
        assert CliRunner().invoke(main, words).exit_code == exit_status.NOT_INSTALLED
