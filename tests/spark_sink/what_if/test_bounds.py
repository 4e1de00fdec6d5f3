"""What happens at bounds that no other test meets."""

from __future__ import annotations

import base64
from pathlib import Path

import pytest

from broker.events import ROUTE_SEEN, TABLE_DIGEST
from spark_sink.what_if import addresses, output, page, routing_model
from spark_sink.what_if.addresses import Addresses
from spark_sink.what_if.question import Question
from tests.fakes import address
from tests.spark_sink.what_if.histories import History, asked, loads, tags_of


def test_addresses_beyond_the_bound_are_read_again(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(addresses, "MAX_KEPT", 3)
    found = Addresses(Question(), strict_hints=False)
    for number in range(10):
        raw = address(service=f"s{number % 5}")
        assert found.find(base64.b64encode(raw).decode()) == raw
        assert len(found._known) <= 3


def test_a_slot_that_no_broker_has_is_not_believed(monkeypatch: pytest.MonkeyPatch, tmp_path: Path) -> None:
    monkeypatch.setattr(routing_model, "MAX_SLOT", 100)
    history = History()
    for number in (1, 2):
        history.tell(ROUTE_SEEN, number, "orders", tags_of(number, "orders"), detail=str(number * 10**12))
    history.tell(TABLE_DIGEST, tags={"routes": "2"})
    simulation = asked(history.ask(1, "orders").ask(2, "orders").write(tmp_path))
    assert sorted(now for _, now in loads(simulation).values()) == [1, 1]


def test_routes_beyond_a_screen_and_a_plot_are_counted(monkeypatch: pytest.MonkeyPatch, tmp_path: Path) -> None:
    pytest.importorskip("plotly")
    for module, name in ((output, "MAX_ROUTES"), (page, "MAX_BARS"), (page, "MAX_SERVICES")):
        monkeypatch.setattr(module, name, 1)
    history = History().start().join(1, "orders").join(2, "orders").join(3, "stock")
    history.ask(1, "orders").ask(2, "orders").ask(3, "stock")
    (tmp_path / "page.html").write_text(page.page_of(asked(history.write(tmp_path))), encoding="utf-8")
    text = (tmp_path / "page.html").read_text(encoding="utf-8")
    assert "1 of 2 routes are shown." in text
    assert "1 of 2 services are shown." in text
