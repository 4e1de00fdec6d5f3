"""spark_sink.feed.consumer.turns: what is about one place is carried out in the order in which it came."""

import asyncio

from spark_sink.feed.consumer.turns import Claim, Turns, claims_of


class Workers:
    """Jobs that begin when it is their turn, and end when the test says so."""

    def __init__(self) -> None:
        self.turns = Turns()
        self.under_way: list[str] = []
        self.ends: dict[str, asyncio.Event] = {}
        self.tasks: list[asyncio.Task[None]] = []

    async def begin(self, name: str, *claims: Claim) -> None:
        self.ends[name] = asyncio.Event()
        self.tasks.append(asyncio.create_task(self._work(name, claims)))
        await self.settle()

    async def end(self, name: str) -> None:
        self.ends[name].set()
        await self.settle()

    async def _work(self, name: str, claims: tuple[Claim, ...]) -> None:
        async with self.turns.turn(claims):
            self.under_way.append(name)
            await self.ends[name].wait()
            self.under_way.remove(name)

    async def settle(self) -> None:
        for _ in range(20):
            await asyncio.sleep(0)


async def test_one_place_has_one_at_a_time_and_others_go_on() -> None:
    workers = Workers()
    await workers.begin("first", *claims_of(["a", "f"]))
    await workers.begin("second", *claims_of(["a", "f"]))
    await workers.begin("third", *claims_of(["a", "f"]))
    await workers.begin("beside", *claims_of(["a", "g"]))
    assert workers.under_way == ["first", "beside"]
    await workers.end("first")
    assert workers.under_way == ["beside", "second"]
    await workers.end("second")
    assert workers.under_way == ["beside", "third"]
    await workers.end("third")
    await workers.end("beside")
    assert len(workers.turns) == 0


async def test_a_folder_waits_for_what_is_below_it_and_what_comes_later_waits_for_the_folder() -> None:
    workers = Workers()
    await workers.begin("below", *claims_of(["a", "b", "f"]))
    await workers.begin("folder", *claims_of(["a"]), *claims_of(["c"]))
    await workers.begin("later", *claims_of(["a", "g"]))
    await workers.begin("elsewhere", *claims_of(["d", "f"]))
    assert workers.under_way == ["below", "elsewhere"]
    await workers.end("below")
    assert workers.under_way == ["elsewhere", "folder"]
    await workers.end("folder")
    assert workers.under_way == ["elsewhere", "later"]


async def test_blocks_share_a_place_and_the_next_file_there_waits_for_all() -> None:
    workers = Workers()
    for number in range(3):
        await workers.begin(f"block {number}", *claims_of(["f"], is_shared=True))
    await workers.begin("file", *claims_of(["f"]))
    assert len(workers.under_way) == 3
    for number in range(3):
        assert "file" not in workers.under_way
        await workers.end(f"block {number}")
    assert workers.under_way == ["file"]


async def test_a_job_that_claims_a_place_twice_does_not_wait_for_itself() -> None:
    workers = Workers()
    await workers.begin("within", *claims_of(["a"]), *claims_of(["a", "b"]), *claims_of(["a"]))
    assert workers.under_way == ["within"]


async def test_who_is_cancelled_while_he_waits_holds_up_nobody() -> None:
    workers = Workers()
    await workers.begin("first", *claims_of(["f"]))
    await workers.begin("second", *claims_of(["f"]))
    workers.tasks[1].cancel()
    await workers.settle()
    await workers.begin("third", *claims_of(["f"]))
    assert workers.under_way == ["first"]
    await workers.end("first")
    assert workers.under_way == ["third"]
    await workers.end("third")
    assert len(workers.turns) == 0
