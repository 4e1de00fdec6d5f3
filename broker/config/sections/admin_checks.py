"""Tokens of the REST API: what the file that `admin.tokens` names holds, and what is a mistake in it.

    grafana viewer 2027-02-26T09:00:00Z 9f86d081…      name, role, end and SHA-256 of a token; # … is a comment

Decides what such a file may hold, and which token it is that somebody has. What a role may do stands in
`admin_api.access.roles`.
"""

import hashlib
import hmac
import re
import shlex
from collections.abc import Mapping, Sequence
from datetime import UTC, datetime
from typing import Final, NamedTuple

from broker.config.sections.files import bad_file, file_mistakes, lines_of
from broker.config.toml import either

VIEWER: Final = "viewer"
READER: Final = "reader"
OPERATOR: Final = "operator"
ADMIN: Final = "admin"
ROLES: Final = (VIEWER, READER, OPERATOR, ADMIN)
LOCAL: Final = "local"  # the name of the token that a broker makes for its own machine
MAX_TOKENS: Final = 1000  # of one file: each is compared with whatever somebody sends
_NAME: Final = re.compile(r"[A-Za-z0-9._@-]{1,64}")
_DIGEST: Final = re.compile(r"[0-9a-f]{64}")
_TIME: Final = "%Y-%m-%dT%H:%M:%SZ"


class AdminToken(NamedTuple):
    """What is known of a token; not the token itself."""

    name: str
    role: str
    expires_at_s: float  # since the epoch
    digest: str  # SHA-256 of the token, 64 hexadecimal digits

    def line(self) -> str:
        """In a file of tokens."""
        end = datetime.fromtimestamp(self.expires_at_s, UTC).strftime(_TIME)
        return f"{self.name} {self.role} {end} {self.digest}"


def digest_of(token: str) -> str:
    """What stands for a token. Its 256 bits are of chance: nobody finds it from that, however fast he hashes."""
    return hashlib.sha256(token.encode("utf-8", "surrogateescape")).hexdigest()


def find_token(tokens: Sequence[AdminToken], text: str) -> AdminToken | None:
    """Which of them this is; it takes as long wherever it stands, and where none is it."""
    digest = digest_of(text)
    found: AdminToken | None = None
    for each in tokens:
        if hmac.compare_digest(each.digest, digest):
            found = each
    return found


def is_token_name(name: str) -> bool:
    """Could be that of a token in a file."""
    return _NAME.fullmatch(name) is not None and name != LOCAL


def read_tokens(path: str) -> tuple[AdminToken, ...]:
    """The tokens of a file, which may be none; OSError, ValueError with a sentence that quotes no line."""
    tokens: dict[str, AdminToken] = {}
    for number, line in lines_of(path):
        token = _read_line(line)
        if token is None:
            raise ValueError(
                f"has no NAME {'|'.join(ROLES)} YYYY-MM-DDThh:mm:ssZ SHA-256 in line {number}; "
                f"rsocket-broker token new NAME --file {shlex.quote(path)} makes them"
            )
        if token.name in tokens:
            raise ValueError(f"has the name of line {number} twice")
        tokens[token.name] = token
    if len(tokens) > MAX_TOKENS:
        raise ValueError(f"has {len(tokens)} tokens, {MAX_TOKENS} at most can be used")
    return tuple(tokens.values())


def tokens_of(path: str) -> tuple[AdminToken, ...] | None:
    """Those of the file that `admin.tokens` names; None: it names none. BrokerError "bad-config"."""
    if not path:
        return None
    try:
        return read_tokens(path)
    except (OSError, ValueError) as error:
        raise bad_file("admin.tokens", path, error) from None


def admin_mistakes(values: Mapping[str, object], wrong: set[str]) -> list[tuple[str, str, str]]:
    """What is wrong with the file of tokens; as `cluster_mistakes`."""
    return file_mistakes("admin.tokens", values, wrong, read_tokens)


def role_text() -> str:
    """All roles, for people."""
    return either(list(ROLES))


def _read_line(line: str) -> AdminToken | None:
    """None: it is none."""
    fields = line.split()
    if len(fields) != 4:
        return None
    name, role, end, digest = fields
    if not is_token_name(name) or role not in ROLES or not _DIGEST.fullmatch(digest):
        return None
    try:
        return AdminToken(name, role, datetime.strptime(end, _TIME).replace(tzinfo=UTC).timestamp(), digest)
    except ValueError:
        return None
