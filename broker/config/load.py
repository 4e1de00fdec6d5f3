"""The configuration of one broker: read from its sources, checked, and every mistake told with its place.

Four sources, the upper wins:

    flags          {"server.listen": ("tcp://0.0.0.0:7878",)}           None and () mean "not given"
    environment    RSB_SERVER__LISTEN=tcp://0.0.0.0:7878,ws://0.0.0.0:7879
    TOML file      [server] listen = ["tcp://0.0.0.0:7878"]
    default

`load` reads all four to their ends and reports every mistake together, also one that a stronger source would have
hidden. It looks at files (certificates) but opens no socket. What is no mistake and not wise either (`config_warnings`)
it tells beside the configuration. Which options there are, and what each may be, stands in `broker.config.options`.
"""

import re
import tomllib
from collections.abc import Mapping
from dataclasses import dataclass, fields
from functools import partial
from pathlib import Path
from typing import Any, Final

from broker.config import ADMIN_TOKEN_VARIABLE, ADMIN_VARIABLE, CONTEXT_VARIABLE, URL_VARIABLE
from broker.config.auth import auth_mistakes, operator_mistakes, read_routes, role_mistakes
from broker.config.certificates import CERTIFICATE, fault_of_pair, fault_of_roots, read_revoked
from broker.config.cluster import cluster_mistakes
from broker.config.extras import INSTALLS, lack_of_events
from broker.config.hosts import read_name, read_origin
from broker.config.option import MAX_NAME_BYTES
from broker.config.options import (
    OPTIONS,
    SECTIONS,
    TABLES,
    VARIABLE_PREFIX,
    WORDS_OF,
    Config,
    OptionDoc,
    Tables,
    is_chooser,
    one_of_requests,
)
from broker.config.principal import read_principal, split_list
from broker.config.quantities import SIZE, TIME, find_size_bytes, find_time_s
from broker.config.sections.admin_checks import admin_mistakes
from broker.config.sections.feed_checks import feed_mistakes
from broker.config.sections.files import MADE_BY, check_path, file_mistakes, why_unread
from broker.config.sections.meant import meant_items, meant_value
from broker.config.sections.near import near_name, near_option, near_section, near_table_key, near_variable, near_word
from broker.config.sections.samwise_checks import Endpoint, samwise_mistakes
from broker.config.toml import TomlLines, either, shown_value, syntax_mistake, toml_key, toml_text
from broker.config.urls import DIAL_SCHEMES, Listen, PeerUrl
from broker.config.warnings import config_warnings
from rsocket_wire.errors import BrokerError
from rsocket_wire.ports import SCHEMES
from rsocket_wire.wire.ids import id_text, parse_id

CA_KEYS: Final = ("client_ca", "ca")  # of options that name a file with certificates that sign others
DEFAULTS: Final = "defaults"
VARIABLES_OF_COMMANDS: Final = (ADMIN_TOKEN_VARIABLE, URL_VARIABLE, ADMIN_VARIABLE, CONTEXT_VARIABLE)  # no mistakes
LISTENERS: Final = ("server.listen", "cluster.listen")  # options


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
    def is_lack(self) -> bool:
        """Nothing is wrong but that parts are not installed."""
        return all(mistake.text.endswith(INSTALLS) for mistake in self.mistakes)

    @property
    def text(self) -> str:
        """The lines."""
        return str(self)


@dataclass(frozen=True)
class Loaded:
    """A configuration without mistakes."""

    config: Config
    warnings: list[Mistake]  # what is no mistake, and not wise either


@dataclass(frozen=True)
class Sources:
    """Where the configuration of a process comes from, to be read again."""

    path: str | None  # of the file; None: there is none
    environ: Mapping[str, str]
    flags: Mapping[str, object]

    def load(self) -> Loaded:
        """See `load_all`."""
        return load_all(self.path, self.environ, self.flags)


def load(
    path: str | None,
    environ: Mapping[str, str],
    flags: Mapping[str, object],
    tables: Mapping[str, Mapping[str, object]] | None = None,
) -> Config:
    """As `load_all`, without the warnings."""
    return load_all(path, environ, flags, tables).config


def load_all(
    path: str | None,
    environ: Mapping[str, str],
    flags: Mapping[str, object],
    tables: Mapping[str, Mapping[str, object]] | None = None,
) -> Loaded:
    """The configuration of these sources; ConfigErrors with every mistake of all of them.

    `path` None: no file. `environ` may hold anything; names that begin with RSB_ are ours. `flags` are keyed
    "section.key", their values are texts as in the environment, or of the TOML type. `tables` are those of a command
    line that is about one of them: by their place, then by name, with what stands in them.
    """
    found = _Findings()
    if path is not None:
        _read_file(path, found)
    _read_environment(environ, found)
    _read_flags(flags, found)
    for place, named in (tables or {}).items():
        for name, content in named.items():
            found.take_table(TABLES[place], name, _from_texts(TABLES[place], content), _Source("command line"))
    _check_listeners(found)
    _check_reach(found)
    _check_tls(found)
    _check_files(found)
    _check_certificates(found)
    _check_extras(found)
    for own_mistakes in (cluster_mistakes, auth_mistakes, admin_mistakes, operator_mistakes):
        for name, text, needle in own_mistakes(found.values, found.wrong):
            found.blame(name, text, needle)
    for mistakes in (role_mistakes, samwise_mistakes, feed_mistakes):
        for name, text, needle in mistakes(found.values, found.tables, found.wrong):
            found.blame(name, text, needle)
    if found.mistakes:
        raise ConfigErrors(found.mistakes)
    config = found.made(Config, "")
    assert isinstance(config, Config)
    secrets_file = path or "" if found.sources["cluster.secret"][0].lines else ""
    warnings = [found.mistake(*warning) for warning in config_warnings(config, secrets_file, path or "")]
    return Loaded(config, warnings)


class _Source:
    """Where values come from: its name in mistakes, and how it calls an option and finds its line."""

    def __init__(self, name: str, lines: TomlLines | None = None) -> None:
        self.name: Final = name
        self.lines: Final = lines  # None for everything but a file

    def mistake(self, key: str, text: str, shown: str = "", needle: str = "") -> Mistake:
        """A mistake in option `key`, which people call `shown` here; `needle` is the list's element that is wrong."""
        return Mistake(self.name, self.lines.find(key, needle) if self.lines else 0, shown or key, text)


class _Findings:
    """What the sources say so far; each source that is read overrides the ones before it."""

    def __init__(self) -> None:
        nowhere = _Source(DEFAULTS)
        self.values: Final = {name: doc.default for name, doc in OPTIONS.items()}
        self.sources: Final = dict.fromkeys(OPTIONS, (nowhere, ""))  # name -> source of the value, name there
        self.wrong: Final[set[str]] = set()  # options that have a mistake: nothing follows from their values
        self.mistakes: list[Mistake] = []
        # What the tables say, by their place, then by name.
        self.tables: Final[dict[str, dict[str, dict[str, object]]]] = {place: {} for place in TABLES}

    def take(self, doc: OptionDoc, raw: object, source: _Source, shown: str) -> None:
        """Read one value, or note what is wrong with it."""
        try:
            self.values[doc.name] = _read_list(doc, raw) if doc.is_list else _read_value(doc, raw)
            self.sources[doc.name] = (source, shown)
            return
        except _WrongItems as wrong:
            texts = wrong.texts
        except BrokerError as error:
            texts = [(error.text, "")]
        self.wrong.add(doc.name)
        self.mistakes.extend(source.mistake(doc.name, text, shown, needle) for text, needle in texts)

    def take_table(self, tables: Tables, name: str, content: object, source: _Source) -> None:
        """Read one table of those, or note all that is wrong with it."""
        place, shown = f"{tables.place}.{name}", f"{tables.place}.{toml_key(name)}"
        if not isinstance(content, dict):
            text = f"must be a table [{tables.place}.NAME] of one {tables.what}, not {shown_value(content)}"
            self.mistakes.append(source.mistake(place, text, shown))
            return
        if not name.isprintable() or not 1 <= len(name.encode()) <= MAX_NAME_BYTES:
            text = f"the name of {_a(tables.what)} must be printable text of 1 to {MAX_NAME_BYTES} bytes"
            self.mistakes.append(source.mistake(place, text, shown))
        self.sources[place] = source, shown
        values = self.tables[tables.place].setdefault(name, {})
        for key, raw in content.items():
            doc = tables.keys.get(key)
            try:
                if doc is None:
                    near = near_table_key(tables, key)
                    if isinstance(raw, dict):  # a name with a dot
                        near = f"; write [{tables.place}.{toml_key(f'{name}.{key}')}] for one of that name"
                    raise BrokerError("bad-config", f"unknown option of {_a(tables.what)}{near}")
                self.sources[f"{place}.{key}"] = source, f"{shown}.{key}"
                values[key] = _read_list(doc, raw) if doc.is_list else _read_value(doc, raw)
            except _WrongItems as wrong:
                for text, needle in wrong.texts:
                    self.mistakes.append(source.mistake(f"{place}.{key}", text, f"{shown}.{key}", needle))
            except BrokerError as error:
                self.mistakes.append(source.mistake(f"{place}.{key}", error.text, f"{shown}.{key}"))

    def blame(self, name: str, text: str, needle: str = "") -> None:
        """Note a mistake in the source that gave `name` its value."""
        self.mistakes.append(self.mistake(name, text, needle))

    def mistake(self, name: str, text: str, needle: str = "") -> Mistake:
        """One in the source that gave `name` its value."""
        source, shown = self.sources[name]
        return source.mistake(name, text, shown, needle)

    def all_values(self) -> list[tuple[str, OptionDoc, object]]:
        """Of all options, and of those in tables: by which name, which option, and the value."""
        values = [(name, OPTIONS[name], value) for name, value in self.values.items()]
        for tables in TABLES.values():
            for name, own in self.tables[tables.place].items():
                values += [(f"{tables.place}.{name}.{key}", tables.keys[key], value) for key, value in own.items()]
        return values

    def made(self, kind: Any, prefix: str) -> object:
        """The values of a section as its class has them, with those of the sections and tables within it."""
        values: dict[str, Any] = {}
        for each in fields(kind):
            name = prefix + each.name
            if name in TABLES:
                make = TABLES[name].kind
                values[each.name] = {key: make(**own) for key, own in self.tables[name].items()}
            elif name in SECTIONS:
                values[each.name] = self.made(SECTIONS[name], f"{name}.")
            else:
                values[each.name] = self.values[name]
        return kind(**values)


class _WrongItems(Exception):
    """Items of a list are wrong: a text for each, and the item."""

    def __init__(self, texts: list[tuple[str, str]]) -> None:
        super().__init__(texts)
        self.texts: Final = texts


def _read_file(path: str, found: _Findings) -> None:
    try:
        text = Path(path).read_text(encoding="utf-8-sig")  # editors of Windows begin with a mark
    except OSError as error:
        example = "; rsocket-broker check --options prints one" if isinstance(error, FileNotFoundError) else ""
        found.mistakes.append(Mistake(path, 0, "", f"{why_unread(path, error)}{example}"))
        return
    except UnicodeDecodeError as error:
        found.mistakes.append(Mistake(path, 0, "", f"is not UTF-8 at byte {error.start}; save it as UTF-8"))
        return
    try:
        document = tomllib.loads(text)
    except (ValueError, RecursionError) as error:  # the others: a number of 5000 digits, 500 open brackets
        # The line that is quoted may be the value of a secret.
        is_quoted = not re.search(r"\b(secret|password)\b", text)
        line, wrong = syntax_mistake(text, str(error), TABLES, is_quoted)
        found.mistakes.append(Mistake(path, line, "", wrong))
        return
    source = _Source(path, TomlLines(text))
    for section, content in document.items():
        if section in SECTIONS or section in TABLES:
            _read_section(section, content, source, found)
        else:
            known = [name for name in (*SECTIONS, *TABLES) if "." not in name]
            hint = near_section(section, known) if isinstance(content, dict) else near_option("", section)
            what = "section" if isinstance(content, dict) else "option outside a section"
            found.mistakes.append(source.mistake(section, f"unknown {what}{hint}"))
    found.mistakes.sort(key=lambda mistake: mistake.line)


def _read_section(section: str, content: object, source: _Source, found: _Findings) -> None:
    """A section with those within it, or the tables of one kind."""
    if not isinstance(content, dict):
        is_several = isinstance(content, list) and section in SECTIONS
        hint = f"; write [{section}], with one pair of brackets" if is_several else ""
        found.mistakes.append(source.mistake(section, f"must be a section, not {shown_value(content)}{hint}"))
    elif section in TABLES:
        tables = TABLES[section]
        if len(content) > tables.max_n:
            text = f"{len(content)} {_many(tables.what)} have tables of their own, the limit is {tables.max_n}"
            found.mistakes.append(source.mistake(section, text))
        for name, table in content.items():
            found.take_table(tables, name, table, source)
    else:
        for key, raw in content.items():
            name = f"{section}.{key}"
            if name in SECTIONS or name in TABLES:
                _read_section(name, raw, source, found)
            elif name in OPTIONS:
                found.take(OPTIONS[name], raw, source, name)
            else:
                found.mistakes.append(source.mistake(name, f"unknown option{near_option(section, key)}"))


def _read_environment(environ: Mapping[str, str], found: _Findings) -> None:
    source = _Source("environment")
    known = {doc.variable: doc for doc in OPTIONS.values()}
    for variable in sorted(environ):
        if variable in known:
            doc = known[variable]
            found.take(doc, _from_text(doc, environ[variable]), source, variable)
            if doc.name in found.wrong and (meant := _meant_list(doc, environ[variable])):
                text = f"{shown_value(environ[variable])} is no list with commas; write {','.join(meant)}"
                found.mistakes = [each for each in found.mistakes if each.key != variable]
                found.mistakes.append(Mistake(source.name, 0, variable, text))
        elif variable.upper() in known:
            found.mistakes.append(Mistake(source.name, 0, variable, f"unknown option; write {variable.upper()}"))
        elif tables := next((each for each in TABLES.values() if variable.startswith(_prefix_of(each))), None):
            text = f"{_many(tables.what)} have no variables, only tables [{tables.place}.NAME] in the file"
            found.mistakes.append(Mistake(source.name, 0, variable, text))
        elif variable.startswith(VARIABLE_PREFIX) and variable not in VARIABLES_OF_COMMANDS:
            rest = variable.removeprefix(VARIABLE_PREFIX)
            # Its section was forgotten, or its end.
            is_begun = rest.partition("__")[2] != ""
            same = [name for name in known if name.endswith(f"__{rest}") or (is_begun and name.startswith(variable))]
            near = near_variable(rest) or near_name(variable, list(known), 0.8)  # they share a prefix
            hint = f"; did you mean {either(same)}?" if same and rest.lower() not in SECTIONS else near
            found.mistakes.append(Mistake(source.name, 0, variable, f"unknown option{hint}"))


def _read_flags(flags: Mapping[str, object], found: _Findings) -> None:
    source = _Source("command line")
    for name, raw in flags.items():
        doc = OPTIONS.get(name)
        if doc is None:
            found.mistakes.append(Mistake(source.name, 0, name, f"unknown option{near_name(name, list(OPTIONS), 0.8)}"))
        elif raw is not None and raw != ():
            value = _from_text(doc, raw) if isinstance(raw, str) else raw
            found.take(doc, value, source, doc.option.flag or doc.name)


def _check_listeners(found: _Findings) -> None:
    """No two listeners may want one address; a free port (0) is never the same twice."""
    if found.wrong & {*LISTENERS, "admin.listen"}:
        return  # nothing follows from what is wrong already
    admin = found.values["admin.listen"]
    taken: list[Listen] = []
    for name, listen in _listeners_of(found):
        other = _rival(listen, taken)
        if other is not None:
            text = f"{shown_value(str(listen))} has the same address as {shown_value(str(other))}"
            found.blame(name, text, str(listen))
        else:
            taken.append(listen)
    other = _rival(admin, taken) if isinstance(admin, Listen) else None
    if isinstance(admin, Listen) and other is not None:
        if admin == OPTIONS["admin.listen"].default:  # then it is the other one that somebody wrote
            text = f"{shown_value(str(other))} has the same address as admin.listen, {shown_value(admin.address)}"
            found.blame("server.listen", text, str(other))
        else:
            text = f"{shown_value(admin.address)} is the address of {shown_value(str(other))} in server.listen"
            found.blame("admin.listen", text, admin.address)


def _check_reach(found: _Findings) -> None:
    """Other machines reach the listeners of clients only where somebody has said who is let in, if only: everybody."""
    listeners = found.values["server.listen"]
    assert isinstance(listeners, tuple)  # what _read_list gives
    is_said = found.sources["auth.mode"][0].name != DEFAULTS
    far = [listen for listen in listeners if not listen.is_local]
    if is_said or not far or found.wrong & {"server.listen", "auth.mode"}:
        return
    text = (
        f"{shown_value(str(far[0]))} is reachable from other machines, and nothing says who is let in: set auth.mode "
    )
    text += 'to "required" (docs/security.md), or to "off" to let in everybody (mode in [auth], or RSB_AUTH__MODE)'
    found.blame("server.listen", text, str(far[0]))


def _listeners_of(found: _Findings) -> list[tuple[str, Listen]]:
    """Each listener with its option."""
    listeners: list[tuple[str, Listen]] = []
    for name in LISTENERS:
        values = found.values[name]
        assert isinstance(values, tuple)  # what _read_list gives
        listeners += [(name, listen) for listen in values]
    return listeners


def _rival(listen: Listen, others: list[Listen]) -> Listen | None:
    """One of the others that leaves this one no place."""
    return next((other for other in others if listen.excludes(other)), None)


def _check_tls(found: _Findings) -> None:
    """A TLS listener needs a certificate and its key; the listener's line is where one looks for the reason."""
    if found.wrong & set(LISTENERS):
        return
    encrypted = [(option, listen) for option, listen in _listeners_of(found) if listen.is_tls]
    for name in ("tls.certificate", "tls.key"):
        if encrypted and name not in found.wrong and not found.values[name]:
            option, listen = encrypted[0]
            doc = OPTIONS[name]
            text = f"is required by the listener {shown_value(str(listen))}"
            text += f'; write {doc.key} = "FILE" in [tls], or {doc.variable}=FILE'
            source, _ = found.sources[option]
            found.mistakes.append(source.mistake(option, text, name, str(listen)))


def _check_files(found: _Findings) -> None:
    """Files that are read must be there; a directory that is written may be missing, but must not be a file."""
    for name, doc, path in found.all_values():
        if doc.option.form not in ("file", "directory") or not isinstance(path, str) or not path:
            continue
        try:
            if doc.option.form == "file":
                Path(path).open("rb").close()
            elif Path(path).exists() and not Path(path).is_dir():
                found.blame(name, f"{shown_value(path)} is not a directory; write the path of a folder")
        except OSError as error:
            text = f"{shown_value(path)} {why_unread(path, error, name)}"
            if doc.option.is_secret or (":" in path and name in MADE_BY):  # it may be the secret, or a password, itself
                what = f"; {MADE_BY[name]} makes its lines" if name in MADE_BY else " that holds the secret"
                text = f"the file cannot be read: {error.strerror}; write the path of a file{what}"
            found.blame(name, text)
            found.wrong.add(name)


def _check_certificates(found: _Findings) -> None:
    """Files that are read hold what they should: whoever starts a broker would hear of it only then."""
    certificate, key = str(found.values["tls.certificate"] or ""), str(found.values["tls.key"] or "")
    is_missing = any(mistake.key == "tls.key" for mistake in found.mistakes)  # and told already
    if certificate and not is_missing and not found.wrong & {"tls.certificate", "tls.key"}:
        if not key:
            source, _ = found.sources["tls.certificate"]
            text = 'is required by tls.certificate; write key = "FILE" in [tls], or RSB_TLS__KEY=FILE'
            found.mistakes.append(source.mistake("tls.certificate", text, "tls.key"))
        elif (fault := fault_of_pair(certificate, key)) is not None:
            which, text = fault
            found.blame(f"tls.{which}", f"{shown_value(certificate if which == CERTIFICATE else key)} {text}")
    for mistake in file_mistakes("tls.client_crl", found.values, found.wrong, read_revoked):
        found.blame(*mistake)
    is_listed = found.values["tls.client_crl"] and "tls.client_crl" not in found.wrong
    if is_listed and not found.values["tls.client_ca"] and "tls.client_ca" not in found.wrong:
        found.blame("tls.client_crl", "needs tls.client_ca: the authorities whose certificates are accepted")
    for name, doc, roots in found.all_values():
        if doc.key in CA_KEYS and roots and name not in found.wrong and (text := fault_of_roots(str(roots))):
            found.blame(name, f"{shown_value(roots)} {text}")


def _check_extras(found: _Findings) -> None:
    """Event files are written with parts that not every installation has: a broker would only find out at its start."""
    if found.values["events.dir"] and (text := lack_of_events()):
        found.blame("events.dir", text)


def _read_value(doc: OptionDoc, raw: object) -> object:
    """The option's value, from TOML's; BrokerError "bad-config" when it is none."""
    low, high = doc.option.within
    if isinstance(raw, str) and doc.option.form in (TIME, SIZE):
        quantity = find_time_s(raw) if doc.option.form == TIME else find_size_bytes(raw)
        raw = quantity if quantity is not None else raw
    if doc.words:
        fits = raw in doc.words
    elif doc.hint is bool or isinstance(raw, bool):
        fits = doc.hint is bool and isinstance(raw, bool)
    elif doc.hint in (int, float):
        fits = isinstance(raw, int if doc.hint is int else int | float) and low <= raw <= high
    else:
        fits = isinstance(raw, str) and raw.isprintable() and low <= len(raw.encode()) <= high
    if fits and doc.option.form in ("chooser", "requests"):
        fits = is_chooser(str(raw)) if doc.option.form == "chooser" else one_of_requests(str(raw)) >= 0
    if fits and doc.option.form in ("file", "directory"):
        check_path(str(raw))
    if fits and doc.option.form == "HOST:PORT":
        return None if raw == "off" else Listen.parse_host_port(str(raw))
    try:
        if fits and doc.option.form == "uuid" and raw:
            return id_text(parse_id(str(raw)))
    except BrokerError:  # what it says is for bytes on the wire
        fits = False
    if not fits:
        given = "" if doc.option.is_secret else f", not {shown_value(raw)}"
        raise BrokerError("bad-config", f"must be {doc.takes}{given}{meant_value(doc, raw, partial(_read_value, doc))}")
    return float(raw) if doc.hint is float and isinstance(raw, int) else raw


def _read_list(doc: OptionDoc, raw: object) -> tuple[object, ...]:
    """The values of a list, from TOML's; BrokerError "bad-config", or _WrongItems with all that are none."""
    if not isinstance(raw, list | tuple) or not (raw or doc.may_be_empty):
        meant = meant_value(doc, raw, partial(_read_item, doc.option.form))
        raise BrokerError("bad-config", f"must be {doc.takes}, not {shown_value(raw)}{meant}")
    items: list[object] = []
    texts: list[tuple[str, str]] = []
    for item in raw:
        try:
            items.append(_read_item(doc.option.form, item))
        except BrokerError as error:
            texts.append((error.text, str(item)))
    if texts:
        raise _WrongItems(texts)
    return tuple(items)


def _read_item(form: str, item: object) -> object:
    """One value of a list of this form; BrokerError "bad-config"."""
    if form in ("subject", "text"):
        if not isinstance(item, str) or not item.isprintable() or not item:
            raise BrokerError("bad-config", f"{shown_value(item)} is not printable text")
        return read_principal(item) if form == "subject" else item
    if form == "routes":
        return read_routes(item)
    if form in WORDS_OF:
        words = WORDS_OF[form]
        if item not in words:
            text = either([toml_text(word) for word in words])
            text = f"{shown_value(item)} is not {text}{near_word(str(item), words)}"
            raise BrokerError("bad-config", text)
        return item
    if form in ("URL", "dial") and isinstance(item, int) and not isinstance(item, bool):
        item = str(item)
    if form == "endpoint":
        return str(Endpoint.parse(item))
    if not isinstance(item, str):
        schemes = either(DIAL_SCHEMES if form == "dial" else SCHEMES)
        what = {"origin": "an origin", "name": "a host name"}.get(form, f"a URL of {schemes}")
        raise BrokerError("bad-config", f"{shown_value(item)} is not {what}")
    if form in ("origin", "name"):
        return read_origin(item) if form == "origin" else read_name(item)
    return PeerUrl.parse(item) if form == "dial" else Listen.parse(item)


def _from_text(doc: OptionDoc, text: str) -> object:
    """As TOML would have read it; a text that is not of the option's type stays a text, and is then told so."""
    if doc.hint is bool:
        return {"true": True, "false": False}.get(text, text)
    if doc.hint is int and re.fullmatch(r"[+-]?[0-9]{1,30}", text):
        return int(text)
    if doc.hint is float and re.fullmatch(r"[+-]?[0-9]{1,30}(\.[0-9]+)?", text):
        return float(text)
    if not doc.is_list:
        return text
    if not text.strip() and doc.may_be_empty:
        return []
    # Subjects of certificates hold commas.
    return split_list(text) if doc.option.form == "subject" else [item.strip() for item in text.split(",")]


def _meant_list(doc: OptionDoc, text: str) -> list[str]:
    """Its items where they stand in brackets or quotes, or with other signs than commas between; empty: they do not."""
    is_other = doc.is_list and doc.option.form != "subject" and re.search(r"[][\"';]|[^,\s]\s+[^,\s]", text)
    return meant_items(doc, text, partial(_read_item, doc.option.form)) if is_other else []


def _from_texts(tables: Tables, content: object) -> object:
    """A table of a command line as a file would have it."""
    assert isinstance(content, dict)  # of our own making
    return {
        key: _from_text(tables.keys[key], value) if isinstance(value, str) and key in tables.keys else value
        for key, value in content.items()
    }


def _prefix_of(tables: Tables) -> str:
    """What a variable of such a table would begin with."""
    return f"{VARIABLE_PREFIX}{tables.place.replace('.', '__')}__".upper()


def _a(what: str) -> str:
    return f"an {what}" if what[0] in "aeiou" else f"a {what}"


def _many(what: str) -> str:
    return f"{what}s"
