"""What a configuration says about admission: what goes together, and what stands in files of users, keys, revocations.

    ada:$argon2id$v=19$m=65536,t=3,p=4$c2FsdHNhbHQ$…      a user a line; empty lines and # … are comments
    2026-03-01T08:30:00Z jwt:orders-7                     a revocation a line, likewise

Decides what such files may hold; verifies nothing and needs no library for that.
"""

import json
import re
from collections.abc import Mapping
from datetime import UTC, datetime
from pathlib import Path
from typing import Any, Final
from urllib.parse import urlsplit

from broker.access.identities import ANONYMOUS, CERTIFICATE, JWT, KINDS, USER, is_identity, kind_of
from broker.access.quotas import Quota
from broker.access.revocations import MAX_REVOCATIONS
from broker.access.roles import DEFAULT, Offer, Role
from broker.config.extras import lack_of_auth
from broker.config.option import MAX_NAME_BYTES
from broker.config.sections.auth import RoleOptions, RouteTags
from broker.config.sections.files import MAKES_USERS, file_mistakes, lines_of, why_unread
from broker.config.toml import either, shown_value, toml_text
from broker.config.urls import Place
from rsocket_wire.errors import BrokerError

OFF: Final = "off"  # of auth.mode
EXCEPT: Final = "except"  # of an entry of announce or address: no tag can be named so there
HTTPS: Final = "https://"
OPERATORS: Final = ("admin.admins", "admin.operators", "admin.viewers", "admin.readers")
_OR_HOOK: Final = {"auth.users": " or auth.hook", "jwt.keys": " or auth.hook"}
_WRITE: Final = {
    "auth.users": f'write users = "users.txt" in [auth], {MAKES_USERS} makes its lines',
    "tls.client_ca": 'write client_ca = "ca.pem" in [tls]: who signs the certificates of clients',
    "jwt.keys": 'write keys = "https://id.example/jwks.json" in [jwt], or the path of a file',
    "jwt.issuer": 'write issuer = "https://id.example" in [jwt], as tokens say it',
    "jwt.audience": 'write audience = "rsocket-broker" in [jwt], as tokens say it',
}
MAX_KEYS_BYTES: Final = 1 << 20  # of a key set; one of a large provider has some KiB
MAX_USERS: Final = 100_000  # of one file; more belong into an identity provider
_USER: Final = re.compile(r"([^:\x00-\x20][^:\x00-\x1f]*):(\$argon2(?:id|i|d)\$\S+)")


def auth_mistakes(values: Mapping[str, object], wrong: set[str]) -> list[tuple[str, str, str]]:
    """As `cluster_mistakes`."""
    mode, accept = values["auth.mode"], values["auth.accept"]
    assert isinstance(accept, tuple)  # it is a list
    if mode == OFF or wrong & {"auth.mode", "auth.accept"}:
        return file_mistakes("auth.revocations", values, wrong, read_revocations)
    if not accept:
        kinds = either([toml_text(kind) for kind in KINDS])
        text = (
            f'"{mode}" needs auth.accept: which identities are let in; write accept = ["{USER}"] in [auth], of {kinds}'
        )
        return [("auth.mode", text, "")]
    needs: list[tuple[str, str]] = []
    if CERTIFICATE in accept:
        needs.append((CERTIFICATE, "tls.client_ca"))
    has_hook = bool(values["auth.hook"]) or "auth.hook" in wrong
    if USER in accept and not has_hook:
        needs.append((USER, "auth.users"))
    if JWT in accept and (values["jwt.keys"] or not has_hook):
        needs += [(JWT, "jwt.keys"), (JWT, "jwt.issuer"), (JWT, "jwt.audience")]
    found = [
        ("auth.accept", f'"{kind}" needs {name}{_OR_HOOK.get(name, "")}; {_WRITE[name]}', kind)
        for kind, name in needs
        if not values[name] and name not in wrong
    ]
    own = [kind for kind, name in ((USER, "auth.users"), (JWT, "jwt.keys")) if kind in accept and values[name]]
    if values["auth.hook"] and "auth.hook" not in wrong:
        found += _mistakes_of_hook(str(values["auth.hook"]), set(accept) & {USER, JWT} != set(own))
    lack = lack_of_auth()
    if lack and own:
        found.append(("auth.accept", lack, ""))
    if JWT in accept and values["jwt.keys"] and "jwt.keys" not in wrong:
        found += [("jwt.keys", text, "") for text in _fault_of_keys(str(values["jwt.keys"]))]
    if USER in accept:
        found += file_mistakes("auth.users", values, wrong, read_users)
    return found + file_mistakes("auth.revocations", values, wrong, read_revocations)


def operator_mistakes(values: Mapping[str, object], wrong: set[str]) -> list[tuple[str, str, str]]:
    """What is wrong with the identities that may use the REST API with a token; as `cluster_mistakes`."""
    found: list[tuple[str, str, str]] = []
    for name in OPERATORS:
        who = values[name]
        assert isinstance(who, tuple)  # it is a list
        for each in who:
            if not str(each).startswith(f"{JWT}:"):
                found.append((name, f"{shown_value(each)} is no identity of a token: it begins with {JWT}:", str(each)))
    used = [name for name in OPERATORS if values[name]]
    if not used:
        return found
    lacks = [
        text
        for names, text in (
            (("jwt.keys",), "jwt.keys"),
            (("jwt.issuer",), "jwt.issuer"),
            (("jwt.audience", "admin.audience"), "admin.audience or jwt.audience"),
        )
        if not any(values[name] or name in wrong for name in names)
    ]
    found += [(used[0], f"needs {each}", "") for each in lacks]
    lack = lack_of_auth()
    if lack:
        found.append((used[0], lack, ""))
    accept = values["auth.accept"]
    is_checked = values["auth.mode"] != OFF and isinstance(accept, tuple) and JWT in accept
    if values["jwt.keys"] and "jwt.keys" not in wrong and not is_checked:
        found += [("jwt.keys", text, "") for text in _fault_of_keys(str(values["jwt.keys"]))]
    return found


def _mistakes_of_hook(url: str, is_asked: bool) -> list[tuple[str, str, str]]:
    found = []
    try:
        parts = urlsplit(url)
        place = Place(parts.scheme, parts.hostname or "", parts.port or 0)
    except ValueError:
        place = Place("")
    if place.scheme not in ("http", "https") or not place.host or "@" in url:
        text = f"{shown_value(url)} is not a URL of https, or of http on this machine, without user and password"
        found.append(("auth.hook", text, ""))
    elif place.scheme == "http" and not place.is_local:
        text = f"{shown_value(url)} would send passwords and tokens unencrypted to another machine: use https"
        found.append(("auth.hook", text, ""))
    if not is_asked:
        text = 'is never asked: it verifies "user" without auth.users, and "jwt" without jwt.keys, of auth.accept'
        found.append(("auth.hook", text, ""))
    return found


def is_user_line(line: str) -> bool:
    """It could be one of a file of users."""
    match = _USER.fullmatch(line.strip())
    return match is not None and match[1].isprintable() and len(match[1].encode()) <= MAX_NAME_BYTES


def role_mistakes(
    values: Mapping[str, object], tables: Mapping[str, Mapping[str, Mapping[str, object]]], wrong: set[str]
) -> list[tuple[str, str, str]]:
    """What is wrong with roles; as `cluster_mistakes`."""
    found: list[tuple[str, str, str]] = []
    for name, own in tables["role"].items():
        place = f"role.{name}"
        if values["auth.mode"] == OFF and "auth.mode" not in wrong:
            found.append((place, "needs auth.mode: who a connection is must be known", ""))
        who = own.get("who", ())
        assert isinstance(who, tuple)  # it is a list
        if not who and name != DEFAULT:
            found.append((place, "needs who: the identities that have it", ""))
        if who and name == DEFAULT:
            found.append((f"{place}.who", "is for other roles: whoever fits none of them has this one", ""))
        for each in who:
            if each != "*" and kind_of(str(each)) not in (*KINDS, f"{ANONYMOUS}*"):
                text = (
                    f"{shown_value(each)} is no identity: it begins with {either([f'{kind}:' for kind in KINDS[:-1]])}"
                )
                found.append((f"{place}.who", text, str(each)))
    return found


def read_routes(item: object) -> RouteTags:
    """`{ service = "orders", region = ["eu", "us"], except = [{ region = "us" }] }`; BrokerError "bad-config"."""
    if not isinstance(item, dict) or "service" not in item:
        text = 'is not a table with a service, as { service = "orders", region = ["eu", "us"] }'
        raise BrokerError("bad-config", f"{shown_value(item)} {text}")
    given = item.get(EXCEPT, [])
    if not isinstance(given, list) or not all(isinstance(each, dict) and each for each in given):
        text = 'it must be a list of tables, as [{ service = "billing" }]'
        raise BrokerError("bad-config", f"{EXCEPT} is {shown_value(given)}, {text}")
    excepted = tuple(RouteTags(_tags_of(each)) for each in given)
    return RouteTags(_tags_of({name: each for name, each in item.items() if name != EXCEPT}), excepted)


def roles_of(tables: Mapping[str, RoleOptions]) -> tuple[Role, ...]:
    """The roles of a configuration."""
    return tuple(
        Role(
            name,
            list(own.who),
            [_offer(each) for each in own.announce],
            [_offer(each) for each in own.address],
            Quota(
                own.max_connections,
                own.max_routes,
                own.requests_per_s,
                own.max_in_flight,
                own.max_multicast_routes,
            ),
        )
        for name, own in tables.items()
    )


def read_users(path: str) -> dict[str, str]:
    """Names and hashes of a file of users; OSError, ValueError with a sentence that quotes no line."""
    users: dict[str, str] = {}
    for number, line in lines_of(path):
        match = _USER.fullmatch(line)
        if match is None or not is_user_line(line):
            raise ValueError(f"has no NAME:$argon2… in line {number}; {MAKES_USERS} makes them")
        if match[1] in users:
            raise ValueError(f"has the user of line {number} twice")
        users[match[1]] = match[2]
    if not 1 <= len(users) <= MAX_USERS:
        help = "" if users else f"; {MAKES_USERS} makes the line of one"
        raise ValueError(f"has {len(users)} users, 1 to {MAX_USERS} can be used{help}")
    return users


def read_revocations(path: str) -> dict[str, int]:
    """Identities, and before when what was issued for them holds no longer, milliseconds since the epoch; OSError,
    ValueError with a sentence."""
    found: dict[str, int] = {}
    for number, line in lines_of(path):
        moment, _, who = line.partition(" ")
        try:
            before_ms = int(datetime.fromisoformat(moment).astimezone(UTC).timestamp() * 1000)
        except (ValueError, OverflowError):
            before_ms = 0
        if before_ms <= 0 or not is_identity(who):
            raise ValueError(f"has no TIME IDENTITY in line {number}, as 2026-03-01T08:30:00Z jwt:orders-7")
        found[who] = max(before_ms, found.get(who, 0))
    if len(found) > MAX_REVOCATIONS:
        raise ValueError(f"has {len(found)} identities, {MAX_REVOCATIONS} can be used")
    return found


def read_key_set(raw: bytes) -> list[dict[str, Any]]:
    """The keys of a JSON Web Key Set that verify signatures; ValueError with a sentence."""
    if len(raw) > MAX_KEYS_BYTES:
        raise ValueError(f"is longer than {MAX_KEYS_BYTES} bytes")
    try:
        document = json.loads(raw)
    except (ValueError, RecursionError):
        raise ValueError("is no JSON") from None
    keys = document.get("keys") if isinstance(document, dict) else None
    if not isinstance(keys, list):
        raise ValueError('is no JSON Web Key Set: it has no list "keys"')
    return [key for key in keys if isinstance(key, dict) and key.get("use", "sig") == "sig" and key.get("kty") != "oct"]


def _tags_of(item: Mapping[str, object]) -> tuple[tuple[str, tuple[str, ...]], ...]:
    """Names of tags and the values that each may have; BrokerError "bad-config"."""
    tags: list[tuple[str, tuple[str, ...]]] = []
    for name, given in item.items():
        values = [given] if isinstance(given, str) else given
        if not isinstance(values, list) or not values or not all(isinstance(each, str) and each for each in values):
            raise BrokerError("bad-config", f"{name} is {shown_value(given)}, it must be a text or a list of texts")
        Offer([(name, values)])  # raises for what can be no key
        tags.append((name, tuple(values)))
    return tuple(tags)


def _offer(routes: RouteTags) -> Offer:
    excepted = [_offer(each) for each in routes.excepted]
    return Offer([(key, list(values)) for key, values in routes.tags], excepted)


def _fault_of_keys(source: str) -> list[str]:
    """Why no keys can come from there; of a URL only that it is none of https. Empty: nothing is known against it."""
    if source.startswith(HTTPS):
        return []
    if "://" in source:
        return [f"{shown_value(source)} is neither a URL of https nor the path of a file"]
    try:
        keys = read_key_set(Path(source).read_bytes())
    except OSError as error:
        return [f"{shown_value(source)} {why_unread(source, error)}"]
    except ValueError as error:
        return [f"{shown_value(source)} {error}"]
    return [] if keys else [f"{shown_value(source)} holds no key that verifies signatures"]
