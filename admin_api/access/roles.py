"""Which endpoint of the REST API needs which role, and which roles suffice for it: all of that stands here.

    anybody     needs no token, wherever it is asked from: whether the process lives
    viewer      looks
    reader      event files, and nothing else
    operator    looks and changes
    admin       everything

An endpoint that does not stand here needs `admin`.
"""

from collections.abc import Mapping
from typing import Final

from broker.config.sections.admin_checks import ADMIN, OPERATOR, READER, VIEWER

ANYBODY: Final = "anybody"

# role of a token -> what it suffices for
SUFFICES: Final[Mapping[str, frozenset[str]]] = {
    VIEWER: frozenset({VIEWER}),
    READER: frozenset({READER}),
    OPERATOR: frozenset({VIEWER, OPERATOR}),
    ADMIN: frozenset({VIEWER, READER, OPERATOR, ADMIN}),
}

NEEDED: Final[Mapping[str, str]] = {
    "GET /livez": ANYBODY,
    "GET /readyz": ANYBODY,
    "GET /": VIEWER,
    "GET /metrics": VIEWER,
    "GET /api/v1": VIEWER,
    "GET /api/v1/openapi.json": VIEWER,
    "GET /api/v1/status": VIEWER,
    "GET /api/v1/routes": VIEWER,
    "GET /api/v1/routes/{id}": VIEWER,
    "GET /api/v1/services": VIEWER,
    "GET /api/v1/services/{name}": VIEWER,
    "GET /api/v1/connections": VIEWER,
    "GET /api/v1/connections/closed": VIEWER,
    "GET /api/v1/connections/{id}": VIEWER,
    "GET /api/v1/traffic": VIEWER,
    "GET /api/v1/drains": VIEWER,
    "GET /api/v1/brokers": VIEWER,
    "GET /api/v1/links": VIEWER,
    "GET /api/v1/paths": VIEWER,
    "GET /api/v1/redirects": VIEWER,
    "GET /api/v1/revocations": VIEWER,
    "GET /api/v1/limits": VIEWER,
    "GET /api/v1/samwise": VIEWER,
    "GET /api/v1/samwise/messages": VIEWER,
    "GET /api/v1/feed": VIEWER,
    "GET /api/v1/feed/{folder}/posts": VIEWER,
    # Announced to consumers on other machines, who send no token yet: where tokens are configured, behind a proxy that
    # adds one of a viewer.
    "GET /feed/{folder}/{path}": VIEWER,
    "GET /api/v1/events": READER,
    "GET /api/v1/events/{stream}": READER,
    "GET /api/v1/events/{stream}/{source}/{number}": READER,
    "PUT /api/v1/routes/{id}/drain": OPERATOR,
    "DELETE /api/v1/routes/{id}/drain": OPERATOR,
    "PUT /api/v1/drains/tags/{key}/{value}": OPERATOR,
    "DELETE /api/v1/drains/tags/{key}/{value}": OPERATOR,
    "PUT /api/v1/drains/broker": OPERATOR,
    "DELETE /api/v1/drains/broker": OPERATOR,
    "PUT /api/v1/redirects/{service}": OPERATOR,
    "DELETE /api/v1/redirects/{service}": OPERATOR,
    "DELETE /api/v1/connections/{id}": OPERATOR,
    "PUT /api/v1/revocations/{principal}": ADMIN,
    "DELETE /api/v1/revocations/{principal}": ADMIN,
    "PUT /api/v1/samwise/messages/{id}/requeue": OPERATOR,
    "DELETE /api/v1/samwise/messages/{id}": OPERATOR,
}


def needed_role(method: str, path: str) -> str:
    """The role that an operation needs. `path`: with {NAME} where something is filled in; HEAD needs what GET does."""
    return NEEDED.get(f"{'GET' if method == 'HEAD' else method} {path}", ADMIN)
