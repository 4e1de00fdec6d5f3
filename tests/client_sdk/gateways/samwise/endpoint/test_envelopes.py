"""client_sdk.gateways.samwise.endpoint.envelopes"""

import pytest

from client_sdk.gateways.samwise.endpoint.envelopes import MAX_ENVELOPE_FRAMES, envelope_n

ID = b"\0abcd"
HOP = b"\0hop1"


@pytest.mark.parametrize(
    "frames, count",
    [
        ([ID, b"", b"120", b"ping"], 2),
        ([ID, b""], 2),  # a REQ that sends nothing
        ([ID, b"", b"", b""], 2),
        ([ID, b"120", b"ping"], 1),  # a DEALER without delimiter
        ([ID, b"100", b"publish", b"round robin", b"", b"", b"x"], 1),  # whose empty frames are no delimiter
        ([ID, b"120", b""], 3),  # an action is never empty: 120 is a hop
        ([ID, HOP, b"", b"120", b"ping"], 3),  # by a proxy
        ([ID, HOP, HOP, b"", b"120", b"publish", b""], 4),
        ([ID, b"120", b"", b"120", b"ping"], 3),  # a hop that is called so
        ([ID, b"junk"], 1),
        ([ID, b"junk", b"more"], 1),
        ([ID], 1),
        ([ID, *[HOP] * (MAX_ENVELOPE_FRAMES - 2), b"", b"120", b"ping"], MAX_ENVELOPE_FRAMES),
        ([ID, *[HOP] * (MAX_ENVELOPE_FRAMES - 1), b"", b"120", b"ping"], 1),
    ],
)
def test_the_request_begins_behind_the_delimiter_or_the_caller(frames: list[bytes], count: int) -> None:
    assert envelope_n(frames) == count
