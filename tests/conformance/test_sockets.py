"""The same bytes over a real socket: what a stranger needs is an RSocket length before each frame, and no library."""

from broker.server import Server
from tests.conformance import scripts
from tests.conformance.scripts import SERVICE_NAME, U, address, forwarding, frame, on, request, setup, u64
from tests.system.support.wires import Wire, url_of


async def opened(server: Server, first: bytes) -> Wire:
    """A connection whose SETUP was read: the broker has answered what came behind it."""
    wire = await Wire.connect(url_of(server, "tcp"))
    wire.send(first, frame(0, 0x03, 0x080, u64(0) + b"here"))
    assert await heard(wire) == frame(0, 0x03, 0, u64(0) + b"here")
    return wire


async def heard(wire: Wire) -> bytes:
    """The bytes of the next frame."""
    return (await wire.receive()).raw


async def test_scripts_pass_over_a_real_socket(server: Server) -> None:
    raw_setup = setup(scripts.COMPOSITE, forwarding(scripts.route_setup(1, "orders", (scripts.REGION, "eu"))))
    orders = await opened(server, raw_setup)
    caller = await opened(server, setup(scripts.COMPOSITE))
    metadata = forwarding(address(U, (SERVICE_NAME, "orders"), (scripts.REGION, "eu"), wrapped=b"\x00\xff"))
    asked = request(scripts.REQUEST_RESPONSE, 1, metadata)
    caller.send(asked)
    assert await heard(orders) == on(2, asked)
    answer = scripts.payload(2, scripts.NEXT | scripts.COMPLETE, b"yes", b"m")
    orders.send(answer)
    assert await heard(caller) == on(1, answer)
    caller.send(request(scripts.REQUEST_RESPONSE, 3, forwarding(address(U | scripts.M, (SERVICE_NAME, "orders")))))
    text = "bad-address: more than one of unicast, multicast and shard is set (flags 0x0c0)"
    assert await heard(caller) == scripts.error(3, scripts.INVALID, text)
    await caller.close()
    await orders.close()
