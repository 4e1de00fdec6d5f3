"""What the demo shows does happen: equal shares, errors, a slow instance that gets less, and a deploy without loss."""

import contextlib

from broker.commands.demo_traffic import Traffic
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
        assert max(stayed) - min(stayed) <= 2  # each has had its turn as often as the others
        assert 0 < got["orders-5"] < min(stayed)
        assert "orders-1" not in got
        assert got["stock-2"] < min(got["stock-1"], got["stock-3"])  # it was slow for a quarter of the time
