"""What the process says on standard error: one line when something came or went, none per request.

    2026-03-01T08:30:00.125Z info    peer tcp 10.0.0.4:5123: connected
    {"at":"2026-03-01T08:30:00.125Z","level":"info","logger":"broker","text":"peer …","event":"PeerConnected",…}

A line about a route has the whole Route Id, so that it can be searched for, and its tags by their short names:
`route 11223344-5566-7788-99aa-bbccddeeff00 (orders): joined from tcp 10.0.0.4:5123, region=eu`.

Lines begin with their subject. Names and tags come from strangers: what could end a line or move the cursor is
escaped, so that nobody can write a line for us. The core does not log, it reports events; `log_event` says one of
them. Lines are written at once, by the thread that logs: they are few, since none is about a request.
"""

import json
import logging
import sys
from datetime import UTC, datetime
from typing import Final, TextIO

from broker import events
from rsocket_wire.errors import CODE_WORDS
from rsocket_wire.quantities import counted
from rsocket_wire.wire.keys import FULL_NAMES, ROUTE_ID, SERVICE_NAME

LOGGER: Final = logging.getLogger("broker")
# What `level` is about; others: warnings.
OUR_LOGGERS: Final = ("broker", "rsocket_wire", "admin_api", "spark_sink", "client_sdk")
INDENT: Final = "    "  # of the lines of a traceback
MAX_TAGS_SHOWN: Final = 8  # in a line; the JSON line and the REST API have them all

# Ways to go that are nobody's fault; any other code word is a warning.
_ORDINARY_ENDS: Final = frozenset({"replaced", "draining", "broker-stopped", "closed-by-operator", "duplicate-link"})
_WARNINGS: Final = frozenset(
    {
        events.EVENTS_DROPPED,
        events.ROUTE_EJECTED,
        events.ROUTE_UNSAID,
        events.BROKER_LEFT,
        events.ANNOTATIONS_REFUSED,
        events.DIGEST_MISMATCH,
    }
)
# For event files: the routes of other brokers and of snapshots are many, a load comes each minute, and of a slow peer
# its PeerClosed, a warning, says the same.
QUIET: Final = frozenset(
    {
        events.ROUTE_ADDED,
        events.ROUTE_REMOVED,
        events.ROUTE_SEEN,
        events.TABLE_DIGEST,
        events.BROKER_LOAD,
        events.SLOW_PEER_ENDED,
    }
)
# What a stranger costs nothing to bring about, as often as it likes: such lines are limited (`limited_log`).
OF_STRANGERS: Final = frozenset(
    {
        events.PEER_CONNECTED,
        events.PEER_CLOSED,
        events.PEER_SUSPENDED,
        events.PEER_RESUMED,
        events.ROUTE_JOINED,
        events.ROUTE_LEFT,
        events.ROUTE_REPLACED,
        events.ANNOTATIONS_REFUSED,
        events.ADMITTED,
        events.AUTH_REFUSED,
        events.DENIED,
        events.REVOKED,
    }
)
AGAIN_MS: Final = 60_000  # ms; a broker that refuses this one does so about once a second, and it is said so often
MAX_REFUSALS: Final = 1000  # that are remembered; at one more all are forgotten, and said again
_REFUSED: Final = tuple(f" ERROR on stream 0: {word}:" for word in ("bad-broker", "no-cluster", "wrong-secret"))


class Refusals:
    """What other brokers that were dialled said when they refused this one."""

    def __init__(self) -> None:
        self._said_ms: dict[tuple[str, str], int] = {}  # when it was last said, epoch, by the peer and its words

    def is_news(self, event: events.LifecycleEvent) -> bool:
        """Has to be said: it is something else, or was not said for AGAIN_MS."""
        if not is_refusal(event):
            return True
        key = (event.peer, event.detail)
        said_ms = self._said_ms.get(key)
        if said_ms is not None and event.at_ms - said_ms < AGAIN_MS:
            return False
        if len(self._said_ms) >= MAX_REFUSALS:
            self._said_ms.clear()
        self._said_ms[key] = event.at_ms
        return True


def is_refusal(event: events.LifecycleEvent) -> bool:
    """Another broker does not take this one for a broker of its cluster."""
    return event.kind == events.PEER_CLOSED and any(words in event.detail for words in _REFUSED)


class TextFormatter(logging.Formatter):
    """Moment (UTC), level, text; a traceback follows on lines of its own, indented: what an exception says may come
    from strangers, and have lines that look like ours.
    """

    def format(self, record: logging.LogRecord) -> str:
        line = f"{_moment(record)} {record.levelname.lower():<7} {one_line(record.getMessage())}"
        if record.exc_info:
            traceback = self.formatException(record.exc_info).split("\n")
            line = "\n".join([line, *(f"{INDENT}{one_line(each)}" for each in traceback)])
        return line


class JsonFormatter(logging.Formatter):
    """One JSON object a line; a line about an event has the event's fields that are not empty."""

    def format(self, record: logging.LogRecord) -> str:
        said: dict[str, object] = {
            "at": _moment(record),
            "level": record.levelname.lower(),
            "logger": record.name,
            "text": record.getMessage(),
        }
        event = getattr(record, "lifecycle", None)
        if isinstance(event, events.LifecycleEvent):
            said["event"] = event.name
            fields = dict(zip(events.LIFECYCLE_FIELDS, event.row()[1:], strict=True))
            said |= {name: value for name, value in fields.items() if value and name != "kind"}
        if record.exc_info:
            said["traceback"] = self.formatException(record.exc_info)
        return json.dumps(said, separators=(",", ":"))


def setup(level: str, format: str, stream: TextIO | None = None) -> None:
    """Send the process's log to `stream` (None: standard error), in place of wherever it went before.

    `level` and `format` are those of `options.LogOptions`. Other libraries' loggers speak from warning on.
    """
    handler = logging.StreamHandler(stream if stream is not None else sys.stderr)
    handler.setFormatter(JsonFormatter() if format == "json" else TextFormatter())
    root = logging.getLogger()
    root.handlers[:] = [handler]
    number = logging.getLevelNamesMapping()[level.upper()]
    root.setLevel(max(number, logging.WARNING))
    for name in OUR_LOGGERS:
        logging.getLogger(name).setLevel(number)


def log_event(event: events.LifecycleEvent, line: str = "", is_news: bool = True) -> None:
    """The event's line: for debugging only when it is no news or for event files; a warning when events were dropped, a
    route was ejected or cannot be told to other brokers, a service refuses requests, a broker is out of reach or
    refuses this one, neighbours differ, annotations were refused, or a peer or route went by its own fault; else info.

    `line` is said instead; the events of the broker itself need it, for whoever runs the broker knows more of them.
    """
    level = level_of(event, is_news)
    if LOGGER.isEnabledFor(level):
        LOGGER.log(level, "%s", line or event_line(event), extra={"lifecycle": event})


def level_of(event: events.LifecycleEvent, is_news: bool = True) -> int:
    """Of the event's line."""
    if not is_news or event.kind in QUIET:
        return logging.DEBUG
    is_fault = event.reason in CODE_WORDS and event.reason not in _ORDINARY_ENDS
    return logging.WARNING if is_fault or event.kind in _WARNINGS or is_refusal(event) else logging.INFO


def line_kind(event: events.LifecycleEvent) -> str:
    """What the event's line has in common with others like it: `RouteJoined`, `PeerClosed (setup-timeout)`."""
    return f"{event.name} ({event.reason})" if event.reason else event.name


# Of those that say no more than this; `detail` and `why` have their colon with them, and are often empty.
_LINES: Final = {
    events.ROUTE_JOINED: "{route}: joined from {peer}{tags}",
    events.ROUTE_LEFT: "{route}: left {after} and {requests}{why}",
    events.ROUTE_REPLACED: "{route}: replaced from {peer}{detail}",
    events.ROUTE_EJECTED: "{route}: ejected{detail}",
    events.ROUTE_RELIEVED: "{route}: gets requests again{detail}",
    events.ROUTE_ADDED: "{route}: learned from {peer}{tags}",
    events.ROUTE_REMOVED: "{route}: removed, was learned from {peer}{why}",
    events.ROUTE_UNSAID: "{route}: cannot be announced to other brokers{detail}",
    events.PEER_CONNECTED: "peer {peer}: connected{detail}",
    events.PEER_SUSPENDED: "peer {peer}: suspended {after}{why}",
    events.PEER_RESUMED: "peer {peer}: resumed{detail}",
    events.PEER_CLOSED: "peer {peer}: closed {after}{why}",
    events.SLOW_PEER_ENDED: "peer {peer}: ended{why}",
    events.ADMITTED: "peer {peer}: admitted{detail}",
    events.AUTH_REFUSED: "peer {peer}: credentials refused{why}",
    events.DENIED: "peer {peer}: service {service} may not be announced{why}",
    events.ROLES_CHANGED: "broker: roles changed{detail}",
    events.REVOKED: "peer {peer}: revoked{detail}",
    events.REVOCATION_SET: "credentials revoked{detail}{before}",
    events.REVOCATION_REMOVED: "credentials no longer revoked{detail}",
    events.ANNOTATIONS_REFUSED: "peer {peer}: annotations of {requests} refused{why}",
    events.BREAKER_OPENED: "service {service}: requests are refused{detail}",
    events.BREAKER_CLOSED: "service {service}: requests are accepted again{detail}",
    events.REQUESTS_DROPPED: "service {service}: requests dropped{why}",
    events.REDIRECT_SET: "service {service}: redirected{detail}",
    events.REDIRECT_REMOVED: "service {service}: no longer redirected{detail}",
    events.LINK_UP: "link {peer}: up{detail}",
    events.LINK_DOWN: "link {peer}: down {after}{why}",
    events.DIGEST_MISMATCH: "link {peer}: the route tables differ{why}",
    events.BROKER_JOINED: "cluster: a broker is reachable{detail}",
    events.BROKER_LEFT: "cluster: a broker is unreachable{detail}",
    events.FILES_RELOADED: "broker: files reloaded{detail}",
    events.CHANGED: "{peer}{detail}",
}


def event_line(event: events.LifecycleEvent) -> str:
    """What happened to a route, a peer or events, in one sentence, subject first, not yet escaped."""
    route = f"route {event.route_id} ({event.service})"
    if event.kind in (events.DRAIN_STARTED, events.DRAIN_ENDED):
        # The detail of all but the broker's begins with a name.
        return f"drain of {event.reason}{': ' if event.reason == 'broker' else ' '}{event.detail}"
    if event.kind == events.ROUTE_SEEN:
        return f"{route}: in slot {event.detail} after {_seconds(event)}, {event.peer}"
    if event.kind in (events.TABLE_DIGEST, events.BROKER_LOAD):
        subject = "table" if event.kind == events.TABLE_DIGEST else "load"
        return f"{subject}: {' '.join(f'{name}={value}' for name, value in event.tags)}"
    line = _LINES.get(event.kind, "broker: events dropped{why}")
    if event.kind == events.REQUESTS_DROPPED and event.peer and not event.service:
        line = "link {peer}: requests dropped{why}"
    if event.kind == events.DIGEST_MISMATCH and event.reason == "roles":
        line = "link {peer}: {roles}"
    if event.kind == events.ROUTE_REPLACED and event.reason == "changed":
        line = "{route}: its tags were changed by its peer {peer}"
    if event.kind == events.CHANGED and event.reason:
        line = "{peer}{detail}: refused: {word}"
    if event.kind == events.DENIED and not event.service:
        line = "peer {peer}: {requests} not allowed{why}"
    return line.format(
        route=route,
        service=event.service,
        peer=event.peer,
        roles=event.detail,
        word=event.reason,
        tags=_tags(event),
        after=f"after {_seconds(event)}",
        requests=counted(event.requests, "request"),
        detail=_behind_colon(event.detail),
        why=_behind_colon(_why(event)),
        before=_before(event),
    )


def one_line(text: str) -> str:
    """The text with everything that is not printable escaped: `\\n`, `\\x1b`, `\\u2028`."""
    if text.isprintable():
        return text
    return "".join(each if each.isprintable() else each.encode("unicode_escape").decode() for each in text)


def _moment(record: logging.LogRecord) -> str:
    return _iso(record.created)


def _iso(at_s: float) -> str:
    return datetime.fromtimestamp(at_s, UTC).isoformat(timespec="milliseconds").replace("+00:00", "Z")


def _before(event: events.LifecycleEvent) -> str:
    """`, issued before 2026-03-01T08:30:00.125Z`; what another broker says may be later than any date."""
    text = dict(event.tags).get(events.ISSUED_BEFORE, "") if event.kind == events.REVOCATION_SET else ""
    if not text:
        return ""
    try:
        return f", issued before {_iso(int(text) / 1000)}"
    except (ValueError, OverflowError, OSError):
        return f", issued before {text} ms"


def _seconds(event: events.LifecycleEvent) -> str:
    return f"{event.uptime_ms / 1000:.1f} s"


def _why(event: events.LifecycleEvent) -> str:
    """`slow-peer: 9000000 bytes wait`; without the word when the detail begins with it already."""
    if not event.detail or event.detail.startswith(f"{event.reason}:"):
        return event.detail or event.reason
    return f"{event.reason}: {event.detail}" if event.reason else event.detail


def _behind_colon(text: str) -> str:
    return f": {text}" if text else ""


def _tags(event: events.LifecycleEvent) -> str:
    """`, region=eu zone=a`, at most MAX_TAGS_SHOWN of them; without those that say again what the line begins with."""
    said = ((SERVICE_NAME.name, event.service), (ROUTE_ID.name, event.route_id))
    tags = [f"{_short(name)}={value}" for name, value in event.tags if (name, value) not in said]
    if not tags:
        return ""
    shown = " ".join(tags[:MAX_TAGS_SHOWN])
    left_n = len(tags) - MAX_TAGS_SHOWN
    return f", {shown} and {left_n} more" if left_n > 0 else f", {shown}"


def _short(name: str) -> str:
    """`region` for `io.rsocket.routing.Region`."""
    key = FULL_NAMES.get(name)
    return key.short_name if key is not None else name
