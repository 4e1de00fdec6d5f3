"""What the demo shows does happen: equal shares, errors, and a deploy without loss."""

import contextlib
import re

from broker.commands.demo.traffic import Traffic
from client_sdk.testing import local_broker

SECONDS = 1.0
PARTS = ["steady", "rise", "errors", "slow", "deploy"]


async def test_the_traffic_is_balanced_and_counted_and_nothing_fails_but_what_shall() -> None:
    said: list[str] = []
    async with local_broker(listen=["tcp", "ws"]) as broker, contextlib.AsyncExitStack() as stack:
        traffic = Traffic((broker, broker.urls["ws"]), stack, said.append)
        instances_n = await traffic.connect()
        assert len(broker.routes()) == instances_n + len(traffic.callers)
        await traffic.run(SECONDS)
        assert traffic.sent == {model: broker.requests(model=model) for model in traffic.sent}
        assert set(traffic.failed) == {"application-error", "no-route"}
        lines = "".join(said).splitlines()
        assert [line.split()[0] for line in lines] == PARTS
        got = {route.tags.get("instance_name"): route.requests for route in broker.routes()}
        stayed = [got[f"orders-{number}"] for number in (2, 3, 4)]
        assert max(stayed) - min(stayed) <= 3 + 0.1 * min(stayed)  # in turns, which begin anew when one joins or leaves
        assert 0 < got["orders-5"] < min(stayed)
        assert "orders-1" not in got
        assert re.search(r", \d+% of stock's went to it$", lines[3])
