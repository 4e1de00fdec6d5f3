"""What a configuration says about admission: what is needed, and what is in files of users and keys."""

from __future__ import annotations

import re
from pathlib import Path

import pytest

from broker.config import auth
from broker.config.auth import read_revocations, read_users
from broker.config.settings import settings_of
from rsocket_wire.wire.tags import Tag
from tests.broker.access.refusals import refusal_of
from tests.broker.config.sources import GIVE_ONE, NOT_THERE, mistakes_of, of_file, write_pem
from tests.broker.config.test_warnings import warnings_of
from tests.broker.edge.admission.signers import key_set, signer

HASH = "$argon2id$v=19$m=8,t=1,p=1$c2FsdHNhbHQ$aGFzaGhhc2g"


@pytest.mark.parametrize(
    ("said", "expected"),
    [
        ("", ['2: auth.mode: "required" needs auth.accept: which identities are let in']),
        (
            'accept = ["jtw"]',
            ['3: auth.accept: "jtw" is not "certificate", "jwt", "user", "uid" or "anonymous"; did you mean "jwt"?'],
        ),
        ('accept = ["certificate"]', ['3: auth.accept: "certificate" needs tls.client_ca']),
        ('accept = ["user"]', ['3: auth.accept: "user" needs auth.users or auth.hook']),
        (
            'accept = ["jwt"]',
            [f'3: auth.accept: "jwt" needs {name}' for name in ("jwt.keys or auth.hook", "jwt.issuer", "jwt.audience")],
        ),
        (
            'accept = ["user"]\nusers = "junk"',
            ['4: auth.users: "junk" has no NAME:$argon2… in line 1; rsocket-broker password NAME makes them'],
        ),
        (
            'accept = ["user"]\nusers = "none"',
            [f'4: auth.users: "none" {NOT_THERE}/none{GIVE_ONE}; rsocket-broker password NAME makes its lines'],
        ),
    ],
)
def test_what_is_missing_is_told(folder: Path, said: str, expected: list[str]) -> None:
    write_pem(folder)
    text = f'[auth]\nmode = "required"\n{said}\n'
    told = mistakes_of(folder, text)
    assert [re.sub(r"; write [a-z_]+ = .*", "", each) for each in told] == [f"broker.toml:{each}" for each in expected]
    assert of_file(folder, "[auth]\naccept = []\n").auth.mode == "off"


@pytest.mark.parametrize(
    ("said", "write"),
    [
        ("", 'write accept = ["user"] in [auth], of "certificate", "jwt", "user", "uid" or "anonymous"'),
        ('accept = ["user"]', 'write users = "users.txt" in [auth], rsocket-broker password NAME makes its lines'),
        ('accept = ["certificate"]', 'write client_ca = "ca.pem" in [tls]: who signs the certificates of clients'),
    ],
)
def test_what_is_missing_is_told_with_what_to_write(folder: Path, said: str, write: str) -> None:
    (told,) = mistakes_of(folder, f'[auth]\nmode = "required"\n{said}\n')
    assert told.endswith(f"; {write}")


HOOK = '[auth]\nmode = "required"\n'


@pytest.mark.parametrize("url", ["https://id.example/login", "http://127.0.0.1:9000/", "http://localhost/a"])
@pytest.mark.parametrize("accept", ['["user"]', '["jwt"]', '["user", "jwt"]'])
def test_a_hook_is_enough_for_passwords_and_tokens(folder: Path, url: str, accept: str) -> None:
    assert of_file(folder, f'{HOOK}accept = {accept}\nhook = "{url}"\n').auth.hook == url


@pytest.mark.parametrize(
    ("said", "text"),
    [
        ('accept = ["user"]\nhook = "id.example"', "is not a URL of https, or of http on this machine"),
        (
            'accept = ["user"]\nhook = "https://me:word@id.example/"',
            "is not a URL of https, or of http on this machine",
        ),
        ('accept = ["user"]\nhook = "https://id.example:99999/"', "is not a URL of https, or of http on this machine"),
        ('accept = ["user"]\nhook = "http://127.example/"', "would send passwords and tokens unencrypted to another"),
        ('accept = ["uid"]\nhook = "https://id.example/"', 'is never asked: it verifies "user" without auth.users'),
        ('accept = ["user"]\nusers = "users"\nhook = "https://id.example/"', "is never asked"),
    ],
)
def test_a_hook_that_cannot_be_asked_is_a_mistake(folder: Path, said: str, text: str) -> None:
    (folder / "users").write_text(f"ada:{HASH}\n")
    (mistake,) = mistakes_of(folder, f"{HOOK}{said}\n")
    assert "auth.hook: " in mistake
    assert text in mistake


JWT = '[auth]\nmode = "observe"\naccept = ["jwt"]\n[jwt]\nissuer = "i"\naudience = "a"\n'


@pytest.mark.parametrize(
    ("keys", "text"),
    [
        ("http://id.example/keys", "is neither a URL of https nor the path of a file"),
        ("none", f"{NOT_THERE}/none{GIVE_ONE}"),
        ("junk", "is no JSON"),
        ("no-keys", "holds no key that verifies signatures"),
    ],
)
def test_a_key_set_is_looked_at_where_it_is_a_file(folder: Path, keys: str, text: str) -> None:
    write_pem(folder)
    (folder / "no-keys").write_text('{"keys": []}')
    (folder / "keys").write_bytes(key_set(signer()))
    assert mistakes_of(folder, f'{JWT}keys = "{keys}"\n') == [f'broker.toml:7: jwt.keys: "{keys}" {text}']
    for right in ("keys", "https://id.example/keys"):
        assert of_file(folder, f'{JWT}keys = "{right}"\n').jwt.keys == right


def test_without_the_extra_the_line_that_installs_it_is_told(folder: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(auth, "lack_of_auth", lambda: 'needs jwt: pip install "rsocket-broker[auth]"')
    assert mistakes_of(folder, f'{JWT}keys = "https://id.example"\n') == [
        'broker.toml:3: auth.accept: needs jwt: pip install "rsocket-broker[auth]"'
    ]
    assert of_file(folder, '[auth]\nmode = "required"\naccept = ["uid"]\n').auth.accept == ("uid",)


@pytest.mark.parametrize(
    ("text", "why"),
    [
        ("", "has 0 users, 1 to 100000 can be used; rsocket-broker password NAME makes the line of one"),
        ("# nobody\n\n", "has 0 users, 1 to 100000 can be used; rsocket-broker password NAME makes the line of one"),
        (f"ada:{HASH}\nada:{HASH}\n", "has the user of line 2 twice"),
        ("ada:lovelace\n", "has no NAME:$argon2… in line 1; rsocket-broker password NAME makes them"),
        (f"a\u2028b:{HASH}\n", "has no NAME:$argon2… in line 1; rsocket-broker password NAME makes them"),
        (f":{HASH}\n", "has no NAME:$argon2… in line 1; rsocket-broker password NAME makes them"),
        (f"{'a' * 256}:{HASH}\n", "has no NAME:$argon2… in line 1; rsocket-broker password NAME makes them"),
    ],
)
def test_what_is_no_file_of_users_is_told_without_its_lines(tmp_path: Path, text: str, why: str) -> None:
    path = tmp_path / "users"
    path.write_text(text)
    with pytest.raises(ValueError) as raised:
        read_users(str(path))
    assert str(raised.value) == why
    path.write_text(f"# who may\nada lovelace:{HASH}\n\nbob:{HASH}\n")
    assert read_users(str(path)) == {"ada lovelace": HASH, "bob": HASH}


def test_what_had_better_not_be_is_warned_of(folder: Path) -> None:
    (folder / "users").write_text(f"ada:{HASH}\n")
    (folder / "users").chmod(0o644)
    text = '[auth]\nmode = "required"\naccept = ["user"]\nusers = "users"\n[samwise]\ndir = "d"\nendpoints = ["ipc:///e"]\n'
    assert warnings_of(folder, text) == [
        "broker.toml:4: auth.users: every user of this machine may read the file; chmod o-r prevents that",
        'broker.toml:7: samwise.endpoints: the gateway connects without credentials: accept "uid", with a unix:// '
        "listener as the first one",
    ]
    (folder / "users").chmod(0o600)
    assert warnings_of(folder, text.replace('["user"]', '["user", "uid"]')) == []


ROLE = '[auth]\nmode = "required"\naccept = ["uid"]\n[role.orders]\n'


@pytest.mark.parametrize(
    ("said", "line", "text"),
    [
        ("announce = []", 4, "role.orders: needs who: the identities that have it"),
        (
            'who = ["orders"]',
            5,
            'role.orders.who: "orders" is no identity: it begins with certificate:, jwt:, user: or uid:',
        ),
        (
            'who = ["*"]\nannounce = ["orders"]',
            6,
            'role.orders.announce: "orders" is not a table with a service, as '
            '{ service = "orders", region = ["eu", "us"] }',
        ),
        (
            'who = ["*"]\nannounce = [{ service = [] }]',
            6,
            "role.orders.announce: service is [], it must be a text or a list of texts",
        ),
        (
            'who = ["*"]\nannounce = [{ service = "*", except = [{}] }]',
            6,
            'role.orders.announce: except is [{}], it must be a list of tables, as [{ service = "billing" }]',
        ),
        (
            'who = ["*"]\nannounce = [{ service = "*", except = [{ region = 7 }] }]',
            6,
            "role.orders.announce: region is 7, it must be a text or a list of texts",
        ),
        (
            'who = ["*"]\n[role.default]\nwho = ["*"]',
            7,
            "role.default.who: is for other roles: whoever fits none of them has this one",
        ),
    ],
)
def test_what_is_no_role_is_told(folder: Path, said: str, line: int, text: str) -> None:
    assert mistakes_of(folder, f"{ROLE}{said}\n") == [f"broker.toml:{line}: {text}"]


def test_roles_reach_the_core_in_their_order_and_need_that_somebody_is_known(folder: Path) -> None:
    routes = '{ service = "a", region = ["eu", "us"], except = [{ b = "c*" }] }'
    said = f'who = ["uid:7"]\nannounce = [{routes}]\n[role.default]\n'
    config = of_file(folder, f"{ROLE}{said}")
    assert [role.name for role in settings_of(config).roles] == ["orders", "default"]
    assert str(config.role["orders"].announce[0]) == "service=a region=eu|us except b=c*"
    tags = [Tag.of("service", "a"), Tag.of("region", "eu"), Tag.of("b", "c7")]
    text = "the role orders does not allow to announce this route: b=c* is excepted"
    assert refusal_of(settings_of(config).roles[0], tags, "uid:7") == text
    assert mistakes_of(folder, f"[role.orders]\n{said.partition('[role')[0]}") == [
        "broker.toml:1: role.orders: needs auth.mode: who a connection is must be known"
    ]


def test_revocations_are_moments_and_identities_one_in_a_line(folder: Path) -> None:
    path = folder / "revocations"
    path.write_text(
        "# what was stolen\n\n2026-03-01T08:30:00Z jwt:orders-7\n2026-03-01T09:30:00+02:00 certificate:CN=a b\n"
        "2026-03-02T00:00:00Z jwt:orders-7\n2026-03-01T00:00:00Z jwt:orders-7\n"
    )
    found = read_revocations(str(path))
    assert found == {"jwt:orders-7": 1_772_409_600_000, "certificate:CN=a b": 1_772_350_200_000}
    write_pem(folder)
    no_identities = [f"2026-03-01T08:30:00Z {who}" for who in ("", "jwt", "jwt:", "role:a", "anonymous:a")]
    for line in ("jwt:orders-7", "1969-01-01T00:00:00Z jwt:a", "x jwt:a", *no_identities):
        path.write_text(f"\n{line}\n")
        text = '"revocations" has no TIME IDENTITY in line 2, as 2026-03-01T08:30:00Z jwt:orders-7'
        said = '[auth]\nmode = "required"\naccept = ["anonymous"]\nrevocations = "revocations"\n'
        assert mistakes_of(folder, said) == [f"broker.toml:4: auth.revocations: {text}"]


SIGNED = """
[jwt]
keys = "keys"
issuer = "https://id.example"
"""


def test_identities_of_the_rest_api_need_keys_an_issuer_and_an_audience(folder: Path) -> None:
    (folder / "keys").write_text('{"keys": [{"kty": "EC"}]}')
    own = '[admin]\nviewers = ["jwt:a", "user:b"]\n'
    said = [each.partition(": ")[2] for each in mistakes_of(folder, own)]
    assert said == [
        'admin.viewers: "user:b" is no identity of a token: it begins with jwt:',
        "admin.viewers: needs jwt.keys",
        "admin.viewers: needs jwt.issuer",
        "admin.viewers: needs admin.audience or jwt.audience",
    ]
    own = '[admin]\nreaders = ["jwt:a"]\naudience = "admin"\n'
    assert of_file(folder, own + SIGNED).admin.jwt_roles == (("reader", ("jwt:a",)),)
    (folder / "keys").write_text("{}")
    [mistake] = mistakes_of(folder, own + SIGNED)
    assert 'jwt.keys: "keys" is no JSON Web Key Set' in mistake


def test_so_many_revocations_of_a_file_and_no_more(folder: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(auth, "MAX_REVOCATIONS", 1)
    (folder / "revocations").write_text("2026-03-01T08:30:00Z jwt:a\n2026-03-01T08:30:00Z jwt:b\n")
    with pytest.raises(ValueError, match="has 2 identities, 1 can be used"):
        read_revocations(str(folder / "revocations"))
