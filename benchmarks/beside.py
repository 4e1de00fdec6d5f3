"""Who uses the broker beside a benchmark's own traffic, one process each:

    python -m benchmarks.beside consumer PORT BYTES_PER_S    reads that much of streams that it asked a lot of
    python -m benchmarks.beside service PORT                 answers as `stopped`, until it is sent SIGSTOP
    python -m benchmarks.beside feeder PORT                  sends requests to `stopped` all the time
    python -m benchmarks.beside logins PORT FILE PER_S ADDRESSES_N ARE_RIGHT
                                                             connects with each credentials of the file in turn

A consumer takes streams of the generator's `echo` and has WAITING_BYTES of them on the way to it: more than the mark
above which the broker calls a peer congested, less than the limit at which it ends it. Each says `ready` once it is.
"""

import base64
import socket
import sys
import time
from collections import deque
from contextlib import suppress
from itertools import count
from pathlib import Path
from typing import Final

from rsocket_wire.rsocket import frames
from rsocket_wire.rsocket.framing import FrameCursor
from rsocket_wire.rsocket.metadata import COMPOSITE_MIME, encode_entry, encode_well_known_entry
from rsocket_wire.wire.authentication import AUTHENTICATION_ID
from rsocket_wire.wire.frames import MIME_TYPE, Address, RouteSetup
from rsocket_wire.wire.tags import Tag

STOPPED: Final = "stopped"
ECHO: Final = "echo"  # the service of the generator
WAITING_BYTES: Final = 6 << 20
STREAM_BYTES: Final = 1024 * 112  # of one stream of the generator: 1024 items of 100 bytes, framed
RECEIVE_BUFFER_BYTES: Final = 4096  # small, so that what is not read waits at the broker
READS_PER_S: Final = 10
RETRY_S: Final = 0.02  # until the generator's service is there
FED_PER_S: Final = 200  # requests of FED_BYTES
FED_BYTES: Final = 4096
OPEN_N: Final = 50  # connections of who logs in, the last ones


def connect(port: int, metadata: bytes | None = None) -> socket.socket:
    """A connection with a SETUP."""
    made = socket.socket()
    made.setsockopt(socket.SOL_SOCKET, socket.SO_RCVBUF, RECEIVE_BUFFER_BYTES)
    made.connect(("127.0.0.1", port))
    made.sendall(framed(frames.Setup(COMPOSITE_MIME, "a/b", 20_000_000, 90_000_000, metadata).encode()))
    return made


def framed(raw: bytes) -> bytes:
    return len(raw).to_bytes(3, "big") + raw


def request(kind: int, stream_id: int, service: str, data: bytes = b"", n: int = 0) -> bytes:
    raw = Address(bytes(15) + b"\3", [Tag.of("service", service)]).encode()
    return framed(frames.encode_request(kind, stream_id, data, encode_entry(MIME_TYPE.encode(), raw), n))


def consume(port: int, bytes_per_s: int) -> None:
    """Reads slowly, for ever; with 0 it reads nothing more once the streams have begun."""
    made, stream_id = connect(port), -1
    while True:  # until the service is there: one ERROR for each try
        stream_id += 2
        made.sendall(request(frames.REQUEST_STREAM, stream_id, ECHO, n=1024))
        first = made.recv(9, socket.MSG_WAITALL)
        if first[7] >> 2 != frames.ERROR:
            break
        made.recv(int.from_bytes(first[:3], "big") - 6, socket.MSG_WAITALL)
        time.sleep(RETRY_S)
    asked, read = STREAM_BYTES, 0
    print("ready", flush=True)
    while True:
        while asked - read < WAITING_BYTES:
            stream_id += 2
            made.sendall(request(frames.REQUEST_STREAM, stream_id, ECHO, n=1024))
            asked += STREAM_BYTES
        if bytes_per_s:
            data = made.recv(bytes_per_s // READS_PER_S)
            if not data:
                raise SystemExit("the broker closed the slow consumer's connection")
            read += len(data)
        time.sleep(1 / READS_PER_S)


def serve(port: int) -> None:
    """Echoes."""
    made = connect(port, encode_entry(MIME_TYPE.encode(), RouteSetup(bytes(15) + b"\4", STOPPED, []).encode()))
    print("ready", flush=True)
    cursor = FrameCursor(True)
    while data := made.recv(1 << 16):
        cursor.feed(data, 0.0)
        while cursor.advance():
            if cursor.kind == frames.REQUEST_RESPONSE:
                made.sendall(framed(frames.encode_payload(cursor.stream_id, frames.NEXT | frames.COMPLETE, b"x")))


def feed(port: int) -> None:
    """Sends at a fixed rate, as far as the broker takes it; forgets the answers."""
    made, stream_id, waiting = connect(port), 1, b""
    made.setblocking(False)
    print("ready", flush=True)
    while True:
        try:
            if not made.recv(1 << 20):
                return
        except BlockingIOError:
            pass
        if not waiting:
            waiting = request(frames.REQUEST_RESPONSE, stream_id, STOPPED, bytes(FED_BYTES))
            stream_id += 2
        with suppress(BlockingIOError):
            waiting = waiting[made.send(waiting) :]
        time.sleep(1 / FED_PER_S)


def log_in(port: int, path: str, per_s: int, addresses_n: int, are_right: int) -> None:
    """So many connections a second, from so many addresses in turn; ends when one with right credentials is refused."""
    lines = Path(path).read_bytes().splitlines()
    entries = [encode_well_known_entry(AUTHENTICATION_ID, base64.b64decode(line)) for line in lines]
    setups = [framed(frames.Setup(COMPOSITE_MIME, "a/b", 20_000_000, 90_000_000, entry).encode()) for entry in entries]
    asked = framed(frames.encode_keepalive(b"", respond=True))
    opened: deque[socket.socket] = deque()
    print("ready", flush=True)
    began_s = time.monotonic()
    for number in count():
        made = socket.socket()
        made.bind((f"127.0.1.{1 + number % addresses_n}", 0))
        made.connect(("127.0.0.1", port))
        made.sendall(setups[number % len(setups)] + asked)
        opened.append(made)
        if len(opened) > OPEN_N:
            oldest = opened.popleft()
            if are_right and oldest.recv(9, socket.MSG_WAITALL)[7] >> 2 != frames.KEEPALIVE:
                raise SystemExit("right credentials were refused")
            oldest.close()
        time.sleep(max(0.0, began_s + number / per_s - time.monotonic()))


def main(role: str, port: int, *words: str) -> None:
    """Until it is killed."""
    if role == "consumer":
        consume(port, int(words[0]))
    elif role == "logins":
        log_in(port, words[0], *map(int, words[1:]))
    elif role == "service":
        serve(port)
    else:
        feed(port)


if __name__ == "__main__":
    main(sys.argv[1], int(sys.argv[2]), *sys.argv[3:])
