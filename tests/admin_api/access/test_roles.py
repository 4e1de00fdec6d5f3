"""Which endpoint needs which role."""

import pytest

from admin_api.access.roles import ANYBODY, NEEDED, SUFFICES, needed_role
from admin_api.endpoints import operations
from admin_api.openapi import document
from broker.config.sections.admin_checks import ADMIN, OPERATOR, READER, ROLES, VIEWER

OPERATIONS = [
    (method.upper(), path, told["security"])
    for path, methods in document(operations())["paths"].items()
    for method, told in methods.items()
]


@pytest.mark.parametrize(("method", "path", "security"), OPERATIONS)
def test_every_operation_of_the_document_has_a_role_and_changes_need_more_than_a_look(
    method: str, path: str, security: list[dict[str, list[str]]]
) -> None:
    role = NEEDED[f"{method} {path}"]
    assert security == ([{}] if role == ANYBODY else [{"token": [role]}])
    assert (role in (OPERATOR, ADMIN)) == (method != "GET")
    assert (role == READER) == path.startswith("/api/v1/events")


def test_no_role_is_for_what_there_is_not() -> None:
    assert set(NEEDED) == {f"{method} {path}" for method, path, _ in OPERATIONS}


def test_what_is_not_listed_is_for_admins_and_head_is_as_get() -> None:
    assert [needed_role("POST", "/api/v1"), needed_role("GET", "/new"), needed_role("HEAD", "/metrics")] == [
        ADMIN,
        ADMIN,
        VIEWER,
    ]


def test_each_role_suffices_for_itself_and_readers_see_nothing_but_event_files() -> None:
    assert set(SUFFICES) == set(ROLES)
    assert all(role in enough for role, enough in SUFFICES.items())
    assert [role for role, enough in SUFFICES.items() if READER in enough] == [READER, ADMIN]
    assert SUFFICES[READER] == {READER}
