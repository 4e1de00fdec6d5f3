"""Passwords: who is known, what it costs, and how many at a time."""

from __future__ import annotations

import logging
import os
import sys
import threading
from pathlib import Path

import pytest
from argon2 import PasswordHasher

from broker.edge.admission.passwords import NICE, PasswordVerifier
from broker.edge.admission.verdicts import NotAccepted, Verified
from rsocket_wire.errors import BrokerError
from rsocket_wire.wire.authentication import SIMPLE, Credentials

CHEAP = PasswordHasher(time_cost=1, memory_cost=8, parallelism=1)


def write(folder: Path, **users: str) -> str:
    path = folder / "users"
    path.write_text("# who may\n\n" + "".join(f"{name}:{CHEAP.hash(word)}\n" for name, word in users.items()))
    return str(path)


def ask(name: str, password: str) -> Credentials:
    return Credentials(SIMPLE, name, password)


async def test_a_user_has_one_password_and_nobody_learns_which_names_there_are(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    verifier = PasswordVerifier(write(tmp_path, ada="lovelace", bob="marley"))
    assert await verifier.verify(ask("ada", "lovelace")) == Verified("ada")
    hashes: list[str] = []
    fits = verifier._fits

    def seen(hashed: str, password: str) -> bool:
        hashes.append(hashed)
        return fits(hashed, password)

    monkeypatch.setattr(verifier, "_fits", seen)
    for name, password in (("ada", "marley"), ("eve", "lovelace"), ("ada", "")):
        with pytest.raises(NotAccepted, match="no such user, or another password"):
            await verifier.verify(ask(name, password))
    assert len(hashes) == 3  # one for the unknown user, too
    await verifier.close()


async def test_the_file_is_read_again_when_it_changes_and_a_mistake_changes_nothing(
    tmp_path: Path, caplog: pytest.LogCaptureFixture
) -> None:
    path = write(tmp_path, ada="lovelace")
    verifier = PasswordVerifier(path)
    (tmp_path / "new").mkdir()
    os.replace(write(tmp_path / "new", bob="marley"), path)
    assert await verifier.verify(ask("bob", "marley")) == Verified("bob")
    Path(path).write_text("bob marley")
    with caplog.at_level(logging.WARNING):
        assert await verifier.verify(ask("bob", "marley")) == Verified("bob")
    (line,) = caplog.messages
    assert line.endswith("has no NAME:$argon2… in line 1; rsocket-broker password NAME makes them")
    assert "marley" not in line
    await verifier.close()


async def test_whose_password_was_changed_or_taken_away_is_told_once_however_it_was_noticed(tmp_path: Path) -> None:
    path = write(tmp_path, ada="lovelace", bob="marley", eve="1234")
    verifier = PasswordVerifier(path)
    lines = Path(path).read_text().splitlines()
    Path(path).write_text("\n".join([*lines[:3], *lines[4:]]) + "\n")  # without bob
    await verifier.verify(ask("ada", "lovelace"))  # which reads the file
    Path(path).write_text("\n".join(lines[:3]) + f"\neve:{CHEAP.hash('5678')}\n")
    verifier.prepare()
    assert verifier.commit() == {"bob", "eve"}
    verifier.prepare()
    assert verifier.commit() == set()
    assert await verifier.verify(ask("eve", "5678")) == Verified("eve")
    await verifier.close()


async def test_a_mistake_in_the_file_is_told_and_changes_nothing(tmp_path: Path) -> None:
    verifier = PasswordVerifier(write(tmp_path, ada="lovelace"))
    (tmp_path / "users").write_text("ada lovelace")
    with pytest.raises(BrokerError, match=r"auth.users: \S+ has no NAME:\$argon2… in line 1"):
        verifier.prepare()
    (tmp_path / "users").unlink()
    with pytest.raises(BrokerError, match=r"auth.users: \S+ cannot be read: No such file or directory"):
        verifier.prepare()
    assert verifier.commit() == set()
    await verifier.close()


@pytest.mark.skipif(sys.platform != "linux", reason="elsewhere niceness is the process's")
async def test_the_event_loop_goes_before_what_verifies(tmp_path: Path) -> None:
    seen: list[int] = []

    class Looking(PasswordVerifier):
        def _fits(self, hashed: str, password: str) -> bool:
            seen.append(os.getpriority(os.PRIO_PROCESS, threading.get_native_id()))
            return super()._fits(hashed, password)

    verifier = Looking(write(tmp_path, ada="lovelace"))
    before = os.getpriority(os.PRIO_PROCESS, threading.get_native_id())
    await verifier.verify(ask("ada", "lovelace"))
    assert seen == [NICE]
    assert os.getpriority(os.PRIO_PROCESS, threading.get_native_id()) == before
    await verifier.close()
