"""No spelling of an entry that only brokers may write passes, and all else passes as it came. D-102"""

from hypothesis import given
from hypothesis import strategies as st

from rsocket_wire.rsocket.claims import ClaimFilter, without_claims
from rsocket_wire.rsocket.metadata import MAX_ENTRIES, encode_entry, encode_well_known_entry, entries, find_broker_frame
from rsocket_wire.wire.caller import CALLER_MIME, RESERVED, is_reserved

OTHER = encode_entry(b"application/x.json", b"{}")
ROUTING = encode_well_known_entry(0x7E, b"\x06create")
CLAIM = encode_entry(CALLER_MIME, b"\0\x05admin\0\0\0")


def in_pieces(metadata: bytes, cuts: list[int]) -> bytes:
    """What passes of metadata that comes in pieces, each of so many bytes."""
    claims = ClaimFilter()
    passed = b""
    at = 0
    for size in cuts:
        passed += claims.feed(metadata[at : at + size])
        at += size
    return passed + claims.feed(metadata[at:]) + claims.finish()


def spelt(draw: st.DrawFn) -> bytes:
    """The mime type as somebody may write it who hopes that a service reads it all the same."""
    text = bytearray()
    for byte in RESERVED:
        text += draw(st.sampled_from([b"", b"", b"", b" ", b"\t"]))
        letter = bytes([byte])
        text += draw(st.sampled_from([letter, letter, letter.upper(), {b"k": b"\xe2\x84\xaa"}.get(letter, letter)]))
    return bytes(text[: 128 - 10]) + draw(st.sampled_from([b"v0", b"V0", b"v1", b"v0;q=1", b"v0 ", b""]))


@st.composite
def metadatas(draw: st.DrawFn) -> tuple[bytes, bytes]:
    """Composite metadata with claims, and without them."""
    whole, honest = b"", b""
    for _ in range(draw(st.integers(0, 6))):
        content = draw(st.binary(max_size=300))
        if draw(st.booleans()):
            mime = spelt(draw)
            if is_reserved(mime):
                whole += encode_entry(mime, content)
                continue
        entry = encode_well_known_entry(draw(st.integers(0, 0x7F)), content)
        if draw(st.booleans()):
            mime = draw(st.binary(min_size=1, max_size=128).filter(lambda raw: not is_reserved(raw)))
            entry = encode_entry(mime, content)
        whole += entry
        honest += entry
    return whole, honest


@given(metadatas(), st.lists(st.integers(1, 40), max_size=40))
def test_claims_are_taken_out_however_they_are_spelt_and_cut(both: tuple[bytes, bytes], cuts: list[int]) -> None:
    whole, honest = both
    assert without_claims(whole) == honest
    assert in_pieces(whole, cuts) == honest


@given(st.binary(max_size=400), st.lists(st.integers(1, 40), max_size=40))
def test_of_any_bytes_nothing_is_left_that_could_be_read_as_a_claim(raw: bytes, cuts: list[int]) -> None:
    for metadata in (raw, CLAIM + raw, raw + CLAIM):
        passed = in_pieces(metadata, cuts)
        assert not any(is_reserved(entry.mime) for entry in entries(passed) or [])
        if not find_broker_frame(metadata, 0, len(metadata))[2] and len(metadata) < MAX_ENTRIES:
            assert passed == metadata


def test_spellings_that_a_service_may_take_for_the_entry_are_reserved() -> None:
    for mime in (
        CALLER_MIME,
        CALLER_MIME.upper(),
        b" " + CALLER_MIME + b"\r\n",
        b"message/x.rsocket.broker.caller.v1",
        b"message/x.rsocket.broker.caller.v0; charset=utf-8",
        "message/x.rſocket.broKer.caller.v0".encode(),
    ):
        assert is_reserved(mime), mime
        assert find_broker_frame(encode_entry(mime, b""), 0, len(mime) + 4)[2]
    for mime in (b"message/x.rsocket.broker.caller-mimes.v0", b"message/x.rsocket.broker.frame.v0", b"x" + CALLER_MIME):
        assert not is_reserved(mime), mime


def test_an_entry_that_breaks_off_is_taken_out_too() -> None:
    """A lenient reader would read what there is."""
    for size in range(1 + len(RESERVED), len(CLAIM)):
        cut = OTHER + CLAIM[:size]
        assert without_claims(cut) == OTHER, size
        assert find_broker_frame(cut, 0, len(cut))[2]
    longer = OTHER + bytes([len(CALLER_MIME) + 9]) + CALLER_MIME  # it says that the name is longer than what follows
    assert without_claims(longer) == OTHER
    assert find_broker_frame(longer, 0, len(longer))[2]


def test_what_has_a_short_or_well_known_name_does_not_wait() -> None:
    claims = ClaimFilter()
    for byte in OTHER + ROUTING:
        assert claims.feed(bytes([byte])) == bytes([byte])
    assert claims.finish() == b""


def test_more_entries_than_anybody_needs_do_not_pass() -> None:
    many = ROUTING * MAX_ENTRIES
    assert without_claims(many) == many
    claims = ClaimFilter()
    assert claims.feed(many + ROUTING)[: len(many)] == many
    assert claims.is_over
    assert claims.feed(CLAIM) == b""
