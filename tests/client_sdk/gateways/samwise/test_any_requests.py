"""Whatever frames come: a value, or Refused with a sentence; and a value written as the documents say is read again."""

from collections.abc import Callable

from hypothesis import given
from hypothesis import strategies as st

from client_sdk.gateways.samwise.requests import (
    MAX_HEAD_BYTES,
    MAX_HEADS,
    RequestReader,
    Rules,
    encode_request,
    read_request,
)
from client_sdk.gateways.samwise.values import OPTIONS, Publish, Refused, Request, Rpc
from tests.fuzz.fuzz_samwise import run


def test_whatever_frames_come_they_are_read_or_refused() -> None:
    """10^7 of them: `python -m tests.fuzz.fuzz_samwise 10000000`."""
    assert 2_000 < run(20_000, seed=7) < 18_000


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


@given(publishes(), st.binary(max_size=300))
def test_what_comes_again_with_another_payload_is_read_as_if_it_came_alone(request: Publish, payload: bytes) -> None:
    rules = Rules(max_message_bytes=2_000)
    reader = RequestReader(rules)
    frames = encode_request(request)
    for again in (frames, [*frames[:-1], payload], frames, [*frames[:-1], bytes(2_000)], [*frames, payload]):
        assert answer_of(reader.read, again) == answer_of(lambda them: read_request(them, rules), again)


def test_of_many_requests_a_bounded_number_is_known() -> None:
    reader = RequestReader(Rules())
    for number in range(3 * MAX_HEADS):
        reader.read([b"100", b"publish", b"round robin", b"e", b"%d" % number, b"x"])
        assert len(reader._known) <= MAX_HEADS
    known_n = len(reader._known)
    headers = [each for number in range(40) for each in (b"%d" % number, bytes(MAX_HEAD_BYTES // 40))]
    options = [b"0", b"0", b"12", *[b""] * 12, b"%d" % len(headers)]
    reader.read([b"110", b"publish", b"round robin", b"e", b"k", *options, *headers, b"x"])
    assert len(reader._known) == known_n


def answer_of(read: Callable[[list[bytes]], Request], frames: list[bytes]) -> object:
    """The request, or why it is refused."""
    try:
        return read(frames)
    except Refused as refused:
        return refused.text
