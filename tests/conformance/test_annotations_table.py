"""docs/annotations.md is held to the sources, as docs/conformance.md is: each sentence of the definition has a row."""

import re
from collections import Counter

import pytest

from tests.conformance.links import amqp_list, section
from tests.conformance.table import COLUMNS, ROOT, dangling_in, mistakes_of, rows_of

OTHER_PAGE = ROOT / "docs/annotations.md"

# Every sentence of behaviour of "Router Message Annotations", and every line of its definition, in its order.
SENTENCES = [
    "This document describes the implementation of the meta-data included in messages passed between"
    " router nodes (interior and edge).",
    "Each message passed between routers includes meta-data used to communicate per-message state. This"
    " data is used by routers along the forwarding path for various reasons.",
    "The identifier for the ingress router (the router attached to the original sending endpoint).",
    "The trace list: an ordered list of router identifiers. This list reflects the path the message has"
    " travelled in the router network.",
    "The first entry on the list is the ingress router (Q: can we use this instead of a dedicated ingress"
    " entry field?).",
    "The current router identifier is added to the end of this list before the message is forwarded to a"
    " next hop router.",
    "A destination address. This optional field overrides the value of the *to* field in the message"
    " properties section.",
    "A flag that indicates that the message is classified as a *streaming message*. This provides a hint"
    " to the downstream router to avoid unnecessary buffering of the message before forwarding it.",
    "The implementation should prioritize minimizing the overhead of parsing and composing the"
    " per-message meta-data. This is necessary because each router along the forwarding path needs to"
    " read, process and update the meta data on the fly.",
    "This implementation should also provide the means for extending or modifying the meta-data"
    " definition in a backward compatible way.",
    "The router will advertise the version of the meta data it supports to its peer when the connection"
    " is established. This is done by including a version number in the properties field of the Open"
    " performative.",
    "In the case where peers advertise different versions, the numerically lower version will be used by both routers.",
    'The open property map key for the version is *"qd.annotations-version"*.',
    "The value is encoded as a signed integer. This document defines version 1.",
    "Router annotations will be encoded as a custom section in the message. This section will appear as"
    " the first section of the message (prior to the header section).",
    "In order to avoid conflicts with the described types defined by the AMQP specification,"
    " skupper-router will reserve a numeric domain identifier. The value for this domain will be"
    " *0xFFFFFFFF*.",
    "The value for the new section identifier will be *0x2000*.",
    'type name="skupper-router-annotations" class="composite" source="list" provides="section",'
    ' descriptor name="skupper:router-annotations" code="0xFFFFFFFF:0x00002000"',
    'field name="flags" type="ubyte" default="0" mandatory="true"',
    'field name="to-override" type="str32-utf8" mandatory="false"',
    'field name="ingress-router" type="str8-utf8" mandatory="true"',
    'field name="trace" type="list" mandatory="true"',
    "The flags field is used for passing boolean flags. The least significant bit (bit 0) is used for the"
    " streaming flag. All other bits are reserved and initialized to zero on ingress",
    "Entries on the trace list are restricted to the *str8-utf8* type.",
    "It should be possible to extend the router-annotations in the future without requiring a version bump.",
    "The unreserved bits in the flags field MUST be forwarded without modification. In other words a"
    " router must not reset any reserved fields that have been set to one by the upstream router(s).",
    "New fields may be added to the definition IF: The new fields are appended to the existing definition"
    " AND It is safe for intermediate routers to ignore these fields",
    "Routers must forward any extra fields appearing at the end of the list beyond those described above."
    " These extra fields must be NOT be modified.",
    "By default the new router message annotation section MUST NOT be present in messages arriving from"
    " non-router endpoints. Such messages must be *REJECTED* by the router.",
    "It should be possible to disable this rule for debug and testing purposes via configuration.",
    "The router message annotation MUST be removed when sending a message over a non-inter-router/edge connection.",
    "It should be possible to disable this rule for debug and testing purposes via configuration.",
]


def test_every_sentence_has_its_row_and_every_row_its_tests() -> None:
    page = OTHER_PAGE.read_text()
    assert mistakes_of(page, SENTENCES, {}) == []
    assert [row[1].strip("“”") for row in rows_of(page)] == SENTENCES
    assert all(len(row) == len(COLUMNS) for row in rows_of(page))


def test_what_may_be_disabled_is_there_twice() -> None:
    """For what comes from clients and for what goes to them."""
    assert [each for each, count in Counter(SENTENCES).items() if count > 1] == [
        "It should be possible to disable this rule for debug and testing purposes via configuration."
    ]


def test_decisions_and_rows_that_are_named_exist() -> None:
    assert dangling_in(OTHER_PAGE.read_text()) == set()


def test_the_bytes_that_are_shown_are_those_of_a_section() -> None:
    """All but the route's id, which is cut short there."""
    lines = OTHER_PAGE.read_text().split("for a route:\n\n")[1].split("\n\n")[0].splitlines()
    shown = "".join(re.split(r"\s{3,}", line.strip())[0] for line in lines).replace(" ", "")
    to = "route:00000000-0000-0000-0000-000000000007"
    raw = section(0, to, "b1", ["b1"])
    begin, end = shown.split("…")
    assert raw.hex().startswith(begin)
    assert raw.hex().endswith(end)
    assert raw[10:13] == amqp_list(raw[13:], 4)[:3]


@pytest.mark.parametrize("id", ["MD-03", "ME-05", "MX-02", "MI-03"])
def test_a_sentence_that_loses_its_row_is_told(id: str) -> None:
    page = OTHER_PAGE.read_text()
    rest = "\n".join(line for line in page.splitlines() if not line.startswith(f"| {id} "))
    assert len(mistakes_of(rest, SENTENCES, {})) == 1
