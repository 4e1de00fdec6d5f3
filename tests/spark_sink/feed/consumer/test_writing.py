"""spark_sink.feed.consumer.writing: whoever wants a small file written has an answer, whenever he comes."""

import asyncio
from pathlib import Path

from spark_sink.feed.consumer.places import Places
from spark_sink.feed.consumer.writing import Writing
from tests.system.support.waits import soon


async def test_a_file_that_comes_when_the_turn_before_it_ends_is_written(tmp_path: Path) -> None:
    """In each step of the event loop behind the answer to the one before."""
    writing = Writing(Places(tmp_path))
    for steps_n in range(6):
        await soon(writing.put([f"a{steps_n}"], b"1", None, None))
        for _ in range(steps_n):
            await asyncio.sleep(0)
        await soon(writing.put([f"b{steps_n}"], b"2", None, None))
    await writing.close()
    assert len(list(tmp_path.iterdir())) == 12


async def test_what_fails_in_one_file_fails_for_that_one_alone(tmp_path: Path) -> None:
    (tmp_path / "folder").mkdir()
    writing = Writing(Places(tmp_path))
    names = [["a"], ["folder"], ["b"]]
    failures = await asyncio.gather(*(writing.put(each, b"1", None, None) for each in names), return_exceptions=True)
    await writing.close()
    assert [isinstance(each, OSError) for each in failures] == [False, True, False]
    assert sorted(path.name for path in tmp_path.iterdir()) == ["a", "b", "folder"]
