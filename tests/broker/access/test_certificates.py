"""Lists of revoked certificates, and what names a certificate there: such as the library `cryptography` makes."""

from __future__ import annotations

from datetime import UTC, datetime, timedelta

import pytest
from cryptography import x509
from cryptography.hazmat.primitives import hashes, serialization
from cryptography.hazmat.primitives.asymmetric.ec import SECP256R1, generate_private_key
from cryptography.x509.name import _ASN1Type
from cryptography.x509.oid import NameOID

from broker.access.certificates import RevokedCertificates, certificate_id, subject_hash

KEY = generate_private_key(SECP256R1())
NOW = datetime(2026, 3, 1, 8, 30, tzinfo=UTC)
DER = serialization.Encoding.DER


def name_of(common: str, kind: _ASN1Type = _ASN1Type.UTF8String) -> x509.Name:
    return x509.Name(
        [x509.NameAttribute(NameOID.ORGANIZATION_NAME, "Acme"), x509.NameAttribute(NameOID.COMMON_NAME, common, kind)]
    )


def certificate(serial: int, issuer: x509.Name, subject: x509.Name | None = None) -> bytes:
    made = x509.CertificateBuilder(issuer, subject or name_of("orders"), KEY.public_key(), serial, NOW, NOW)
    return made.sign(KEY, hashes.SHA256()).public_bytes(DER)


def revocation_list(issuer: x509.Name, *serials: int, until: datetime = NOW) -> bytes:
    made = x509.CertificateRevocationListBuilder(issuer, NOW - timedelta(1), until)
    for serial in serials:
        one = x509.RevokedCertificateBuilder(serial, NOW).add_extension(
            x509.CRLReason(x509.ReasonFlags.key_compromise), False
        )
        made = made.add_revoked_certificate(one.build())
    return made.sign(KEY, hashes.SHA256()).public_bytes(DER)


def test_a_certificate_is_covered_by_a_list_of_its_authority_alone() -> None:
    revoked = RevokedCertificates()
    revoked.add(revocation_list(name_of("one"), 7, 1 << 150))
    revoked.add(revocation_list(name_of("two"), 8))
    revoked.add(revocation_list(name_of("two")))
    found = [
        (serial, each)
        for each in ("one", "two", "three")
        for serial in (7, 8, 255, 1 << 150)
        if revoked.covers(certificate_id(certificate(serial, name_of(each))))
    ]
    assert found == [(7, "one"), (1 << 150, "one"), (8, "two")]
    assert not revoked.covers(b"")
    assert not RevokedCertificates().covers(certificate_id(certificate(7, name_of("one"))))


@pytest.mark.parametrize(
    ("common", "kind"),
    [
        ("one  two", _ASN1Type.UTF8String),
        ("ONE two", _ASN1Type.PrintableString),
        (" one two ", _ASN1Type.BMPString),
        ("one two", _ASN1Type.UniversalString),
    ],
)
def test_how_a_name_is_written_does_not_count(common: str, kind: _ASN1Type) -> None:
    revoked = RevokedCertificates()
    revoked.add(revocation_list(name_of("One Two"), 7))
    assert revoked.covers(certificate_id(certificate(7, name_of(common, kind))))
    assert not revoked.covers(certificate_id(certificate(7, name_of("onetwo"))))


def test_a_list_says_until_when_it_holds_and_whose_it_is() -> None:
    revoked = RevokedCertificates()
    revoked.add(revocation_list(name_of("one"), until=datetime(2026, 3, 2, tzinfo=UTC)))
    revoked.add(revocation_list(name_of("one"), until=datetime(2051, 3, 2, tzinfo=UTC)))
    assert revoked.until == ["20260302000000Z", "20510302000000Z"]
    assert subject_hash(certificate(1, name_of("root"), name_of("ONE"))) in revoked.by_issuer
    assert subject_hash(certificate(1, name_of("one"), name_of("orders"))) not in revoked.by_issuer


def test_what_breaks_off_or_is_something_else_is_no_list_and_no_certificate() -> None:
    whole, shown = revocation_list(name_of("one"), 7), certificate(7, name_of("one"))
    for at in range(len(whole)):
        with pytest.raises(ValueError, match=r"breaks off|cannot be read"):
            RevokedCertificates().add(whole[:at])
    for at in range(len(shown)):
        with pytest.raises(ValueError, match=r"breaks off|cannot be read"):
            certificate_id(shown[:at])
    with pytest.raises(ValueError, match="is no list"):
        RevokedCertificates().add(shown)
    for raw in (
        b"\x30\x02\x30\x00",
        b"\x30\x84\xff\xff\xff\xff",
        b"\x30\x80\x00\x00",
        b"\x30\x85\x00\x00\x00\x00\x00\x01",
    ):
        with pytest.raises(ValueError):
            certificate_id(raw)
        with pytest.raises(ValueError):
            RevokedCertificates().add(raw)


def test_bytes_that_were_changed_are_read_or_refused() -> None:
    whole = revocation_list(name_of("one"), 7)
    for at in range(len(whole)):
        for bit in (1, 0x80):
            raw = whole[:at] + bytes([whole[at] ^ bit]) + whole[at + 1 :]
            try:
                RevokedCertificates().add(raw)
            except ValueError:
                continue
