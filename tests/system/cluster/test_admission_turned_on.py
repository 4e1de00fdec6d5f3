"""A cluster at work whose admission is switched on broker by broker, and whose keys and certificates are then turned:
no call fails."""

import asyncio
import contextlib
import shutil
import signal
import ssl
import time
from pathlib import Path

import pytest

from client_sdk import Client, NotConnected, Service, Token, connect
from tests.broker.edge.admission.signers import AUDIENCE, ISSUER, Signer, key_set, signer
from tests.conftest import StartBroker
from tests.system.support.certificates import Authority
from tests.system.support.processes import BrokerProcess
from tests.system.support.waits import until
from tests.system.support.work import Work

SECRET = "only the brokers of these tests know it"
NAMES = "subjectAltName=IP:127.0.0.1\n"
SPIFFE = "subjectAltName=URI:spiffe://acme/orders\n"
CALLS = 20  # that are made before the next step
SERVICES = 2
CALLERS = 2

ADMISSION = """
[auth]
mode = "{mode}"
accept = ["certificate", "jwt"]

[jwt]
keys = "{folder}/keys.json"
issuer = "{issuer}"
audience = "{audience}"
"""
ROLES = """
[role.orders]
who = ["certificate:spiffe://acme/orders"]
announce = [{ service = "orders" }]

[role.callers]
who = ["jwt:caller-*"]
address = [{ service = "orders" }]
"""


class Secured:
    """Two brokers, their files, and the clients of them: services with certificates, callers with tokens."""

    def __init__(self, start_broker: StartBroker, old: Authority, folder: Path) -> None:
        self.work = Work()
        self.clients: list[Client] = []
        self.brokers: list[BrokerProcess] = []
        self._start = start_broker
        self._folder = folder
        self._signer = signer()
        self._started_n = 0
        self._contexts = {name: ssl.create_default_context(cafile=str(old.root)) for name in ("service", "caller")}
        self.trust(old)
        self.accept_keys(self._signer)
        self.certify(old)

    # What lies in the files, and what clients show

    def trust(self, *authorities: Authority) -> None:
        """Brokers and clients trust these; brokers from their next SIGHUP."""
        (self._folder / "roots.pem").write_text("".join(each.root.read_text() for each in authorities))
        for context in self._contexts.values():
            for each in authorities:
                context.load_verify_locations(each.root)

    def accept_keys(self, *signers: Signer) -> None:
        """Of tokens, from the next SIGHUP."""
        (self._folder / "keys.json").write_bytes(key_set(*signers))

    def sign_with(self, key: Signer) -> None:
        """Tokens of callers, from their next connection."""
        self._signer = key

    def certify(self, authority: Authority) -> None:
        """Brokers show what this one has signed from their next SIGHUP, services from their next connection."""
        for name, end in ((authority.certificate("one"), "pem"), (authority.key("one"), "key")):
            shutil.copy(name, self._folder / f"broker.{end}")
        self._contexts["service"].load_cert_chain(authority.certificate("orders"), authority.key("orders"))

    # Brokers and clients

    async def start(self, text: str) -> BrokerProcess:
        """One more broker with this configuration, which knows the last one."""
        self._started_n += 1
        file = self._folder / f"{self._started_n}.toml"
        file.write_text(text.replace("{folder}", str(self._folder)))
        options: dict[str, object] = {
            "broker__name": f"b{self._started_n}",
            "cluster__secret": SECRET,
            "cluster__ca": self._folder / "roots.pem",
            "tls__certificate": self._folder / "broker.pem",
            "tls__key": self._folder / "broker.key",
            "server__stop_grace_s": 5,
            "server__drain_spread_s": 0.2,
        }
        if self.brokers:
            options["cluster__peers"] = self.brokers[-1].url("tls")
        if text:
            options["tls__client_ca"] = self._folder / "roots.pem"
        arguments = ("--config", str(file), "--listen", "tls://127.0.0.1:0")
        broker = await asyncio.to_thread(self._start, *arguments, **options)
        self.brokers.append(broker)
        return broker

    async def replace(self, text: str) -> None:
        """One broker after the other, by those with this configuration."""
        for _ in range(2):
            await self.start(text)
            # All are at the oldest one or the one behind it, and the newest has been told to them.
            newest = self.brokers[-1].url("tls")
            await until(lambda: all(newest in client.brokers for client in self.clients))  # noqa: B023
            oldest = self.brokers.pop(0)
            oldest.signal(signal.SIGTERM)
            await until(lambda: oldest.process.poll() is not None)  # noqa: B023
            await self.more()

    async def reload(self) -> None:
        """All brokers read their files again."""
        for broker in self.brokers:
            read_n = broker.errors.count("files reloaded")
            broker.signal(signal.SIGHUP)
            await until(lambda: broker.errors.count("files reloaded") > read_n)  # noqa: B023
        await self.more()

    async def more(self) -> None:
        """Returns when so many more calls have succeeded; one that failed ends the test."""
        done = self.work.answered.total()
        await until(lambda: self.work.answered.total() > done + CALLS or self.work.failures)
        assert self.work.failures == []

    async def enter(self, stack: contextlib.AsyncExitStack) -> None:
        """Connects services and callers to the first broker."""
        url = self.brokers[0].url("tls")

        async def enter(who: str, service: Service | None = None) -> None:
            async def fresh() -> Token:
                return Token(self._signer.sign(sub=f"caller-{time.monotonic_ns()}"))

            credentials = None if service else fresh
            client = connect(url, service=service, ssl=self._contexts[who], credentials=credentials)
            self.clients.append(await stack.enter_async_context(client))

        for _ in range(SERVICES):
            await enter("service", self.work.service())
        for _ in range(CALLERS):
            await enter("caller")


@pytest.fixture(scope="module")
def authorities(needs_openssl: str, tmp_path_factory: pytest.TempPathFactory) -> tuple[Authority, Authority]:
    """An old one and its successor; both have signed a broker's certificate `one`, and `orders`."""
    folder = tmp_path_factory.mktemp("authorities")
    made = []
    for name in ("old", "new"):
        (folder / name).mkdir()
        made.append(Authority(needs_openssl, folder / name, name))
        made[-1].sign("one", NAMES)
        made[-1].sign("orders", SPIFFE)
    return made[0], made[1]


def shows_old(old: Authority, new: Authority) -> ssl.SSLContext:
    """Of a client that trusts the new authority, with a certificate of the old one."""
    context = new.client_context()
    context.load_cert_chain(old.certificate("orders"), old.key("orders"))
    return context


@pytest.mark.long
async def test_no_call_fails_while_admission_is_switched_on_and_everything_is_turned(
    start_broker: StartBroker, authorities: tuple[Authority, Authority], tmp_path: Path
) -> None:
    old, new = authorities
    admission = ADMISSION.replace("{issuer}", ISSUER).replace("{audience}", AUDIENCE)
    secured = Secured(start_broker, old, tmp_path)
    await secured.start("")
    await secured.start("")
    async with contextlib.AsyncExitStack() as stack:
        await secured.enter(stack)
        work = secured.work
        asks = [
            asyncio.create_task(work.ask(client, f"caller {number}"))
            for number, client in enumerate(secured.clients[SERVICES:])
        ]
        await secured.more()

        required = admission.replace("{mode}", "required") + ROLES
        await secured.replace(admission.replace("{mode}", "observe") + ROLES)
        await secured.replace(required)

        # The new authority and key are trusted everywhere before anything is signed by them, the old ones as long as
        # something is.
        secured.trust(old, new)
        secured.accept_keys(signer(), signer("ES256", "two"))
        await secured.reload()
        secured.certify(new)
        secured.sign_with(signer("ES256", "two"))
        await secured.reload()
        secured.trust(new)
        secured.accept_keys(signer("ES256", "two"))
        await secured.reload()
        await secured.replace(required)

        work.is_ending = True
        await asyncio.wait(asks)
        assert work.failures == []
        await until(lambda: work.noted.total() == len(work.sent))
        assert work.answered == work.served == work.noted
        # All may have moved to one of the two.
        assert any("admitted: jwt:caller-" in broker.errors for broker in secured.brokers)
        for context in (old.client_context("orders"), shows_old(old, new)):  # what was trusted is so no more
            with pytest.raises(NotConnected):
                await connect(secured.brokers[-1].url("tls"), ssl=context, connect_timeout_s=5)
