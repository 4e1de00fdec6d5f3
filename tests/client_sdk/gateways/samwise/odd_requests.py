"""More than a hundred requests that are odd and allowed, with what they ask for, and as many that no document allows,
with what their refusal says. Written from the two documents, not from what the gateway reads."""

from collections.abc import Sequence
from typing import Any, Final, TypeAlias

from client_sdk.gateways.samwise.values import OPTIONS, Ping, Publish, Request, Rpc, Status

Frames: TypeAlias = list[bytes]

ALL_BYTES: Final = bytes(range(256))
MOST: Final = 2**31 - 1
NOTHING: Final = [b""] * len(OPTIONS)
TEXTS: Final = [  # of one frame
    *(
        "x",
        "0",
        "-1",
        "12",
        "publish",
        "round robin",
        "redundant",
        "ping",
        "amq.direct",
        "a b",
        " ",
        "a/b?c=d&e",
        "%00",
    ),
    *("\n", "\t", "\x01", "\x7f", '"', "'", "\\", "{}", "*.#", "ä" * 127 + "x", "x" * 255, "日本", "\U0010ffff"),
    *("\ufeff", "\u202eback", "e\u0301", "\ufffd"),
]
NO_TEXTS: Final = [
    *(b"x" * 256, "ä".encode() * 128, b"\xff", b"a\xc3", b"\xed\xa0\x80", b"\xc0\xaf", b"\xf4\x90\x80\x80"),
    *(b"\0", b"new\0"),
]
NO_NUMBERS: Final = [
    *(b"-1", b"+1", b" 1", b"1 ", b"01", b"1.0", b"1e0", b"0x1", b"one", b"1\0", b"\1\0\0\0", b"1" * 40),
    *("\u0661".encode(), b"2147483648", b"4294967298", b"\xb2"),
]


def of_1_0(*, acks: bytes = b"", exchange: bytes = b"orders", key: bytes = b"new", payload: bytes = b"p") -> Frames:
    """A publishing request of 1.0; `acks` empty: round robin."""
    return [b"100", b"publish", *distribution(acks), exchange, key, payload]


def of_1_1(
    *,
    version: bytes = b"110",
    acks: bytes = b"",
    exchange: bytes = b"orders",
    key: bytes = b"new",
    flags: Sequence[bytes] = (b"0", b"0"),
    count: bytes = b"12",
    options: Sequence[bytes] = NOTHING,
    headers_n: bytes | None = None,
    headers: Sequence[bytes] = (),
    payload: bytes = b"p",
) -> Frames:
    """A publishing request of 1.1; `headers_n` None: as many as there are."""
    given = b"%d" % len(headers) if headers_n is None else headers_n
    to = [version, b"publish", *distribution(acks), exchange, key]
    return [*to, *flags, count, *options, given, *headers, payload]


def distribution(acks: bytes) -> Frames:
    """Frames 2 and, for redundant, 3."""
    return [b"redundant", acks] if acks else [b"round robin"]


def option(name: str, value: bytes) -> Frames:
    """All twelve, of which one is given."""
    return [value if each == name else b"" for each in OPTIONS]


def declare(**changes: bytes) -> Frames:
    """Declares an exchange."""
    fields = {"version": b"100", "broker": b"", "action": b"exchange.declare", "name": b"news", "type": b"topic"}
    fields |= changes
    return [fields["version"], b"rpc", fields["broker"], fields["action"], fields["name"], fields["type"]]


def asks(**fields: Any) -> Publish:
    """What such a request of 1.1 asks for."""
    given: dict[str, Any] = {"version": 110, "acks_n": 1, "exchange": "orders", "routing_key": "new", "options": {}}
    given |= {"headers": (), "payload": b"p"} | fields
    return Publish(distribution="redundant" if "acks_n" in fields else "round robin", **given)


def many_headers(n: int) -> tuple[tuple[str, bytes], ...]:
    """So many, none like another."""
    return tuple((f"k{at}", b"%d" % at) for at in range(n))


def flat(headers: Sequence[tuple[str, bytes]]) -> Frames:
    """Their frames."""
    return [each for key, value in headers for each in (key.encode(), value)]


PAYLOADS: Final = [b"", b"\0", b"\xff", ALL_BYTES, b"0", b"12", b"publish", b"\r\n", bytes(1_000_000)]
TWELVE: Final = [b"t", b"e", b"2", b"9", b"c", b"r", b"60000", b"m", b"y", b"guest", b"a", b"cl"]
HEADERS: Final = [
    (("k", b""),),
    (("k", ALL_BYTES),),
    (("k", bytes(100_000)),),
    (("0", b"0"),),
    (("b", b"1"), ("a", b"2"), ("B", b"3")),
    (("a", b"\0"), ("a ", b"\0"), (" a", b"\0")),
    *([(text, b"v")] for text in ("x" * 255, "ä" * 127, "日本", "\n", "12")),
    many_headers(50),
    many_headers(500),
]

LEGAL: Final[list[tuple[Frames, Request]]] = [
    *((of_1_0(payload=each), asks(version=100, payload=each)) for each in PAYLOADS),
    *((of_1_1(payload=each), asks(payload=each)) for each in PAYLOADS),
    *((of_1_0(exchange=text.encode()), asks(version=100, exchange=text)) for text in TEXTS),
    *((of_1_1(key=text.encode()), asks(routing_key=text)) for text in ["", *TEXTS]),
    *((of_1_0(acks=b"%d" % n), asks(version=100, acks_n=n)) for n in (1, 2, 3, 10, MOST)),
    *((of_1_1(acks=b"%d" % n), asks(acks_n=n)) for n in (1, 2, 3, 10, MOST)),
    # "100" stands in the redundant request of 1.1, and 120 is what all programs send.
    *((of_1_1(version=b"%d" % each), asks(version=each)) for each in (100, 120)),
    *((of_1_1(version=b"%d" % each, acks=b"2"), asks(version=each, acks_n=2)) for each in (100, 120)),
    *((of_1_1(flags=[each, b""]), asks(mandatory=each == b"1")) for each in (b"", b"0", b"1")),
    *((of_1_1(options=option(name, b"0")), asks(options={name: "0"})) for name in OPTIONS),
    (of_1_1(options=TWELVE), asks(options={name: text.decode() for name, text in zip(OPTIONS, TWELVE, strict=True)})),
    (of_1_1(options=[b"x"] * 11 + [b""]), asks(options=dict.fromkeys(OPTIONS[:11], "x"))),
    (of_1_1(options=[b""] + [b"x"] * 11), asks(options=dict.fromkeys(OPTIONS[1:], "x"))),
    (of_1_1(options=[b"x"] * 11 + [b"y"]), asks(options={**dict.fromkeys(OPTIONS[:11], "x"), "cluster_id": "y"})),
    (of_1_1(options=option("type", "ä".encode() * 127)), asks(options={"type": "ä" * 127})),
    *((of_1_1(headers=flat(each)), asks(headers=tuple(each))) for each in HEADERS),
    (of_1_1(acks=b"1", headers=[b"k", b"v"], payload=b""), asks(acks_n=1, headers=(("k", b"v"),), payload=b"")),
    # libsamwise: pairs are counted, and the content type stands twelve times.
    *((of_1_1(headers_n=b"%d" % n, headers=flat(many_headers(n))), asks(headers=many_headers(n))) for n in (1, 2, 500)),
    (of_1_1(version=b"120", options=[b"x"] * 12), asks(version=120, options={"content_type": "x"})),
    *(([b"%d" % each, b"ping"], Ping(each)) for each in (100, 110, 120)),
    ([b"120", b"status"], Status(120)),
    *(
        (
            declare(version=b"%d" % each),
            Rpc(version=each, broker="", action="exchange.declare", name="news", type="topic"),
        )
        for each in (100, 110, 120)
    ),
    *(
        (
            [b"100", b"rpc", text.encode(), b"exchange.delete", text.encode()],
            Rpc(version=100, broker=text, action="exchange.delete", name=text),
        )
        for text in ("x", "0", "exchange.declare", "ä" * 127, "a b")
    ),
]

PUBLISH: Final = "malformed publishing request: "
RPC: Final = "malformed rpc request: "
VERSIONS: Final = [
    *(b"", b"0", b"1", b"10", b"99", b"101", b"109", b"111", b"119", b"121", b"130", b"200", b"1000"),
    *(b"-100", b"+110", b" 100", b"100 ", b"0100", b"100.0", b"1e2", b"0x64", b"100\0", b"d\0\0\0", b"100xyz"),
]

# By what the refusal begins with.
ILLEGAL: Final[dict[str, list[Frames]]] = {
    "wrong protocol version: frame 0 is ": [[each, b"ping"] for each in VERSIONS] + [[b"130", *of_1_1()[1:]]],
    "no payload: 1 frame": [[b"100"], [b"120"]],
    "unknown action: frame 1 is ": [
        [b"110", each] for each in (b"", b"PING", b"ping ", b" ping", b"pings", b"ping\0", b"\xff", b"x" * 1_000_000)
    ],
    "unknown action: status is of version 120": [[b"100", b"status"], [b"110", b"status"]],
    "unknown action: stop is not allowed": [[b"120", b"stop"]],
    "unknown action: restart is not allowed": [[b"120", b"restart"]],
    "malformed request: ": [
        [b"100", b"ping", b""],
        [b"120", b"ping", b"", b""],
        [b"120", b"status", b""],
        [b"100", b"ping"] + [b""] * 1022 + [b"x"],
        of_1_1(headers=[b""] * 1024),
        of_1_1(payload=bytes(16 * 1024 * 1024)),
    ],
    PUBLISH: [
        *(of_1_0()[:n] for n in (2, 3, 4, 5)),
        [*of_1_0(), b""],
        *(of_1_0(acks=b"1")[:n] for n in (4, 5, 6)),
        [*of_1_0(acks=b"1"), b"x"],
        [b"110", *of_1_0()[1:]],
        [b"120", *of_1_0(acks=b"2")[1:]],
        *(of_1_1()[:n] for n in (7, 12, 20, 21)),
        [*of_1_1(), b"x"],
        of_1_1(acks=b"1")[:-1],
        of_1_1(headers_n=b"2"),
        of_1_1(headers_n=b"0", headers=[b"k", b"v"]),
        of_1_1(headers_n=b"2", headers=flat(many_headers(3))),
        of_1_1(headers_n=b"2147483647", headers=[b"k", b"v"]),
        of_1_1(options=NOTHING[:11]),
        of_1_1(options=[*NOTHING, b""]),
    ],
    PUBLISH + "frame 2, distribution, is ": [
        [b"100", b"publish", each, *of_1_0()[3:]]
        for each in (b"", b"Round Robin", b"round-robin", b"redundant ", b"round robin\0", b"fanout", b"\xff")
    ],
    PUBLISH + "frame 3, min. acknowledged, is ": [
        *([*of_1_0(acks=b"1")[:3], each, b"orders", b"new", b"p"] for each in (b"", b"0", *NO_NUMBERS)),
        *([*of_1_1(acks=b"1")[:3], each, *of_1_1(acks=b"1")[4:]] for each in (b"", b"0", b"-1", b"2 ")),
    ],
    PUBLISH + "frame 3, exchange, ": [of_1_0(exchange=each) for each in (b"", *NO_TEXTS)],
    PUBLISH + "frame 5, routing key, ": [of_1_1(acks=b"1", key=each) for each in NO_TEXTS],
    PUBLISH + "frame 5, mandatory, is ": [of_1_1(flags=[each, b"0"]) for each in (b"2", b"true", b"00", b" ", b"-1")],
    PUBLISH + "frame 6, immediate, is ": [of_1_1(flags=[b"0", each]) for each in (b"2", b"no", b"01", b"\0", b"0 ")],
    PUBLISH + "frame 7, option count, is ": [
        of_1_1(count=each) for each in (b"", b"0", b"11", b"13", b"012", b"12 ", b"\x0c\0\0\0")
    ],
    PUBLISH + "frame 10, delivery_mode, ": [of_1_1(options=option("delivery_mode", each)) for each in NO_TEXTS],
    PUBLISH + "frame 20, header count, is ": [
        *(of_1_1(headers_n=each, headers=[b"k", b"v"]) for each in (b"", *NO_NUMBERS[:1], *NO_NUMBERS[2:])),
        of_1_1(headers=[b"k"]),
        of_1_1(headers=[b"k", b"v", b"l"]),
    ],
    PUBLISH + "frame 21, header key, ": [of_1_1(headers=[each, b"v"]) for each in (b"", *NO_TEXTS)],
    PUBLISH + "frame 23, header key, ": [of_1_1(headers=[b"k", b"v", b"k", b"v"])],
    RPC: [[b"100", b"rpc"], declare()[:3], declare()[:4], declare()[:5], [*declare(), b""], [*declare(), b"durable"]],
    RPC + "6 frames, exchange.delete has 5": [declare(action=b"exchange.delete")],
    RPC + "frame 2, broker, ": [declare(broker=each) for each in NO_TEXTS],
    RPC + "frame 3, action, is ": [
        declare(action=each) for each in (b"", b"queue.declare", b"exchange.bind", b"EXCHANGE.DECLARE", b"\xff")
    ],
    RPC + "frame 4, name, ": [declare(name=each) for each in (b"", *NO_TEXTS)],
    RPC + "frame 5, type, ": [declare(type=each) for each in (b"", *NO_TEXTS)],
}
