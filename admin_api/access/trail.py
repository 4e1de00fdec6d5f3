"""The trail of changes: an event Changed for each request that changes something, with who asked and what came of it.

Told is what was done, and what was refused to a caller whose token is known. What others try in vain is not: strangers
could fill the event files with it, and the log has a line of their tokens.
"""

from collections.abc import Awaitable, Callable, Mapping
from typing import Final

from aiohttp import web

from admin_api.access.gate import CALLER, NOBODY
from admin_api.bodies import ChangeNote
from admin_api.errors import AdminError, Handler, shown

FAILED: Final = "internal"  # the code word of what nobody expected


class Trail:
    """Of one API."""

    def __init__(self, tell: Callable[[ChangeNote], Awaitable[None]], names: Mapping[tuple[str, str], str]) -> None:
        """`tell`: of the backend. `names`: of changes, by method and path with {NAME}."""
        self._tell: Final = tell
        self._names: Final = names

    @web.middleware
    async def tell(self, request: web.Request, handler: Handler) -> web.StreamResponse:
        """Tells of a change when it is done, or refused."""
        resource = request.match_info.route.resource
        operation = self._names.get((request.method, resource.canonical)) if resource is not None else None
        if operation is None:
            return await handler(request)
        word = FAILED
        try:
            response = await handler(request)
            word = ""
            return response
        except AdminError as error:
            word = error.code
            raise
        finally:
            if not word or CALLER in request:
                await self._tell(_note(request, operation, word))


def _note(request: web.Request, operation: str, word: str) -> ChangeNote:
    caller = request.get(CALLER, NOBODY)
    who = caller.principal or "nobody"
    return ChangeNote(
        operation,
        shown(_subject(request)),
        f"admin {request.remote or 'unix'}",
        caller.principal,
        caller.role,
        word,
        f"{request.method} {shown(request.path)}, asked by {who}",
    )


def _subject(request: web.Request) -> str:
    """What is in the path: `region=eu` of a tag, else a Route Id, a service, an identity or a number."""
    found = request.match_info
    if "key" in found:
        return f"{found['key']}={found.get('value', '')}"
    return next(iter(found.values()), "broker")
