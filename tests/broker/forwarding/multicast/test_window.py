"""The window of a branch: what it is asked for, and the items of it that wait."""

import pytest

from broker.forwarding.multicast.window import PIECE_BYTES, Window

MUCH = 1 << 30


def make(reach_n: int = 32) -> Window:
    """A window of a branch that was asked for nothing."""
    window = Window()
    window.reach_n = reach_n
    return window


def arrive(window: Window, *items: list[bytes]) -> None:
    """Items that it was asked for, each in these fragments."""
    for item in items:
        window.asked_n += 1
        for raw in item:
            window.hold(raw)
        window.close_item(32)


@pytest.mark.parametrize(
    "reach_n, credit_n, asked_n, wanted_n",
    [
        (32, 100, 0, 32),
        (32, 100, 16, 16),
        (32, 100, 17, 0),  # over half of the window is open: not worth a frame
        (32, 5, 0, 5),
        (32, 5, 3, 0),
        (32, 5, 9, 0),  # the caller wanted more once
        (4, 100, 0, 4),
        (32, 0, 0, 1),  # whoever asks says that it may be asked
        (1, 1, 1, 0),
    ],
)
def test_a_window_is_bounded_by_reach_and_credit(reach_n: int, credit_n: int, asked_n: int, wanted_n: int) -> None:
    window = make(reach_n)
    window.asked_n = asked_n
    assert window.wanted_n(credit_n, MUCH) == wanted_n


def test_a_branch_is_asked_for_no_more_while_its_items_fill_its_share() -> None:
    """Though the sizes seen of late would let it: what waits counts with the bytes that it has."""
    window = make(1000)
    arrive(window, [bytes(100_000)], *[[b""]] * 31)
    share_bytes = window.waiting_bytes
    assert share_bytes // window.item_bytes > window.waiting_n
    assert window.wanted_n(1000, share_bytes) == 0
    assert window.wanted_n(1000, share_bytes - 1) == 0
    window.take_item()
    assert window.wanted_n(1000, share_bytes) == (100_000 + PIECE_BYTES) // window.item_bytes


def test_the_size_to_reckon_with_jumps_up_and_sinks_slowly() -> None:
    window = make()
    sizes = []
    for size in (100, 1000, 200, 200, 1000, 50):
        window.asked_n += 1
        window.came(size, 32)
        sizes.append(window.item_bytes)
    assert sizes == [100, 1000, 900, 813, 1000, 882]


@pytest.mark.parametrize("share_bytes", [1, 999, 1000])
def test_one_item_may_always_be_asked_for_whatever_its_size(share_bytes: int) -> None:
    window = make()
    window.came(1000, 32)
    window.asked_n = 0
    assert window.wanted_n(100, share_bytes) == 1
