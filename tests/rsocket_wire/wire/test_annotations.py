"""Router annotations: the vectors, everything that can be wrong, bounds, extra fields, round trips."""

from collections.abc import Iterator

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from rsocket_wire.errors import CODE_WORDS, REJECTED, BrokerError, InvalidFrame
from rsocket_wire.wire.annotations import (
    ANNOTATIONS_MIME,
    MAX_FLAGS,
    MAX_NAME_BYTES,
    MAX_SECTION_BYTES,
    MAX_TRACE,
    STREAMING,
    VERSION,
    VERSION_KEY,
    Annotations,
    decode_annotations,
    decode_version,
    encode_version,
)
from tests.rsocket_wire.wire.annotation_vectors import (
    BAD,
    CAPTURED_BYTES,
    EXAMPLES,
    GOOD,
    HEAD,
    LIST32,
    NULL,
    ONE,
    STR,
    SYMBOLIC_HEADS,
    VALUES,
    WITHOUT_TRACE,
    Example,
    assert_section_or_refused,
    compound32,
    refusal,
    section,
)

V2 = "descriptor: 0x534b50522d2d5241 is that of version 2, version 1 is supported"
EMPTY_TRACE = "trace: is empty, the sender must have added its name"
DESCRIPTORS = "the ulong (0x80) 0xffffffff00002000 or its symbol (0xa3, 0xb3)"
SYMBOL = "'skupper:router-annotations'"
NOT_DESCRIBED = "section: smallulong (0x53) is there, a described value (0x00) is needed"
FEW = "flags, to-override, ingress-router and trace are needed"

# The bad inputs of the file, and what is said of each.
SENTENCES = {
    "empty input": "section: needs 1 bytes at offset 0, 0 are left",
    "not described": NOT_DESCRIBED,
    "descriptor of the AMQP header section (0x70)": (
        f"descriptor: smallulong (0x53) is there, {DESCRIPTORS} is needed"
    ),
    "descriptor ulong 0x2000 without the domain": (
        "descriptor: 0x0000000000002000 is there, 0xffffffff00002000 is needed"
    ),
    "list0: no fields": f"section: has 0 fields, {FEW}",
    "three fields (trace missing)": f"section: has 3 fields, {FEW}",
    "flags is a uint (that is version 2)": "flags: uint0 (0x43) is there, a ubyte (0x50) is needed",
    "flags is null (mandatory)": "flags: null (0x40) is there, a ubyte (0x50) is needed",
    "to-override is an int": (
        "to-override: smallint (0x54) is there, null (0x40), a str32 (0xb1) or a str8 (0xa1) is needed"
    ),
    "ingress is an empty string": "ingress-router: is empty, a name of 1..255 bytes is needed",
    "ingress is a symbol": "ingress-router: sym8 (0xa3) is there, a str8 (0xa1) is needed",
    "trace is null (mandatory)": "trace: null (0x40) is there, a list8 (0xc0) or a list32 (0xd0) is needed",
    "trace is an empty list (the sender must have added itself)": EMPTY_TRACE,
    "trace holds an int": "trace entry 2: smallint (0x54) is there, a str8 (0xa1) is needed",
    "trace entry as str32 (the seed restricts entries to str8-utf8)": (
        "trace entry 1: str32 (0xb1) is there, a str8 (0xa1) is needed"
    ),
    "list size one short": "trace: needs 4 bytes at offset 21, 3 are left",
    "count larger than the elements": "extra fields: needs 1 bytes at offset 25, 0 are left",
    "count smaller than the elements": "section of 4 fields: ends at offset 25, but 3 more bytes follow",
    "ingress is not UTF-8": "ingress-router: byte 0 of 1 is not UTF-8",
    "v2 descriptor on a link that agreed on version 1": V2,
}

# More of them: the list behind the descriptor, or all of it when it begins with '='.
MORE = {
    "=00": "descriptor: needs 1 bytes at offset 1, 0 are left",
    "=0080ffffffff": "descriptor: needs 8 bytes at offset 2, 4 are left",
    "=00a11a736b75707065723a726f757465722d616e6e6f746174696f6e73": (
        f"descriptor: str8 (0xa1) is there, {DESCRIPTORS} is needed"
    ),
    "=00a31a736b75707065723a726f757465722d616e6e6f746174696f6e73": "section: needs 1 bytes at offset 29, 0 are left",
    "=00a300": f"descriptor: '' is there, {SYMBOL} is needed",
    "=00a31a736b75707065723a726f757465722d616e6e6f746174696f6e7a": (
        f"descriptor: 'skupper:router-annotationz' is there, {SYMBOL} is needed"
    ),
    "=00a319736b75707065723a726f757465722d616e6e6f746174696f6e": (
        f"descriptor: 'skupper:router-annotation' is there, {SYMBOL} is needed"
    ),
    "=00a31b736b75707065723a726f757465722d616e6e6f746174696f6e7332": (
        f"descriptor: 'skupper:router-annotations'… is there, {SYMBOL} is needed"
    ),
    "=00a303ff0a62": f"descriptor: '\\\\xff\\nb' is there, {SYMBOL} is needed",
    "=00a3": "descriptor: needs 1 bytes at offset 2, 0 are left",
    "=00a31a73": "descriptor: needs 26 bytes at offset 3, 1 are left",
    "=00b30000001a73": "descriptor: needs 26 bytes at offset 6, 1 are left",
    "=00b3ffffffff73": "descriptor: needs 4294967295 bytes at offset 6, 1 are left",
    "": "section: needs 1 bytes at offset 10, 0 are left",
    "40": "section: null (0x40) is there, a list8 (0xc0) or a list32 (0xd0) is needed",
    "c103025040": "section: map8 (0xc1) is there, a list8 (0xc0) or a list32 (0xd0) is needed",
    "c2": "section: type (0xc2) is there, a list8 (0xc0) or a list32 (0xd0) is needed",
    "c0": "section: needs 1 bytes at offset 11, 0 are left",
    "c000": "section: needs 1 bytes at offset 12, 0 are left",
    "c0ff04": "section: needs 255 bytes at offset 12, 1 are left",
    "d0000000": "section: needs 4 bytes at offset 11, 3 are left",
    "d0ffffffff00000004": "section: needs 4294967295 bytes at offset 15, 4 are left",
    "d000000003000000": "section: needs 4 bytes at offset 15, 3 are left",
    "d00000000400000000": f"section: has 0 fields, {FEW}",
    "c00204 50": "flags: needs 1 bytes at offset 14, 0 are left",
    "c00304 5000": "to-override: needs 1 bytes at offset 15, 0 are left",
    "c00504 5000 a102": "to-override: needs 2 bytes at offset 17, 0 are left",
    "c00804 5000 b1ffffffff": "to-override: needs 4294967295 bytes at offset 20, 0 are left",
    "c00604 5000 b10000": "to-override: needs 4 bytes at offset 16, 2 are left",
    "c00604 5000 a101ff": "to-override: byte 0 of 1 is not UTF-8",
    "c00904 5000 b100000001ff": "to-override: byte 0 of 1 is not UTF-8",
    "c00604 5000 a301 62": "to-override: sym8 (0xa3) is there, null (0x40), a str32 (0xb1) or a str8 (0xa1) is needed",
    "c00504 5000 40 40": "ingress-router: null (0x40) is there, a str8 (0xa1) is needed",
    "c00a04 5000 40 b10000000162": "ingress-router: str32 (0xb1) is there, a str8 (0xa1) is needed",
    "c00604 5000 40 a105": "ingress-router: needs 5 bytes at offset 18, 0 are left",
    "c00704 5000 40 a10162": "trace: needs 1 bytes at offset 19, 0 are left",
    "c00a04 5000 40 a10162 a10162": "trace: str8 (0xa1) is there, a list8 (0xc0) or a list32 (0xd0) is needed",
    "c00a04 5000 40 a10162 c00100": EMPTY_TRACE,
    "c01004 5000 40 a10162 d00000000400000000": EMPTY_TRACE,
    "c00904 5000 40 a10162 c000": "trace: needs 1 bytes at offset 21, 0 are left",
    "c00d04 5000 40 a10162 c00402a10162": "trace entry 2: needs 1 bytes at offset 25, 0 are left",
    "c00c04 5000 40 a10162 c00301a100": "trace entry 1: is empty, a name of 1..255 bytes is needed",
    "c00d04 5000 40 a10162 c00401a101ff": "trace entry 1: byte 0 of 1 is not UTF-8",
    "c00d04 5000 40 a10162 c00401a10262": "trace entry 1: needs 2 bytes at offset 24, 1 are left",
    "c01004 5000 40 a10162 c00701a10162a10163": "trace of 1 entries: ends at offset 25, but 3 more bytes follow",
    "c00d04 5000 40 a10162 c00401a10162 00": "section: ends at offset 25, but 1 more bytes follow",
}


# What is there


def test_names_and_numbers_are_those_of_the_definition() -> None:
    assert (ANNOTATIONS_MIME, VERSION, VERSION_KEY.name, STREAMING) == (
        b"message/x.skupper-router-annotations",
        1,
        "qd.annotations-version",
        1,
    )
    assert CODE_WORDS["bad-annotations"][0] == REJECTED


@pytest.mark.parametrize("example", GOOD, ids=repr)
def test_every_form_of_an_example_decodes_to_the_same(example: Example) -> None:
    assert [decode_annotations(data) for data in example.forms] == [example.annotations] * 3


@pytest.mark.parametrize("example", GOOD, ids=repr)
def test_the_shortest_form_is_written(example: Example) -> None:
    assert [decode_annotations(data).encode().hex() for data in example.forms] == [example.compact.hex()] * 3


@pytest.mark.parametrize("head", SYMBOLIC_HEADS, ids=["sym8", "sym32"])
@pytest.mark.parametrize("example", GOOD, ids=repr)
def test_the_descriptor_may_be_a_symbol(example: Example, head: bytes) -> None:
    """The definition gives it a name, too, and AMQP leaves the choice to the sender. We write the number."""
    forms = [head + data.removeprefix(HEAD) for data in example.forms]
    assert [decode_annotations(data) for data in forms] == [example.annotations] * 3
    assert [decode_annotations(data).encode().hex() for data in forms] == [example.compact.hex()] * 3
    assert all(refusal(data[:end]) for data in forms for end in range(len(data)))


@pytest.mark.parametrize("example", WITHOUT_TRACE, ids=repr)
def test_a_trace_without_the_sender_is_refused_in_every_form(example: Example) -> None:
    assert [refusal(data) for data in example.forms] == [EMPTY_TRACE] * 3


@pytest.mark.parametrize("name", sorted(BAD))
def test_bad_input_of_the_vectors_is_refused_with_its_own_sentence(name: str) -> None:
    assert refusal(BAD[name]) == SENTENCES[name]


def test_every_vector_is_tried() -> None:
    assert set(BAD) == set(SENTENCES)
    assert (len(GOOD), len(WITHOUT_TRACE)) == (3, 1)
    assert len(set(SENTENCES.values())) == len(SENTENCES)


@pytest.mark.parametrize("written", MORE)
def test_other_bad_input_is_told_by_field_need_and_what_was_there(written: str) -> None:
    data = bytes.fromhex(written[1:]) if written.startswith("=") else HEAD + bytes.fromhex(written)
    assert refusal(data) == MORE[written]


def test_what_a_released_router_sends_is_told_to_be_version_2() -> None:
    """Whole messages; those without a section of version 2 begin with a header, or with a section of version 1."""
    sentences = [refusal(data) for data in CAPTURED_BYTES]
    begins = [data[:10].hex() for data in CAPTURED_BYTES]
    behind = "section: ends at offset 41, but 18 more bytes follow"
    header = f"descriptor: smallulong (0x53) is there, {DESCRIPTORS} is needed"
    expected = {"0080534b50522d2d5241": V2, HEAD.hex(): behind}
    assert sentences == [expected.get(begin, header) for begin in begins]
    assert {V2, behind, header} == set(sentences)


@pytest.mark.parametrize("example", EXAMPLES, ids=repr)
def test_every_truncation_and_every_byte_behind_are_refused(example: Example) -> None:
    for data in example.forms:
        assert all(refusal(data[:end]) for end in range(len(data)))
    assert all(refusal(data + b"\x00") for data in example.forms)


@pytest.mark.parametrize("example", GOOD, ids=repr)
def test_every_damaged_byte_is_a_section_or_refused(example: Example) -> None:
    for data in [*example.forms, *(head + example.compact.removeprefix(HEAD) for head in SYMBOLIC_HEADS)]:
        for damaged in damages(data):
            assert_section_or_refused(damaged)


# Bounds


def test_a_section_of_64_kib_is_read_and_written_and_a_byte_more_is_not() -> None:
    rest = len(section(b"", 0)) + 4  # where the override is a null, and one of no characters has four bytes more
    whole = Annotations(0, "x" * (MAX_SECTION_BYTES - rest), "b", ["b"])
    data = whole.encode()
    assert (len(data), decode_annotations(data)) == (MAX_SECTION_BYTES, whole)
    text = f"section: has {MAX_SECTION_BYTES + 1} bytes, the limit is {MAX_SECTION_BYTES}"
    with pytest.raises(BrokerError, match=f"bad-annotations: {text}"):
        Annotations(0, "x" * (MAX_SECTION_BYTES - rest + 1), "b", ["b"]).encode()
    many = MAX_SECTION_BYTES - len(section(b"", 0))
    assert decode_annotations(section(NULL * many, many)).extra_n == many
    assert refusal(section(NULL * (many + 1), many + 1)) == text


def test_as_many_have_passed_it_on_as_may_and_one_more_is_refused() -> None:
    trace = [f"b{number}" for number in range(MAX_TRACE)]
    most = Annotations(0, None, "b0", trace)
    assert decode_annotations(most.encode()) == most
    with pytest.raises(BrokerError, match=r"bad-annotations: trace: has 256 entries, 1\.\.255 are allowed"):
        most.passed_on("again").encode()
    fields = bytes.fromhex("5000 40 a10162") + compound32(LIST32, MAX_TRACE + 1, STR * (MAX_TRACE + 1))
    assert refusal(HEAD + compound32(LIST32, 4, fields)) == "trace: has 256 entries, the limit is 255"
    fields = bytes.fromhex("5000 40 a10162") + compound32(LIST32, 0xFFFF_FFFF, STR)
    assert refusal(HEAD + compound32(LIST32, 4, fields)) == "trace: has 4294967295 entries, the limit is 255"


def test_a_name_has_1_to_255_bytes() -> None:
    longest = "é" * (MAX_NAME_BYTES // 2) + "x"
    whole = Annotations(0, None, longest, [longest, "x"])
    assert decode_annotations(whole.encode()) == whole


def test_a_list_is_written_short_as_long_as_it_fits() -> None:
    """The size of a list8 is one byte, and counts the one of the count."""
    short, long = (Annotations(0, None, "b", ["x" * count]).encode().hex() for count in (252, 253))
    assert short == (HEAD + bytes.fromhex("d00000010b00000004500040a10162c0ff01a1fc") + b"x" * 252).hex()
    assert long == (HEAD + bytes.fromhex("d00000011200000004500040a10162d00000010300000001a1fd") + b"x" * 253).hex()
    short, long = (Annotations(0, "x" * count, "b", ["b"]).encode().hex() for count in (238, 239))
    tail = bytes.fromhex("a10162c00401a10162")
    assert short == (HEAD + bytes.fromhex("c0ff045000b1000000ee") + b"x" * 238 + tail).hex()
    assert long == (HEAD + bytes.fromhex("d000000103000000045000b1000000ef") + b"x" * 239 + tail).hex()


UNSAYABLE: list[tuple[Annotations, str]] = [
    (Annotations(-1, None, "b", ["b"]), "flags: -0x1 do not fit 8 bits"),
    (Annotations(MAX_FLAGS + 1, None, "b", ["b"]), "flags: 0x100 do not fit 8 bits"),
    (Annotations(0, "\ud800", "b", ["b"]), "to-override: character 0 cannot be written in UTF-8"),
    (Annotations(0, None, "", ["b"]), "ingress-router: a name has 0 bytes, 1..255 are allowed"),
    (Annotations(0, None, "é" * 128, ["b"]), "ingress-router: a name has 256 bytes, 1..255 are allowed"),
    (Annotations(0, None, "b\ud800", ["b"]), "ingress-router: character 1 cannot be written in UTF-8"),
    (Annotations(0, None, "b", []), "trace: has 0 entries, 1..255 are allowed"),
    (Annotations(0, None, "b", ["b", ""]), "trace: a name has 0 bytes, 1..255 are allowed"),
    (Annotations(0, None, "b", ["b", "x" * 256]), "trace: a name has 256 bytes, 1..255 are allowed"),
    (Annotations(0, None, "b", ["\ud800"]), "trace: character 0 cannot be written in UTF-8"),
]


@pytest.mark.parametrize(("annotations", "text"), UNSAYABLE, ids=[text for _, text in UNSAYABLE])
def test_what_cannot_be_said_is_not_written(annotations: Annotations, text: str) -> None:
    with pytest.raises(BrokerError) as raised:
        annotations.encode()
    assert (raised.value.word, raised.value.text) == ("bad-annotations", text)


# On the way


def test_who_passes_it_on_adds_its_name_and_changes_nothing_else() -> None:
    came = Annotations(0xFE, "route:x", "b1", ["b1", "b2"], ONE + NULL, 2)
    assert came.passed_on("b3") == Annotations(0xFE, "route:x", "b1", ["b1", "b2", "b3"], ONE + NULL, 2)
    assert came == Annotations(0xFE, "route:x", "b1", ["b1", "b2"], ONE + NULL, 2)


def test_no_override_and_an_empty_one_are_two_things() -> None:
    found = [decode_annotations(Annotations(0, to, "b", ["b"]).encode()).to_override for to in (None, "")]
    assert found == [None, ""]


def test_equal_are_those_that_say_the_same() -> None:
    def make(**other: object) -> Annotations:
        fields: dict[str, object] = {
            "flags": 1, "to_override": "x", "ingress": "b", "trace": ["b"], "extra": ONE, "extra_n": 1,
        }  # fmt: skip
        return Annotations(**(fields | other))  # type: ignore[arg-type]

    others: list[dict[str, object]] = [
        {"flags": 0}, {"to_override": None}, {"ingress": "c"}, {"trace": ["c"]}, {"extra": NULL}, {"extra_n": 2},
    ]  # fmt: skip
    assert (make(), hash(make())) == (make(), hash(make()))
    assert [make(**other) == make() for other in others] == [False] * 6
    assert make() != "Annotations"


# The version that a broker says


@pytest.mark.parametrize(
    ("version", "written"),
    [(0, "00000000"), (1, "00000001"), (-1, "ffffffff"), (2**31 - 1, "7fffffff"), (-(2**31), "80000000")],
)
def test_a_version_is_a_signed_number_of_four_bytes(version: int, written: str) -> None:
    assert (encode_version(version).hex(), decode_version(bytes.fromhex(written))) == (written, version)


@pytest.mark.parametrize("version", [2**31, -(2**31) - 1])
def test_a_version_that_does_not_fit_is_not_written(version: int) -> None:
    with pytest.raises(BrokerError, match=f"bad-annotations: qd.annotations-version: {version} does not fit 32 bits"):
        encode_version(version)


@pytest.mark.parametrize(
    ("raw", "there"), [(None, "no value"), (b"", "0 bytes"), (b"\x01", "1 bytes"), (bytes(8), "8 bytes")]
)
def test_a_version_of_another_length_is_refused(raw: bytes | None, there: str) -> None:
    with pytest.raises(InvalidFrame) as raised:
        decode_version(raw)
    assert (raised.value.word, raised.value.text) == (
        "bad-annotations",
        f"qd.annotations-version: has {there}, a signed number of 4 bytes is needed",
    )


# Any values, any bytes

TEXTS = st.text(alphabet=st.characters(codec="utf-8"), max_size=300)
NAMES = st.text(alphabet=st.characters(codec="utf-8"), min_size=1, max_size=63)


@st.composite
def sections(draw: st.DrawFn) -> Annotations:
    extra = draw(st.lists(VALUES, max_size=5))
    return Annotations(
        draw(st.integers(0, MAX_FLAGS)),
        draw(st.none() | TEXTS),
        draw(NAMES),
        draw(st.lists(NAMES, min_size=1, max_size=12)),
        b"".join(extra),
        len(extra),
    )


@settings(derandomize=True, deadline=None, max_examples=75)
@given(sections())
def test_what_is_written_is_read_again(annotations: Annotations) -> None:
    data = annotations.encode()
    assert decode_annotations(data) == annotations
    assert decode_annotations(data).encode() == data


@settings(derandomize=True, deadline=None, max_examples=125)
@given(st.sampled_from([b"", HEAD, HEAD + b"\xc0", HEAD + bytes.fromhex("c01404500040a10162")]), st.binary(max_size=60))
def test_any_bytes_are_a_section_or_refused(head: bytes, tail: bytes) -> None:
    assert_section_or_refused(head + tail)


def damages(data: bytes) -> Iterator[bytes]:
    """One byte changed at a time: each bit alone, and the values that are constructors and lengths."""
    for at, byte in enumerate(data):
        others = {byte ^ 1 << bit for bit in range(8)} | {0x00, 0x40, 0x45, 0xA1, 0xB1, 0xC0, 0xD0, 0xE0, 0xF0, 0xFF}
        for other in others - {byte}:
            yield data[:at] + bytes([other]) + data[at + 1 :]
