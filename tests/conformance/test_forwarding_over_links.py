"""What `test_forwarding` and `test_multicast` promise of one broker, of three in a line: services at the far end."""

from __future__ import annotations

import ast
from pathlib import Path

import pytest

from broker.core import Core, CoreSettings
from tests import topology
from tests.conformance import stage, test_forwarding, test_multicast
from tests.conformance.scripts import COMPOSITE, AnyTag, carried, connected, route_setup, setup
from tests.fakes import Wire, World
from tests.topology import LINKED_S, Net

OF_ONE = (test_forwarding, test_multicast)
PROMISES = {name: promise for module in OF_ONE for name, promise in vars(module).items() if name.startswith("test_")}
globals().update(PROMISES)  # pytest collects them here, too


class Member(World):
    """One of the brokers: what it has to say is carried through all of them."""

    net: Line | None = None  # None: it is being made

    def pump(self) -> None:
        if self.net is None or self.net.is_pumping:
            super().pump()
        else:
            self.net.pump()


class Line(Net):
    """b1 ─ b2 ─ b3"""

    is_pumping = True

    def __init__(self, settings: CoreSettings | None) -> None:
        names = [] if settings is None else [name for name in dir(CoreSettings) if not name.startswith("_")]
        self.said = {name: getattr(settings, name) for name in names}
        super().__init__(["b1", "b2", "b3"], [("b1", "b2"), ("b2", "b3")], make=self.settings)
        for world in self.worlds.values():
            assert isinstance(world, Member)
            world.net = self
        self.is_pumping = False
        self.advance(LINKED_S)

    def settings(self, name: str) -> CoreSettings:
        """Those of the test, at every broker."""
        return CoreSettings(**{**self.said, "broker_name": name})

    def pump(self) -> None:
        was_pumping, self.is_pumping = self.is_pumping, True
        super().pump()
        self.is_pumping = was_pumping


class Far:
    """In place of a `World`: its first broker, and the others behind it."""

    def __init__(self, settings: CoreSettings | None = None) -> None:
        self.net = Line(settings)

    @property
    def core(self) -> Core:
        return self.net.worlds["b1"].core

    def connect(self) -> Wire:
        """A connection to the first broker."""
        return self.net.worlds["b1"].connect()

    def advance(self, seconds: float) -> None:
        self.net.advance(seconds)

    def left_over(self) -> list[str]:
        """What streams have left behind at any of the brokers."""
        return [each for world in self.net.worlds.values() for each in world.left_over()]


def destination(world: Far, number: int, name: str, *tags: AnyTag, mime: str = COMPOSITE) -> Wire:
    """A routable destination at the last broker."""
    return connected(world.net.worlds["b3"], setup(mime, carried(mime, route_setup(number, name, *tags))))


@pytest.fixture(autouse=True)
def _three_brokers(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(topology, "World", Member)
    for module in (stage, *OF_ONE):
        monkeypatch.setattr(module, "World", Far, raising=False)
        monkeypatch.setattr(module, "destination", destination, raising=False)


def test_what_one_broker_promises_three_do() -> None:
    """All of it is collected here, too, and none of it would be true if a route were not at another broker."""
    body = [each for module in OF_ONE for each in ast.parse(Path(str(module.__file__)).read_text()).body]
    assert set(PROMISES) == {
        each.name for each in body if isinstance(each, ast.FunctionDef) and each.name[:5] == "test_"
    }
    far = stage.Stage(2)
    assert isinstance(far.world, Far)
    assert far.world.net.table("b1") == {topology.route_text(number): "b3" for number in (1, 2)}
