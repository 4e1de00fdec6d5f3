"""Hashes of passwords: those of argon2's own library are read, in one thread each."""

from __future__ import annotations

import pytest
from argon2 import Type, low_level
from argon2.exceptions import InvalidHashError
from argon2.low_level import hash_secret

from broker.edge.admission import hashes


@pytest.mark.parametrize("kind", Type)
@pytest.mark.parametrize("version", [16, 19])
@pytest.mark.parametrize("lanes_n", [1, 3])
def test_a_hash_of_the_library_is_that_of_one_password(kind: Type, version: int, lanes_n: int) -> None:
    hashed = hash_secret("Zürich".encode(), b"twelve bytes", 2, 64, lanes_n, 33, kind, version).decode()
    assert hashes.is_password_of(hashed, "Zürich")
    for other in ("", "zürich", "Zürich\0"):
        assert not hashes.is_password_of(hashed, other)


@pytest.mark.parametrize(
    "hashed",
    [
        "",
        "$argon2id$v=19$m=64,t=1,p=1$c2FsdHNhbHQ",
        "$argon2id$v=19$m=64,t=1,p=1$c2FsdHNhbHQ$%%%",
        "$argon2x$v=19$m=64,t=1,p=1$c2Fs$aGFz",
    ],
)
def test_what_is_no_hash_is_told(hashed: str) -> None:
    with pytest.raises(InvalidHashError):
        hashes.is_password_of(hashed, "lovelace")


@pytest.mark.parametrize(
    "hashed",
    ["$argon2id$v=19$m=7,t=1,p=1$c2FsdHNhbHQ$aGFzaGhhc2g", "$argon2id$v=19$m=64,t=0,p=1$c2FsdHNhbHQ$aGFzaGhhc2g"],
)
def test_a_hash_with_costs_that_argon2_refuses_is_nobodys(hashed: str) -> None:
    assert not hashes.is_password_of(hashed, "lovelace")


def test_a_hash_of_four_lanes_takes_one_thread(monkeypatch: pytest.MonkeyPatch) -> None:
    asked: list[tuple[int, int]] = []
    real = low_level.core

    def seen(context: object, kind: int) -> int:
        asked.append((context.lanes, context.threads))  # type: ignore[attr-defined]  # a structure of C
        return real(context, kind)

    monkeypatch.setattr(low_level, "core", seen)
    hashed = hash_secret(b"lovelace", b"twelve bytes", 1, 64, 4, 16, Type.ID).decode()
    assert hashes.is_password_of(hashed, "lovelace")
    assert asked == [(4, 1)]
