"""client_sdk.gateways.samwise.endpoint.envelopes"""

import pytest

from client_sdk.gateways.samwise.endpoint.envelopes import MAX_ENVELOPE_FRAMES, envelope_n

HOP = b"\0hop1"


@pytest.mark.parametrize(
    "frames, count",
    [
        ([b"", b"120", b"ping"], 1),
        ([b""], 1),  # a REQ that sends nothing
        ([b"", b"", b""], 1),
        ([b"120", b"ping"], 0),  # a DEALER without delimiter
        ([b"100", b"publish", b"round robin", b"", b"", b"x"], 0),  # whose empty frames are no delimiter
        ([b"120", b""], 2),  # an action is never empty: 120 is a hop
        ([HOP, b"", b"120", b"ping"], 2),  # by a proxy
        ([HOP, HOP, b"", b"120", b"publish", b""], 3),
        ([b"120", b"", b"120", b"ping"], 2),  # a hop that is called so
        ([b"junk"], 0),
        ([b"junk", b"more"], 0),
        ([], 0),
        ([*[HOP] * (MAX_ENVELOPE_FRAMES - 1), b"", b"120", b"ping"], MAX_ENVELOPE_FRAMES),
        ([*[HOP] * MAX_ENVELOPE_FRAMES, b"", b"120", b"ping"], 0),
    ],
)
def test_the_request_begins_behind_the_delimiter_or_the_caller(frames: list[bytes], count: int) -> None:
    assert envelope_n(frames) == count
