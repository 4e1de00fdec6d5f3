"""All options together: which there are, by name and by section, and what values each takes.

An option is declared once, as an annotated field of its section's class in `broker.config.sections`; the command line,
the environment, the TOML file, the table in `docs/configuration.md` and the output of `rsocket-broker check --options`
all come from that declaration. Options are read and checked by `broker.config.load`.
"""

from collections.abc import Iterator, Mapping
from dataclasses import dataclass, field, fields, is_dataclass
from typing import Any, Final, Literal, get_args, get_origin, get_type_hints

from broker.access.identities import KINDS
from broker.config.option import MAX_NAME_BYTES, POLICY, Option
from broker.config.quantities import SIZE, SIZES, TIME, TIMES
from broker.config.sections.auth import AuthOptions, JwtOptions, RoleOptions
from broker.config.sections.cluster import AnnotationOptions, ClusterOptions
from broker.config.sections.events import EventOptions
from broker.config.sections.feed import FeedOptions, MessageBrokerOptions, PostOptions, SubscribeOptions, WinnowOptions
from broker.config.sections.limits import LimitOptions
from broker.config.sections.process import AdminOptions, BrokerOptions, LogOptions, ServerOptions, TlsOptions
from broker.config.sections.routing import ProtectionOptions, RoutingOptions
from broker.config.sections.samwise import ExchangeOptions, RabbitmqOptions, SamwiseOptions
from broker.config.toml import either, toml_text
from broker.config.urls import Listen
from rsocket_wire.methods import CHOOSERS, WRAPPERS

VARIABLE_PREFIX: Final = "RSB_"
MAX_SERVICES: Final = 1000  # tables [service.NAME]: a file that people still read
MAX_RABBITMQ: Final = 100  # tables [samwise.rabbitmq.NAME]: each is a connection
MAX_EXCHANGES: Final = 1000  # tables [samwise.exchange.NAME]
MAX_MESSAGE_BROKERS: Final = 100  # tables [feed.broker.NAME]: each is a connection
MAX_POSTED: Final = 100  # tables [feed.post.NAME]: each is a folder that is looked at
MAX_ROLES: Final = 1000  # tables [role.NAME]
MAX_MIRRORS: Final = 100  # tables [feed.subscribe.NAME], and [feed.winnow.NAME]
CONTROLS: Final = ("status", "stop", "restart")
WORDS_OF: Final = {"control": CONTROLS, "identity": KINDS}  # what items of a list of this form may be
POLICY_SECTIONS: Final = ("routing", "protection")
UNITS: Final = {"_s": "seconds", "_bytes": "bytes", "_percent": "percent"}  # of options whose names end so
MAX_ONE_OF: Final = 1_000_000  # requests, of which one is written


@dataclass(frozen=True)
class Config:
    """All options; `Config()` holds the defaults. Values are checked by `load`, not here.

    `service` holds only what the tables of services say; the rest of a service's options are those of all.
    """

    broker: BrokerOptions = field(default_factory=BrokerOptions)
    server: ServerOptions = field(default_factory=ServerOptions)
    tls: TlsOptions = field(default_factory=TlsOptions)
    auth: AuthOptions = field(default_factory=AuthOptions)
    jwt: JwtOptions = field(default_factory=JwtOptions)
    admin: AdminOptions = field(default_factory=AdminOptions)
    events: EventOptions = field(default_factory=EventOptions)
    routing: RoutingOptions = field(default_factory=RoutingOptions)
    protection: ProtectionOptions = field(default_factory=ProtectionOptions)
    limits: LimitOptions = field(default_factory=LimitOptions)
    cluster: ClusterOptions = field(default_factory=ClusterOptions)
    annotations: AnnotationOptions = field(default_factory=AnnotationOptions)
    log: LogOptions = field(default_factory=LogOptions)
    samwise: SamwiseOptions = field(default_factory=SamwiseOptions)
    feed: FeedOptions = field(default_factory=FeedOptions)
    role: Mapping[str, RoleOptions] = field(default_factory=dict)  # by name, in their order
    service: Mapping[str, Mapping[str, object]] = field(default_factory=dict)  # by name, then by key


@dataclass(frozen=True)
class OptionDoc:
    """One option as it is declared, for `docs/configuration.md` and `rsocket-broker check --options`."""

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
    def unit(self) -> str:
        """`seconds`; empty when there is none."""
        by_name = [unit for suffix, unit in UNITS.items() if self.key.endswith(suffix)]
        return self.option.unit or (by_name[0] if by_name else "")

    @property
    def variable(self) -> str:
        """`RSB_SERVER__LISTEN`, `RSB_SAMWISE__RETRY__TRIES`."""
        return f"{VARIABLE_PREFIX}{self.name.replace('.', '__')}".upper()

    @property
    def default_text(self) -> str:
        """The default as TOML."""
        if isinstance(self.default, tuple):
            return toml_text([str(item) for item in self.default])
        return toml_text(self.default.address if isinstance(self.default, Listen) else self.default)

    @property
    def is_list(self) -> bool:
        """It has several values; the form is that of each."""
        return isinstance(self.default, tuple)

    @property
    def may_be_empty(self) -> bool:
        """It is a list that may have no value."""
        return self.default == ()

    @property
    def words(self) -> tuple[str, ...]:
        """The words that it may be; empty when it is not one of a few words."""
        return get_args(self.hint) if get_origin(self.hint) is Literal else ()

    @property
    def takes(self) -> str:
        """What values it takes, so that "must be …" makes a sentence: `a whole number from 1 to 128`."""
        low, high = (str(int(end)) if end == int(end) else f"{end:.15g}" for end in self.option.within)
        if self.words:
            return either([toml_text(word) for word in self.words])
        if self.hint is bool:
            return "true or false"
        if self.hint in (int, float):
            number = f"a {'whole ' if self.hint is int else ''}number from {low} to {high}"
            return f"{number}{_SUFFIXES.get(self.option.form, '')}"
        forms = {
            "": f"printable text of {low} to {high} bytes",
            "chooser": f"{either([toml_text(word) for word in (*CHOOSERS, *WRAPPERS)])}, the last two alone or with "
            'another after a colon ("sticky:random")',
            "requests": '"flows", "all" or "1/N" with N from 2 to 1000000',
            "uuid": "a uuid or empty",
            "file": "the path of a file or empty",
            "directory": "the path of a directory or empty",
            "HOST:PORT": 'HOST:PORT or "off"',
            "URL": f"a list of {'' if self.may_be_empty else 'one or more '}URLs",
            "dial": "a list of URLs",
            "subject": "a list of printable texts",
            "text": "a list of printable texts",
            "origin": 'a list of origins, or "null"',
            "name": "a list of host names",
            "routes": "a list of tables, each with a service and values of other tags",
            "endpoint": "a list of endpoints ipc:// and tcp://",
            **{form: f"a list of {either([toml_text(word) for word in words])}" for form, words in WORDS_OF.items()},
        }
        return forms[self.option.form]


@dataclass(frozen=True)
class Tables:
    """Tables of one kind, `[service.NAME]`, that a file may have many of."""

    place: str  # "service": what stands in front of the name
    what: str  # that a table is about: "service"
    keys: Mapping[str, OptionDoc]  # what a table may have
    max_n: int
    kind: Any  # the class of a table's options; `dict`: only what the file says
    text: str  # what they are, for the reference


def is_chooser(text: str) -> bool:
    """The name of a chooser, with or without another one within it."""
    outer, colon, inner = text.partition(":")
    if not colon:
        return outer in CHOOSERS or outer in WRAPPERS
    return outer in WRAPPERS and (inner in CHOOSERS or text == "sticky:zone_first")


def one_of_requests(text: str) -> int:
    """Of how many requests one is written: 0 for `flows`, 1 for `all`, N for `1/N`; -1: it is none of these."""
    if text in ("flows", "all"):
        return int(text == "all")
    number = text.removeprefix("1/")
    is_number = text.startswith("1/") and number.isascii() and number.isdigit() and len(number) <= 7
    return int(number) if is_number and 2 <= int(number) <= MAX_ONE_OF else -1


def _sections(kind: Any, prefix: str = "") -> Iterator[tuple[str, Any]]:
    """The sections in a class, each in front of those that are within it."""
    for name, hint in get_type_hints(kind).items():
        if is_dataclass(hint):
            yield prefix + name, hint
            yield from _sections(hint, f"{prefix}{name}.")


def _docs(section: str, kind: Any) -> dict[str, OptionDoc]:
    """The options of a class, by key."""
    hints = get_type_hints(kind)
    return {
        each.name: OptionDoc(section, each.name, hints[each.name], each.default, each.metadata["option"])
        for each in fields(kind)
        if "option" in each.metadata
    }


_SUFFIXES: Final = {
    TIME: f', or a text like "5s" ({", ".join(TIMES)})',
    SIZE: f', or a text like "10M" ({", ".join(SIZES)})',
}
SECTIONS: Final[dict[str, Any]] = dict(_sections(Config))  # section -> its class; "samwise.retry" is one, too
OPTIONS: Final = {  # name -> what it is, in the order of `Config`
    doc.name: doc for section, kind in SECTIONS.items() for doc in _docs(section, kind).values()
}
SERVICE_KEYS: Final = {  # what [service.NAME] may have: all that is a matter of policy
    doc.key: doc for doc in OPTIONS.values() if doc.section in POLICY_SECTIONS and hasattr(POLICY, doc.key)
}
_NAMES_TEXT: Final = (
    f"with names of 1 to {MAX_NAME_BYTES} bytes, quoted where TOML requires it. Only in the file: there are no "
    "variables and flags for them."
)
TABLES: Final = {  # place -> the tables there
    tables.place: tables
    for tables in (
        Tables(
            "service",
            "service",
            SERVICE_KEYS,
            MAX_SERVICES,
            dict,
            "Options of one service, NAME, which override those of `[routing]` and `[protection]` for its routes. At "
            f"most {MAX_SERVICES} services, {_NAMES_TEXT}",
        ),
        Tables(
            "role",
            "role",
            _docs("role.NAME", RoleOptions),
            MAX_ROLES,
            RoleOptions,
            f"{RoleOptions.__doc__} See [security](security.md). At most {MAX_ROLES}, {_NAMES_TEXT}",
        ),
        Tables(
            "samwise.rabbitmq",
            "RabbitMQ broker",
            _docs("samwise.rabbitmq.NAME", RabbitmqOptions),
            MAX_RABBITMQ,
            RabbitmqOptions,
            f"{RabbitmqOptions.__doc__} At most {MAX_RABBITMQ}, {_NAMES_TEXT}",
        ),
        Tables(
            "samwise.exchange",
            "exchange",
            _docs("samwise.exchange.NAME", ExchangeOptions),
            MAX_EXCHANGES,
            ExchangeOptions,
            f"{ExchangeOptions.__doc__} At most {MAX_EXCHANGES}, {_NAMES_TEXT}",
        ),
        Tables(
            "feed.broker",
            "broker",
            _docs("feed.broker.NAME", MessageBrokerOptions),
            MAX_MESSAGE_BROKERS,
            MessageBrokerOptions,
            f"{MessageBrokerOptions.__doc__} At most {MAX_MESSAGE_BROKERS}, {_NAMES_TEXT}",
        ),
        Tables(
            "feed.post",
            "posted folder",
            _docs("feed.post.NAME", PostOptions),
            MAX_POSTED,
            PostOptions,
            f"{PostOptions.__doc__} At most {MAX_POSTED}, {_NAMES_TEXT}",
        ),
        Tables(
            "feed.subscribe",
            "mirror",
            _docs("feed.subscribe.NAME", SubscribeOptions),
            MAX_MIRRORS,
            SubscribeOptions,
            f"{SubscribeOptions.__doc__} At most {MAX_MIRRORS}, {_NAMES_TEXT}",
        ),
        Tables(
            "feed.winnow",
            "winnower",
            _docs("feed.winnow.NAME", WinnowOptions),
            MAX_MIRRORS,
            WinnowOptions,
            f"{WinnowOptions.__doc__} At most {MAX_MIRRORS}, {_NAMES_TEXT}",
        ),
    )
}
