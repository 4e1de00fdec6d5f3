"""A room is all members with its tag, and who is in it hears what is said there; a shouter makes lines loud."""

from collections.abc import AsyncIterator
from dataclasses import dataclass
from typing import Protocol

from client_sdk import JSON, Client, Service, address, fire_and_forget, gather, multicast


@dataclass
class Line:
    author: str
    text: str


class Member(Protocol):
    async def name(self) -> str: ...

    @fire_and_forget
    async def hear(self, line: Line) -> None: ...


class Shouter(Protocol):
    def shout(self, lines: AsyncIterator[Line]) -> AsyncIterator[Line]: ...


class Person:
    """Does what Member says."""

    def __init__(self, name: str) -> None:
        self._name = name
        self.heard: list[Line] = []

    async def name(self) -> str:
        return self._name

    async def hear(self, line: Line) -> None:
        self.heard.append(line)


class Megaphone:
    """Does what Shouter says."""

    async def shout(self, lines: AsyncIterator[Line]) -> AsyncIterator[Line]:
        async for line in lines:
            yield Line(line.author, line.text.upper())


def offer_person(person: Person, room: str) -> Service:
    service = Service("chat", tags={"room": room}, codec=JSON)
    service.implement(Member)(person)
    return service


def offer_megaphone() -> Service:
    service = Service("shouter", codec=JSON)
    service.implement(Shouter)(Megaphone())
    return service


class Room:
    """What a client can do there."""

    def __init__(self, client: Client, name: str) -> None:
        self._members = client.of(Member, multicast("chat", room=name), timeout_s=5)
        self._shouter = client.of(Shouter, address("shouter"))

    async def who(self) -> list[str]:
        return sorted(answer.value for answer in await gather(self._members.name))

    async def say(self, line: Line) -> None:
        await self._members.hear(line)

    async def shout(self, lines: AsyncIterator[Line]) -> None:
        async for line in self._shouter.shout(lines):
            await self.say(line)
