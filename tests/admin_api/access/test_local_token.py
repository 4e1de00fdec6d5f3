"""The token of a broker on this machine: where it is written, who may read it, who finds it."""

import logging
import os
from pathlib import Path

import pytest

from admin_api.access.local_token import LocalToken
from broker.config.sections.admin_checks import LOCAL, find_token
from spark_sink.event_files.local_token import find_local_token, token_folders

URL = "http://127.0.0.1:7070"


def written(path: str = "", port: int = 7070, **environ: Path | str) -> LocalToken:
    token = LocalToken(path, {name: str(each) for name, each in environ.items()})
    token.write(port)
    return token


def test_it_is_for_the_user_of_the_broker_alone_whatever_the_umask_is(tmp_path: Path) -> None:
    before = os.umask(0)
    try:
        token = written(XDG_RUNTIME_DIR=tmp_path)
    finally:
        os.umask(before)
    file = tmp_path / "rsocket-broker" / "admin-7070.token"
    assert (token.file, file.stat().st_mode & 0o777, file.parent.stat().st_mode & 0o777) == (file, 0o600, 0o700)
    token.remove()
    assert os.listdir(file.parent) == []


def test_ctl_finds_that_of_its_broker_by_the_port_and_sends_it_to_no_other_machine(tmp_path: Path) -> None:
    here = {"XDG_RUNTIME_DIR": str(tmp_path)}
    tokens = [written(port=port, XDG_RUNTIME_DIR=tmp_path) for port in (7070, 7071)]
    for token, port in zip(tokens, (7070, 7071), strict=True):
        for host in ("localhost", "127.0.0.1", "[::1]"):
            found = find_local_token(f"http://{host}:{port}", here)
            assert find_token([token.known], found) == token.known
    assert [find_local_token(url, here) for url in ("http://192.0.2.7:7070", "http://a.example:7070", f"{URL}9")] == [
        ""
    ] * 3


def test_the_latest_file_holds_where_a_broker_was_killed(tmp_path: Path) -> None:
    old = written(XDG_RUNTIME_DIR=tmp_path / "a")
    assert old.file is not None
    os.utime(old.file, (1, 1))
    token = written(XDG_STATE_HOME=tmp_path / "b")
    both = {"XDG_RUNTIME_DIR": str(tmp_path / "a"), "XDG_STATE_HOME": str(tmp_path / "b")}
    assert find_token([token.known], find_local_token(URL, both)) == token.known
    old.remove()
    again = written(XDG_STATE_HOME=tmp_path / "b")
    token.remove()
    assert find_token([again.known], find_local_token(URL, both)), "of another broker by now"


def test_an_option_says_another_place(tmp_path: Path) -> None:
    file = tmp_path / "own"
    token = written(str(file), XDG_RUNTIME_DIR=tmp_path)
    assert find_token([token.known], find_local_token(URL, {"RSB_ADMIN__TOKEN_FILE": str(file)})) == token.known
    assert token.known.name == LOCAL


def test_what_others_may_write_to_is_no_place_for_it_and_the_log_says_so(
    tmp_path: Path, caplog: pytest.LogCaptureFixture
) -> None:
    (tmp_path / "rsocket-broker").mkdir()
    (tmp_path / "rsocket-broker").chmod(0o777)
    token = written(XDG_RUNTIME_DIR=tmp_path)
    written()
    assert (token.file, os.listdir(tmp_path / "rsocket-broker")) == (None, [])
    assert [each.levelno for each in caplog.records] == [logging.WARNING] * 2
    assert "others may write there" in caplog.text
    assert "neither XDG_RUNTIME_DIR nor HOME is set" in caplog.text


def test_a_service_of_systemd_has_a_folder_of_its_own() -> None:
    environ = {"RUNTIME_DIRECTORY": "/run/rsocket-broker:/run/b", "HOME": "/root"}
    assert token_folders(environ) == [Path("/run/rsocket-broker"), Path("/root/.local/state/rsocket-broker")]
