"""`rsocket-broker bench`: every model and target against a broker of this process, and what it says of it."""

from __future__ import annotations

import json
import os
import signal
from collections.abc import Iterator
from pathlib import Path

import pytest
from click.testing import CliRunner, Result

from broker import exit_status
from broker.commands.bench.latencies import Latencies
from broker.commands.bench.load import Bench
from broker.commands.bench.output import Measured, as_json, rows_of
from broker.commands.bench.plan import TARGETS, Plan
from broker.commands.main import main
from client_sdk.testing import SyncLocalBroker, sync_local_broker
from rsocket_wire.models import MODELS, STREAMS

CERTIFICATE = str(Path(__file__).parents[2] / "client_sdk/localhost.pem")
PLAN = Plan("request_response", "unicast", 1, 4, 16, None, 100, 10, 1000, 5.0)


@pytest.fixture(scope="module")
def broker() -> Iterator[SyncLocalBroker]:
    with sync_local_broker(listen=["tcp", "ws"]) as local:
        yield local


def run(*words: str) -> Result:
    quick = ("--seconds", "0.1", "--connections", "1", "--in-flight", "2")
    return CliRunner(env={"COLUMNS": "200"}).invoke(main, ["bench", *words, *quick])


@pytest.mark.parametrize("model", MODELS)
def test_each_model_is_measured(broker: SyncLocalBroker, model: str) -> None:
    result = run(broker.urls["tcp"], "--model", model, "--json")
    assert result.exit_code == exit_status.DONE, result.output
    body = json.loads(result.stdout)
    assert (body["model"], body["requests"] > 0, body["errors"], body["is_open_loop"]) == (model, True, {}, False)
    assert (body["items"] > 0) == (model in STREAMS)
    shown = body["latency_us"]
    assert 0 < shown["p50"] <= shown["p90"] <= shown["p99"] <= shown["p99.9"] <= shown["max"]


@pytest.mark.parametrize("target", TARGETS)
def test_each_target_is_measured_over_websocket(broker: SyncLocalBroker, target: str) -> None:
    result = run(broker.urls["ws"], "--to", target, "--services", "3")
    assert (result.exit_code, f"request_response ({target})" in result.stdout) == (exit_status.DONE, True)
    assert "closed loop" in result.stdout
    assert "3 routes" in result.stdout


@pytest.mark.parametrize("scheme", ["tls", "wss", "unix"])
def test_transports_that_need_more_than_a_port_are_measured(scheme: str) -> None:
    options = {"tls.certificate": CERTIFICATE, "tls.key": CERTIFICATE}
    listen = "unix" if scheme == "unix" else f"{scheme}://127.0.0.1:0"
    with sync_local_broker(listen=["tcp", listen], options=options) as local:
        url = local.urls[scheme].replace("127.0.0.1", "localhost")
        result = run(url, *([] if scheme == "unix" else ["--ca", CERTIFICATE]), "--json")
        body = json.loads(result.stdout)
        assert (result.exit_code, body["url"], body["requests"] > 0, body["errors"]) == (0, url, True, {})


def test_a_rate_is_kept_and_counts_from_when_requests_were_due(broker: SyncLocalBroker) -> None:
    result = run(broker.urls["tcp"], "--rate", "100", "--json")
    body = json.loads(result.stdout)
    assert (body["is_open_loop"], 0 < body["requests"] <= 60) == (True, True)


def test_latencies_are_within_a_64th_in_little_memory() -> None:
    latencies = Latencies()
    for us in range(1, 100_001):
        latencies.add(us / 1e6)
    assert (latencies.number, latencies.mean_us, latencies.max_us) == (100_000, 50_000, 100_000)
    for percent in (50.0, 90.0, 99.0, 99.9):
        truth = percent * 1000
        assert truth * (1 - 1 / 64) <= latencies.percentile_us(percent) <= truth
    assert len(latencies._counts) < 1000
    assert (Latencies().percentile_us(99.0), Latencies().mean_us) == (0, 0)


def test_ctrl_c_shows_what_was_measured(broker: SyncLocalBroker, monkeypatch: pytest.MonkeyPatch) -> None:
    counts = Bench.count

    def interrupted(bench: Bench) -> None:
        counts(bench)
        os.kill(os.getpid(), signal.SIGINT)

    monkeypatch.setattr(Bench, "count", interrupted)
    result = CliRunner().invoke(main, ["bench", broker.urls["tcp"], "--seconds", "0.5", "--connections", "1", "--json"])
    body = json.loads(result.stdout)
    assert (result.exit_code, body["is_interrupted"], body["seconds"] < 0.5) == (exit_status.INTERRUPTED, True, True)


def test_what_was_interrupted_says_so() -> None:
    latencies = Latencies()
    latencies.add(0.001)
    measured = Measured(PLAN, "tcp://x:1", 0.5, latencies, {"no-route": 2}, 0, True)
    rows = dict(rows_of(measured))
    assert (rows["measured"], rows["requests"], rows["errors"]) == ("0.5 s, interrupted", "1, 2 a second", "2 no-route")
    assert (as_json(measured)["is_interrupted"], as_json(measured)["requests_per_s"]) == (True, 2)


def test_items_are_for_streams() -> None:
    result = run("tcp://127.0.0.1:1", "--items", "3")
    assert (result.exit_code, "--items is for request_stream and request_channel" in result.stderr) == (2, True)
