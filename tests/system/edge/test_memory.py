"""Memory that slow peers took is given back to the system."""

import pytest

from broker.edge.memory import TRIM_BYTES, Memory
from rsocket_wire.rsocket.frames import NEXT, REQUEST_STREAM, encode_payload
from tests.conftest import StartBroker
from tests.system.support.vitals import resident_kib
from tests.system.support.waits import until
from tests.system.support.wires import Wire

READERS_N = 12
ITEMS_N = 200
ITEM = bytes(60_000)


@pytest.mark.parametrize(
    ("held", "trims_n"),
    [
        ([TRIM_BYTES * 2, TRIM_BYTES], 1),
        ([TRIM_BYTES * 2, TRIM_BYTES + 1], 0),
        ([TRIM_BYTES - 1, 0], 0),
        ([TRIM_BYTES * 4, 0, 0, TRIM_BYTES, 0], 2),
        ([0, 0, 0], 0),
    ],
)
def test_memory_is_given_back_when_half_of_much_has_gone(held: list[int], trims_n: int) -> None:
    trims: list[int] = []
    memory = Memory(lambda: trims.append(1))
    for each in held:
        memory.look(each, each)
    assert len(trims) == trims_n


def test_what_has_come_and_gone_between_two_looks_counts() -> None:
    trims: list[int] = []
    memory = Memory(lambda: trims.append(1))
    memory.look(0, 2 * TRIM_BYTES)
    assert len(trims) == 1


async def test_a_process_holds_no_more_after_slow_readers_than_before(start_broker: StartBroker) -> None:
    broker = start_broker()
    service = await Wire.service(broker.url("tcp"), "firehose", 1)
    before = resident_kib(broker.pid)
    readers = []
    for _ in range(READERS_N):
        slow = await Wire.slow(broker.url("tcp"))
        slow.request("firehose", kind=REQUEST_STREAM, n=ITEMS_N)
        readers.append(slow)
        request = await service.receive()
        for _ in range(ITEMS_N):
            service.send(encode_payload(request.stream_id, NEXT, ITEM))
        await service.transport.flush()
    await service.ping()
    waits_kib = READERS_N * (ITEMS_N - 100) * len(ITEM) // 1024  # what systems hold not counted
    assert resident_kib(broker.pid) > before + waits_kib
    for slow in readers:
        slow.transport.abort()
    await until(lambda: resident_kib(broker.pid) < before + waits_kib // 4)
