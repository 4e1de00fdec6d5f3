"""Identities: which name of a certificate counts, and that nobody can have the text of another one."""

import pytest

from broker.access.identities import (
    ANONYMOUS,
    CERTIFICATE,
    USER,
    identity_text,
    kind_of,
    names_of_certificate,
    subject_text,
)

ACME = (("organizationName", "Acme"),)
ORDERS = (("commonName", "orders"),)
SUBJECT = (ACME, ORDERS)
BY_SUBJECT = "certificate:CN=orders,O=Acme"


@pytest.mark.parametrize(
    ("alternatives", "identity"),
    [
        ((), BY_SUBJECT),
        ((("DNS", "orders.shop.example"), ("DNS", "other")), "certificate:orders.shop.example"),
        ((("DNS", "orders"), ("URI", "urn:uuid:7")), "certificate:urn:uuid:7"),
        ((("URI", "urn:uuid:7"), ("URI", "spiffe://acme/orders")), "certificate:spiffe://acme/orders"),
        ((("email", "a@b"), ("IP Address", "10.0.0.1")), BY_SUBJECT),
    ],
)
def test_a_uri_counts_before_a_dns_name_and_that_before_the_subject(
    alternatives: tuple[tuple[str, str], ...], identity: str
) -> None:
    names = names_of_certificate(SUBJECT, alternatives)
    assert (names.identity, names.subject) == (identity, BY_SUBJECT)


@pytest.mark.parametrize(
    ("kind", "name"),
    [
        ("DNS", "CN=orders,O=Acme"),
        ("DNS", "orders\nadmin"),
        ("DNS", ""),
        ("URI", "CN=orders,O=Acme"),
        ("URI", "spiffe://acme/a b"),
        ("URI", "spiffe://acme/\x1b"),
        ("URI", "://"),
        ("URI", "nothing"),
    ],
)
def test_a_name_that_could_pass_for_something_else_is_none(kind: str, name: str) -> None:
    assert names_of_certificate(SUBJECT, ((kind, name),)).identity == BY_SUBJECT


def test_a_certificate_without_names_is_nobody() -> None:
    assert names_of_certificate((), ()).identity == ""


@pytest.mark.parametrize(
    ("steps", "text"),
    [
        (((("organizationName", "Acme, CN=orders"),),), "O=Acme\\, CN=orders"),
        (((("commonName", "a"), ("serialNumber", "7")),), "CN=a+serialNumber=7"),
        (((("serialNumber", "7"), ("commonName", "a")),), "CN=a+serialNumber=7"),
        (((("commonName", ' #"+;<>\\ '),),), 'CN=\\ #\\"\\+\\;\\<\\>\\\\\\ '),
        (((("commonName", "#a"),),), "CN=\\#a"),
        (((("commonName", "a\n\u2028"),),), "CN=a\\0a\\e2\\80\\a8"),
    ],
)
def test_a_subject_is_written_as_rfc_4514_has_it(steps: tuple[tuple[tuple[str, str], ...], ...], text: str) -> None:
    assert subject_text(steps) == text


def test_a_text_begins_with_its_kind() -> None:
    assert (identity_text(USER, "ada"), identity_text(ANONYMOUS, "")) == ("user:ada", "anonymous")
    assert [kind_of(text) for text in ("user:ada", BY_SUBJECT, "")] == [USER, CERTIFICATE, ANONYMOUS]
