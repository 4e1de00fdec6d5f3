"""Who has changed what by the REST API, and what came of it, is told."""

from pathlib import Path

import pytest

from admin_api.access.trail import FAILED
from admin_api.backends.one import OneBroker
from admin_api.changes import CHANGES
from broker.config.sections.admin_checks import OPERATOR, VIEWER
from broker.events import CHANGED, LifecycleEvent
from tests.admin_api.access.test_gate import DRAIN, ELSEWHERE, Gated, api, bearing, gated, status
from tests.admin_api.asking import Api
from tests.fakes import World

__all__ = ["api", "gated"]  # fixtures

EU = "/api/v1/drains/tags/region/eu"
REDIRECT = "/api/v1/redirects/a%2Fb"
JSON = {"to": "orders"}


def told(world: World) -> list[tuple[object, ...]]:
    """Who asked, with which role, from where, for what, and what came of it."""
    return [
        (event.principal, event.role, event.peer, dict(event.tags), event.reason, event.detail)
        for event in world.core.take_events()
        if isinstance(event, LifecycleEvent) and event.kind == CHANGED
    ]


def asked(what: str, who: str) -> str:
    return f"{what}, asked by {who}"


async def test_a_change_tells_who_asked_for_what_and_what_came_of_it(api: Api, gated: Gated) -> None:
    gated.configure()
    by = bearing(f"rsb_{OPERATOR}")
    assert await status(api, "PUT", EU, **by) == 200
    assert await status(api, "DELETE", DRAIN, **by) == 404
    async with api.put(REDIRECT, json=JSON, headers=bearing(gated.own)) as answer:
        assert answer.status == 200
    assert await status(api, "GET", "/api/v1/drains", **by) == 200
    operator, here = ("token:t-operator", OPERATOR), "admin 127.0.0.1"
    assert told(gated.admin.world) == [
        (*operator, here, {"operation": "drain", "subject": "region=eu"}, "", asked(f"PUT {EU}", operator[0])),
        (
            *operator,
            here,
            {"operation": "undrain", "subject": "broker"},
            "no-such-drain",
            asked(f"DELETE {DRAIN}", operator[0]),
        ),
        (
            *("token:local", "admin", here),
            {"operation": "redirect", "subject": "a/b"},
            "",
            asked("PUT /api/v1/redirects/a/b", "token:local"),
        ),
    ]


async def test_what_is_refused_to_a_known_token_is_told_and_what_strangers_try_is_not(api: Api, gated: Gated) -> None:
    gated.configure()
    assert await status(api, "PUT", DRAIN, **bearing(f"rsb_{VIEWER}")) == 403
    assert await status(api, "PUT", DRAIN, **bearing("rsb_guess")) == 401
    assert await status(api, "PUT", DRAIN) == 401
    assert [(each[0], each[4]) for each in told(gated.admin.world)] == [("token:t-viewer", "role-not-enough")]


async def test_where_no_token_is_needed_the_address_is_told(api: Api, gated: Gated) -> None:
    gated.allow_all()
    assert await status(api, "PUT", DRAIN, **ELSEWHERE) == 200
    [(principal, role, peer, _, word, text)] = told(gated.admin.world)
    assert (principal, role, peer, word) == ("", "", "admin 192.0.2.7", "")
    assert text == asked(f"PUT {DRAIN}", "nobody")


async def test_a_fault_of_ours_is_told_as_one(api: Api, gated: Gated, monkeypatch: pytest.MonkeyPatch) -> None:
    async def fail(*_: object) -> None:
        raise ValueError("broken")

    monkeypatch.setattr(OneBroker, "drain", fail)
    assert await status(api, "PUT", DRAIN, **bearing(gated.own)) == 500
    assert [each[4] for each in told(gated.admin.world)] == [FAILED]


def test_each_operation_has_a_name(tmp_path: Path) -> None:
    names = {each.operation.path: set[str]() for each in CHANGES}
    for each in CHANGES:
        names[each.operation.path].add(each.name)
    assert "<lambda>" not in {name for found in names.values() for name in found}
    assert sum(map(len, names.values())) == len(CHANGES)
