"""`rsocket-broker access`: what it says is what the broker does."""

import json
from pathlib import Path

import pytest
from click.testing import CliRunner, Result

from broker.commands.main import main

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
        ("uid:7", "announce", "service=orders,region=mars", 1, f"{REFUSES} announce this route: region=mars"),
        ("uid:7", "announce", "service=billing", 1, f"{REFUSES} announce this route: service=billing"),
        ("uid:7", "address", "service=billing,region=eu", 0, "the role orders allows service=billing"),
        (
            *("uid:7", "address", "service=billing,environment=test", 1),
            f"{REFUSES} address this route: environment=test is excepted",
        ),
        (
            "anonymous",
            "address",
            "service=billing",
            1,
            "the role guests does not allow to address this route: service=billing",
        ),
        ("uid:8", "address", "service=billing", 1, "uid:8 has no role, so the connection is refused"),
        ("user:ada", "address", "service=x", 1, "user is not in auth.accept, so the connection is refused"),
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
    assert result.exit_code == 1
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
