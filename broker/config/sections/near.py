"""Which option somebody meant who wrote one that is none: the ends of mistakes."""

import difflib
from collections.abc import Sequence
from typing import Final

from broker.config.options import OPTIONS, SECTIONS, Tables
from broker.config.toml import either, toml_text

LISTEN: Final = '; write listen = ["tcp://HOST:PORT"] in [server], such as ["tcp://127.0.0.1:7878"]'
# What other servers have for `listen`, which several sections have.
_ADDRESSES: Final = ("address", "addresses", "bind", "host", "listen", "port", "ports")
_ELSEWHERE: Final = 0.85  # so alike, of 1, must keys of different sections be: "chooser" and "choser", never "port"
_PAYLOAD: Final = "limits.max_frame_bytes bounds one frame, and a longer payload goes in several"
_TO_STDERR: Final = "the log goes to standard error: rsocket-broker serve 2>broker.log"
_IN_REST: Final = "it is of the REST API, /metrics: admin.listen says where"
_WEIGHT: Final = "weight is a tag, which a service gives its routes: Service('orders', tags={'weight': '5'})"
_DEADLINE: Final = "it is the caller who says that: timeout_s=5 of its call, or of connect()"
_SWITCHES: Final = ("enabled", "enable", "on", "active", "disabled", "disable")
_NO_SWITCH: Final = "no section has a switch; rsocket-broker check --options lists what each has"
_DIALS: Final = "a service connects to the broker by itself, so its address is nowhere"
# What NATS, Envoy, nginx, RabbitMQ and Redis call it, in one section or in whichever: an option, one with a value, or
# what to do. True of whatever value it has.
CALLED: Final = {
    **dict.fromkeys(("server_name", "node_name", "broker_name"), "broker.name"),
    **dict.fromkeys(("worker_processes", "threads", "io_threads", "processes"), "server.workers"),
    **dict.fromkeys(("http_port", "http", "monitor_port", "rest_port"), "admin.listen=127.0.0.1:7070"),
    **dict.fromkeys(("ws_port", "websocket_port", "websocket"), "server.listen=ws://127.0.0.1:7879"),
    **dict.fromkeys(("log_level", "loglevel", "verbosity", "verbose", "debug"), "log.level"),
    **dict.fromkeys(("log_file", "logfile", "error_log", "access_log"), _TO_STDERR),
    **dict.fromkeys(("max_payload", "max_body", "max_message_size", "client_max_body_size"), _PAYLOAD),
    **dict.fromkeys(("maxclients", "max_clients", "worker_connections"), "limits.max_connections"),
    **dict.fromkeys(("ssl_certificate", "cert_file", "certfile", "tls_cert"), "tls.certificate"),
    **dict.fromkeys(("ssl_certificate_key", "key_file", "keyfile", "tls_key"), "tls.key"),
    **dict.fromkeys(("load_balancer", "load_balancing", "lb_policy", "balancer"), "routing.chooser"),
    **dict.fromkeys(("metrics", "prometheus", "metrics_port"), _IN_REST),
    **dict.fromkeys(("upstream", "upstreams", "backends", "routes"), _DIALS),
    "routing.strategy": "routing.chooser",
    "routing.algorithm": "routing.chooser",
    "routing.policy": "routing.chooser",
    **dict.fromkeys(("admin.port", "admin.host", "admin.address", "admin.bind"), "admin.listen=127.0.0.1:7070"),
    "admin.enabled": 'admin.listen is HOST:PORT, or "off" for no REST API',
    **dict.fromkeys(("admin.token", "admin.password", "admin.users"), "admin.tokens"),
    "auth.enabled": 'auth.mode is "required", "observe" or "off"',
    "auth.required": 'auth.mode is "required", "observe" or "off"',
    **dict.fromkeys(("auth.password", "auth.user", "auth.username"), "auth.users=FILE"),
    **dict.fromkeys(("cluster.nodes", "cluster.seeds", "cluster.members", "cluster.routes"), "cluster.peers"),
    **dict.fromkeys(("cluster.brokers", "cluster.urls", "cluster.hosts", "cluster.join"), "cluster.peers"),
    "cluster.enabled": "cluster.peers names other brokers, and without it there is no cluster",
    **dict.fromkeys(("cluster.token", "cluster.password", "cluster.key", "cluster.cookie"), "cluster.secret"),
    "events.enabled": "events.dir names the folder, and without it no events are written",
    **dict.fromkeys(("events.path", "events.folder", "events.directory"), "events.dir"),
    "samwise.enabled": "samwise.endpoints says where the gateway listens, and without it there is no gateway",
    "feed.enabled": "a table [feed.post.NAME], [feed.subscribe.NAME] or [feed.winnow.NAME] starts a feed",
    "jwt.enabled": 'auth.accept = ["jwt"] is what lets tokens in',
    "tls.enabled": "tls:// or wss:// in server.listen is what turns TLS on",
    **dict.fromkeys(("tls.verify", "tls.ca", "tls.ca_file", "tls.client_auth"), "tls.client_ca"),
    **dict.fromkeys(("log.json", "log.structured"), "log.format"),
    **dict.fromkeys(("config", "config_file", "config_path"), "write rsocket-broker serve --config FILE"),
    **dict.fromkeys(("log.file", "log.path", "log.output", "log.filename", "log.dir"), _TO_STDERR),
    **dict.fromkeys(("service.weight", "service.weights"), _WEIGHT),
    **dict.fromkeys(("service.url", "service.urls", "service.host", "service.address", "service.port"), _DIALS),
    **dict.fromkeys(("service.load_balancer", "service.lb_policy", "service.strategy"), "did you mean chooser?"),
    **dict.fromkeys(("service.timeout", "service.timeout_s", "limits.request_timeout_s", "server.timeout"), _DEADLINE),
    "service.retries": "it is the caller who says that: retry=RetryPolicy(attempts=3) of its call, or of connect()",
    **dict.fromkeys(("auth.token", "auth.tokens"), "jwt.keys"),
    "limits.max_payload_bytes": _PAYLOAD,
    "routing.lb": "routing.chooser",
    "service.lb": "did you mean chooser?",
}
_NOT_NEAR: Final = "; rsocket-broker check --options lists all"


def near_option(section: str, key: str) -> str:
    """As `near_name`, for a key that may stand in the wrong section, or be a section."""
    if section and key in SECTIONS:
        return f"; did you mean [{key}]?"
    if section in ("", "broker", "server") and key in _ADDRESSES:
        return LISTEN
    if called := _called(section, key):
        return called
    if meant := next((doc for doc in OPTIONS.values() if doc.variable == key.upper()), None):
        return f"; in a file it is {meant.key} in [{meant.section}]"
    elsewhere = [doc.name for doc in OPTIONS.values() if doc.key == key]
    if elsewhere:
        return f"; did you mean {either(elsewhere)}?"
    for same_section in (True, False):
        names = {doc.key: doc.name for doc in OPTIONS.values() if doc.section == section or not same_section}
        begun = [name for name in names if same_section and name.startswith(key)]
        cutoff = 0.6 if same_section else _ELSEWHERE
        near = begun if len(begun) == 1 else difflib.get_close_matches(key, names, 1, cutoff)
        if near:
            return f"; did you mean {names[near[0]]}?"
    return _NOT_NEAR


def near_variable(rest: str) -> str:
    """As `near_option`, of a variable without its prefix, whose section may end in one underscore; empty: nothing."""
    if rest.lower() in SECTIONS:
        example = next(doc.variable for doc in OPTIONS.values() if doc.section == rest.lower())
        return f"; a section has no value, its options have, such as {example}"
    *sections, key = rest.lower().split("__")
    section = ".".join(sections)
    if not sections:
        section, _, key = rest.lower().partition("_")
    if section not in SECTIONS:
        section, key = "", rest.lower()
    if section in ("", "broker", "server") and key in _ADDRESSES and f"{section}.{key}" not in OPTIONS:
        return f"; write {OPTIONS['server.listen'].variable}=tcp://HOST:PORT, such as tcp://127.0.0.1:7878"
    return _called(section, key, is_variable=True)


def _called(section: str, key: str, is_variable: bool = False) -> str:
    """What others call so; empty: nothing."""
    is_ours = section.partition(".")[0] in ("samwise", "feed", "service", "role")  # where the same words mean others
    if section and key in _SWITCHES:
        return f"; {CALLED.get(f'{section}.enabled', _NO_SWITCH)}"
    found = CALLED.get(f"{section}.{key}") or ("" if is_ours else CALLED.get(key, ""))
    name, sign, example = found.partition("=")
    if name not in OPTIONS:
        return f"; {found}" if found else ""
    doc = OPTIONS[name]
    if not sign:
        return f"; did you mean {doc.variable if is_variable else name}?"
    if is_variable:
        return f"; write {doc.variable}={example}"
    return f"; write {doc.key} = {toml_text([example] if doc.is_list else example)} in [{doc.section}]"


def near_section(section: str, known: list[str]) -> str:
    """As `near_name`, for a section."""
    if section in ("listen", "listener", "listeners", "network"):
        return LISTEN
    return _called("", section) or near_name(section, known)


def near_table_key(tables: Tables, key: str) -> str:
    """As `near_name`, for a key that only the sections of all services may have."""
    everywhere = [doc.name for doc in OPTIONS.values() if doc.key == key]
    if everywhere:
        return f"; {everywhere[0]} is one of all"
    if called := _called(tables.place, key):
        return called
    own = near_name(key, list(tables.keys))
    if own is not _NOT_NEAR:
        return own
    others = {doc.key: doc.name for doc in OPTIONS.values()}
    near = difflib.get_close_matches(key, others, 1, _ELSEWHERE)
    return f"; did you mean {others[near[0]]}, which is one of all?" if near else own


def near_word(text: str, words: Sequence[str]) -> str:
    """`; did you mean "user"?`; empty where none is like it."""
    near = difflib.get_close_matches(text.lower(), words, 1)
    return f"; did you mean {toml_text(near[0])}?" if near else ""


def near_name(name: str, known: list[str], cutoff: float = 0.6) -> str:
    """`; did you mean server.listen?`, or where the known ones are listed."""
    near = difflib.get_close_matches(name, known, 1, cutoff)
    return f"; did you mean {near[0]}?" if near else _NOT_NEAR
