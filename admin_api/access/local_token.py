"""The token that a broker makes for its own machine at each start: whoever may read its file may do everything.

Decides where it is written, and that nobody but the broker's user can read it. Where it may lie stands in
`spark_sink.event_files.local_token`, whose readers know no admin API.
"""

import logging
import os
import secrets
import stat
from collections.abc import Mapping
from contextlib import suppress
from pathlib import Path
from typing import Final

from broker.config.sections.admin_checks import ADMIN, LOCAL, AdminToken, digest_of
from rsocket_wire.files import system_reason
from spark_sink.event_files.local_token import read_token, token_folders, token_name

PREFIX: Final = "rsb_"  # so that whoever finds one knows what it is, and scanners of secrets find it
TOKEN_BYTES: Final = 32  # of chance
MODE: Final = 0o600
FOLDER_MODE: Final = 0o700
NEVER_S: Final = float("inf")

_log: Final = logging.getLogger("broker")


def new_token() -> str:
    """`rsb_…`, which nobody can guess."""
    return PREFIX + secrets.token_urlsafe(TOKEN_BYTES)


class LocalToken:
    """The token of one run, and its file."""

    def __init__(self, path: str = "", environ: Mapping[str, str] = os.environ) -> None:
        """`path`: admin.token_file; empty: in one of the usual folders."""
        self._text: Final = new_token()
        self._path: Final = path
        self._environ: Final = environ
        self._file: Path | None = None  # None until it is written, and where it cannot be
        self.known: Final = AdminToken(LOCAL, ADMIN, NEVER_S, digest_of(self._text))

    @property
    def file(self) -> Path | None:
        """Where it is; None: nowhere."""
        return self._file

    def write(self, port: int) -> None:
        """Writes it for the API at that port; when nobody can write it, the log says so, and the broker goes on."""
        failed: list[str] = []
        for path in self._places(port):
            try:
                if not self._path:
                    _make_private(path.parent)
                _write(path, self._text)
            except OSError as error:
                failed.append(f"{path}: {system_reason(error)}")
                continue
            self._file = path
            _log.info("admin: changes and event files need the token in %s", path)
            return
        why = "; ".join(failed) or "neither XDG_RUNTIME_DIR nor HOME is set"
        _log.warning(
            "admin: the token of this machine cannot be written (%s): without a token of admin.tokens nobody here may "
            "change anything or read event files over HTTP; admin.token_file names another place",
            why,
        )

    def remove(self) -> None:
        """Removes the file, if it is not of another broker by now."""
        if self._file is not None and read_token(self._file) == self._text:
            with suppress(OSError):
                self._file.unlink()
        self._file = None

    def _places(self, port: int) -> list[Path]:
        if self._path:
            return [Path(self._path)]
        return [folder / token_name(port) for folder in token_folders(self._environ)]


def _make_private(folder: Path) -> None:
    """The folder is there, and nobody but this user may write there: else the file could be another's. OSError."""
    folder.mkdir(FOLDER_MODE, parents=True, exist_ok=True)
    state = folder.stat()
    if state.st_uid != os.geteuid() or state.st_mode & (stat.S_IWGRP | stat.S_IWOTH):
        raise PermissionError(0, "others may write there")


def _write(path: Path, text: str) -> None:
    """Whole, or not at all; of a link that somebody has put there it takes the place. OSError."""
    part = path.with_name(f".{path.name}.{os.getpid()}")
    with suppress(FileNotFoundError):
        part.unlink()  # of a process with the same number that was killed
    handle = os.open(part, os.O_WRONLY | os.O_CREAT | os.O_EXCL | os.O_CLOEXEC, MODE)
    try:
        os.fchmod(handle, MODE)  # whatever the umask is
        os.write(handle, f"{text}\n".encode())
    finally:
        os.close(handle)
    os.replace(part, path)
