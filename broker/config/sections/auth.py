"""The options of admission: sections [auth] and [jwt]. See `broker.config.options`."""

# ruff: noqa: RUF009 -- option() makes a dataclasses.field, which is what a default may be made by

from dataclasses import dataclass
from typing import Literal

from broker.config.option import CORE, option
from broker.config.quantities import TIME

AuthMode = Literal["off", "observe", "required"]


@dataclass(frozen=True)
class AuthOptions:
    """Who is let in; see [security](security.md)."""

    mode: AuthMode = option(
        CORE.auth_mode,
        "off: every connection is accepted. observe: credentials are judged, the results are logged and counted, and "
        "nobody is refused. required: a connection without acceptable credentials is refused. Brokers prove their "
        "identity as cluster.auth says.",
        '"required"',
    )
    accept: tuple[str, ...] = option(
        CORE.auth_accept,
        "Kinds of identities that are accepted: certificate, of a verified client certificate; jwt, of a signed token; "
        "user, of a name with a password; uid, the user at the other end of a Unix socket; anonymous, without "
        "credentials. Required unless mode is off.",
        '["uid"]',
        form="identity",
    )
    users: str = option(
        "",
        "File with a line NAME:HASH for each user; `rsocket-broker password NAME` makes them. It is read again when it "
        "changes.",
        '"/etc/rsocket-broker/users"',
        form="file",
    )
    hook: str = option(
        "",
        "Program that verifies passwords where users is empty, and tokens where jwt.keys is: it gets each as JSON by "
        "POST, and answers within a second, or nobody is let in. A URL of https, or of http on this machine.",
        '"https://id.example/rsocket"',
    )
    hook_ca: str = option(
        "",
        "CA certificates, PEM, one of which must have signed that of hook. Empty: those of the system.",
        '"/etc/rsocket-broker/hook-ca.pem"',
        form="file",
    )
    hook_keep: float = option(
        10.0,
        "How long an answer of hook is used for the same credentials. So long a login that is withdrawn is noticed "
        "later; 0 asks each time.",
        '"1m"',
        "seconds",
        (0, 60),
        form=TIME,
    )
    revocations: str = option(
        "",
        "File with a line TIME IDENTITY for each identity whose credentials hold no longer if they were issued before "
        "that time, as `2026-03-01T08:30:00Z jwt:orders-7`. It is read again on SIGHUP.",
        '"/etc/rsocket-broker/revocations"',
        form="file",
    )


@dataclass(frozen=True)
class RouteTags:
    """Routes that a role is about: values of their tags."""

    tags: tuple[tuple[str, tuple[str, ...]], ...]  # short names of keys, and the values that each may have
    excepted: tuple["RouteTags", ...] = ()  # those that are left out

    def __str__(self) -> str:
        wanted = " ".join(f"{name}={'|'.join(values)}" for name, values in self.tags)
        return " except ".join([wanted, *map(str, self.excepted)])


@dataclass(frozen=True)
class RoleOptions:
    """What connections of the role NAME may do, and how much. Each has the first that fits it, else `default`."""

    who: tuple[str, ...] = option(
        (),
        "Identities that have this role, as `jwt:orders-7`; a star at the end stands for any end. Required, but for "
        "the role `default`.",
        '["certificate:spiffe://acme/orders", "jwt:orders-*"]',
        form="text",
    )
    announce: tuple[RouteTags, ...] = option(
        (),
        "Routes that they may announce: the service, and values that other tags must have; a star at the end stands "
        "for any end, `${name}` for the name of the identity. Tags that are not named are free; what an entry of "
        "`except` fits is left out. Empty: none.",
        '[{ service = "orders", region = ["eu", "us"] }]',
        form="routes",
    )
    address: tuple[RouteTags, ...] = option(
        (),
        "Routes that their requests may reach, as in `announce`; of several values of a tag one is enough. "
        '`[{ service = "*" }]`: all. Empty: none.',
        '[{ service = "billing" }, { service = "stock", environment = "prod" }]',
        form="routes",
    )
    max_connections: int = option(
        0,
        "Connections of one identity of this role at this broker; one more is refused with over-limit. 0: no limit but "
        "limits.max_connections_per_principal. All quotas count for each identity, not for the role, and each broker "
        "counts for itself. Anonymous connections share nothing.",
        "20",
        "connections",
        within=(0, 1_000_000),
    )
    max_routes: int = option(
        0,
        "Routes that one identity may have at this broker; the announcement of one more is refused with over-limit. "
        "0: no limit.",
        "10",
        "routes",
        within=(0, 1_000_000),
    )
    requests_per_s: int = option(
        0,
        "Requests a second of all connections of one identity, as many at once; one more is refused with over-limit. "
        "0: no limit.",
        "5000",
        "requests per second",
        within=(0, 10_000_000),
    )
    max_in_flight: int = option(
        0,
        "Requests in flight of all connections of one identity; one more is refused with over-limit. 0: no limit but "
        "limits.max_streams_per_connection.",
        "1000",
        "requests",
        within=(0, 10_000_000),
    )
    max_multicast_routes: int = option(
        0,
        "Routes that one multicast of this role may reach, those at other brokers included; one that matches more is "
        "refused with over-limit. 0: no limit but limits.max_multicast_routes.",
        "100",
        "routes",
        within=(0, 1_000_000),
    )


@dataclass(frozen=True)
class JwtOptions:
    """Signed tokens."""

    keys: str = option(
        "",
        "JSON Web Key Set with the public keys of the issuer: a file, or a URL of https. It is read again after ten "
        "minutes, and for an unknown key at most once in 30 seconds.",
        '"https://id.example/jwks.json"',
    )
    issuer: str = option("", "Who must have issued a token (iss).", '"https://id.example"')
    audience: str = option(
        "",
        "For whom a token must be (aud): otherwise tokens that the issuer made for other programs would be accepted.",
        '"rsocket-broker"',
    )
