"""The options of the process: sections [broker], [server], [tls], [admin] and [log]. See `broker.config.options`."""

# ruff: noqa: RUF009 -- option() makes a dataclasses.field, which is what a default may be made by

from dataclasses import dataclass, replace
from typing import Final, Literal

from broker.config.option import CORE, MAX_NAME_BYTES, option
from broker.config.sections.admin_checks import ADMIN, OPERATOR, READER, VIEWER
from broker.config.sections.cluster import Locality
from broker.config.urls import Listen
from rsocket_wire.ports import ADMIN_PORT, TCP_PORT, WS_PORT

MAX_WORKERS: Final = 256  # each is linked to each

Changes = Literal["local", "all", "off"]
TlsVersion = Literal["1.2", "1.3"]
LogLevel = Literal["debug", "info", "warning", "error"]
LogFormat = Literal["text", "json"]


@dataclass(frozen=True)
class BrokerOptions:
    """Identity of this broker."""

    name: str = option(
        "broker",
        "Name of this broker in the REST API, logs and events; in a cluster also in traces, where it must be "
        'unique. The default, "broker", counts as no name: in traces the broker is called broker- and the first 8 '
        "digits of its id.",
        '"eu-1"',
        within=(1, MAX_NAME_BYTES),
    )
    id: str = option(
        "",
        "Id of this broker in frames and events, a UUID. Empty: a new random one at each start, which is enough "
        "unless events are joined across restarts.",
        '"6f1c7a52-5d1e-4f0b-9a55-0f6f0a3f0c11"',
        form="uuid",
    )


@dataclass(frozen=True)
class ServerOptions:
    """Listeners, workers, and how the process stops."""

    listen: tuple[Listen, ...] = option(
        (Listen("tcp", "127.0.0.1", TCP_PORT), Listen("ws", "127.0.0.1", WS_PORT)),
        "Addresses to listen on: tcp, tls, ws and wss with host and port (0: any free port), unix with an "
        "absolute path. Only this machine by default, because a broker without TLS does not authenticate its "
        "peers.",
        '["tls://0.0.0.0:7878", "unix:///run/rsocket-broker.sock"]',
        flag="--listen",
        form="URL",
    )
    origins: tuple[str, ...] = option(
        (),
        "Origins of web pages that may open a WebSocket here, beside pages from the same host and port. Without "
        "this check any page that a user visits could send requests in the user's name. Clients that are not "
        "browsers send no Origin and are accepted.",
        '["https://shop.example", "http://localhost:3000"]',
        form="origin",
    )
    names: tuple[str, ...] = option(
        (),
        "Further host names by which clients reach the WebSocket listeners and the REST API, of a container or a "
        "service for example. Always accepted are IP addresses, localhost, the machine's own names, and those in "
        "listen, admin.listen, cluster.advertise and cluster.client_urls. A request with any other Host gets 421, "
        "which prevents DNS rebinding. Brokers that dial ws or wss are clients, too.",
        '["broker.shop.example"]',
        form="name",
    )
    workers: int = option(
        1,
        "Worker processes that share the ports. Each is a broker of one cluster inside this machine and uses one "
        "core. 0: one per available core. Limits apply to each worker.",
        "0",
        "processes",
        within=(0, MAX_WORKERS),
        flag="--workers",
    )
    worker_locality: Locality = option(
        "even",
        "Which routes are preferred when routes at several workers match: even, none; local, those at the "
        "caller's worker while there are any. A connection reaches a worker by chance, so with local some routes "
        "may get no requests; but where each service is connected to all workers, no request needs a hop between "
        "workers.",
        '"local"',
    )
    stop_grace_s: float = option(
        10.0,
        "Time for requests in flight to end after SIGTERM or SIGINT. New requests are refused meanwhile; for the "
        "first half of the time at most, those of clients that are moving to another broker are still accepted. "
        "Less than the 30 s after which most supervisors kill.",
        "25.0",
        within=(0, 3600),
    )
    drain_grace_s: float = option(
        CORE.drain_grace_s,
        "Time for requests in flight on a drained connection to end, counted from the moment when its own drain "
        "begins; a drain command may give another. The same as for a broker that stops.",
        "60.0",
        within=(0, 3600),
    )
    drain_spread_s: float = option(
        CORE.drain_spread_s,
        "Time over which the connections of one drain are spread; a drain command may give another. Clients that "
        "all reconnect at once would overload the other brokers.",
        "120.0",
        within=(0, 3600),
    )


@dataclass(frozen=True)
class TlsOptions:
    """Certificates of the tls and wss listeners and of links to other brokers."""

    certificate: str = option(
        "",
        "Certificate chain of the broker without the root, PEM. Required by tls and wss listeners; also presented "
        "to the brokers that this one dials.",
        '"/etc/rsocket-broker/broker.pem"',
        form="file",
    )
    key: str = option(
        "",
        "Private key of the certificate, PEM, without a password. Required by tls and wss listeners.",
        '"/etc/rsocket-broker/broker.key"',
        form="file",
    )
    client_ca: str = option(
        "",
        "CA certificates, PEM. When set, every client must present a certificate signed by one of them, unless "
        "auth.accept names other kinds, too.",
        '"/etc/rsocket-broker/clients.pem"',
        form="file",
    )
    client_crl: str = option(
        "",
        "Lists of revoked certificates (CRL), PEM, one of each authority of client_ca, which must not have expired. "
        "Clients and brokers with a certificate on one of them are refused, and connections that are there end when "
        "the file is read again on SIGHUP.",
        '"/etc/rsocket-broker/clients.crl"',
        form="file",
    )
    min_version: TlsVersion = option("1.2", "Lowest TLS version that is accepted. 1.0 and 1.1 are insecure.", '"1.3"')


@dataclass(frozen=True)
class AdminOptions:
    """REST API and metrics."""

    listen: Listen | None = option(
        Listen("http", "127.0.0.1", ADMIN_PORT),
        "Address of the REST API and the metrics; off disables them. Only this machine by default, because without "
        "admin.tokens they name every route and peer to everybody.",
        '"off"',
        flag="--admin",
        form="HOST:PORT",
    )
    changes: Changes = option(
        "local",
        "Who may drain, redirect and close connections through the REST API: local, clients on this machine; all, "
        "every client that reaches the listener; off, nobody. So a listener that is reachable for its metrics "
        "does not allow changes. Clients on this machine need the token of admin.token_file, too, and others one of "
        "admin.tokens where there are some.",
        '"off"',
    )
    tokens: str = option(
        "",
        "File of tokens for the REST API, which rsocket-broker token makes: name, role, end and SHA-256 of each. When "
        "set, clients on other machines need one for everything but /livez and /readyz. Read again on SIGHUP.",
        '"/etc/rsocket-broker/tokens"',
        form="file",
    )
    token_file: str = option(
        "",
        "File into which the broker writes a new token at each start, for its user only (mode 0600): with it programs "
        "on this machine may change something and read event files. Empty: admin-PORT.token in the folder "
        "rsocket-broker of $XDG_RUNTIME_DIR, else of $XDG_STATE_HOME or ~/.local/state, where rsocket-broker ctl finds "
        "it; in $RUNTIME_DIRECTORY for a service of systemd.",
        '"/run/rsocket-broker/token"',
        within=(0, 4095),
    )
    audience: str = option(
        "",
        "For whom a JSON Web Token for the REST API must be (aud). Empty: jwt.audience, and then every token for "
        "connections is one for the API.",
        '"rsocket-broker-admin"',
    )
    admins: tuple[str, ...] = option(
        (),
        "Identities that may do everything with a JSON Web Token, which section jwt verifies; a star at the end stands "
        "for any end. Where these or the next three name some, clients on other machines need a token. They are read "
        "again on SIGHUP.",
        '["jwt:ops-lead"]',
        form="text",
    )
    operators: tuple[str, ...] = option((), "Likewise those that may look and change.", '["jwt:ops-*"]', form="text")
    viewers: tuple[str, ...] = option((), "Likewise those that may look.", '["jwt:grafana", "jwt:dev-*"]', form="text")
    readers: tuple[str, ...] = option((), "Likewise those that may read event files.", '["jwt:spark"]', form="text")
    max_requests_per_s: int = option(
        0,
        "Requests of one caller per second, with bursts of ten times as many: of one token, or of one address without "
        "one. More are refused with status 429. A request of 150 bytes may be answered with a list of 1,000 items. "
        "0: no bound.",
        "20",
        "requests per second",
        within=(0, 1_000_000),
    )

    @property
    def jwt_roles(self) -> tuple[tuple[str, tuple[str, ...]], ...]:
        """Roles of tokens and who has them, the first that fits; those that nobody has left out."""
        found = ((ADMIN, self.admins), (OPERATOR, self.operators), (VIEWER, self.viewers), (READER, self.readers))
        return tuple((role, who) for role, who in found if who)

    def with_roles_of(self, other: "AdminOptions") -> "AdminOptions":
        """These, with the identities of others."""
        own = replace(self, admins=other.admins, operators=other.operators)
        return replace(own, viewers=other.viewers, readers=other.readers)


@dataclass(frozen=True)
class LogOptions:
    """The log on standard error."""

    level: LogLevel = option(
        "info",
        "Lowest level that is written. info has one line when a peer connects and one when it disconnects, none "
        "per request.",
        '"warning"',
    )
    format: LogFormat = option("text", "text for people, json (one object per line) for log collectors.", '"json"')
    frames: tuple[str, ...] = option(
        (),
        "Services and connections whose frames are logged, at level debug and whatever log.level is. A service by "
        "name (its connections, and requests to it), a connection by address (10.0.0.4, 10.0.0.4:5123) or "
        "principal; * for all. A line shows type, stream, flags, lengths and routing tags, no payload. At most "
        "100 lines a second per connection and 400 in all; the rest is counted.",
        '["orders", "10.0.0.4"]',
        flag="--log-frames",
        form="text",
    )
