"""First frames with other metadata: whole frames, whatever carries them."""

import pytest

from broker.core import CoreSettings
from rsocket_wire.rsocket import frames
from rsocket_wire.rsocket.frames import REQUEST_CHANNEL, REQUEST_FNF
from tests.broker.forwarding.brokers import DATA_MIME, PLAIN, TO, Broker, annotated, section
from tests.fakes import Frame, moved


@pytest.mark.parametrize("size", [0, 1 << 20, (1 << 23) + 5])
@pytest.mark.parametrize("framed", [True, False])
@pytest.mark.parametrize("resumes", [True, False])
def test_requests_of_any_size_are_stripped_for_connections_of_all_kinds(size: int, framed: bool, resumes: bool) -> None:
    """D-49: what is written with other metadata is a whole frame, whatever carries it."""
    broker = Broker("b2", CoreSettings(resume_buffer_bytes=1 << 25))
    wire = broker.service("orders", 7, framed, data_mime=DATA_MIME, token=b"token" if resumes else None)
    link = broker.link("b1")
    for number, kind in ((1, REQUEST_FNF), (3, REQUEST_CHANNEL)):
        link.send(frames.encode_request(kind, number, b"x" * size, annotated(section(TO, "b1")) + PLAIN, 8))
    expected = [frames.encode_request(kind, 2, b"x" * size, PLAIN, 8) for kind in (REQUEST_FNF, REQUEST_CHANNEL)]
    assert wire.received() == [Frame(expected[0]), moved(expected[1], 4)]
