"""Long runs of broken requests against the parser of the Samwise gateway.

    python -m tests.fuzz.fuzz_samwise 10000000           # messages; a second number is the seed

Most are requests of which a few frames are lost, doubled or other ones, so that they come past the first checks. Each
is read or Refused with a sentence. What is read is written as the documents have it, and that a strict gateway reads as
the same. `tests/client_sdk/gateways/samwise/test_any_requests.py` runs some of them.
"""

import random
import sys

from client_sdk.gateways.samwise.requests import Defaults, Rules, encode_request, read_request
from client_sdk.gateways.samwise.values import Refused
from tests.client_sdk.gateways.samwise.scripts import (
    DECLARE,
    DELETE,
    REDUNDANT_1_0,
    REDUNDANT_1_1,
    ROUND_ROBIN_1_0,
    ROUND_ROBIN_1_1,
    with_headers,
    with_options,
)

REASONS = {"version", "action", "control", "frames", "number", "empty", "text", "strict", "limit"}
CONTROLS = frozenset({"status", "stop", "restart"})
DEFAULTS = Defaults(
    distribution="redundant", acks_n=2, exchange="events", routing_key="all", options={"priority": "3", "type": "t"}
)
RULES = [
    Rules(controls=CONTROLS),
    Rules(controls=CONTROLS, defaults=DEFAULTS),
    Rules(strict=True, min_version=110, max_frames=30, max_message_bytes=200),
]
BY_THE_DOCUMENTS = Rules(strict=True, controls=CONTROLS)
HEADERS = [b"a", b"1", b"b", b"2"]
GOOD = [
    *(ROUND_ROBIN_1_0, REDUNDANT_1_0, ROUND_ROBIN_1_1, REDUNDANT_1_1, DECLARE, DELETE, [b"120", b"status"]),
    with_headers(ROUND_ROBIN_1_1, b"2", HEADERS),
    with_headers(with_options(REDUNDANT_1_1, [b"x"] * 12), b"4", HEADERS),
]
WORDS = [
    *(b"100", b"110", b"120", b"publish", b"rpc", b"ping", b"status", b"stop", b"round robin", b"redundant"),
    *(b"exchange.declare", b"exchange.delete", b"", b"0", b"1", b"2", b"4", b"12", b"-1", b"\0", b"\xff", b"x" * 256),
]


def broken_request(rng: random.Random) -> list[bytes]:
    """A good request that up to three changes were made to, or some frames."""
    if rng.random() < 0.1:
        return [any_frame(rng) for _ in range(rng.randrange(40))]
    frames = list(rng.choice(GOOD))
    for _ in range(rng.randrange(4)):
        at = rng.randrange(len(frames) + 1)
        frames[at : at + rng.randrange(3)] = [any_frame(rng) for _ in range(rng.randrange(3))]
    return frames


def any_frame(rng: random.Random) -> bytes:
    return rng.choice(WORDS) if rng.random() < 0.8 else rng.randbytes(rng.randrange(8))


def is_read(frames: list[bytes], rules: Rules) -> bool:
    """Whether it was read; AssertionError when it was neither read nor refused as it should be."""
    try:
        request = read_request(frames, rules)
    except Refused as refused:
        if refused.reason in REASONS and refused.text.isprintable() and len(refused.text) < 250:
            return False
        raise AssertionError(f"{refused.reason}: {refused.text!r}") from refused
    assert read_request(encode_request(request), BY_THE_DOCUMENTS) == request
    return True


def run(count: int, seed: int) -> int:
    """How many of so many messages were read. What is raised has a note of the message."""
    rng = random.Random(seed)
    read_n = 0
    for _ in range(count):
        frames, rules = broken_request(rng), rng.choice(RULES)
        try:
            read_n += is_read(frames, rules)
        except Exception as error:
            error.add_note(f"read_request({frames}, {rules})")
            raise
    return read_n


if __name__ == "__main__":
    numbers = [int(argument) for argument in sys.argv[1:]] or [1_000_000]
    read = run(numbers[0], numbers[1] if len(numbers) > 1 else 0)
    print(f"{numbers[0]} messages, {read} of them read, the others refused")
