"""What the commands that use the client SDK share: options, items from a terminal, exit statuses, the end by Ctrl-C.

Decides how an error becomes an exit status, and how bytes become lines. Knows nothing of what the commands do.
"""

from __future__ import annotations

import contextlib
import functools
import os
import re
import shlex
import sys
from collections.abc import Callable, Coroutine, Iterator, Mapping
from pathlib import Path
from typing import TYPE_CHECKING, Any, NamedTuple, NoReturn

import click

from admin_api.ctl.place import context_option
from broker import exit_status
from broker.commands import WORDS
from broker.commands.hangup import AtOnce
from broker.config import URL_VARIABLE
from broker.contexts import Context, ContextError, context_in_use, context_of, source_of
from rsocket_wire.files import missing_advice, pem_advice, system_reason
from rsocket_wire.ports import DEFAULT_URL, SCHEMES

if TYPE_CHECKING:
    import ssl as tls

    from client_sdk import ClientError
    from client_sdk.credentials import CredentialsSource

TOKEN_VARIABLE = "RSOCKET_BROKER_TOKEN"
PASSWORD_VARIABLE = "RSOCKET_BROKER_PASSWORD"

MAX_LINE_BYTES = 0xFFFFFF  # what one frame can hold; a longer line can never be an item
READ_BYTES = 1 << 16
# orders.create, as gRPC and NATS write it, which may also be the name of a host.
_SERVICE_AND_ROUTE = re.compile(r"([A-Za-z][\w-]*)\.([A-Za-z][\w.-]*)$")
_URL = re.compile(r"[a-z+]+://|(localhost|[0-9.]+|\[[0-9a-f:]+\]):[0-9]+$")
SOURCE = "broker.url_source"  # in the context of click: what a URL that no option gave is from
IN_THE_CLEAR = ("tcp://", "ws://", "unix://")

# What the client advises to programs, and what a shell can do instead; longer ones first.
IN_SHELL = {
    "several URLs are a list: connect(": "a command takes one URL, not several (",
    "; `async for client in connect(...)` waits for a broker": "",
    "; or raise connect_timeout_s=": "",
    "returns= is the type of what the handler returns: correct the one or the other": (
        "the service's handler returns another type"
    ),
    "the caller needs connect(url, codec=JSON), or json.dumps(value).encode() as data": (
        "--data must be JSON, with --json"
    ),
    "; wait_for_reconnect= says how long a call waits for the next connection": "",
    "; wait_connected() waits for the next connection": "",
    "connect() with the same arguments fails again; change them, or the broker": "the same options fail again",
    "ssl=ssl.create_default_context(cafile=FILE) trusts its CA in FILE, as --ca FILE does for commands": (
        "--ca FILE trusts its CA in FILE"
    ),
    "ssl= needs context.load_cert_chain(CERTIFICATE, KEY), as --cert and --key do for commands": (
        "--cert and --key give it"
    ),
    "give connect() the right credentials=, a Token or a Password, or a client certificate in ssl=": (
        "log in by --token-file, --user or --cert"
    ),
    "with credentials=Password(name, password)": "with --user",
    "with credentials=Token(token)": "with --token-file",
    "with a client certificate in ssl=": "with --cert",
    "without credentials=": "without --user and --token-file",
    "the client reconnects; credentials= may be an async function that gives a new token each time": (
        "log in with a new token"
    ),
    "give credentials=Password(name, password)": "log in by --user",
    "call connect() again, and use what it gives before its block ends or close() is called": "",
    "correct service= and tags= of connect()": "correct the service and --tag",
    "correct route= or the model": "correct --route or --model",
    "give each its own instance= or route_id=, or none": "give each its own --instance, or none",
    "has this route_id: give each one of its own, or none": "has this Route Id: give each its own --instance, or none",
    "does not support mime_type=": "does not support the MIME types",
    "does not support resumption; use connect(resume=False)": "does not support resumption",
    "connect() to another one, or again later": "ask another one, or again later",
}


def status_of(error: ClientError) -> int:
    """The exit status that stands for it."""
    import client_sdk  # late, here and below: help and completion do without, and it takes longer than all else

    statuses: tuple[tuple[type[ClientError], int], ...] = (
        (client_sdk.NotConnected, exit_status.NO_ANSWER),
        (client_sdk.SetupRejected, exit_status.REFUSED),
        (client_sdk.Rejected, exit_status.REFUSED),
        (client_sdk.ApplicationError, exit_status.HANDLER_FAILED),
        (client_sdk.DeadlineExceeded, exit_status.TOO_LATE),
        (client_sdk.ConnectionLost, exit_status.LOST),
        (client_sdk.Canceled, exit_status.LOST),
        (client_sdk.BadRequest, exit_status.INVALID),
    )
    return next((status for kind, status in statuses if isinstance(error, kind)), exit_status.FAILED)


def run(main: Callable[[], Coroutine[Any, Any, int]]) -> NoReturn:
    """Runs what `main` makes to its end and exits; what is raised becomes a line on standard error and an exit status.

    `main` itself runs outside of the event loop: what blocks, as reading standard input, belongs there.
    """
    with AtOnce():
        import asyncio

        from client_sdk import ClientError

    try:
        status = asyncio.run(main())
    except ClientError as error:
        complain(said_of(error))
        status = status_of(error)
    except KeyboardInterrupt:
        status = exit_status.INTERRUPTED
    except BrokenPipeError:
        exit_status.drop_output()
        status = exit_status.PIPE_CLOSED
    except OSError as error:  # a full disk, a file that cannot be read
        complain(system_reason(error))
        exit_status.drop_output()
        status = exit_status.FAILED
    except ValueError as error:  # an argument that the SDK refuses: a URL, a mime type, a time
        text = in_shell(str(error))
        is_url = text.startswith(("'", "a URL", "a command takes one URL")) and _source()
        complain(f"{_source()}: {text}" if is_url else text)
        status = exit_status.USAGE
    sys.exit(status)


def said_of(error: ClientError) -> str:
    """The error with its advice, as far as a shell can follow that."""
    advice, text = in_shell(error.advice), in_shell(error.text)
    return f"{error.word}: {text}" + (f" ({advice})" if advice else "")


def in_shell(text: str) -> str:
    """A text of the client with what a shell can do instead of what programs can."""
    for python, shell in IN_SHELL.items():
        text = text.replace(python, shell)
    source = _source()
    if source is None:
        return text
    how = f"correct {source}" if source else f"give its URL, behind the command or in {URL_VARIABLE}"
    return text.replace("correct the URL", how)


def _source() -> str | None:
    """What the URL is from, where the command line has none: `RSB_URL`; empty: nothing says one; None: it has one."""
    context = click.get_current_context(silent=True)
    return None if context is None else context.meta.get(SOURCE)


def complain(text: str) -> None:
    """One line on standard error; peers may have had a word in it."""
    from broker.log import one_line

    click.echo(f"rsocket-broker: {one_line(text)}", err=True)


def split_pair(option: str, text: str, name: str = "NAME", example: str = "") -> tuple[str, str]:
    """NAME=VALUE. UsageError without a name or a sign; `name`: what it is called; `example`: instead of one made up."""
    given, sign, value = text.partition("=")
    if not given:
        raise click.UsageError(f"{option} {text!r} has no name; write {name}=VALUE")
    if not sign:
        other = re.sub(r" *: *", "=", text, count=1) if ":" in text else ""
        example = other or example or f"{text}=VALUE"
        raise click.UsageError(f"{option} {text!r} is no {name}=VALUE; write {option} {shlex.quote(example)}")
    return given, value


def check_name(what: str, text: str, instead: str) -> None:
    """UsageError for a URL where a name stands. `instead`: the words to write, with {url} for it."""
    if _URL.match(text):
        url = text if "://" in text else f"tcp://{text}"
        raise click.UsageError(f"{text!r} is taken as {what}; write rsocket-broker {instead.format(url=url)}")


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
        raise _unread(f"{option} {text}", text[1:], error) from None


def read_lines(option: str, text: str) -> Iterator[bytes]:
    """The lines of - (standard input, as they are typed) or @FILE; of a TEXT itself, whole."""
    if text != "-" and (text.startswith("@@") or not text.startswith("@")):
        yield read_text(option, text)
        return
    try:
        descriptor = 0 if text == "-" else os.open(text[1:], os.O_RDONLY)
    except OSError as error:
        raise _unread(f"{option} {text}", text[1:], error) from None
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
            from client_sdk import BadRequest

            raise BadRequest(f"a line has more than {MAX_LINE_BYTES} bytes", word="too-large")
    if rest:
        yield rest


def _read(descriptor: int) -> bytes:
    try:
        return os.read(descriptor, READ_BYTES)
    except OSError as error:  # a folder, or standard input that is closed: no mistake of ours
        raise click.ClickException(f"the items cannot be read: {system_reason(error)}") from None


def checked_json(option: str, data: bytes) -> bytes:
    """The same; UsageError when it is no JSON."""
    import msgspec

    try:
        msgspec.json.decode(data)
    except (msgspec.DecodeError, UnicodeDecodeError) as error:
        text = f"{option} is no JSON: {error}; it is {data[:80]!r}"
        raise click.UsageError(
            f"{text}; {_meant_json(data.decode(errors='replace') if len(data) <= 80 else '')}"
        ) from None
    return data


def _meant_json(text: str) -> str:
    """What to write instead: the same with double quotes, where a shell has taken those or others stand."""
    if meant := _with_quotes(text):
        return f"write {shlex.quote(meant)}, in single quotes, or a shell takes the double ones away"
    return "write it as '{\"pieces\": 2}' or '\"text\"'"


def _with_quotes(text: str) -> str:
    """The JSON that it was before a shell took its quotes; empty: none."""
    import msgspec

    quoted = re.sub(r"(?<![\w\".])(?!(?:true|false|null)\b)[A-Za-z_][\w-]*(?![\w\".])", r'"\g<0>"', text)
    for meant in (quoted, text.replace("'", '"')):
        with contextlib.suppress(msgspec.DecodeError):
            msgspec.json.decode(meant)
            return meant
    return ""


def shown_json(data: bytes, is_pretty: bool) -> bytes:
    """JSON for people, over several lines or one; numbers and the order of keys stay what they are. ClickException."""
    if not data:
        return b""
    import msgspec

    try:
        msgspec.json.decode(data)
        return msgspec.json.format(data, indent=2 if is_pretty else -1)
    except (msgspec.DecodeError, UnicodeDecodeError) as error:
        raise click.ClickException(f"an answer is no JSON: {error}; it is {data[:80]!r}; leave --json out") from None


def put_line(line: bytes) -> None:
    """One line on standard output, at once."""
    if sys.stdout is None:
        raise OSError("standard output is closed")
    sys.stdout.buffer.write(line + b"\n")
    sys.stdout.buffer.flush()


def tls_context(ca: str | None, cert: str | None, key: str | None) -> tls.SSLContext | None:
    """For tls:// and wss://; None for the system's certificates. UsageError for files that are none."""
    if (cert is None) != (key is None):
        raise click.UsageError("--cert and --key belong together: give both, or neither")
    if ca is None and cert is None:
        return None
    import ssl as tls

    for option, file in (("--ca", ca), ("--cert", cert), ("--key", key)):
        if file is not None:
            _check_readable(option, file)
    try:
        context = tls.create_default_context(cafile=ca)
    except tls.SSLError:
        raise click.UsageError(f"--ca {ca} holds no certificate in PEM{pem_advice(str(ca))}") from None
    if cert is not None:
        try:
            context.load_cert_chain(cert, key)
        except tls.SSLError as error:
            is_other = error.reason == "KEY_VALUES_MISMATCH"
            why = "the key is that of another certificate" if is_other else "one of them is no certificate, or no key"
            raise click.UsageError(f"--cert {cert} --key {key}: {why}") from None
    return context


def credentials_of(token_file: str | None, user: str | None, context: Context) -> CredentialsSource | None:
    """What the command proves who it is with: a token from the file or TOKEN_VARIABLE, or a name with a password from
    PASSWORD_VARIABLE or the terminal; else what the context says; None: nothing. UsageError for both, and for none of
    a file or a terminal.
    """
    if token_file is not None and user is not None:
        raise click.UsageError("--token-file and --user exclude each other")
    from client_sdk.credentials import Password, Token

    if token_file is None and user is None and TOKEN_VARIABLE not in os.environ:
        if "token" in context:
            return _made(lambda: Token(context["token"].strip()), "the token of the context")
        token_file, user = context.get("token_file"), context.get("user")
        user = None if token_file is not None else user
    if user is not None:
        password = os.environ.get(PASSWORD_VARIABLE)
        if password is None and user == context.get("user"):
            password = context.get("password")
        if password is None:
            if not sys.stdin.isatty():
                raise click.UsageError(f"--user needs {PASSWORD_VARIABLE} where there is no terminal to ask at")
            password = str(click.prompt("password", hide_input=True, err=True))
        return _made(lambda: Password(user, password), "--user")
    if token_file is None:
        token = os.environ.get(TOKEN_VARIABLE, "").strip()
        return _made(lambda: Token(token), TOKEN_VARIABLE) if token else None
    _check_readable("--token-file", token_file)

    async def read_token() -> Token:
        """Anew for each connection: what renews tokens replaces the file."""
        return Token(Path(token_file).read_text(encoding="utf-8").strip())

    return read_token


def _made(make: Callable[[], CredentialsSource], source: str) -> CredentialsSource:
    """UsageError for what cannot be sent; it names the source."""
    try:
        return make()
    except ValueError as error:
        raise click.UsageError(f"{source}: {error}") from None


def _unread(subject: str, file: str, error: OSError) -> click.UsageError:
    advice = missing_advice(file) if isinstance(error, FileNotFoundError) else ""
    return click.UsageError(f"{subject}: {system_reason(error)}{advice}")


def _check_readable(option: str, file: str) -> None:
    try:
        with open(file, "rb"):
            pass
    except OSError as error:
        raise _unread(f"{option} {file}", file, error) from None


class Place(NamedTuple):
    """Where a broker is, and how to get in."""

    url: str
    ssl: tls.SSLContext | None
    credentials: CredentialsSource | None


def place_of(
    url: str | None,
    *,
    ca: str | None,
    cert: str | None,
    key: str | None,
    token_file: str | None,
    user: str | None,
    context_name: str | None,
) -> Place:
    """What an option says, else a variable, else the context in use, else the default. UsageError.

    What else a context holds counts only where its URL does: nobody else is sent its credentials.
    """
    try:
        context = context_in_use(context_name, os.environ)
        said = url or os.environ.get(URL_VARIABLE)
        context = context_of(context, context_name, "url", said)
    except ContextError as error:
        raise click.UsageError(str(error)) from None
    if not url and (current := click.get_current_context(silent=True)):
        current.meta[SOURCE] = source_of(context, "url", context_name, URL_VARIABLE, os.environ)
    url = said or context.get("url") or DEFAULT_URL
    ca, cert, key = ca or context.get("ca"), cert or context.get("cert"), key or context.get("key")
    for option, file in (("--ca", ca), ("--cert", cert), ("--key", key)):
        if file is not None and url.startswith(IN_THE_CLEAR):
            raise click.UsageError(f"{option} is for tls:// and wss://; {url} is not encrypted")
    ssl = tls_context(ca, cert, key)
    credentials = credentials_of(token_file, user, context)
    return Place(url, ssl, credentials)


def _url_among(words: tuple[str, ...], given: Mapping[str, object]) -> str | None:
    """The URL, which is the only word without an option; None: there is none. UsageError for others, which says what
    may have been meant.

    `given`: the options of the command, by their parameters.
    """
    if isinstance(name := given.get("name"), str):
        service = next((word for word in words if not _URL.match(word)), "NAME")
        check_name("NAME", name, f"offer {service} {{url}}")
    others = [word for word in words if not re.search(r"://|^[^=]*[:.][^=]*$|^localhost$", word)]
    if len(words) > 1 and not others:
        others = [word for word in words if _SERVICE_AND_ROUTE.match(word)]
    if not others:
        if len(words) > 1:
            raise click.UsageError(f"one URL at most, not {' '.join(words)}")
        return words[0] if words else None
    word = others[0]
    if word == "help":
        raise click.UsageError("'help' is taken as the URL; -h shows the help")
    if "=" in word and "tags" in given:
        hint = f"a tag is --tag {word}"
    elif spaced := next((each for each in ("data", "answer") if _is_behind(word, f"--{each}", given.get(each))), ""):
        whole = " ".join([str(given[spaced]), *others])
        whole = (whole[0] in "{[" and _with_quotes(whole)) or whole
        hint = f"quote what has spaces: --{spaced} {shlex.quote(whole)}"
    elif "service" in given and given["service"] == word:
        hint = "leave it out, --service says that"
    elif "service" in given and given["service"] is None and (dotted := _SERVICE_AND_ROUTE.match(word)):
        hint = f"write --service {dotted[1]} --route {dotted[2]}, the data is --data"
    elif "service" in given and not (
        given["service"] or given.get("tags") or any(map(_SERVICE_AND_ROUTE.match, words))
    ):
        hint = f"write --service {shlex.quote(word)}; the route is --route, the data --data"
    elif given.get("route") and not given.get("data"):
        hint = f"write --data {shlex.quote(' '.join(others))}"
    elif "data" in given:
        hint = "the service is --service, the route --route, the data --data"
    else:
        hint = f"it begins with {', '.join(f'{scheme}://' for scheme in SCHEMES)}"
    raise click.UsageError(f"{word!r} is taken as the URL; {hint}")


def named_by(url: str) -> str:
    """The options that name a service, with what stands in the place of the URL where that may be meant."""
    dotted = _SERVICE_AND_ROUTE.match(url)
    meant = f"; write --service {dotted[1]} --route {dotted[2]} if {url!r}, taken as the URL, is that" if dotted else ""
    return f"--service NAME or --tag NAME=VALUE{meant}"


def _is_behind(word: str, option: str, value: object) -> bool:
    """Whether it stands behind the value of the option in the command line."""
    words = ["", *click.get_current_context().meta.get(WORDS, ())]
    return any(
        each == word and (before == f"{option}={value}" or [first, before] == [option, value])
        for first, before, each in zip(words, words[1:], words[2:], strict=False)
    )


def with_connection_options(command: Callable[..., None]) -> Callable[..., None]:
    """The URL and what is needed to get there; the command gets a `Place`."""

    @functools.wraps(command)
    def placed(
        words: tuple[str, ...],
        ca: str | None,
        cert: str | None,
        key: str | None,
        token_file: str | None,
        user: str | None,
        context_name: str | None,
        **given: Any,
    ) -> None:
        url = _url_among(words, given)
        place = place_of(url, ca=ca, cert=cert, key=key, token_file=token_file, user=user, context_name=context_name)
        command(place, **given)

    with_options: Callable[..., None] = placed
    for option in (
        click.option("--user", metavar="NAME", help=f"Log in as this user, with the password in {PASSWORD_VARIABLE}."),
        click.option(
            "--token-file",
            metavar="FILE",
            type=click.Path(),
            help=f"Log in with the token in FILE, or in {TOKEN_VARIABLE}.",
        ),
        click.option("--key", metavar="FILE", type=click.Path(), help="Private key of --cert, PEM."),
        click.option("--cert", metavar="FILE", type=click.Path(), help="Client certificate, PEM."),
        click.option(
            "--ca",
            metavar="FILE",
            type=click.Path(),
            help="CA certificates that sign the broker's, PEM; for tls:// and wss://.",
        ),
        context_option("context_name"),
        click.argument("words", nargs=-1, metavar="[URL]"),
    ):
        with_options = option(with_options)
    return with_options
