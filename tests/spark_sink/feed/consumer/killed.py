"""A mirror as a process that a test kills: arguments ROOT and MEMORY, on its standard input the body of one post."""

import asyncio
import sys
from pathlib import Path

from spark_sink.feed.consumer.subscriber import Subscriber, SubscriberOptions
from tests.spark_sink.feed.consumer.mirrors import Given


async def main(root: Path, memory: Path, body: bytes) -> None:
    source = Given()
    source.give(body)
    await Subscriber([source], SubscriberOptions(root=root, memory=memory)).start()
    await asyncio.Event().wait()


if __name__ == "__main__":
    asyncio.run(main(Path(sys.argv[1]), Path(sys.argv[2]), sys.stdin.buffer.read()))
