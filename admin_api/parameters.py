"""Query parameters: what each is called, what it takes and what it does; and how it is read. Decides what is a mistake,
and names the parameter then."""

import difflib
import re
from collections.abc import Collection, Iterable
from typing import Any, Final, NamedTuple, TypeAlias

from aiohttp import web

from admin_api.errors import AdminError, shown
from broker.events import OUTCOME_NAMES
from broker.forwarding.traffic.flows import MODEL_NAMES
from broker.views.queries import CONNECTION_FIELDS, SERVICE_FIELDS, TRAFFIC_FIELDS, TagFilter
from broker.views.samwise import DEAD, WAITING
from broker.views.schemas import Part
from rsocket_wire.errors import BrokerError
from rsocket_wire.ports import SCHEMES
from spark_sink.event_files.folder import SOURCES

MAX_LIMIT: Final = 1000  # some 4 ms of the broker's thread, interpreted
TAG: Final = "tag."
SORT: Final = "sort"
NEAR: Final = 0.75  # so alike, of 1, must a name be to be proposed
OTHERS: Final = {  # what parameters are called elsewhere
    **dict.fromkeys(("count", "size", "page_size", "per_page", "max", "top", "n"), "limit"),
    **dict.fromkeys(("skip", "start", "from", "page", "page_number"), "offset"),
    **dict.fromkeys(("order", "order_by", "orderby", "sort_by", "sortby"), SORT),
    **dict.fromkeys(("name", "service_name", "servicename"), "service"),
    **dict.fromkeys(("since", "cursor", "continue"), "after"),
    **dict.fromkeys(("status",), "state"),
    **dict.fromkeys(("identity", "user"), "principal"),
}
_TAG: Final = re.compile(r"(?:tags?|labels?)(?:[._\[]([^\]]+)\]?)?", re.IGNORECASE)
_PAIR: Final = re.compile("[=:]")


class Number(NamedTuple):
    """A whole number, once at most."""

    name: str
    about: str
    low: int
    high: int
    default: int

    @property
    def schema(self) -> dict[str, Any]:
        """As JSON Schema; so of the others."""
        return {"type": "integer", "minimum": self.low, "maximum": self.high, "default": self.default}


class Word(NamedTuple):
    """One of some words, once at most."""

    name: str
    about: str
    words: tuple[str, ...]
    default: str = ""  # empty: there is none

    @property
    def schema(self) -> dict[str, Any]:
        return {"type": "string", "enum": [*self.words]} | ({"default": self.default} if self.default else {})


class Text(NamedTuple):
    """Any text, once at most."""

    name: str
    about: str

    @property
    def schema(self) -> dict[str, Any]:
        return {"type": "string"}


class Texts(NamedTuple):
    """Any text, or one of some words; again: either of them."""

    name: str
    about: str
    words: tuple[str, ...] = ()  # empty: any text

    @property
    def schema(self) -> dict[str, Any]:
        return {"type": "array", "items": {"type": "string"} | ({"enum": [*self.words]} if self.words else {})}


class Tags(NamedTuple):
    """A parameter for each tag, whose name begins with TAG."""

    name: str  # of all of them together
    about: str

    @property
    def schema(self) -> dict[str, Any]:
        """An object of which each property is a parameter."""
        return {
            "type": "object",
            "patternProperties": {"^tag\\.": Texts("", "").schema},
            "additionalProperties": False,
        }


def sorting(orders: tuple[str, ...]) -> Word:
    """By one of the fields of a list."""
    return Word(SORT, "by this field; with - in front the greatest first", orders)


Parameter: TypeAlias = Number | Word | Text | Texts | Tags

LIMIT: Final = Number("limit", "items at most", 1, MAX_LIMIT, 100)
OFFSET: Final = Number("offset", "items of the list that are left out", 0, 2**31 - 1, 0)
PART: Final = (LIMIT, OFFSET)
SERVICE: Final = Texts("service", "the same as tag.service")
BROKER: Final = Texts("broker", "routes of the broker of this name")
TAGS: Final = Tags("tags", "tag.NAME=VALUE: routes with this tag; the name in any spelling")
ARCHIVED: Final = Word("archived", "false: without the archive", ("true", "false"), "true")
SOURCE: Final = Word("source", "files of this source, and logs", SOURCES)
AFTER: Final = Number("after", "what has a greater number", 0, 2**63 - 1, 0)
PATH: Final = Text("path", "posts of this path only")
WITHOUT: Final = Text("without", "posts of files that this consumer, USER@HOST, has not reported to have")
STATE: Final = Word("state", "messages that wait, or dead letters", (WAITING, DEAD), WAITING)


# Of one list each: what it is searched for, and what it is sorted by.
SERVICE_SEARCH: Final = (
    Texts("service", "the service of this name"),
    sorting(SERVICE_FIELDS.orders),
)
CONNECTION_SEARCH: Final = (
    Texts("service", "connections that offer this service"),
    Texts("principal", "connections of this identity, as jwt:orders-7"),
    Texts("state", "connections in this state", ("connecting", "open", "suspended", "ending")),
    Texts("transport", "connections by this transport", SCHEMES),
    sorting(CONNECTION_FIELDS.orders),
)
TRAFFIC_SEARCH: Final = (
    Texts("service", "requests for this service"),
    Texts("model", "requests of this interaction model", tuple(MODEL_NAMES.values())),
    Texts("routing", "requests that were routed so: unicast, multicast, shard"),
    Texts("outcome", "requests that ended so", OUTCOME_NAMES),
    Texts("code", "requests with this code word"),
    sorting(TRAFFIC_FIELDS.orders),
)


def reject_unknown(request: web.Request, known: Iterable[Parameter]) -> None:
    """AdminError "bad-parameter" for a parameter that the endpoint does not have."""
    takes_tags = TAGS in known
    names = {each.name for each in known if each is not TAGS}
    for name, value in request.query.items():
        # tag.region:eu; `tag.a:=` is a tag named `a:`.
        is_slip = not value and ":" in name and f"{name}=" not in request.query_string
        if name not in names and not (takes_tags and name.startswith(TAG) and not is_slip):
            allowed = f"allowed: {', '.join(sorted(names))}" if names else "none is allowed here"
            allowed += f", and {TAG}NAME=VALUE for a tag" if takes_tags else ""
            key, _, text = name.partition(":") if is_slip else (name, "", value)
            meant = _meant(key, text, names, takes_tags)
            raise AdminError("bad-parameter", f"unknown parameter {shown(name)!r}{meant}; {allowed}")


def _meant(name: str, value: str, names: Collection[str], takes_tags: bool) -> str:
    """`; write tag.region=eu` for `region=eu`, `tags.region=eu`, `tag=region:eu`; empty: nothing is near."""
    own = name.lower() if name.lower() in names else OTHERS.get(name.lower(), "")
    if own in names:
        return f"; write {own}={shown(value)}" if own == name.lower() else f"; did you mean {own}?"
    if takes_tags and (given := _TAG.fullmatch(name)):
        key, text = (given[1], value) if given[1] else _PAIR.split(value, 1) if _PAIR.search(value) else ("", "")
        return f"; write {TAG}{shown(f'{key}={text}')}" if key else f"; write {TAG}NAME=VALUE"
    if name.startswith(TAG):
        return f"; routes have tags: /api/v1/routes?{shown(f'{name}={value}')}"
    near = difflib.get_close_matches(name, names, 1, NEAR)
    if near:
        return f"; did you mean {near[0]}?"
    return f"; write {TAG}{shown(f'{name}={value}')}" if takes_tags else ""


def part_of(request: web.Request, search: Iterable[Parameter] = ()) -> Part:
    """`limit` and `offset`, and what is searched for: `service=orders&sort=-requests`."""
    only: list[tuple[str, frozenset[str]]] = []
    sort = ""
    for each in search:
        if isinstance(each, Word):
            sort = word_of(request, each)
        elif isinstance(each, Texts) and each.name in request.query:
            only.append((each.name, frozenset(texts_of(request, each))))
    return Part(number_of(request, OFFSET), number_of(request, LIMIT), tuple(only), sort)


def tags_of(request: web.Request) -> TagFilter:
    """`service=orders` and `tag.NAME=VALUE`; the same name again means any of the values."""
    wanted = TagFilter()
    for name, value in request.query.items():
        if name != SERVICE.name and not name.startswith(TAG):
            continue
        try:
            wanted.add(name.removeprefix(TAG), value)
        except BrokerError as error:
            raise AdminError("bad-filter", f"{shown(name)}: {error.text}") from None
    return wanted


def brokers_of(request: web.Request) -> frozenset[str]:
    """`broker=eu-1`; again: any of them."""
    return frozenset(request.query.getall(BROKER.name, []))


def archived_of(request: web.Request) -> bool:
    """`archived=false`: without the archive."""
    return word_of(request, ARCHIVED) == "true"


def word_of(request: web.Request, parameter: Word) -> str:
    """Its default when it is not there."""
    texts = request.query.getall(parameter.name, [])
    if not texts:
        return parameter.default
    if len(texts) > 1 or texts[0] not in parameter.words:
        raise _no_word(parameter, texts)
    return texts[0]


def texts_of(request: web.Request, parameter: Texts) -> list[str]:
    """All that were given; none when it is not there."""
    texts = request.query.getall(parameter.name, [])
    if parameter.words and not set(texts) <= set(parameter.words):
        raise _no_word(parameter, texts)
    return texts


def _no_word(parameter: Word | Texts, texts: Iterable[str]) -> AdminError:
    given = " and ".join(repr(shown(each)) for each in texts)
    return AdminError("bad-parameter", f"{parameter.name} must be one of {', '.join(parameter.words)}, not {given}")


def text_of(request: web.Request, parameter: Text) -> str:
    """Empty when it is not there."""
    texts = request.query.getall(parameter.name, [""])
    if len(texts) > 1:
        raise AdminError("bad-parameter", f"{parameter.name} may be given once, not {len(texts)} times")
    return texts[0]


def number_of(request: web.Request, parameter: Number) -> int:
    """Its default when it is not there."""
    name, _, low, high, default = parameter
    texts = request.query.getall(name, [])
    if not texts:
        return default
    text = texts[0]
    is_number = text.isascii() and text.isdigit() and len(text) <= len(str(high))
    if len(texts) > 1 or not is_number or not low <= int(text) <= high:
        given = " and ".join(repr(shown(each)) for each in texts)
        raise AdminError("bad-parameter", f"{name} must be one whole number from {low} to {high}, not {given}")
    return int(text)
