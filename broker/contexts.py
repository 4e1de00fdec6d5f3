"""Named contexts: where brokers are and how a person logs in there, in a file of that user.

    selected = "prod"

    [context.prod]
    url = "tls://orders.example:7878"
    admin = "https://orders.example:7070"
    ca = "/home/ada/ca.pem"
    token = "eyJhbGciOi…"

Decides where the file is, what it may hold, who may read it, and which context is in use. What an option or a variable
says instead stands with the commands.
"""

from __future__ import annotations

import os
import stat
import tomllib
from collections.abc import Mapping
from contextlib import suppress
from pathlib import Path
from typing import Final

from broker.config import CONTEXT_VARIABLE
from broker.config.toml import toml_key, toml_text
from rsocket_wire.files import system_reason

PROGRAM: Final = "rsocket-broker"
FILE: Final = "contexts.toml"
MODE: Final = 0o600
SECRETS: Final = ("token", "password", "admin_token")
FIELDS: Final = ("url", "admin", "ca", "cert", "key", "user", "token_file", "admin_token_file", *SECRETS)
MAX_CONTEXTS: Final = 1000
MAX_NAME: Final = 64  # characters

_SHOWN: Final = {"url": "URL", "admin": "admin API"}

Context = Mapping[str, str]  # of FIELDS; what is not there is not said


class ContextError(Exception):
    """A file or a name that cannot be used; one sentence."""


class Contexts:
    """What the file holds."""

    def __init__(self, path: Path, found: dict[str, Context], selected: str) -> None:
        self.path: Final = path
        self.found: Final = found
        self.selected = selected  # empty: none

    def choose(self, name: str) -> Context:
        """The context of this name. ContextError where there is none."""
        if name not in self.found:
            known = f"there are: {', '.join(sorted(self.found))}" if self.found else "there are none"
            raise ContextError(f"there is no context {name!r}; {known}; {PROGRAM} context add NAME --url URL makes one")
        return self.found[name]

    def save(self) -> None:
        """Writes the file anew, all at once, for its user alone. ContextError."""
        lines = [f"selected = {toml_text(self.selected)}"] if self.selected else []
        for name, context in sorted(self.found.items()):
            lines += ["", f"[context.{toml_key(name)}]"]
            lines += [f"{field} = {toml_text(context[field])}" for field in FIELDS if field in context]
        part = self.path.with_name(f".{self.path.name}.{os.getpid()}")
        try:
            self.path.parent.mkdir(parents=True, exist_ok=True, mode=0o700)
            with suppress(FileNotFoundError):
                part.unlink()
            with os.fdopen(os.open(part, os.O_WRONLY | os.O_CREAT | os.O_EXCL | os.O_CLOEXEC, MODE), "w") as file:
                file.write("\n".join([*lines, ""]).lstrip("\n"))
            os.replace(part, self.path)
        except OSError as error:
            raise ContextError(f"{self.path}: {system_reason(error)}") from None
        finally:
            with suppress(OSError):
                part.unlink()


def contexts_path(environ: Mapping[str, str]) -> Path:
    """Where the file is: below XDG_CONFIG_HOME, or where programs of this system keep what a user configures."""
    if environ.get("XDG_CONFIG_HOME"):
        return Path(environ["XDG_CONFIG_HOME"]) / PROGRAM / FILE
    home = Path(environ.get("HOME") or "~").expanduser()
    is_mac = os.uname().sysname == "Darwin"
    return (home / "Library/Application Support" if is_mac else home / ".config") / PROGRAM / FILE


def read_contexts(environ: Mapping[str, str]) -> Contexts:
    """All contexts; none where there is no file. ContextError: it is no such file, or others may read it."""
    path = contexts_path(environ)
    try:
        with path.open("rb") as file:
            if stat.S_IMODE(os.fstat(file.fileno()).st_mode) & 0o077:
                raise ContextError(f"{path} is open to other users and may hold secrets; chmod 600 {path}")
            read = tomllib.load(file)
    except FileNotFoundError:
        return Contexts(path, {}, "")
    except OSError as error:
        raise ContextError(f"{path}: {system_reason(error)}") from None
    except (tomllib.TOMLDecodeError, UnicodeDecodeError) as error:
        raise ContextError(f"{path} is no TOML: {error}") from None
    tables, selected = read.get("context", {}), read.get("selected", "")
    is_well = isinstance(selected, str) and isinstance(tables, dict) and len(tables) <= MAX_CONTEXTS
    if not is_well or not all(_is_context(each) for each in tables.values()):
        raise ContextError(f"{path} is no file of contexts: each has texts only, of {', '.join(FIELDS)}")
    return Contexts(path, dict(tables), selected)


def context_in_use(name: str | None, environ: Mapping[str, str]) -> Context:
    """That of the name, of RSB_CONTEXT or the selected one; an empty one where there is none. ContextError.

    `name`: what an option says.
    """
    wanted = name or environ.get(CONTEXT_VARIABLE, "")
    contexts = read_contexts(environ)
    if wanted:
        return contexts.choose(wanted)
    return contexts.found.get(contexts.selected, {})


def context_of(context: Context, name: str | None, field: str, said: str | None) -> Context:
    """The context in use, unless something else than its `field` is asked: nobody else is sent its credentials.
    ContextError: its name was said, too.

    `name`: as of `context_in_use`. `field`: `url` or `admin`. `said`: what an option or a variable says; None: nothing.
    """
    if not said or said == context.get(field):
        return context
    if name:
        raise ContextError(f"--context {name} has its own {_SHOWN[field]}; leave out {said}")
    return {}


def source_of(context: Context, field: str, name: str | None, variable: str, environ: Mapping[str, str]) -> str:
    """What a URL that no option gave is from, for people: the variable, or the context that has this field; empty:
    neither. `name`: as of `context_in_use`.
    """
    if environ.get(variable):
        return variable
    if field not in context:
        return ""
    wanted = name or environ.get(CONTEXT_VARIABLE, "")
    return f"the context {wanted}" if wanted else "the context in use"


def shown(context: Context) -> dict[str, str | bool]:
    """What may be shown of it: of secrets, that there are some."""
    return {field: True if field in SECRETS else context[field] for field in FIELDS if field in context}


def _is_context(table: object) -> bool:
    return isinstance(table, dict) and all(key in FIELDS and isinstance(table[key], str) for key in table)
