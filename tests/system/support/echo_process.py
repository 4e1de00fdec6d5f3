"""A service in a process of its own, so that a test can kill it:
`python -m tests.system.support.echo_process URL NAME NUMBER`.

It answers a request with its own number, unless the data is `HOLD`. Says `joined` once its route is there.
"""

import asyncio
import contextlib
import sys

from rsocket_wire.rsocket.frames import REQUEST_RESPONSE
from tests.system.support.wires import Closed, Wire

HOLD = b"hold"  # such a request is never answered


async def main(url: str, name: str, number: int) -> None:
    """Serves until the broker or somebody else ends it."""
    wire = await Wire.service(url, name, number)
    print("joined", flush=True)
    with contextlib.suppress(Closed):
        while True:
            frame = await wire.next()
            if frame.kind == REQUEST_RESPONSE and frame.data != HOLD:
                wire.answer(frame, str(number).encode())


if __name__ == "__main__":
    asyncio.run(main(sys.argv[1], sys.argv[2], int(sys.argv[3])))
