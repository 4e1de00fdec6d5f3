"""How much is told to a neighbour at once."""

import pytest

from broker.cluster.links.neighbour import BATCH_BYTES, BATCH_N, UP, Neighbour
from tests.conformance.links import Broker, cluster, entries
from tests.conformance.scripts import FORWARDING, composite, heard, push
from tests.fakes import World


def neighbour(world: World) -> tuple[Neighbour, Broker]:
    """A link that is up, from here; and the broker there."""
    other = Broker(world).link()
    (found,) = world.core.cluster.links()
    assert found.stage == UP
    return found, other


@pytest.mark.parametrize(
    ("count", "frames"), [(0, []), (1, [1]), (BATCH_N, [BATCH_N]), (2 * BATCH_N + 1, [200, 200, 1])]
)
def test_one_push_has_so_many_entries_and_no_more(count: int, frames: list[int]) -> None:
    world = cluster()
    found, other = neighbour(world)
    found.push([composite((FORWARDING, b"%06d" % number)) for number in range(count)])
    world.pump()
    pushed = [entries(raw) for raw in heard(other.wire)]
    assert [len(each) for each in pushed] == frames
    assert [content for each in pushed for _, content in each] == [b"%06d" % number for number in range(count)]


def test_one_push_has_so_many_bytes_or_one_entry() -> None:
    world = cluster()
    found, other = neighbour(world)
    head = len(composite((FORWARDING, b"")))
    sizes = [BATCH_BYTES // 2 - head, BATCH_BYTES // 2 - head, 1, BATCH_BYTES * 2, 1]
    found.push([composite((FORWARDING, bytes(size))) for size in sizes])
    world.pump()
    assert heard(other.wire) == [
        push(composite((FORWARDING, bytes(sizes[0])), (FORWARDING, bytes(sizes[1])))),
        push(composite((FORWARDING, b"\0"))),
        push(composite((FORWARDING, bytes(sizes[3])))),
        push(composite((FORWARDING, b"\0"))),
    ]
