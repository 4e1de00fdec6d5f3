"""What a client proves who it is with: a token, or a name and a password, sent in the SETUP of each connection.

`connect(credentials=...)` takes one of them, or an async function that is asked for one at each attempt to connect, and
again before it expires, where the broker says when that is. They are sent over TLS only, or within this machine:
everybody on the way could read them.
"""

import inspect
import ipaddress
from collections.abc import Awaitable, Callable
from dataclasses import dataclass, field

from client_sdk.io.dial import Target
from client_sdk.mistakes.arguments import advised
from client_sdk.mistakes.kinds import kind_of
from rsocket_wire.errors import BrokerError
from rsocket_wire.rsocket.metadata import encode_well_known_entry
from rsocket_wire.wire import authentication


@dataclass(frozen=True, init=False)
class Token:
    """A token, as an identity provider gives it: a JSON Web Token for this broker.

    >>> Token("eyJhbGciOiJFUzI1NiJ9...")
    Token()
    """

    token: str = field(repr=False)

    @advised("Token('...')")
    def __init__(self, token: str) -> None:
        """TypeError for what is no text, ValueError for what has more than the token."""
        _check_text("token", token)
        if not token:
            raise ValueError("the token is empty: is the variable or the file empty that it comes from?")
        if token.lower().startswith("bearer "):
            raise ValueError("the token begins with the word Bearer: leave that out")
        if token != token.strip():
            raise ValueError("the token has white space around it: write Token(text.strip())")
        object.__setattr__(self, "token", token)


@dataclass(frozen=True, init=False)
class Password:
    """A user's name and password.

    >>> Password("ada", "correct horse")
    Password(name='ada')
    """

    name: str
    password: str = field(repr=False)

    @advised("Password('name', 'secret')")
    def __init__(self, name: str, password: str) -> None:
        """TypeError for what is no text, ValueError without a name."""
        _check_text("name", name)
        _check_text("password", password)
        if not name:
            raise ValueError("the name is empty: is the variable or the file empty that it comes from?")
        object.__setattr__(self, "name", name)
        object.__setattr__(self, "password", password)


Credentials = Token | Password
CredentialsSource = Credentials | Callable[[], Awaitable[Credentials]]


async def encoded_credentials(source: CredentialsSource) -> bytes:
    """As an entry has them; ValueError for what cannot be sent, and whatever the function raises."""
    given = source if isinstance(source, Token | Password) else await _asked(source)
    if isinstance(given, Token):
        credentials = authentication.Credentials(authentication.BEARER, "", given.token)
    else:
        credentials = authentication.Credentials(authentication.SIMPLE, given.name, given.password)
    try:
        return credentials.encode()
    except BrokerError as error:
        raise ValueError(f"credentials: {error.text}") from None


def _check_text(what: str, given: object) -> None:
    """TypeError for what is no text; it does not show a secret."""
    if isinstance(given, str):
        return
    mend = {bytes: "; write it with .decode()", type(None): ": is an environment variable missing?"}
    raise TypeError(f"the {what} is {kind_of(given)}, it must be str{mend.get(type(given), '')}")


async def _asked(function: Callable[[], Awaitable[Credentials]]) -> Credentials:
    """What the program's function gives; TypeError for what is no credentials."""
    wanted = "Token('...') or Password('name', '...')"
    answer: object = function()
    if not inspect.isawaitable(answer):
        raise TypeError(f"the function of credentials= is not async: write async def, and return {wanted}")
    given: object = await answer
    if not isinstance(given, Token | Password):
        raise TypeError(f"the function of credentials= returned {type(given).__name__}, it must return {wanted}")
    return given


async def credentials_entry(source: CredentialsSource) -> bytes:
    """The entry of a SETUP's metadata; raises as `encoded_credentials`."""
    return encode_well_known_entry(authentication.AUTHENTICATION_ID, await encoded_credentials(source))


def may_carry_credentials(target: Target) -> bool:
    """Nobody on the way to the broker could read them."""
    if target.scheme in ("tls", "wss", "unix") or target.host == "localhost":
        return True
    try:
        return ipaddress.ip_address(target.host).is_loopback
    except ValueError:
        return False
