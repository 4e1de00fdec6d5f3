"""The token of a broker on this machine: where its file may lie, and which one belongs to an address.

    $XDG_RUNTIME_DIR/rsocket-broker/admin-7070.token        of a person who is logged in
    ~/.local/state/rsocket-broker/admin-7070.token          $XDG_STATE_HOME, where there is no such folder
    $RUNTIME_DIRECTORY/admin-7070.token                     of a service of systemd: /run/rsocket-broker

The port is in the name, since there may be several brokers. `admin_api.access.local_token` writes it; `rsocket-broker
ctl` and whoever reads event files over HTTP find it here.
"""

import ipaddress
import os
from collections.abc import Mapping
from pathlib import Path
from typing import Final
from urllib.parse import urlsplit

FOLDER: Final = "rsocket-broker"
SERVICE_FOLDER: Final = Path("/run") / FOLDER  # that systemd makes for RuntimeDirectory=rsocket-broker
MAX_TOKEN_BYTES: Final = 16 << 10  # ours has 47, a JSON Web Token 1 or 2 KiB
TOKEN_FILE: Final = "RSB_ADMIN__TOKEN_FILE"  # the variable of the option by which the broker is told, too
DEFAULT_PORT: Final = 80


def token_folders(environ: Mapping[str, str]) -> list[Path]:
    """Where a broker with this environment writes its token: the first that can be written."""
    folders: list[Path] = []
    if environ.get("RUNTIME_DIRECTORY"):
        folders.append(Path(environ["RUNTIME_DIRECTORY"].partition(":")[0]))
    if environ.get("XDG_RUNTIME_DIR"):
        folders.append(Path(environ["XDG_RUNTIME_DIR"]) / FOLDER)
    if environ.get("XDG_STATE_HOME"):
        folders.append(Path(environ["XDG_STATE_HOME"]) / FOLDER)
    elif environ.get("HOME"):
        folders.append(Path(environ["HOME"]) / ".local" / "state" / FOLDER)
    return folders


def token_name(port: int) -> str:
    """Of the file in such a folder."""
    return f"admin-{port}.token"


def read_token(path: Path) -> str:
    """The token in a file; empty: there is none, or this user may not read it."""
    try:
        with path.open("rb") as file:
            return file.read(MAX_TOKEN_BYTES).decode("ascii").strip()
    except (OSError, ValueError):
        return ""


def find_local_token(url: str, environ: Mapping[str, str] = os.environ) -> str:
    """The token for the broker at that URL; empty: it is on another machine, or no file of it can be read.

    No other machine is ever sent one. Of several files the latest holds: the others are of brokers that were killed.
    """
    found = [(path, token) for path in local_token_paths(url, environ) if (token := read_token(path))]
    return max(found, key=lambda each: _changed_at(each[0]))[1] if found else ""


def local_token_paths(url: str, environ: Mapping[str, str] = os.environ) -> list[Path]:
    """Where the token of the broker at that URL may lie; nowhere when it is on another machine."""
    try:
        parts = urlsplit(url)
        port = parts.port or DEFAULT_PORT
    except ValueError:  # what is no URL, or has no port that could be one
        return []
    if not _is_this_machine(parts.hostname or ""):
        return []
    if environ.get(TOKEN_FILE):
        return [Path(environ[TOKEN_FILE])]
    return [folder / token_name(port) for folder in (*token_folders(environ), SERVICE_FOLDER)]


def _changed_at(path: Path) -> float:
    try:
        return path.stat().st_mtime
    except OSError:
        return 0.0


def _is_this_machine(host: str) -> bool:
    if host == "localhost":
        return True
    try:
        return ipaddress.ip_address(host).is_loopback
    except ValueError:
        return False
