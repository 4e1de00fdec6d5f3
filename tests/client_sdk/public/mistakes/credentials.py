"""With credentials."""

import contextlib
from collections.abc import AsyncIterator
from pathlib import Path

from argon2 import PasswordHasher

from client_sdk import (
    Password,
    Token,
    connect,
)
from client_sdk.testing import LocalBroker, local_broker
from tests.client_sdk.public.mistakes.world import World, mistake, unseen, wrong


@contextlib.asynccontextmanager
async def guarded(folder: Path) -> AsyncIterator[LocalBroker]:
    """A broker that lets in whom its file knows: ada, whose word is "lovelace"."""
    users = folder / "users"
    users.write_text(f"ada:{PasswordHasher(time_cost=1, memory_cost=1024).hash('lovelace')}\n")
    users.chmod(0o600)
    options = {"auth.mode": "required", "auth.accept": "user", "auth.users": users}
    async with local_broker(options=options) as url:
        yield url


@mistake("no credentials")
async def _nobody(world: World) -> None:
    async with guarded(world.folder) as url:
        await connect(url)


@mistake("a wrong password")
async def _wrong_password(world: World) -> None:
    async with guarded(world.folder) as url:
        await connect(url, credentials=Password("ada", "babbage"))


@mistake("a token where passwords are wanted")
async def _wrong_kind(world: World) -> None:
    async with guarded(world.folder) as url:
        await connect(url, credentials=Token("babbage"))


@mistake("a service that the role may not announce")
async def _denied(world: World) -> None:
    config = world.folder / "broker.toml"
    config.write_text(
        'auth = { mode = "required", accept = ["anonymous"] }\n'
        'role.echo = { who = ["anonymous"], announce = [{ service = "echo" }] }\n'
    )
    async with local_broker("--config", str(config)) as url:
        await connect(url, service="orders")


wrong("credentials that are plain text", lambda world: connect(world.url, credentials=unseen("ada:lovelace")))
wrong(
    "a function of `credentials=` without async",
    lambda world: connect(world.url, credentials=unseen(lambda: Token("t"))),
)
wrong("credentials over a network in the clear", lambda world: connect("tcp://broker.example", credentials=Token("t")))
wrong("credentials of an environment variable that is not set", lambda world: Token(unseen(None)))
wrong("a password without a name", lambda world: unseen(Password)("lovelace"))
