"""The files that a running broker reads again on SIGHUP: certificates, keys and roots, users, revocations, tokens of
the REST API, and of the configuration the roles, those of the REST API too.

    SIGHUP ──► all are read ── a mistake in one ──► nothing changes
                          └─── none ──────────────► new connections get what they say, those that are there are judged
                                                    by the roles and users, and else go on

Decides which these are and makes of them what listeners and the dialer use; users and keys of tokens are the doorman's.
All else in the configuration is read at the start only, and so is the secret of the cluster: which options have changed
and count from the next start, a line of the log says.
"""

from __future__ import annotations

import logging
import ssl
from collections.abc import Callable, Mapping, Sequence
from dataclasses import fields, replace
from typing import Final, NamedTuple

from broker.access.certificates import RevokedCertificates
from broker.access.identities import CERTIFICATE
from broker.config.auth import read_revocations
from broker.config.certificates import client_context, fault_of_pair, read_revoked, server_context
from broker.config.cluster import all_listeners, is_in_cluster
from broker.config.load import ConfigErrors, Sources
from broker.config.options import SECTIONS, TABLES, Config
from broker.config.sections.admin_checks import AdminToken, tokens_of
from broker.config.sections.auth import RoleOptions
from broker.config.sections.files import bad_file
from broker.config.sections.process import AdminOptions
from broker.connections.admission import OFF
from rsocket_wire.errors import BrokerError

_ROLES: Final = "role"  # the only tables that are read again
NOTHING: Final = "SIGHUP: no option names a file that is read again, and the roles are as they were"

_log: Final = logging.getLogger("broker")


class Reloaded(NamedTuple):
    """What the files say now."""

    accepting: ssl.SSLContext | None  # of listeners; None: none of them has TLS
    dialling: ssl.SSLContext | None  # of links; None: there is no cluster
    options: tuple[str, ...]  # names of the options whose files were read
    roles: Mapping[str, RoleOptions]  # by name
    tokens: tuple[AdminToken, ...] | None  # of the REST API; None: none are configured
    revocations: dict[str, int]  # of `auth.revocations`, see `read_revocations`
    revoked_certificates: RevokedCertificates
    admin: AdminOptions  # with the identities that have a role of the REST API


def read_files(config: Config) -> Reloaded:
    """Reads them all; BrokerError "bad-config" when one of them is not what it should be."""
    tls, ca = config.tls, config.cluster.ca
    fault = fault_of_pair(tls.certificate, tls.key) if tls.certificate else None
    if fault is not None:
        which, text = fault
        raise BrokerError("bad-config", f"tls.{which}: {getattr(tls, which)} {text}")
    try:
        lists = read_revoked(tls.client_crl) if tls.client_crl else RevokedCertificates()
    except (OSError, ValueError) as error:
        raise bad_file("tls.client_crl", tls.client_crl, error) from None
    accepting: ssl.SSLContext | None = None
    if any(listen.is_tls for listen in all_listeners(config)):
        auth = config.auth
        is_optional = auth.mode != OFF and auth.accept != (CERTIFICATE,)  # then admission judges who has none
        accepting = server_context(
            tls.certificate, tls.key, tls.client_ca, tls.min_version, is_optional, tls.client_crl
        )
    dialling: ssl.SSLContext | None = None
    if is_in_cluster(config.cluster):
        dialling = client_context(ca, tls.certificate, tls.key, tls.min_version)
    revoked = config.auth.revocations
    try:
        revocations = read_revocations(revoked) if revoked else {}
    except (OSError, ValueError) as error:
        raise bad_file("auth.revocations", revoked, error) from None
    tokens = tokens_of(config.admin.tokens)
    return Reloaded(accepting, dialling, files_of(config), config.role, tokens, revocations, lists, config.admin)


def read_again(
    config: Config, sources: Sources | None, prepare: Sequence[Callable[[], None]] = (), is_worker: bool = False
) -> Reloaded | None:
    """As `read_files` for a broker that runs; None: nothing is to change, and the log says why.

    `sources`: of the configuration, for its roles; None: these stay. `prepare` read what verifiers have to.
    `is_worker`: its supervisor says which options have changed.
    """
    has_roles = config.auth.mode != OFF
    try:
        files = read_files(config)
        found = sources.load().config if sources is not None and (has_roles or config.admin.jwt_roles) else None
        if found is not None:
            files = files._replace(admin=config.admin.with_roles_of(found.admin))
            if has_roles:
                files = files._replace(roles=found.role)
        for each in prepare:
            each()
    except ConfigErrors as errors:
        more = f", and {len(errors.mistakes) - 1} more" if len(errors.mistakes) > 1 else ""
        _log.error("broker: SIGHUP: nothing is reloaded: %s%s", errors.mistakes[0], more)
        return None
    except BrokerError as error:
        _log.error("broker: SIGHUP: nothing is reloaded: %s", error.text)
        return None
    if sources is not None and not is_worker:
        _tell_changed(replace(config, admin=files.admin), found or _find_config(sources))
    if not files.options and (files.roles, files.admin) == (config.role, config.admin):
        _log.warning("broker: %s", NOTHING)
        return None
    return files


def files_of(config: Config) -> tuple[str, ...]:
    """Names of the options that name such a file."""
    tls = config.tls
    named = {
        "tls.certificate": tls.certificate,
        "tls.key": tls.key,
        "tls.client_ca": tls.client_ca,
        "tls.client_crl": tls.client_crl,
        "cluster.ca": config.cluster.ca,
        "admin.tokens": config.admin.tokens,
    }
    if config.auth.mode != OFF:
        named["auth.users"] = config.auth.users
    if config.auth.mode != OFF or config.admin.jwt_roles:
        named |= {"jwt.keys": config.jwt.keys, "auth.revocations": config.auth.revocations}
    return tuple(name for name, path in named.items() if path)


def changed_options(old: object, new: object, prefix: str = "") -> list[str]:
    """Names of options, and of tables of their own, that two configurations have different, without the roles."""
    found: list[str] = []
    for each in fields(old):  # type: ignore[arg-type]  # a section, as `Config` is
        name = prefix + each.name
        before, after = getattr(old, each.name), getattr(new, each.name)
        if before == after or name == _ROLES:
            continue
        if name in TABLES:
            found += [f"{name}.{key}" for key in sorted({*before, *after}) if before.get(key) != after.get(key)]
        else:
            found += changed_options(before, after, f"{name}.") if name in SECTIONS else [name]
    return found


def _tell_changed(config: Config, found: Config | None) -> None:
    """`found`: what the sources say now; None: nothing that can be read."""
    changed = changed_options(config, found) if found is not None else []
    if changed:
        _log.warning("broker: SIGHUP: what has changed counts from the next start: %s", ", ".join(changed))


def _find_config(sources: Sources) -> Config | None:
    """What the sources say now; None: they have mistakes, which the next start would tell, and the log does."""
    try:
        return sources.load().config
    except ConfigErrors as errors:
        _log.warning("broker: SIGHUP: the configuration has a mistake: %s", errors.mistakes[0])
        return None
