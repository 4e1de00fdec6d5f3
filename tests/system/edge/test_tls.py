"""tls:// and wss://: who gets in, who does not, and that nobody else notices."""

import asyncio
import ssl

import aiohttp
import pytest

from tests.conftest import StartBroker
from tests.system.support.certificates import Authority
from tests.system.support.processes import BrokerProcess
from tests.system.support.waits import soon, until
from tests.system.support.wires import Closed, Wire

LISTEN = ("--listen", "tls://127.0.0.1:0", "--listen", "wss://127.0.0.1:0/rsocket")
REFUSED = (ssl.SSLError, ConnectionError, aiohttp.ClientError, Closed, asyncio.IncompleteReadError)

pytestmark = pytest.mark.filterwarnings("ignore::pytest.PytestUnraisableExceptionWarning")  # of broken handshakes


@pytest.fixture(scope="module")
def stranger(needs_openssl: str, tmp_path_factory: pytest.TempPathFactory) -> Authority:
    made = Authority(needs_openssl, tmp_path_factory.mktemp("stranger"), "theirs")
    made.sign("client")
    return made


def start(start_broker: StartBroker, authority: Authority, **options: object) -> BrokerProcess:
    return start_broker(*LISTEN, **authority.broker_options(), **options)


@pytest.mark.parametrize("scheme", ["tls", "wss"])
async def test_requests_pass_over_tls(start_broker: StartBroker, authority: Authority, scheme: str) -> None:
    broker = start(start_broker, authority)
    context = authority.client_context()
    service = await Wire.service(broker.url(scheme), "orders", 1, context)
    service.begin_echo(lambda data: b"got " + data)
    caller = await Wire.caller(broker.url(scheme), context)
    assert (await caller.ask("orders", b"secret")).data == b"got secret"
    big = b"0123456789abcdef" * 50_000
    assert (await caller.ask("orders", big)).data == b"got " + big


@pytest.mark.parametrize("scheme", ["tls", "wss"])
async def test_a_client_ca_lets_its_own_in_and_nobody_else(
    start_broker: StartBroker, authority: Authority, stranger: Authority, scheme: str
) -> None:
    broker = start(start_broker, authority, tls__client_ca=authority.root)
    url = broker.url(scheme)
    wire = await Wire.caller(url, authority.client_context("client"))
    nobody = authority.client_context()
    somebody = authority.client_context()
    somebody.load_cert_chain(stranger.certificate("client"), stranger.key("client"))
    for context in (nobody, somebody):
        with pytest.raises(REFUSED):  # with TLS 1.3 the client learns it at its first reading
            await soon(Wire.caller(url, context))
    await wire.ping()
    failed = "closed: the TLS handshake failed: "
    for reason in ("peer did not return a certificate", "certificate verify failed: unable to get local issuer"):
        await until(lambda text=failed + reason: text in broker.errors)  # type: ignore[misc]


async def test_what_is_no_tls_disturbs_nobody(start_broker: StartBroker, authority: Authority) -> None:
    broker = start(start_broker, authority)
    wire = await Wire.caller(broker.url("tls"), authority.client_context())
    for scheme in ("tls", "wss"):
        plain = await Wire.connect(broker.url(scheme).replace("wss", "tcp").replace("tls", "tcp"))
        plain.setup()
        with pytest.raises((*REFUSED, TimeoutError)):
            await plain.receive()
        await plain.close()
    with pytest.raises(REFUSED):
        await soon(Wire.caller(broker.url("tls"), ssl.create_default_context()))  # it does not trust our authority
    await wire.ping()
    assert broker.errors.count("the TLS handshake failed: wrong version number") == 2
    assert "Traceback" not in broker.errors


async def test_an_old_tls_version_is_refused(start_broker: StartBroker, authority: Authority) -> None:
    broker = start(start_broker, authority, tls__min_version="1.3")
    old = authority.client_context()
    old.maximum_version = ssl.TLSVersion.TLSv1_2
    with pytest.raises(REFUSED):
        await soon(Wire.caller(broker.url("tls"), old))
    await Wire.caller(broker.url("tls"), authority.client_context())
