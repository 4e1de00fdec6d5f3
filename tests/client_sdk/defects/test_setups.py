"""Rows 1, 2, 13 and 15: who has not been let in serves nobody, and who cannot come in is told."""

import asyncio

import pytest

from client_sdk import ClientError, ConnectionLost, NotConnected, SetupRejected, address, connect
from tests.client_sdk import frames
from tests.client_sdk.frames import Frame, error, request
from tests.client_sdk.raw_broker import Everything, RawBroker, ask, at_work, serving

REQUESTS = (
    *(
        request(2 * number + 2, kind, b"1")
        for number, kind in enumerate((frames.RESPONSE, frames.FNF, frames.STREAM, frames.CHANNEL))
    ),
    Frame(0, frames.PUSH, frames.METADATA, b"push"),
)


@pytest.mark.parametrize("code", [0x001, 0x002, 0x003, 0x004])
async def test_rejected_setup_is_told_and_what_comes_behind_it_is_not_served(raw: RawBroker, code: int) -> None:
    """Row 1."""
    raw.answers_pings = False
    raw.greeting = (error(0, code, "not-you: go away"), *REQUESTS)
    everything = Everything()
    with pytest.raises(SetupRejected, match="go away") as caught:
        await connect(raw.url, service=everything.service)
    assert (caught.value.word, caught.value.code) == ("not-you", code)
    peer = await raw.peer()
    await peer.assert_gone()
    assert everything.calls == []
    assert peer.of(frames.PAYLOAD) + peer.of(frames.ERROR) == []


async def test_a_broker_that_changes_its_mind_later_is_not_served_either(raw: RawBroker) -> None:
    """Row 1, on a connection that was accepted before."""
    async with at_work(raw) as (everything, client, peer):
        call, _ = await ask(client, peer)
        peer.send(error(0, 0x003, "not-you: any more"), *REQUESTS)
        with pytest.raises(ConnectionLost, match="any more"):
            await call
        await peer.assert_gone()
        assert everything.calls == []


async def test_the_first_frame_is_a_setup_and_nothing_goes_before_it_is_accepted(raw: RawBroker) -> None:
    """Row 2, as the one who connects: no request can be made before."""
    raw.answers_pings = False
    connecting = asyncio.create_task(connect(raw.url, connect_timeout_s=5).__aenter__())
    peer = await raw.peer()
    await peer.expect(frames.KEEPALIVE)
    assert [each.kind for each in peer.frames] == [frames.SETUP, frames.KEEPALIVE]
    peer.send(Frame(0, frames.KEEPALIVE, 0, bytes(8)))
    client = await connecting
    await client.close()


@pytest.mark.parametrize("keepalive_s", [0, -1, float("nan"), 0x80000000])
def test_a_setup_that_says_nonsense_cannot_be_made(keepalive_s: float) -> None:
    """Row 2, as the one who connects: 0 is forbidden, and 31 bits of milliseconds are all that there is."""
    with pytest.raises(ValueError, match=r"keepalive_s|lifetime_s"):
        connect("tcp://x", keepalive_s=keepalive_s, lifetime_s=max(keepalive_s, 1))


@pytest.mark.parametrize("length", [0, 129, 255, 256])
def test_a_mime_type_that_no_entry_can_name_is_refused_before_anything_is_dialled(length: int) -> None:
    """Row 13."""
    with pytest.raises(ValueError, match=r"1\.\.128"):
        connect("tcp://x", service="orders", mime_type="m" * length)


@pytest.mark.parametrize("length", [1, 127, 128])
async def test_the_longest_mime_type_connects(raw: RawBroker, length: int) -> None:
    """Row 13: what the length of an entry can say, it says."""
    mime = b"m" * length
    async with serving(raw, None, mime_type=mime.decode()) as (client, peer):
        with pytest.raises(ClientError, match="deadline"):
            await client.request_response(address("x"), timeout_s=0.01)
        [asked] = await peer.expect(frames.RESPONSE)
        assert (asked.metadata or b"").startswith(bytes([length - 1]) + mime)


async def test_nobody_listening_is_told_by_connect_and_not_by_the_first_request(raw: RawBroker) -> None:
    """Row 15."""
    await raw.stop()
    with pytest.raises(NotConnected, match="connect-failed"):
        async with connect(raw.url):
            raise AssertionError("the block must not begin")


@pytest.mark.parametrize("last_words", [(), (Frame(0, frames.KEEPALIVE),)])
async def test_a_broker_that_closes_before_it_accepts_is_told_by_connect(
    raw: RawBroker, last_words: tuple[Frame, ...]
) -> None:
    """Row 15: with the end of the connection or a frame that is cut off as the only answer."""
    raw.answers_pings = False
    connecting = asyncio.create_task(connect(raw.url).__aenter__())
    peer = await raw.peer()
    await peer.expect(frames.KEEPALIVE)
    if last_words:
        peer.write([b"\0\0\x0e" + last_words[0].encode()])  # shorter than it says
        await asyncio.sleep(0)
    peer.abort()
    with pytest.raises(NotConnected):
        await connecting


async def test_a_silent_broker_is_told_by_connect_in_time(raw: RawBroker) -> None:
    """Row 15: a socket that is accepted is no connection yet."""
    raw.answers_pings = False
    with pytest.raises(NotConnected, match="connect-timeout"):
        await connect(raw.url, connect_timeout_s=0.05)
    await (await raw.peer()).assert_gone()
