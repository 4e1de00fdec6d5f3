"""Query parameters: which part of a list, which tags, which brokers. Decides what is a mistake, and names the parameter
then."""

from collections.abc import Sequence, Set
from typing import Final

from aiohttp import web

from admin_api.errors import AdminError, shown
from broker.views.queries import TagFilter
from broker.views.schemas import Part
from rsocket_wire.errors import BrokerError

LIMIT: Final = 100  # items of a list, unless told otherwise
MAX_LIMIT: Final = 1000  # some 4 ms of the broker's thread, interpreted
MAX_OFFSET: Final = 2**31 - 1
MAX_NUMBER: Final = 2**63 - 1
PART: Final = frozenset({"limit", "offset"})
SERVICE: Final = "service"
BROKER: Final = "broker"
ARCHIVED: Final = "archived"
SOURCE: Final = "source"
AFTER: Final = "after"
STATE: Final = "state"
TAG: Final = "tag."


def reject_unknown(request: web.Request, known: Set[str], takes_tags: bool) -> None:
    """AdminError "bad-parameter" for a parameter that the endpoint does not have."""
    for name in request.query:
        if name not in known and not (takes_tags and name.startswith(TAG)):
            allowed = f"allowed: {', '.join(sorted(known))}" if known else "none is allowed here"
            if takes_tags:
                allowed += f", and tag.{shown(name)} for a tag"
            raise AdminError("bad-parameter", f"unknown parameter {shown(name)!r}; {allowed}")


def part_of(request: web.Request) -> Part:
    """`limit` and `offset`."""
    return Part(_number(request, "offset", 0, 0, MAX_OFFSET), limit_of(request))


def limit_of(request: web.Request) -> int:
    """`limit=50`: items at most."""
    return _number(request, "limit", LIMIT, 1, MAX_LIMIT)


def tags_of(request: web.Request) -> TagFilter:
    """`service=orders` and `tag.NAME=VALUE`; the same name again means any of the values."""
    wanted = TagFilter()
    for name, value in request.query.items():
        if name != SERVICE and not name.startswith(TAG):
            continue
        try:
            wanted.add(name.removeprefix(TAG), value)
        except BrokerError as error:
            raise AdminError("bad-filter", f"{shown(name)}: {error.text}") from None
    return wanted


def brokers_of(request: web.Request) -> frozenset[str]:
    """`broker=eu-1`; again: any of them."""
    return frozenset(request.query.getall(BROKER, []))


def after_of(request: web.Request) -> int:
    """`after=41`: numbers that are greater."""
    return _number(request, AFTER, 0, 0, MAX_NUMBER)


def archived_of(request: web.Request) -> bool:
    """`archived=false`: without the archive."""
    return _one_of(request, ARCHIVED, ("true", "false"), "true") == "true"


def source_of(request: web.Request, sources: Sequence[str]) -> str:
    """`source=flows`: empty when there is none."""
    return _one_of(request, SOURCE, sources, "")


def state_of(request: web.Request, states: Sequence[str]) -> str:
    """`state=dead`: the first one when there is none."""
    return _one_of(request, STATE, states, states[0])


def _one_of(request: web.Request, name: str, words: Sequence[str], default: str) -> str:
    texts = request.query.getall(name, [])
    if not texts:
        return default
    if len(texts) > 1 or texts[0] not in words:
        given = " and ".join(repr(shown(each)) for each in texts)
        raise AdminError("bad-parameter", f"{name} must be one of {', '.join(words)}, not {given}")
    return texts[0]


def _number(request: web.Request, name: str, default: int, low: int, high: int) -> int:
    texts = request.query.getall(name, [])
    if not texts:
        return default
    text = texts[0]
    is_number = text.isascii() and text.isdigit() and len(text) <= len(str(high))
    if len(texts) > 1 or not is_number or not low <= int(text) <= high:
        given = " and ".join(repr(shown(each)) for each in texts)
        raise AdminError("bad-parameter", f"{name} must be one whole number from {low} to {high}, not {given}")
    return int(text)
