"""Files that options name: their lines, and what is said of one that is not what it should be."""

from collections.abc import Callable, Iterator, Mapping
from pathlib import Path
from typing import Final

from broker.config.toml import shown_value
from rsocket_wire.errors import BrokerError
from rsocket_wire.files import missing_advice

MAKES_USERS: Final = "rsocket-broker password NAME"
MADE_BY: Final = {"auth.users": MAKES_USERS, "admin.tokens": "rsocket-broker token new NAME"}


def check_path(path: str) -> None:
    """BrokerError "bad-config" for a path that only a shell makes one of."""
    if path == "~" or path.startswith("~/"):
        meant = shown_value(str(Path(path).expanduser()))
        raise BrokerError(
            "bad-config", f"{shown_value(path)} begins with ~, which only a shell replaces; write {meant}"
        )


def lines_of(path: str) -> Iterator[tuple[int, str]]:
    """Numbers and lines of a text, without those that are empty or comments; OSError, ValueError with a sentence."""
    try:
        lines = Path(path).read_text(encoding="utf-8").splitlines()
    except UnicodeDecodeError as error:
        raise ValueError(f"is not UTF-8 at byte {error.start}") from None
    for number, line in enumerate(lines, 1):
        if line.strip() and not line.startswith("#"):
            yield number, line.strip()


def why_unread(path: str, error: OSError, option: str = "") -> str:
    """`cannot be read: …`, with what helps against it, or where it was looked for; and what makes that of `option`."""
    text = f"cannot be read: {error.strerror}"
    if isinstance(error, PermissionError):
        text += "; start this as a user who may read it, or let this one (chmod, chown)"
    if isinstance(error, IsADirectoryError):
        text += f"; write the path of a file in it{_one_of(path)}"
    if isinstance(error, FileNotFoundError):
        text += missing_advice(path)
        text += f"; {MADE_BY[option]} makes its lines" if option in MADE_BY else ""
    return text


def _one_of(folder: str) -> str:
    """`, such as etc/broker.toml`."""
    found = sorted(Path(folder).glob("*.toml"))[:1]
    return "".join(f", such as {each}" for each in found)


def bad_file(option: str, path: str, error: OSError | ValueError) -> BrokerError:
    """Why nothing can be had from the file of that option."""
    why = f"cannot be read: {error.strerror}" if isinstance(error, OSError) else str(error)
    return BrokerError("bad-config", f"{option}: {path} {why}")


def file_mistakes(
    option: str, values: Mapping[str, object], wrong: set[str], read: Callable[[str], object]
) -> list[tuple[str, str, str]]:
    """What `read` has against the file of that option, if there is one; as `cluster_mistakes`."""
    path = str(values[option] or "")
    if not path or option in wrong:
        return []
    try:
        read(path)
    except OSError:
        pass  # said already
    except ValueError as error:
        return [(option, f"{shown_value(path)} {error}", "")]
    return []
