"""Principals: nothing in a value makes it two, and what is written is read again."""

import pytest
from hypothesis import given
from hypothesis import strategies as st

from broker.access.identities import SHORT_NAMES, names_of_certificate
from broker.config.principal import read_principal, split_list
from rsocket_wire.errors import BrokerError

ACME = (("organizationName", "Acme"),)
BROKER = (("commonName", "broker-1"),)


def of(*steps: tuple[tuple[str, str], ...]) -> str:
    """As `ssl` gives it."""
    return names_of_certificate(steps, ()).identity


def test_a_value_that_looks_like_two_attributes_is_one() -> None:
    """A certificate whose owner may choose one attribute must not be that of a broker."""
    forged = of((("organizationName", "Acme, commonName=broker-1"),))
    named = read_principal("organizationName=Acme, commonName=broker-1")
    assert (named, of(ACME, BROKER)) == ("certificate:CN=broker-1,O=Acme",) * 2
    assert forged == "certificate:O=Acme\\, commonName=broker-1"
    assert read_principal(forged) == forged


def test_the_order_in_one_step_means_nothing() -> None:
    """It is a set; certificates have it sorted, people need not."""
    assert of((("commonName", "a"), ("serialNumber", "7"))) == read_principal("serialNumber=7+CN=a")


@pytest.mark.parametrize(
    ("text", "steps"),
    [
        ("organizationName=Acme, commonName=broker-1", (ACME, BROKER)),
        ("  organizationName =  Acme  ,commonName=broker-1 ", (ACME, BROKER)),
        ("O=Acme, CN=broker-1", (ACME, BROKER)),
        ("o=Acme,cn=broker-1", (ACME, BROKER)),
        ("organizationName=Acme\\, Inc.", ((("organizationName", "Acme, Inc."),),)),
        ("organizationName=Acme\\2c Inc.", ((("organizationName", "Acme, Inc."),),)),
        ("commonName=a\\+b\\\\c\\;d=e\\3bf", ((("commonName", "a+b\\c;d=e;f"),),)),
        ("commonName=\\20 a \\ ", ((("commonName", "  a  "),),)),
        ("commonName=\\c3\\a4", ((("commonName", "ä"),),)),
        ("commonName=a\\\\, organizationName=Acme", ((("commonName", "a\\"),), ACME)),
        ("1.2.3.4=x", ((("1.2.3.4", "x"),),)),
        ("certificate:CN=broker-1,O=Acme", (ACME, BROKER)),
        (" certificate:CN=broker-1, organizationName = Acme ", (ACME, BROKER)),
    ],
)
def test_what_people_write_is_read(text: str, steps: tuple[tuple[tuple[str, str], ...], ...]) -> None:
    assert read_principal(text) == of(*steps)


@pytest.mark.parametrize("text", ["spiffe://acme/broker-1", "urn:uuid:7", "broker-1.acme.example", "broker-1"])
def test_names_of_a_san_are_written_as_they_are(text: str) -> None:
    kind = "URI" if ":" in text else "DNS"
    assert read_principal(f"certificate:{text}") == names_of_certificate((ACME,), ((kind, text),)).identity


@pytest.mark.parametrize(
    ("text", "why"),
    [
        ("broker-1", '"broker-1" is not NAME=VALUE (a comma in a value is written \\,)'),
        ("organizationName=Acme, Inc., commonName=x", '"Inc." is not NAME=VALUE (a comma in a value is written \\,)'),
        ("commonName=a,", '"" is not NAME=VALUE (a comma in a value is written \\,)'),
        ("commonName=a+b", '"b" is not NAME=VALUE (a comma in a value is written \\,)'),
        ("commonName=", "commonName has no value"),
        ("=a", '"" is not an attribute name'),
        ("common name=a", '"common name" is not an attribute name'),
        ("commonName=a\\", "a backslash is its last character"),
        ("commonName=\\ff", '"\\\\ff" is not UTF-8'),
        ("certificate:a b", '"a b" is not NAME=VALUE (a comma in a value is written \\,)'),
        ("uid -1", '"uid -1" is not NAME=VALUE (a comma in a value is written \\,)'),
        ("uid 01", '"uid 01" is not NAME=VALUE (a comma in a value is written \\,)'),
    ],
)
def test_what_is_no_principal_is_told(text: str, why: str) -> None:
    with pytest.raises(BrokerError) as raised:
        read_principal(text)
    form = "it is written certificate:NAME, commonName=NAME, organizationName=NAME … or uid:NUMBER"
    assert raised.value.text.endswith(f" is not a principal: {why}; {form}")


def test_users_are_no_subjects() -> None:
    assert [read_principal(text) for text in (" uid 1000 ", "uid:1000")] == ["uid:1000"] * 2
    assert read_principal("userId=1000") == "certificate:UID=1000"


def test_a_list_is_separated_by_semicolons_that_have_no_backslash_in_front() -> None:
    assert split_list("CN=a\\;b; O=c\\\\;uid 7") == ["CN=a\\;b", "O=c\\\\", "uid 7"]


NAMES = st.sampled_from([*SHORT_NAMES, "serialNumber", "emailAddress", "1.2.3.4"])
ATTRIBUTES = st.tuples(NAMES, st.text(st.characters(codec="utf-8"), min_size=1, max_size=8))
SUBJECTS = st.lists(st.lists(ATTRIBUTES, min_size=1, max_size=3).map(tuple), min_size=1, max_size=3)
TRICKY = st.text("a=,+\\ ;\n2c", min_size=1, max_size=6)
TRICKY_SUBJECTS = st.lists(
    st.lists(st.tuples(NAMES, TRICKY), min_size=1, max_size=2).map(tuple), min_size=1, max_size=2
)


@given(SUBJECTS | TRICKY_SUBJECTS)
def test_the_text_of_a_subject_is_read_as_that_subject(steps: list[tuple[tuple[str, str], ...]]) -> None:
    """So two subjects never have one text; it is printable, and has one line."""
    text = of(*steps)
    assert read_principal(text) == text
    assert read_principal(text.removeprefix("certificate:")) == of(*reversed(steps))
    assert text.isprintable()
