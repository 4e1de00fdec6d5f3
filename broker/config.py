"""Every option of the broker: its name, type, default, unit, range, reason and example, and how it is read.

An option is declared once, as an annotated field of its section's class below; the command line, the environment, the
TOML file, the table in `docs/configuration.md` and the output of `rsocket-broker check --options` all come from that
line. Four sources, the upper wins:

    flags          {"server.listen": ("tcp://0.0.0.0:7000",)}           None and () mean "not given"
    environment    RSB_SERVER__LISTEN=tcp://0.0.0.0:7000,ws://0.0.0.0:7001
    TOML file      [server] listen = ["tcp://0.0.0.0:7000"]
    default

`load` reads all four to their ends and reports every mistake together, also one that a stronger source would have
hidden. It looks at files (certificates) but opens no socket; the broker does not know who reads its options.
"""

# ruff: noqa: RUF009 -- option() makes a dataclasses.field, which is what a default may be made by

import difflib
import json
import re
import textwrap
import tomllib
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field, fields
from pathlib import Path
from typing import Any, Final, Literal, TypeVar, get_args, get_origin, get_type_hints
from urllib.parse import SplitResult, urlsplit

from broker.errors import BrokerError
from broker.wire.ids import id_text, parse_id

VARIABLE_PREFIX: Final = "RSB_"
LISTEN_SCHEMES: Final = ("tcp", "tls", "ws", "wss", "unix")
MAX_UNIX_PATH_BYTES: Final = 107  # Linux: sun_path holds 108, one is the closing NUL
MAX_TEXT_BYTES: Final = 4095  # PATH_MAX of Linux without the closing NUL
MAX_NAME_BYTES: Final = 255  # D-06: what a BROKER_INFO or a tag's name can hold
MAX_SHOWN: Final = 80  # characters of a wrong value that a mistake repeats

Chooser = Literal["round_robin", "random"]
OnLeave = Literal["ignore", "error"]
TlsVersion = Literal["1.2", "1.3"]
LogLevel = Literal["debug", "info", "warning", "error"]
LogFormat = Literal["text", "json"]
T = TypeVar("T")


@dataclass(frozen=True)
class Mistake:
    """One thing that is wrong: in which file (or "environment", "command line"), where, in which option."""

    source: str
    line: int  # 1 is the first; 0 when the source has no lines
    key: str  # "server.listen", "RSB_SERVER__LISTEN", "--listen"; empty when it is about the whole file
    text: str

    def __str__(self) -> str:
        place = f"{self.source}:{self.line}" if self.line else self.source
        return f"{place}: {self.key}: {self.text}" if self.key else f"{place}: {self.text}"


class ConfigErrors(Exception):
    """All mistakes of a configuration; str() has one line each. Ends the process before it began.

    It has the face of a BrokerError and is none, because that is compiled and this is not.
    """

    word: Final = "bad-config"

    def __init__(self, mistakes: list[Mistake]) -> None:
        super().__init__("\n".join(str(mistake) for mistake in mistakes))
        self.mistakes: Final = mistakes

    @property
    def text(self) -> str:
        """The lines."""
        return str(self)


@dataclass(frozen=True)
class Listen:
    """Where a listener listens: `tcp://127.0.0.1:7000`, `wss://[::]:7001/rsocket`, `unix:///run/broker.sock`."""

    scheme: str  # one of LISTEN_SCHEMES; "http" for the admin listener
    host: str = ""  # name or address, without brackets; empty for unix
    port: int = 0  # 0: the system chooses a free one
    path: str = ""  # ws, wss: the one path that is served, empty = any; unix: the socket's file, absolute

    @staticmethod
    def parse(text: str) -> "Listen":
        """The listener that the URL names; BrokerError "bad-config" whose text begins with the quoted URL."""
        parts = _split(text)
        if parts is None or parts.scheme not in LISTEN_SCHEMES:
            raise _bad(f"{_shown(text)} is no URL of {_either(LISTEN_SCHEMES)}")
        if parts.query or parts.fragment or "@" in parts.netloc:
            raise _bad(f"{_shown(text)} has more than a scheme, a host, a port and a path")
        if parts.scheme == "unix":
            return _unix_listen(text, parts)
        if parts.scheme in ("tcp", "tls") and parts.path not in ("", "/"):
            raise _bad(f"{_shown(text)} has a path, which {parts.scheme} does not know")
        path = parts.path if parts.scheme in ("ws", "wss") else ""
        return Listen(parts.scheme, *_place(text, parts), path)

    @property
    def is_tls(self) -> bool:
        """Needs a certificate."""
        return self.scheme in ("tls", "wss")

    @property
    def address(self) -> str:
        """`127.0.0.1:7000`, `[::1]:7000` or the path of the socket."""
        if self.scheme == "unix":
            return self.path
        return f"[{self.host}]:{self.port}" if ":" in self.host else f"{self.host}:{self.port}"

    def __str__(self) -> str:
        return f"unix://{self.path}" if self.scheme == "unix" else f"{self.scheme}://{self.address}{self.path}"


@dataclass(frozen=True)
class Option:
    """What stands beside an option's name, type and default."""

    why: str  # what it does and why it has this default, one or two sentences
    example: str  # a value other than the default, as TOML
    unit: str
    within: tuple[float, float]  # both ends included; of a text: its bytes of UTF-8
    flag: str  # of `rsocket-broker serve`; empty when there is none
    form: str  # of a text that is more than a text: "uuid", "file", "directory", "HOST:PORT", "URL"


def option(
    default: T,
    why: str,
    example: str,
    unit: str = "",
    within: tuple[float, float] = (0, MAX_TEXT_BYTES),
    flag: str = "",
    form: str = "",
) -> T:
    """A field with this default that knows its `Option`."""
    made: T = field(default=default, metadata={"option": Option(why, example, unit, within, flag, form)})
    return made


@dataclass(frozen=True)
class BrokerOptions:
    """Who this broker is."""

    name: str = option(
        "broker",
        "What people call this broker in the console, in logs and in events.",
        '"eu-1"',
        within=(1, MAX_NAME_BYTES),
    )
    id: str = option(
        "",
        "Id of this broker in frames and events. Empty: a new random one at each start, which suits a broker whose "
        "events nobody joins across restarts.",
        '"6f1c7a52-5d1e-4f0b-9a55-0f6f0a3f0c11"',
        form="uuid",
    )


@dataclass(frozen=True)
class ServerOptions:
    """Where peers come in, and how the process ends."""

    listen: tuple[Listen, ...] = option(
        (Listen("tcp", "127.0.0.1", 7000), Listen("ws", "127.0.0.1", 7001)),
        "Where peers connect: tcp, tls, ws, wss with host and port (0: any free one), unix with an absolute path. "
        "Only this machine by default, because a broker without TLS asks nobody who they are.",
        '["tls://0.0.0.0:7000", "unix:///run/rsocket-broker.sock"]',
        flag="--listen",
        form="URL",
    )
    stop_grace_s: float = option(
        10.0,
        "How long requests in flight may take to end after SIGTERM or SIGINT; new ones are refused meanwhile. "
        "Below the 30 s after which most supervisors kill.",
        "25.0",
        "seconds",
        within=(0, 3600),
    )


@dataclass(frozen=True)
class TlsOptions:
    """Certificates of the tls and wss listeners."""

    certificate: str = option(
        "",
        "The broker's certificate and those between it and the root, PEM. Required by tls and wss listeners.",
        '"/etc/rsocket-broker/broker.pem"',
        form="file",
    )
    key: str = option(
        "",
        "The certificate's private key, PEM, without a password. Required by tls and wss listeners.",
        '"/etc/rsocket-broker/broker.key"',
        form="file",
    )
    client_ca: str = option(
        "",
        "Roots, PEM. When set, a client must show a certificate that one of them signed.",
        '"/etc/rsocket-broker/clients.pem"',
        form="file",
    )
    min_version: TlsVersion = option("1.2", "The oldest TLS that is spoken; 1.0 and 1.1 are broken.", '"1.3"')


@dataclass(frozen=True)
class AdminOptions:
    """REST API, metrics and console."""

    listen: Listen | None = option(
        Listen("http", "127.0.0.1", 7070),
        "Where the REST API, the metrics and the console listen; off switches them off. Only this machine by "
        "default, because whoever reaches it may steer the broker.",
        '"off"',
        flag="--admin",
        form="HOST:PORT",
    )


@dataclass(frozen=True)
class EventOptions:
    """What happened, as files."""

    dir: str = option(
        "",
        "Where event files go; made when it is not there. Empty: no event files.",
        '"/var/lib/rsocket-broker/events"',
        flag="--events",
        form="directory",
    )
    roll_s: float = option(
        1.0,
        "A file is sealed, and readers see it, when it is this old. Longer means fewer files, later seen.",
        "60.0",
        "seconds",
        within=(0.1, 3600),
    )
    flow_interval_s: float = option(
        1.0,
        "Requests are counted per caller, route and outcome for this long, then the counts are one record.",
        "10.0",
        "seconds",
        within=(0.1, 3600),
    )


@dataclass(frozen=True)
class RoutingOptions:
    """Who answers when several could."""

    chooser: Chooser = option(
        "round_robin",
        "How one of several matching routes is chosen for a unicast request that does not say it itself.",
        '"random"',
    )
    strict_hints: bool = option(
        False,
        "Whether hints (LBMethod, ShardKey, ShardMethod, StickyRouteKey) among an ADDRESS's tags must match a "
        "route's tags like any other. Off, because clients that write the one-map ADDRESS can say hints nowhere "
        "else.",
        "true",
    )
    multicast_on_leave: OnLeave = option(
        "ignore",
        "What a route that is lost in the middle of a multicast stream does to it: ignore, it counts as complete; "
        "error, the stream ends with route-lost.",
        '"error"',
    )


@dataclass(frozen=True)
class LimitOptions:
    """How much one peer, and all of them, may ask for. At a limit the peer or request is refused and told so."""

    setup_timeout_s: float = option(
        2.0,
        "A connection that has not sent its SETUP by then is closed: a socket that says nothing costs memory.",
        "5.0",
        "seconds",
        within=(0.1, 60),
    )
    max_connections: int = option(
        10_000,
        "Connections at one time, over all listeners; one more is closed at once. Each needs a file descriptor "
        "(ulimit -n).",
        "50000",
        "connections",
        within=(1, 1_000_000),
    )
    max_frame_bytes: int = option(
        16_777_215,
        "Longest frame that a peer may send; a longer one closes its connection. The default is the longest that "
        "RSocket can say.",
        "1048576",
        "bytes",
        within=(64, 16_777_215),
    )
    max_metadata_bytes: int = option(
        262_144,
        "How much of a fragmented request's metadata is gathered until its ADDRESS is whole; a request that needs "
        "more is refused. Fragments after the ADDRESS are passed on, not gathered.",
        "65536",
        "bytes",
        within=(64, 16_777_215),
    )
    max_streams_per_connection: int = option(
        10_000,
        "Requests in flight that one connection may have begun; one more is refused with over-limit.",
        "1000",
        "requests",
        within=(1, 1_000_000),
    )
    max_tags_per_route: int = option(
        64,
        "Tags of one ROUTE_SETUP; one more refuses the route. Bounds what a client can put into the index.",
        "16",
        "tags",
        within=(1, 128),
    )
    max_pending_bytes: int = option(
        8_388_608,
        "Bytes that may wait for one connection that reads too slowly; beyond it the connection is closed with "
        "slow-peer, so that it cannot fill the broker's memory.",
        "67108864",
        "bytes",
        within=(65_536, 1_073_741_824),
    )
    stuck_s: float = option(
        10.0,
        "Time in which a connection that has bytes waiting must take some of them; else it is closed with slow-peer. "
        "Callers that send it requests wait that long at most.",
        "30.0",
        "seconds",
        within=(0.1, 3600),
    )
    multicast_prefetch_n: int = option(
        32,
        "Items that a multicast stream asks of each route ahead of the caller: a route answers while another is "
        "waited for.",
        "128",
        "items",
        within=(1, 65_536),
    )
    multicast_buffer_bytes: int = option(
        16_777_216,
        "Bytes of items, fetched and not yet asked for, that one multicast stream may hold.",
        "4194304",
        "bytes",
        within=(65_536, 1_073_741_824),
    )
    max_lookup_cache: int = option(
        16_384,
        "Addresses whose matching routes are remembered until the routing table changes. More addresses are still "
        "answered, by one AND over the index each. 0 remembers none.",
        "65536",
        "addresses",
        within=(0, 1_048_576),
    )


@dataclass(frozen=True)
class LogOptions:
    """What the process says on standard error."""

    level: LogLevel = option(
        "info",
        "The least important lines that are written. info has one line when a peer comes and one when it goes, "
        "none per request.",
        '"warning"',
    )
    format: LogFormat = option("text", "text for people, json (one object a line) for collectors.", '"json"')


@dataclass(frozen=True)
class Config:
    """All options; `Config()` holds the defaults. Values are checked by `load`, not here."""

    broker: BrokerOptions = field(default_factory=BrokerOptions)
    server: ServerOptions = field(default_factory=ServerOptions)
    tls: TlsOptions = field(default_factory=TlsOptions)
    admin: AdminOptions = field(default_factory=AdminOptions)
    events: EventOptions = field(default_factory=EventOptions)
    routing: RoutingOptions = field(default_factory=RoutingOptions)
    limits: LimitOptions = field(default_factory=LimitOptions)
    log: LogOptions = field(default_factory=LogOptions)


@dataclass(frozen=True)
class OptionDoc:
    """One option as it is declared above, for `docs/configuration.md` and `rsocket-broker check --options`."""

    section: str
    key: str
    hint: Any  # the field's type
    default: object
    option: Option

    @property
    def name(self) -> str:
        """`server.listen`."""
        return f"{self.section}.{self.key}"

    @property
    def variable(self) -> str:
        """`RSB_SERVER__LISTEN`."""
        return f"{VARIABLE_PREFIX}{self.section}__{self.key}".upper()

    @property
    def default_text(self) -> str:
        """The default as TOML."""
        if isinstance(self.default, tuple):
            return _toml([str(item) for item in self.default])
        return _toml(self.default.address if isinstance(self.default, Listen) else self.default)

    @property
    def words(self) -> tuple[str, ...]:
        """The words that it may be; empty when it is not one of a few words."""
        return get_args(self.hint) if get_origin(self.hint) is Literal else ()

    @property
    def takes(self) -> str:
        """What values it takes, so that "must be …" makes a sentence: `a whole number from 1 to 128`."""
        low, high = (f"{end:.15g}" for end in self.option.within)
        if self.words:
            return _either([_toml(word) for word in self.words])
        if self.hint is bool:
            return "true or false"
        if self.hint in (int, float):
            return f"a {'whole ' if self.hint is int else ''}number from {low} to {high}"
        forms = {
            "": f"printable text of {low} to {high} bytes",
            "uuid": "a uuid or empty",
            "file": "the path of a file or empty",
            "directory": "the path of a directory or empty",
            "HOST:PORT": 'HOST:PORT or "off"',
            "URL": "a list of one or more URLs",
        }
        return forms[self.option.form]


def describe() -> list[OptionDoc]:
    """Every option, section by section, in the order of the classes above."""
    return list(_OPTIONS.values())


def load(path: str | None, environ: Mapping[str, str], flags: Mapping[str, object]) -> Config:
    """The configuration of these sources; ConfigErrors with every mistake of all of them.

    `path` None: no file. `environ` may hold anything; names that begin with RSB_ are ours. `flags` are keyed
    "section.key", their values are texts as in the environment, or of the TOML type.
    """
    found = _Findings()
    if path is not None:
        _read_file(path, found)
    _read_environment(environ, found)
    _read_flags(flags, found)
    _check_listeners(found)
    _check_tls(found)
    _check_files(found)
    if found.mistakes:
        raise ConfigErrors(found.mistakes)
    sections = {name: kind(**found.values_of(name)) for name, kind in _SECTIONS.items()}
    return Config(**sections)


def options_markdown() -> str:
    """The tables of `docs/configuration.md`; a test holds the two equal."""
    lines: list[str] = []
    for section, kind in _SECTIONS.items():
        lines += [f"### [{section}]", "", kind.__doc__ or "", ""]
        lines += ["| key | default | unit | takes | what and why | example |", "|---|---|---|---|---|---|"]
        for doc in describe():
            if doc.section == section:
                why = doc.option.why + (f" Flag: `{doc.option.flag}`." if doc.option.flag else "")
                cells = [f"`{doc.key}`", f"`{doc.default_text}`", doc.option.unit, doc.takes, why]
                lines.append(f"| {' | '.join(cells)} | `{doc.option.example}` |")
        lines.append("")
    return "\n".join(lines)


def options_toml() -> str:
    """A configuration file that holds every option at its default, with unit, reason and example beside it."""
    lines: list[str] = []
    for section, kind in _SECTIONS.items():
        lines += [f"[{section}]  # {kind.__doc__}", ""]
        for doc in describe():
            if doc.section == section:
                lines += textwrap.wrap(doc.option.why, 110, initial_indent="# ", subsequent_indent="# ")
                unit = f" ({doc.option.unit})" if doc.option.unit else ""
                lines += [f"# {doc.takes}{unit}; example: {doc.option.example}; {doc.variable}"]
                lines += [f"{doc.key} = {doc.default_text}", ""]
    return "\n".join(lines)


class _Source:
    """Where values come from: its name in mistakes, and how it calls an option and finds its line."""

    def __init__(self, name: str, lines: "_TomlLines | None" = None) -> None:
        self.name: Final = name
        self.lines: Final = lines  # None for everything but a file

    def mistake(self, key: str, text: str, shown: str = "", needle: str = "") -> Mistake:
        """A mistake in option `key`, which people call `shown` here; `needle` is the list's element that is wrong."""
        return Mistake(self.name, self.lines.find(key, needle) if self.lines else 0, shown or key, text)


class _Findings:
    """What the sources say so far; each source that is read overrides the ones before it."""

    def __init__(self) -> None:
        nowhere = _Source("defaults")
        self.values: Final = {name: doc.default for name, doc in _OPTIONS.items()}
        self.sources: Final = dict.fromkeys(_OPTIONS, (nowhere, ""))  # name -> source of the value, name there
        self.wrong: Final[set[str]] = set()  # options that have a mistake: nothing follows from their values
        self.mistakes: Final[list[Mistake]] = []

    def take(self, doc: OptionDoc, raw: object, source: _Source, shown: str) -> None:
        """Read one value, or note what is wrong with it."""
        try:
            self.values[doc.name] = _read_list(raw) if doc.option.form == "URL" else _read_value(doc, raw)
            self.sources[doc.name] = (source, shown)
            return
        except _WrongItems as wrong:
            texts = wrong.texts
        except BrokerError as error:
            texts = [(error.text, "")]
        self.wrong.add(doc.name)
        self.mistakes.extend(source.mistake(doc.name, text, shown, needle) for text, needle in texts)

    def blame(self, name: str, text: str, needle: str = "") -> None:
        """Note a mistake in the source that gave `name` its value."""
        source, shown = self.sources[name]
        self.mistakes.append(source.mistake(name, text, shown, needle))

    def values_of(self, section: str) -> dict[str, Any]:
        """Values of one section, by key."""
        return {doc.key: self.values[doc.name] for doc in _OPTIONS.values() if doc.section == section}


class _WrongItems(Exception):
    """Items of a list are wrong: a text for each, and the item."""

    def __init__(self, texts: list[tuple[str, str]]) -> None:
        super().__init__(texts)
        self.texts: Final = texts


class _TomlLines:
    """Which lines of a TOML text hold which key: tomllib does not tell.

    A scan for headers and keys that knows strings, comments and brackets only well enough to step over values; the
    text is known to be TOML. Keys within an inline table have the line of the table.
    """

    _KEY: Final = r"(?:[A-Za-z0-9_-]+|\"[^\"\n]*\"|'[^'\n]*')"
    _PATH: Final = rf"{_KEY}(?:[ \t]*\.[ \t]*{_KEY})*"
    _HEADER: Final = re.compile(rf"[ \t]*\[\[?[ \t]*({_PATH})[ \t]*\]")
    _ASSIGNMENT: Final = re.compile(rf"[ \t]*({_PATH})[ \t]*=")
    _PIECE: Final = re.compile(
        r'"""(?:\\.|[^\\])*?"{3,5}|' + r"'''.*?'{3,5}|" + r'"(?:\\.|[^"\\\n])*"|' + r"'[^'\n]*'|#[^\n]*|.", re.DOTALL
    )

    def __init__(self, text: str) -> None:
        self._text: Final = text
        # dotted key -> where it begins, and where its value ends; of a section, its header
        self._spans: Final[dict[str, tuple[int, int]]] = {}
        at, section = 0, ""
        while at < len(text):
            header = self._HEADER.match(text, at)
            assignment = self._ASSIGNMENT.match(text, at)
            end = self._end_of_line(assignment.end() if assignment else at)
            if header:
                section = self._dotted(header.group(1)) + "."
                self._spans.setdefault(section[:-1], (header.start(1), end))
            elif assignment:
                name = section + self._dotted(assignment.group(1))
                while name:  # `server.listen = …` is where `server` begins, too
                    self._spans.setdefault(name, (assignment.start(1), end))
                    name = name.rpartition(".")[0]
            at = end

    def find(self, name: str, needle: str = "") -> int:
        """Line of this dotted key, or of what holds it; with a `needle`, the line in its value that quotes that."""
        while name and name not in self._spans:
            name, needle = name.rpartition(".")[0], ""
        if not name:
            return 0
        start, end = self._spans[name]
        hits = [self._text.rfind(quote + needle + quote, start, end) for quote in "\"'"] if needle else []
        return self._text.count("\n", 0, max([start, *hits])) + 1

    def _end_of_line(self, at: int) -> int:
        """Where the line ends that `at` is in, with the lines over which its value goes on."""
        depth = 0
        while at < len(self._text):
            piece = self._PIECE.match(self._text, at)
            assert piece  # its last alternative is any character
            at = piece.end()
            depth += {"[": 1, "{": 1, "]": -1, "}": -1}.get(piece.group(), 0)
            if piece.group() == "\n" and depth <= 0:
                break
        return at

    @classmethod
    def _dotted(cls, path: str) -> str:
        """`"server" . listen` without quotes and blanks."""
        return ".".join(key.strip("\"'") for key in re.findall(cls._KEY, path))


def _read_file(path: str, found: _Findings) -> None:
    try:
        text = Path(path).read_text(encoding="utf-8")
    except OSError as error:
        found.mistakes.append(Mistake(path, 0, "", f"cannot be read: {error.strerror}"))
        return
    except UnicodeDecodeError as error:
        found.mistakes.append(Mistake(path, 0, "", f"is no UTF-8 at byte {error.start}"))
        return
    try:
        document = tomllib.loads(text)
    except (ValueError, RecursionError) as error:  # the others: a number of 5000 digits, 500 open brackets
        found.mistakes.append(_syntax_mistake(path, text, str(error)))
        return
    source = _Source(path, _TomlLines(text))
    for section, content in document.items():
        if section not in _SECTIONS:
            hint = _near(section, list(_SECTIONS)) if isinstance(content, dict) else _near_option("", section)
            what = "section" if isinstance(content, dict) else "option outside a section"
            found.mistakes.append(source.mistake(section, f"there is no such {what}{hint}"))
        elif not isinstance(content, dict):
            found.mistakes.append(source.mistake(section, f"must be a section, not {_shown(content)}"))
        else:
            for key, raw in content.items():
                doc = _OPTIONS.get(f"{section}.{key}")
                if doc is None:
                    wrong = f"there is no such option{_near_option(section, key)}"
                    found.mistakes.append(source.mistake(f"{section}.{key}", wrong))
                else:
                    found.take(doc, raw, source, doc.name)
    found.mistakes.sort(key=lambda mistake: mistake.line)


def _syntax_mistake(path: str, text: str, error: str) -> Mistake:
    """What tomllib says, with the line that it speaks of."""
    place = re.search(r" \(at line (\d+), column (\d+)\)$", error)
    lines = text.rstrip("\n").split("\n")
    line = int(place.group(1)) if place else len(lines)
    said = error[: place.start()] if place else error.removesuffix(" (at end of document)")
    shown = lines[line - 1].strip() if line <= len(lines) else ""
    return Mistake(path, line, "", f"no TOML: {said}: {_shown(shown)}")


def _read_environment(environ: Mapping[str, str], found: _Findings) -> None:
    source = _Source("environment")
    known = {doc.variable: doc for doc in _OPTIONS.values()}
    for variable in sorted(environ):
        if variable in known:
            doc = known[variable]
            found.take(doc, _from_text(doc, environ[variable]), source, variable)
        elif variable.startswith(VARIABLE_PREFIX):
            rest = variable.removeprefix(VARIABLE_PREFIX)
            same = [name for name in known if name.endswith(f"__{rest}")]  # its section was forgotten
            hint = (
                f"; did you mean {_either(same)}?" if same else _near(variable, list(known), 0.8)
            )  # they share a prefix
            found.mistakes.append(Mistake(source.name, 0, variable, f"there is no such option{hint}"))


def _read_flags(flags: Mapping[str, object], found: _Findings) -> None:
    source = _Source("command line")
    for name, raw in flags.items():
        doc = _OPTIONS.get(name)
        if doc is None:
            found.mistakes.append(
                Mistake(source.name, 0, name, f"there is no such option{_near(name, list(_OPTIONS), 0.8)}")
            )
        elif raw is not None and raw != ():
            value = _from_text(doc, raw) if isinstance(raw, str) else raw
            found.take(doc, value, source, doc.option.flag or doc.name)


def _check_listeners(found: _Findings) -> None:
    """No two listeners may want one address; a free port (0) is never the same twice."""
    if found.wrong & {"server.listen", "admin.listen"}:
        return  # nothing follows from what is wrong already
    listeners, admin = found.values["server.listen"], found.values["admin.listen"]
    assert isinstance(listeners, tuple)  # what _read_list gives
    taken: dict[str, Listen] = {}
    for listen in listeners:
        if listen.address in taken:
            text = f"{_shown(str(listen))} wants the address of {_shown(str(taken[listen.address]))}"
            found.blame("server.listen", text, str(listen))
        elif listen.port or listen.scheme == "unix":
            taken[listen.address] = listen
    if isinstance(admin, Listen) and admin.address in taken:
        listen = taken[admin.address]
        is_default = admin == _OPTIONS["admin.listen"].default  # then it is the other one that somebody wrote
        text = f"{_shown(str(listen))} wants the address of admin.listen, {_shown(admin.address)}"
        found.blame("server.listen" if is_default else "admin.listen", text, str(listen))


def _check_tls(found: _Findings) -> None:
    """A TLS listener needs a certificate and its key; the listener's line is where one looks for the reason."""
    listeners = found.values["server.listen"]
    assert isinstance(listeners, tuple)  # what _read_list gives
    if "server.listen" in found.wrong:
        return
    encrypted = [listen for listen in listeners if listen.is_tls]
    for name in ("tls.certificate", "tls.key"):
        if encrypted and name not in found.wrong and not found.values[name]:
            text = f"is required by the listener {_shown(str(encrypted[0]))}"
            source, _ = found.sources["server.listen"]
            found.mistakes.append(source.mistake("server.listen", text, name, str(encrypted[0])))


def _check_files(found: _Findings) -> None:
    """Files that are read must be there; a directory that is written may be missing, but must not be a file."""
    for doc in _OPTIONS.values():
        path = found.values[doc.name]
        if doc.option.form not in ("file", "directory") or not isinstance(path, str) or not path:
            continue
        try:
            if doc.option.form == "file":
                Path(path).open("rb").close()
            elif Path(path).exists() and not Path(path).is_dir():
                found.blame(doc.name, f"{_shown(path)} is no directory")
        except OSError as error:
            found.blame(doc.name, f"{_shown(path)} cannot be read: {error.strerror}")


def _read_value(doc: OptionDoc, raw: object) -> object:
    """The option's value, from TOML's; BrokerError "bad-config" when it is none."""
    low, high = doc.option.within
    if doc.words:
        fits = raw in doc.words
    elif doc.hint is bool or isinstance(raw, bool):
        fits = doc.hint is bool and isinstance(raw, bool)
    elif doc.hint in (int, float):
        fits = isinstance(raw, int if doc.hint is int else int | float) and low <= raw <= high
    else:
        fits = isinstance(raw, str) and raw.isprintable() and low <= len(raw.encode()) <= high
    if fits and doc.option.form == "HOST:PORT":
        return None if raw == "off" else _host_port(str(raw))
    try:
        if fits and doc.option.form == "uuid" and raw:
            return id_text(parse_id(str(raw)))
    except BrokerError:  # what it says is for bytes on the wire
        fits = False
    if not fits:
        raise _bad(f"must be {doc.takes}, not {_shown(raw)}")
    return float(raw) if doc.hint is float and isinstance(raw, int) else raw


def _read_list(raw: object) -> tuple[Listen, ...]:
    """The listeners, from TOML's list; BrokerError "bad-config", or _WrongItems with all that are no listener."""
    if not isinstance(raw, list | tuple) or not raw:
        raise _bad(f"must be a list of one or more URLs, not {_shown(raw)}")
    urls: list[Listen] = []
    texts: list[tuple[str, str]] = []
    for item in raw:
        try:
            if not isinstance(item, str):
                raise _bad(f"{_shown(item)} is no URL of {_either(LISTEN_SCHEMES)}")
            urls.append(Listen.parse(item))
        except BrokerError as error:
            texts.append((error.text, str(item)))
    if texts:
        raise _WrongItems(texts)
    return tuple(urls)


def _from_text(doc: OptionDoc, text: str) -> object:
    """As TOML would have read it; a text that is not of the option's type stays a text, and is then told so."""
    if doc.hint is bool:
        return {"true": True, "false": False}.get(text, text)
    if doc.hint is int and re.fullmatch(r"[+-]?[0-9]{1,30}", text):
        return int(text)
    if doc.hint is float and re.fullmatch(r"[+-]?[0-9]{1,30}(\.[0-9]+)?", text):
        return float(text)
    return [item.strip() for item in text.split(",")] if doc.option.form == "URL" else text


def _split(text: str) -> SplitResult | None:
    """The URL's parts; None when it is none, which urlsplit says of brackets only."""
    if not text.isprintable() or " " in text:  # urlsplit would drop some such characters silently
        return None
    try:
        return urlsplit(text)
    except ValueError:
        return None


def _unix_listen(text: str, parts: SplitResult) -> Listen:
    if parts.netloc or not parts.path.startswith("/") or parts.path == "/":
        raise _bad(f"{_shown(text)} names no absolute path; write unix:///run/broker.sock")
    size = len(parts.path.encode())
    if size > MAX_UNIX_PATH_BYTES:
        raise _bad(f"{_shown(text)} has a path of {size} bytes; a unix socket can have {MAX_UNIX_PATH_BYTES}")
    return Listen("unix", path=parts.path)


def _host_port(text: str) -> Listen:
    parts = _split(f"http://{text}")
    if parts is None or parts.netloc != text or "@" in text:
        raise _bad(f'{_shown(text)} is neither HOST:PORT nor "off"')
    return Listen("http", *_place(text, parts))


def _place(text: str, parts: SplitResult) -> tuple[str, int]:
    """Host and port of the URL; raises BrokerError."""
    try:
        port = parts.port
    except ValueError:  # no number, or beyond 65535
        raise _bad(f"{_shown(text)} has a port that is no number from 0 to 65535") from None
    if not parts.hostname:
        raise _bad(f"{_shown(text)} names no host; 0.0.0.0 or [::] listens on all")
    if port is None:
        raise _bad(f"{_shown(text)} names no port; 0 takes any free one")
    return parts.hostname, port


def _near_option(section: str, key: str) -> str:
    """As `_near`, for a key that may stand in the wrong section, or be a section."""
    if section and key in _SECTIONS:
        return f"; did you mean [{key}]?"
    elsewhere = [doc.name for doc in _OPTIONS.values() if doc.key == key]
    if elsewhere:
        return f"; did you mean {_either(elsewhere)}?"
    for same_section in (True, False):
        names = {doc.key: doc.name for doc in _OPTIONS.values() if doc.section == section or not same_section}
        near = difflib.get_close_matches(key, names, 1)
        if near:
            return f"; did you mean {names[near[0]]}?"
    return _NOT_NEAR


def _near(name: str, known: list[str], cutoff: float = 0.6) -> str:
    """`; did you mean server.listen?`, or where the known ones are listed."""
    near = difflib.get_close_matches(name, known, 1, cutoff)
    return f"; did you mean {near[0]}?" if near else _NOT_NEAR


def _bad(text: str) -> BrokerError:
    return BrokerError("bad-config", text)


def _either(words: Sequence[str]) -> str:
    """`a, b or c`."""
    return f"{', '.join(words[:-1])} or {words[-1]}" if len(words) > 1 else words[0]


def _toml(value: object) -> str:
    """A value as one writes it in TOML; tables and dates as Python has them, they are in no option."""
    if value is None:
        return '"off"'
    return json.dumps(value, ensure_ascii=False, default=str)


def _shown(value: object) -> str:
    """A value in a mistake: as TOML, on one line, shortened."""
    text = _toml(value)
    return text if len(text) <= MAX_SHOWN else f"{text[: MAX_SHOWN - 1]}…"


_NOT_NEAR: Final = "; rsocket-broker check --options lists all"
_SECTIONS: Final[dict[str, Any]] = get_type_hints(Config)  # section -> its class
_OPTIONS: Final = {
    f"{section}.{each.name}": OptionDoc(section, each.name, hint, each.default, each.metadata["option"])
    for section, kind in _SECTIONS.items()
    for each, hint in zip(fields(kind), get_type_hints(kind).values(), strict=True)
}
