"""Requests of the Samwise protocol: frames to values, and values to frames. Where things stand: `layouts`.

What the documents allow is read, and nothing else: any other count of frames, a number that is no plain decimal, a text
that is no UTF-8 are Refused, with samd's words, a colon, and what was wrong where. Frames are numbered from 0, as the
documents do it. Empty ones get what `Defaults` has. What a destination can take is decided by its backend.
"""

from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field, replace
from typing import Final

from client_sdk.gateways.samwise.frames import MAX_NUMBER, counted, encode_text, find_number, read_text, shown
from client_sdk.gateways.samwise.layouts import (
    ACKS_AT,
    BROKER_AT,
    CONTROLS,
    DISTRIBUTION_AT,
    LEAST_FRAMES,
    MALFORMED,
    MALFORMED_PUBLISH,
    MALFORMED_RPC,
    NAME_AT,
    OPTION_COUNT,
    PING,
    PUBLISH,
    RPC,
    RPC_ACTION_AT,
    RPC_FRAMES,
    STATUS,
    TYPE_AT,
    VERSION_1_0,
    VERSION_1_2,
    VERSIONS,
    PublishForm,
    choose_form,
    encoded_form,
)
from client_sdk.gateways.samwise.values import (
    DECLARE,
    HEADER_PAIRS,
    OPTIONS,
    REDUNDANT,
    REPEATED_OPTIONS,
    ROUND_ROBIN,
    Control,
    Ping,
    Publish,
    Refused,
    Request,
    Rpc,
    Status,
)

MAX_HEADS: Final = 1_024  # of requests that are read at once when they come again; one more, and all are read anew
MAX_HEAD_BYTES: Final = 4_096  # of one of them


@dataclass(frozen=True, slots=True, kw_only=True)
class Defaults:
    """What empty frames stand for. "Providing the defaults to samwise instances is topic of another specification"."""

    distribution: str = ""  # ROUND_ROBIN or REDUNDANT; empty: callers have to say it
    acks_n: int | None = None  # for REDUNDANT; None: callers have to say it
    exchange: str = ""  # empty: callers have to say it
    routing_key: str = ""
    options: Mapping[str, str] = field(default_factory=dict)  # of OPTIONS, none of them empty


@dataclass(frozen=True, slots=True, kw_only=True)
class Rules:
    """What the gateway takes from callers."""

    strict: bool = False  # refuse what only libsamwise writes: see HEADER_PAIRS and REPEATED_OPTIONS
    min_version: int = VERSION_1_0
    controls: frozenset[str] = frozenset({STATUS})  # of CONTROLS; a ping is always answered
    defaults: Defaults = Defaults()
    max_frames: int = 1024  # frames of a request: 500 headers and all else
    max_message_bytes: int = 16 * 1024 * 1024  # bytes of all frames of a request


class RequestReader:
    """Reads requests by the same rules. Programs publish with the same frames again and again, but for the payload,
    which is the last one: what stands before it is read once."""

    def __init__(self, rules: Rules) -> None:
        self.rules: Final = rules
        self._known: Final[dict[tuple[bytes, ...], Publish]] = {}  # by all frames but the last

    def read(self, frames: Sequence[bytes]) -> Request:
        """As `read_request`."""
        head = tuple(frames[:-1])
        known = self._known.get(head)
        size = sum(map(len, head))
        if known is not None and size + len(frames[-1]) <= self.rules.max_message_bytes:
            return Publish(
                version=known.version,
                distribution=known.distribution,
                acks_n=known.acks_n,
                exchange=known.exchange,
                routing_key=known.routing_key,
                mandatory=known.mandatory,
                immediate=known.immediate,
                options=known.options,
                headers=known.headers,
                payload=frames[-1],
                quirks=known.quirks,
            )
        request = read_request(frames, self.rules)
        if isinstance(request, Publish) and size <= MAX_HEAD_BYTES:
            if len(self._known) >= MAX_HEADS:
                self._known.clear()
            self._known[head] = replace(request, payload=b"")
        return request


def read_request(frames: Sequence[bytes], rules: Rules) -> Request:
    """What the frames behind the envelope ask for; Refused for anything that the documents do not allow."""
    check_size(len(frames), sum(map(len, frames)), rules)
    version = read_version(frames[0], rules.min_version)
    if len(frames) < LEAST_FRAMES:
        raise Refused(f"no payload: {counted(len(frames))}, at least {LEAST_FRAMES} are expected", "frames")
    action = frames[1]
    if action == PUBLISH.encode():
        return PublishReader(version, frames, rules).read()
    if action == RPC.encode():
        return read_rpc(version, frames)
    return read_control(version, frames, rules.controls)


def encode_request(request: Request) -> list[bytes]:
    """The frames of a request of our own client; Refused for text that UTF-8 has no bytes for.

    With version 100, a message that has neither options nor headers nor flags is written as 1.0 has it.
    """
    head = [b"%d" % request.version]
    match request:
        case Publish():
            return [*head, PUBLISH.encode(), *encode_publish(request)]
        case Rpc(broker=broker, action=action, name=name, type=type):
            texts = [RPC, broker, action, name, *([type] if action == DECLARE else [])]
        case Ping():
            texts = [PING]
        case Status():
            texts = [STATUS]
        case Control(action=action):
            texts = [action]
    return [*head, *(encode_text(text) for text in texts)]


# What is the same in every request


def check_size(frames_n: int, message_bytes: int, rules: Rules) -> None:
    """Refused when there is no frame at all, or more than the configuration allows."""
    if not frames_n:
        raise Refused(f"{MALFORMED}: 0 frames, at least {LEAST_FRAMES} are expected", "frames")
    if frames_n > rules.max_frames:
        raise Refused(f"{MALFORMED}: {counted(frames_n)}, {rules.max_frames} are allowed", "limit")
    if message_bytes > rules.max_message_bytes:
        raise Refused(f"{MALFORMED}: {message_bytes} bytes, {rules.max_message_bytes} are allowed", "limit")


def read_version(frame: bytes, min_version: int) -> int:
    """Refused unless it is spoken here: "samwise MAY refuse requests from clients implementing a too old protocol"."""
    version = find_number(frame)
    if version not in VERSIONS or version < min_version:
        allowed = ", ".join(str(each) for each in VERSIONS if each >= min_version)
        raise Refused(f"wrong protocol version: frame 0 is {shown(frame)}, spoken here: {allowed}", "version")
    return version


# ping, status, stop, restart, rpc


def read_control(version: int, frames: Sequence[bytes], controls: frozenset[str]) -> Ping | Status | Control:
    """A request that is its action and nothing more."""
    action = next((each for each in (PING, *CONTROLS) if frames[1] == each.encode()), "")
    if not action:
        raise Refused(f"unknown action: frame 1 is {shown(frames[1])}", "action")
    if len(frames) > LEAST_FRAMES:
        # "This request SHALL not have any more frames."
        raise Refused(f"{MALFORMED}: {counted(len(frames))}, {action} has {LEAST_FRAMES}", "frames")
    if action == PING:
        return Ping(version)
    if version < VERSION_1_2:
        raise Refused(f"unknown action: {action} is of version {VERSION_1_2}, frame 0 is {version}", "action")
    if action not in controls:
        raise Refused(f"unknown action: {action} is not allowed here", "control")
    return Status(version) if action == STATUS else Control(version, action)


def read_rpc(version: int, frames: Sequence[bytes]) -> Rpc:
    """A control command for brokers."""
    if len(frames) <= RPC_ACTION_AT:
        raise Refused(f"{MALFORMED_RPC}: {counted(len(frames))}, at least {RPC_ACTION_AT + 1} are expected", "frames")
    action = next((each for each in RPC_FRAMES if frames[RPC_ACTION_AT] == each.encode()), "")
    if not action:
        known = " or ".join(RPC_FRAMES)
        text = f"{MALFORMED_RPC}: frame {RPC_ACTION_AT}, action, is {shown(frames[RPC_ACTION_AT])}, not {known}"
        raise Refused(text, "action")
    if len(frames) != RPC_FRAMES[action]:
        raise Refused(f"{MALFORMED_RPC}: {counted(len(frames))}, {action} has {RPC_FRAMES[action]}", "frames")
    return Rpc(
        version=version,
        broker=read_text(frames, BROKER_AT, "broker", MALFORMED_RPC),
        action=action,
        name=read_rpc_option(frames, NAME_AT, "name"),
        type=read_rpc_option(frames, TYPE_AT, "type") if action == DECLARE else "",
    )


def read_rpc_option(frames: Sequence[bytes], at: int, name: str) -> str:
    """A text that must be there: "The following frames SHALL not be empty: … rpc frames > 3"."""
    text = read_text(frames, at, name, MALFORMED_RPC)
    if not text:
        raise Refused(f"{MALFORMED_RPC}: frame {at}, {name}, is empty", "empty")
    return text


# publish


class PublishReader:
    """Reads one publishing request from the front to the back."""

    def __init__(self, version: int, frames: Sequence[bytes], rules: Rules) -> None:
        self.version: Final = version
        self.frames: Final = frames
        self.rules: Final = rules
        self.quirks: Final[list[str]] = []  # what only libsamwise writes, and was seen

    def read(self) -> Publish:
        """The whole request."""
        defaults = self.rules.defaults
        distribution, is_default = self.read_distribution()
        form = choose_form(self.version, distribution, self.frames, is_default=is_default)
        acks_n = self.read_acks(form) if distribution == REDUNDANT else 1
        exchange = self.text(form.exchange_at, "exchange") or defaults.exchange
        if not exchange:
            raise self.empty(form.exchange_at, "exchange")
        routing_key = self.text(form.routing_key_at, "routing key") or defaults.routing_key
        # In this order, which is that of the frames: the first mistake is the one that is told.
        mandatory = form.has_options and self.flag(form.mandatory_at, "mandatory")
        immediate = form.has_options and self.flag(form.immediate_at, "immediate")
        options = self.read_options(form) if form.has_options else {}
        headers = self.read_headers(form) if form.has_options else ()
        return Publish(
            version=self.version,
            distribution=distribution,
            acks_n=acks_n,
            exchange=exchange,
            routing_key=routing_key,
            mandatory=mandatory,
            immediate=immediate,
            options={**defaults.options, **options},
            headers=headers,
            payload=self.frames[-1],
            quirks=tuple(self.quirks),
        )

    def read_distribution(self) -> tuple[str, bool]:
        """Which one it is, and whether that is the default because the frame is empty."""
        frames = self.frames
        if len(frames) <= DISTRIBUTION_AT:
            raise self.refused(f"{counted(len(frames))}, frame {DISTRIBUTION_AT}, distribution, is missing", "frames")
        frame = frames[DISTRIBUTION_AT]
        for each in (ROUND_ROBIN, REDUNDANT):
            if frame == each.encode():
                return each, False
        if frame:
            known = f"{ROUND_ROBIN} or {REDUNDANT}"
            raise self.refused(f"frame {DISTRIBUTION_AT}, distribution, is {shown(frame)}, not {known}", "text")
        if not self.rules.defaults.distribution:
            raise self.empty(DISTRIBUTION_AT, "distribution")
        return self.rules.defaults.distribution, True

    def read_acks(self, form: PublishForm) -> int:
        """How many have to acknowledge it: "min. acknowledged | integer | x > 0"."""
        if form.has_acks and self.frames[ACKS_AT]:
            return self.number(ACKS_AT, "min. acknowledged", least=1)
        acks_n = self.rules.defaults.acks_n
        if acks_n is None:
            if form.has_acks:
                raise self.empty(ACKS_AT, "min. acknowledged")
            raise self.refused("min. acknowledged is missing and has no default", "empty")
        return acks_n

    def read_options(self, form: PublishForm) -> dict[str, str]:
        """Those that are not empty."""
        count = self.frames[form.option_count_at]
        if count != OPTION_COUNT:
            subject = f"frame {form.option_count_at}, option count,"
            raise self.refused(f"{subject} is {shown(count)}, not {len(OPTIONS)}", "number")
        at = form.options_at
        given = self.frames[at : at + len(OPTIONS)]
        if given[0] and all(each == given[0] for each in given):
            # D-77: libsamwise never goes on to the second option while it writes the twelve.
            self.saw(REPEATED_OPTIONS, f"frames {at} to {at + len(OPTIONS) - 1}, options, are all {shown(given[0])}")
            return {OPTIONS[0]: self.text(at, OPTIONS[0])}
        return {name: self.text(at + i, name) for i, name in enumerate(OPTIONS) if given[i]}

    def read_headers(self, form: PublishForm) -> tuple[tuple[str, bytes], ...]:
        """The pairs, in the order of their frames."""
        at = form.header_count_at
        count = self.number(at, "header count", least=0)
        there = len(self.frames) - form.headers_at - 1  # without the payload
        if count and there == 2 * count:
            # D-77: libsamwise counts pairs. There is no count with which both readings fit.
            self.saw(HEADER_PAIRS, f"frame {at}, header count, is {count}, which is the number of pairs")
        elif there != count:
            expected = f"with a header count of {count} it has {form.frames_n + count}"
            raise self.refused(f"{counted(len(self.frames))}, {expected}", "frames")
        if there % 2:
            raise self.refused(f"frame {at}, header count, is {count}, but headers are pairs of frames", "number")
        headers = {}
        for key_at in range(form.headers_at, form.headers_at + there, 2):
            key = self.text(key_at, "header key")
            if not key:
                raise self.empty(key_at, "header key")
            if key in headers:
                # AMQP 0-9-1, 4.2.5.5: "Duplicate fields are illegal", and JSON has no place for them either. D-79
                raise self.refused(f"frame {key_at}, header key, is {shown(self.frames[key_at])} again", "text")
            headers[key] = self.frames[key_at + 1]
        return tuple(headers.items())

    def text(self, at: int, name: str) -> str:
        """The text of one frame, which may be empty."""
        return read_text(self.frames, at, name, MALFORMED_PUBLISH)

    def number(self, at: int, name: str, *, least: int) -> int:
        """The number of one frame, which must not be empty: counts have no defaults. D-78"""
        frame = self.frames[at]
        if not frame:
            raise self.empty(at, name)
        number = find_number(frame)
        if number is None or number < least:
            raise self.refused(f"frame {at}, {name}, is {shown(frame)}, not {least} to {MAX_NUMBER}", "number")
        return number

    def flag(self, at: int, name: str) -> bool:
        """0 or 1; empty is 0."""
        frame = self.frames[at]
        if frame not in (b"", b"0", b"1"):
            raise self.refused(f"frame {at}, {name}, is {shown(frame)}, not 0 or 1", "number")
        return frame == b"1"

    def saw(self, quirk: str, what: str) -> None:
        """Notes what only libsamwise writes, or refuses it."""
        if self.rules.strict:
            raise self.refused(f"{what}, and this gateway is strict", "strict")
        self.quirks.append(quirk)

    def empty(self, at: int, name: str) -> Refused:
        """The error of a frame that must say something."""
        return self.refused(f"frame {at}, {name}, is empty and has no default", "empty")

    def refused(self, detail: str, reason: str) -> Refused:
        """The error of a publishing request."""
        return Refused(f"{MALFORMED_PUBLISH}: {detail}", reason)


def encode_publish(publish: Publish) -> list[bytes]:
    """Everything behind the action."""
    has_options = bool(
        publish.version != VERSION_1_0 or publish.mandatory or publish.immediate or publish.options or publish.headers
    )
    form = encoded_form(publish.distribution, has_options=has_options)
    frames = [encode_text(publish.distribution)]
    if form.has_acks:
        frames.append(b"%d" % publish.acks_n)
    frames += [encode_text(publish.exchange), encode_text(publish.routing_key)]
    if form.has_options:
        frames += [b"%d" % publish.mandatory, b"%d" % publish.immediate, OPTION_COUNT]
        frames += [encode_text(publish.options.get(name, "")) for name in OPTIONS]
        frames.append(b"%d" % (2 * len(publish.headers)))
        for key, value in publish.headers:
            frames += [encode_text(key), value]
    return [*frames, publish.payload]
