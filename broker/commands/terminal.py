"""What the commands that use the client SDK share: options, items from a terminal, exit statuses, the end by Ctrl-C.

Decides how an error becomes an exit status, and how bytes become lines. Knows nothing of what the commands do.
"""

from __future__ import annotations

import asyncio
import os
import ssl as tls
import sys
from collections.abc import Callable, Coroutine, Iterator
from pathlib import Path
from typing import Any, NoReturn

import click
import msgspec

import client_sdk
from broker.log import one_line
from client_sdk.credentials import CredentialsSource, Password, Token
from rsocket_wire.ports import DEFAULT_URL

EXIT_FAILED = 1
EXIT_NOT_CONNECTED = 3
EXIT_REJECTED = 4
EXIT_APPLICATION = 5
EXIT_DEADLINE = 6
EXIT_LOST = 7
EXIT_BAD_REQUEST = 8
EXIT_INTERRUPTED = 130  # 128 + SIGINT, as shells say it
EXIT_PIPE = 141  # 128 + SIGPIPE: whoever read our output has gone

STATUSES = """\b
Exit status:
  0  done
  1  something else
  2  the command line is wrong
  3  no connection to a broker, or it refuses this one
  4  refused before any service saw it (no-route, over-limit, draining ...)
  5  the service's handler failed
  6  the deadline has passed
  7  the service or the connection was lost during the request
  8  the request is invalid (bad-address, no-handler, too-large ...)
  130  interrupted; the other side got a CANCEL"""

TOKEN_VARIABLE = "RSOCKET_BROKER_TOKEN"
PASSWORD_VARIABLE = "RSOCKET_BROKER_PASSWORD"

MAX_LINE_BYTES = 0xFFFFFF  # what one frame can hold; a longer line can never be an item
READ_BYTES = 1 << 16

_STATUS_OF: tuple[tuple[type[client_sdk.ClientError], int], ...] = (
    (client_sdk.NotConnected, EXIT_NOT_CONNECTED),
    (client_sdk.SetupRejected, EXIT_NOT_CONNECTED),
    (client_sdk.Rejected, EXIT_REJECTED),
    (client_sdk.ApplicationError, EXIT_APPLICATION),
    (client_sdk.DeadlineExceeded, EXIT_DEADLINE),
    (client_sdk.ConnectionLost, EXIT_LOST),
    (client_sdk.Canceled, EXIT_LOST),
    (client_sdk.BadRequest, EXIT_BAD_REQUEST),
)


def status_of(error: client_sdk.ClientError) -> int:
    """The exit status that stands for it."""
    return next((status for kind, status in _STATUS_OF if isinstance(error, kind)), EXIT_FAILED)


def run(main: Callable[[], Coroutine[Any, Any, int]]) -> NoReturn:
    """Runs what `main` makes to its end and exits; what is raised becomes a line on standard error and an exit status.

    `main` itself runs outside of the event loop: what blocks, as reading standard input, belongs there.
    """
    try:
        status = asyncio.run(main())
    except client_sdk.ClientError as error:
        complain(str(error))
        status = status_of(error)
    except KeyboardInterrupt:
        status = EXIT_INTERRUPTED
    except BrokenPipeError:
        _drop_output()
        status = EXIT_PIPE
    except OSError as error:  # a full disk, a file that cannot be read
        complain(_why(error))
        _drop_output()
        status = EXIT_FAILED
    except ValueError as error:  # an argument that the SDK refuses: a URL, a mime type, a time
        complain(str(error))
        status = click.UsageError.exit_code
    sys.exit(status)


def _drop_output() -> None:
    """Python would complain once more when it flushes at exit."""
    if sys.stdout is not None:
        os.dup2(os.open(os.devnull, os.O_WRONLY), sys.stdout.fileno())


def _why(error: OSError) -> str:
    return (error.strerror or str(error)).lower()


def complain(text: str) -> None:
    """One line on standard error; peers may have had a word in it."""
    click.echo(f"rsocket-broker: {one_line(text)}", err=True)


def split_pair(option: str, text: str) -> tuple[str, str]:
    """NAME=VALUE; without `=` the value is empty. UsageError without a name."""
    name, _, value = text.partition("=")
    if not name:
        raise click.UsageError(f"{option} {text!r} has no name; write NAME=VALUE")
    return name, value


def split_tag(text: str) -> tuple[str, str | None]:
    """A tag, NAME=VALUE or NAME alone, which has no value."""
    name, value = split_pair("--tag", text)
    return name, value if "=" in text else None


def read_text(option: str, text: str) -> bytes:
    """What TEXT, @FILE or - (standard input) stands for; @@ for a text that begins with @."""
    if text == "-":
        if sys.stdin is None:
            raise click.UsageError(f"{option} -: standard input is closed")
        return sys.stdin.buffer.read()
    if text.startswith("@@") or not text.startswith("@"):
        # The bytes that the shell gave, UTF-8 or not.
        return os.fsencode(text.removeprefix("@") if text.startswith("@@") else text)
    try:
        with open(text[1:], "rb") as file:
            return file.read()
    except OSError as error:
        raise click.UsageError(f"{option} {text}: {_why(error)}") from None


def read_lines(option: str, text: str) -> Iterator[bytes]:
    """The lines of - (standard input, as they are typed) or @FILE; of a TEXT itself, whole."""
    if text != "-" and (text.startswith("@@") or not text.startswith("@")):
        yield read_text(option, text)
        return
    try:
        descriptor = 0 if text == "-" else os.open(text[1:], os.O_RDONLY)
    except OSError as error:
        raise click.UsageError(f"{option} {text}: {_why(error)}") from None
    try:
        yield from _lines_of(descriptor)
    finally:
        if descriptor:
            os.close(descriptor)


def _lines_of(descriptor: int) -> Iterator[bytes]:
    """Read without Python's buffer, whose lock a thread that waits for a line would keep when the process ends."""
    rest = b""
    while chunk := _read(descriptor):
        *lines, rest = (rest + chunk).split(b"\n")
        for line in lines:
            yield line.removesuffix(b"\r")
        if len(rest) > MAX_LINE_BYTES:
            raise client_sdk.BadRequest(f"a line has more than {MAX_LINE_BYTES} bytes", word="too-large")
    if rest:
        yield rest


def _read(descriptor: int) -> bytes:
    try:
        return os.read(descriptor, READ_BYTES)
    except OSError as error:  # a folder, or standard input that is closed: no mistake of ours
        raise click.ClickException(f"the items cannot be read: {_why(error)}") from None


def checked_json(option: str, data: bytes) -> bytes:
    """The same; UsageError when it is no JSON."""
    try:
        msgspec.json.decode(data)
    except (msgspec.DecodeError, UnicodeDecodeError) as error:
        raise click.UsageError(f"{option} is no JSON: {error}; it is {data[:80]!r}") from None
    return data


def shown_json(data: bytes, is_pretty: bool) -> bytes:
    """JSON for people, over several lines or one; numbers and the order of keys stay what they are. ClickException."""
    if not data:
        return b""
    try:
        msgspec.json.decode(data)
        return msgspec.json.format(data, indent=2 if is_pretty else -1)
    except (msgspec.DecodeError, UnicodeDecodeError) as error:
        raise click.ClickException(f"an answer is no JSON: {error}; it is {data[:80]!r}") from None


def put_line(line: bytes) -> None:
    """One line on standard output, at once."""
    if sys.stdout is None:
        raise OSError("standard output is closed")
    sys.stdout.buffer.write(line + b"\n")
    sys.stdout.buffer.flush()


def tls_context(ca: str | None, cert: str | None, key: str | None) -> tls.SSLContext | None:
    """For tls:// and wss://; None for the system's certificates. UsageError for files that are none."""
    if (cert is None) != (key is None):
        raise click.UsageError("--cert and --key belong together")
    if ca is None and cert is None:
        return None
    try:
        context = tls.create_default_context(cafile=ca)
        if cert is not None:
            context.load_cert_chain(cert, key)
    except (OSError, tls.SSLError) as error:
        raise click.UsageError(f"--ca, --cert, --key: {error}") from None
    return context


def credentials_of(token_file: str | None, user: str | None) -> CredentialsSource | None:
    """What the command proves who it is with: a token from the file or TOKEN_VARIABLE, or a name with a password from
    PASSWORD_VARIABLE or the terminal; None: nothing. UsageError for both, and for none of a file or a terminal.
    """
    if token_file is not None and user is not None:
        raise click.UsageError("--token-file and --user exclude each other")
    if user is not None:
        password = os.environ.get(PASSWORD_VARIABLE)
        if password is None:
            if not sys.stdin.isatty():
                raise click.UsageError(f"--user needs {PASSWORD_VARIABLE} where there is no terminal to ask at")
            password = str(click.prompt("password", hide_input=True, err=True))
        return Password(user, password)
    if token_file is None:
        token = os.environ.get(TOKEN_VARIABLE)
        return None if token is None else Token(token)

    async def read_token() -> Token:
        """Anew for each connection: what renews tokens replaces the file."""
        return Token(Path(token_file).read_text(encoding="utf-8").strip())

    return read_token


def with_connection_options(command: Callable[..., None]) -> Callable[..., None]:
    """The URL and what is needed to get there."""
    for option in (
        click.option("--user", metavar="NAME", help=f"Log in as this user, with the password in {PASSWORD_VARIABLE}."),
        click.option("--token-file", metavar="FILE", help=f"Log in with the token in FILE, or in {TOKEN_VARIABLE}."),
        click.option("--key", metavar="FILE", help="Private key of --cert, PEM."),
        click.option("--cert", metavar="FILE", help="Client certificate, PEM."),
        click.option(
            "--ca", metavar="FILE", help="CA certificates that sign the broker's, PEM; for tls:// and wss://."
        ),
        click.argument("url", default=DEFAULT_URL, metavar="[URL]"),
    ):
        command = option(command)
    return command
