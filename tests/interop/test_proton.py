"""Router annotations and the AMQP codec of qpid-proton, which knows nothing of ours: both read what the other wrote."""

from typing import Any

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from rsocket_wire.rsocket.frames import REQUEST_CHANNEL, REQUEST_FNF, REQUEST_RESPONSE, REQUEST_STREAM
from rsocket_wire.wire.annotations import (
    ANNOTATIONS_MIME,
    DESCRIPTOR,
    DESCRIPTOR_NAME,
    MAX_FLAGS,
    Annotations,
    decode_annotations,
)
from rsocket_wire.wire.frames import MULTICAST
from tests.conftest import missing
from tests.fakes import address
from tests.rsocket_wire.wire.annotation_vectors import GOOD, LEGAL, Example, section
from tests.topology import LINKED_S, line, route_text

pytestmark = pytest.mark.interop

NAMES = st.text(alphabet=st.characters(codec="utf-8", exclude_characters="\0"), min_size=1, max_size=63)
TEXTS = st.text(alphabet=st.characters(codec="utf-8", exclude_characters="\0"), max_size=300)
NUMBERS = st.integers(-(2**63), 2**63 - 1)
VALUES = st.recursive(
    st.none() | st.booleans() | NUMBERS | st.floats(allow_nan=False) | TEXTS | st.binary(max_size=300) | st.uuids(),
    lambda inner: st.lists(inner, max_size=5) | st.dictionaries(TEXTS, inner, max_size=5),
    max_leaves=10,
)
# proton knows no types to come, and takes no descriptor but a plain value.
UNKNOWN = {"types to come", "extended types", "described by a list", "described by what is described"}
KNOWN = [name for name in LEGAL if name not in UNKNOWN]


@pytest.fixture(scope="module")
def proton() -> Any:
    """The module, whose types are not looked at."""
    try:
        import proton
    except ImportError:
        missing("qpid-proton is not installed: pip install 'python-qpid-proton>=0.39,<1'")
    return proton


def read_by(proton: Any, data: bytes) -> Any:
    """The one value that proton finds in all of these bytes."""
    found = proton.Data()
    assert found.decode(data) == len(data)
    found.rewind()
    assert found.next() is not None
    value = found.get_object()
    if isinstance(value, proton.Described):
        value = proton.Described(value.descriptor, settled(value.value))
    assert found.next() is None
    return value


def settled(value: Any) -> Any:
    """The value with bytes of its own: proton's binaries are views into memory that goes with its Data object."""
    if isinstance(value, memoryview):
        return bytes(value)
    if isinstance(value, list):
        return [settled(item) for item in value]
    if isinstance(value, dict):
        return {settled(key): settled(item) for key, item in value.items()}
    return value


def written_by(proton: Any, value: Any) -> bytes:
    writer = proton.Data()
    writer.put_object(value)
    return bytes(writer.encode())


def described(proton: Any, annotations: Annotations, *extra: Any) -> Any:
    """The same section in proton's types."""
    fields = [proton.ubyte(annotations.flags), annotations.to_override, annotations.ingress, annotations.trace]
    return proton.Described(proton.ulong(DESCRIPTOR), [*fields, *extra])


@st.composite
def sections(draw: st.DrawFn) -> Annotations:
    trace = draw(st.lists(NAMES, min_size=1, max_size=12))
    return Annotations(draw(st.integers(0, MAX_FLAGS)), draw(st.none() | TEXTS), draw(NAMES), trace)


@pytest.mark.parametrize("example", GOOD, ids=repr)
def test_proton_reads_every_form_of_an_example(proton: Any, example: Example) -> None:
    extra = ["new-field", proton.ulong(7)][: example.annotations.extra_n]
    expected = described(proton, example.annotations, *extra)
    found = [read_by(proton, data) for data in (example.annotations.encode(), *example.forms)]
    assert found == [expected] * 4
    assert {type(value.descriptor) for value in found} == {proton.ulong}
    assert {type(value.value[0]) for value in found} == {proton.ubyte}


@pytest.mark.parametrize("example", GOOD, ids=repr)
def test_proton_writes_the_bytes_of_the_vectors(proton: Any, example: Example) -> None:
    extra = ["new-field", proton.ulong(7)][: example.annotations.extra_n]
    assert written_by(proton, described(proton, example.annotations, *extra)).hex() == example.proton.hex()


@settings(derandomize=True, deadline=None, max_examples=50)
@given(annotations=sections())
def test_what_we_write_proton_reads_and_what_it_writes_we_read(proton: Any, annotations: Annotations) -> None:
    expected = described(proton, annotations)
    assert read_by(proton, annotations.encode()) == expected
    assert decode_annotations(written_by(proton, expected)) == annotations


@settings(derandomize=True, deadline=None, max_examples=50)
@given(annotations=sections())
def test_a_symbolic_descriptor_of_proton_is_read(proton: Any, annotations: Annotations) -> None:
    fields = described(proton, annotations).value
    came = written_by(proton, proton.Described(proton.symbol(DESCRIPTOR_NAME.decode()), fields))
    assert decode_annotations(came) == annotations


@settings(derandomize=True, deadline=None, max_examples=50)
@given(annotations=sections(), extra=st.lists(VALUES, max_size=4))
def test_extra_fields_of_proton_go_through_as_they_came(
    proton: Any, annotations: Annotations, extra: list[Any]
) -> None:
    came = written_by(proton, described(proton, annotations, *extra))
    left = decode_annotations(came).passed_on("next")
    assert (left.extra_n, came.endswith(left.extra)) == (len(extra), True)
    fields = read_by(proton, left.encode()).value
    assert fields[3] == [*annotations.trace, "next"]
    assert fields[4:] == extra


@pytest.mark.parametrize("name", KNOWN)
def test_proton_reads_the_same_extra_fields_before_and_behind_us(proton: Any, name: str) -> None:
    came = section(b"".join(LEGAL[name]), len(LEGAL[name]))
    left = read_by(proton, decode_annotations(came).encode()).value
    assert len(left) == 4 + len(LEGAL[name])
    assert left == read_by(proton, came).value


def test_every_section_that_travels_on_links_is_read_by_proton(proton: Any) -> None:
    """Requests of all models over three brokers in a line: who is asked for, which way it came, and that it streams."""
    net = line(3)
    net.advance(LINKED_S)
    for number, name in enumerate(net.names, 1):
        net.worlds[name].service("orders", number)
    net.worlds["b3"].service("carts", 9)
    net.pump()
    caller = net.worlds["b1"].caller()
    for stream_id, kind in enumerate((REQUEST_RESPONSE, REQUEST_FNF, REQUEST_STREAM, REQUEST_CHANNEL)):
        caller.request(kind, 4 * stream_id + 1, address(service="carts"))
        caller.request(kind, 4 * stream_id + 3, address(MULTICAST, service="orders"))
    net.worlds["b1"].core.cluster.set_redirect("carts", "orders", net.now)
    caller.request(REQUEST_RESPONSE, 101, address(route_id=route_text(3), service="carts"))
    net.pump()
    head = bytes([len(ANNOTATIONS_MIME) - 1]) + ANNOTATIONS_MIME
    seen: list[Any] = []
    for frame in [frame for end in net.ends for frame in end.seen]:
        metadata = frame.metadata or b""
        if metadata.startswith(head):
            size = int.from_bytes(metadata[len(head) : len(head) + 3], "big")
            at = len(head) + 3
            value = read_by(proton, metadata[at : at + size])
            assert value.descriptor == DESCRIPTOR
            assert encoded(proton, value) == metadata[at : at + size]
            seen.append((frame.name, *map(settled, value.value)))
    to = f"route:{route_text(9)}"
    assert ("REQUEST_RESPONSE", 0, to, "b1", ["b1"]) in seen
    assert ("REQUEST_RESPONSE", 0, to, "b1", ["b1", "b2"]) in seen
    assert ("REQUEST_CHANNEL", 1, to, "b1", ["b1", "b2"]) in seen
    assert ("REQUEST_FNF", 0, "broker:b2,b3", "b1", ["b1"]) in seen
    assert ("REQUEST_STREAM", 1, "broker:b3", "b1", ["b1", "b2"]) in seen
    assert ("REQUEST_RESPONSE", 0, f"service:orders route:{route_text(3)}", "b1", ["b1", "b2"]) in seen


def encoded(proton: Any, value: Any) -> bytes:
    """Our own compact form of what proton has read."""
    flags, to_override, ingress, trace = value.value
    return Annotations(int(flags), to_override, ingress, list(trace)).encode()
