"""Whatever frames come: a value, or Refused with a sentence; and a value written as the documents say is read again."""

from hypothesis import example, given, settings
from hypothesis import strategies as st

from client_sdk.gateways.samwise.requests import Defaults, Rules, encode_request, read_request
from client_sdk.gateways.samwise.values import OPTIONS, Publish, Refused, Request, Rpc
from tests.client_sdk.gateways.samwise.scripts import (
    DECLARE,
    DELETE,
    REDUNDANT_1_0,
    REDUNDANT_1_1,
    ROUND_ROBIN_1_0,
    ROUND_ROBIN_1_1,
    with_headers,
    with_options,
)

REASONS = {"version", "action", "control", "frames", "number", "empty", "text", "strict", "limit"}
CONTROLS = frozenset({"status", "stop", "restart"})
DEFAULTS = Defaults(
    distribution="redundant", acks_n=2, exchange="events", routing_key="all", options={"priority": "3", "type": "t"}
)
RULES = [
    Rules(controls=CONTROLS),
    Rules(controls=CONTROLS, defaults=DEFAULTS),
    Rules(strict=True, min_version=110, max_frames=30, max_message_bytes=200),
]
WORDS = [
    *(b"100", b"110", b"120", b"publish", b"rpc", b"ping", b"status", b"stop", b"round robin", b"redundant"),
    *(b"exchange.declare", b"exchange.delete", b"", b"0", b"1", b"2", b"4", b"12", b"-1", b"\0", b"\xff", b"x" * 256),
]
FRAMES = st.one_of(st.sampled_from(WORDS), st.binary(max_size=8))
GOOD = [
    *(ROUND_ROBIN_1_0, REDUNDANT_1_0, ROUND_ROBIN_1_1, REDUNDANT_1_1, DECLARE, DELETE, [b"120", b"status"]),
    with_headers(ROUND_ROBIN_1_1, b"2", [b"a", b"1", b"b", b"2"]),
    with_headers(with_options(REDUNDANT_1_1, [b"x"] * 12), b"4", [b"a", b"1", b"b", b"2"]),
]


@st.composite
def broken_requests(draw: st.DrawFn) -> list[bytes]:
    """A good request of which up to three frames are lost, doubled, or other ones."""
    frames = list(draw(st.sampled_from(GOOD)))
    for _ in range(draw(st.integers(0, 3))):
        at = draw(st.integers(0, len(frames) - 1)) if frames else 0
        frames[at : at + 1] = draw(st.lists(FRAMES, max_size=2))
    return frames


def assert_read_or_refused(frames: list[bytes], rules: Rules) -> None:
    """What is read is written so that also a strict gateway takes it, for the same."""
    request, refusal = None, None
    try:
        request = read_request(frames, rules)
    except Refused as refused:
        refusal = refused
    if request is not None:
        assert read_request(encode_request(request), Rules(strict=True, controls=CONTROLS)) == request
    else:
        assert refusal is not None
        assert refusal.reason in REASONS
        assert refusal.text.isprintable()
        assert len(refusal.text) < 250


@settings(max_examples=1000)
@given(st.one_of(broken_requests(), st.lists(FRAMES, max_size=30)), st.sampled_from(RULES))
@example([b"x"] * 1025, RULES[0])
def test_whatever_frames_come_they_are_read_or_refused(frames: list[bytes], rules: Rules) -> None:
    assert_read_or_refused(frames, rules)


TEXTS = st.text(st.characters(exclude_characters="\0", exclude_categories=["Cs"]), max_size=60)
NAMES = TEXTS.filter(bool)


@st.composite
def publishes(draw: st.DrawFn) -> Publish:
    """Any message that a caller may hand over. Twelve equal options would be taken for those of libsamwise."""
    distribution = draw(st.sampled_from(["round robin", "redundant"]))
    options = draw(st.dictionaries(st.sampled_from(OPTIONS[:11]), NAMES, max_size=11))
    headers = draw(st.dictionaries(NAMES, st.binary(max_size=20), max_size=5))
    return Publish(
        version=draw(st.sampled_from([100, 110, 120])),
        distribution=distribution,
        acks_n=draw(st.integers(1, 2**31 - 1)) if distribution == "redundant" else 1,
        exchange=draw(NAMES),
        routing_key=draw(TEXTS),
        mandatory=draw(st.booleans()),
        immediate=draw(st.booleans()),
        options=options,
        headers=tuple(headers.items()),
        payload=draw(st.binary(max_size=50)),
    )


RPCS = st.one_of(
    st.builds(Rpc, version=st.just(110), broker=TEXTS, action=st.just("exchange.declare"), name=NAMES, type=NAMES),
    st.builds(Rpc, version=st.just(100), broker=TEXTS, action=st.just("exchange.delete"), name=NAMES),
)


@given(st.one_of(publishes(), RPCS))
def test_whatever_our_client_asks_for_arrives_as_it_was_asked(request: Request) -> None:
    assert read_request(encode_request(request), Rules(strict=True)) == request
