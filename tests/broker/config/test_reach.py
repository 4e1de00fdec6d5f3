"""Who reaches a broker: other machines only where something says who is let in."""

from collections.abc import Mapping
from pathlib import Path

import pytest

from broker.config.load import ConfigErrors, load

WHY = (
    'is reachable from other machines, and nothing says who is let in: set auth.mode to "required" (docs/security.md), '
    'or to "off" to let in everybody (mode in [auth], or RSB_AUTH__MODE)'
)
FAR = ["tcp://0.0.0.0:1", "ws://[::]:1", "tcp://10.0.0.4:1", "tcp://some.name:1"]


def mistakes_of(environ: Mapping[str, str]) -> list[str]:
    try:
        load(None, environ, {})
    except ConfigErrors as error:
        return str(error).splitlines()
    return []


@pytest.mark.parametrize("url", FAR)
def test_with_nothing_said_no_other_machine_may_reach_a_listener(url: str) -> None:
    variable = "RSB_SERVER__LISTEN"
    environ = {variable: f"tcp://127.0.0.1:2,{url},unix:///b"}
    assert mistakes_of(environ) == [f'environment: {variable}: "{url}" {WHY}']
    assert mistakes_of({**environ, "RSB_AUTH__MODE": "off"}) == []


@pytest.mark.parametrize("url", ["tcp://127.9.9.9:1", "ws://localhost:1", "tcp://[::1]:1", "unix:///b"])
def test_on_this_machine_nothing_need_be_said(url: str) -> None:
    assert mistakes_of({"RSB_SERVER__LISTEN": url}) == []


def test_other_brokers_prove_who_they_are_and_need_nothing_else(folder: Path) -> None:
    environ = {"RSB_CLUSTER__SECRET": "one that is long enough", "RSB_CLUSTER__LISTEN": "tcp://0.0.0.0:1"}
    assert mistakes_of(environ) == []
