"""Whatever frames come: a value, or Refused with a sentence; and a value written as the documents say is read again."""

from hypothesis import given
from hypothesis import strategies as st

from client_sdk.gateways.samwise.requests import Rules, encode_request, read_request
from client_sdk.gateways.samwise.values import OPTIONS, Publish, Request, Rpc
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
