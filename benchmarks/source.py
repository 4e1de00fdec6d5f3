"""What reading event files costs, as `format("rsocket_broker")` reads them, without Spark: CPU of one core.

python -m benchmarks.source                 a million single requests, in segments and in logs
python -m benchmarks.source --day           also a look into a folder with a day of segments of a second
"""

import argparse
import random
import shutil
import tempfile
import time
from pathlib import Path
from typing import Final

import msgspec

from benchmarks.machine import describe_machine
from broker.events import DEFINITION, DEFINITION_FIELDS, REQUEST, REQUEST_FIELDS
from spark_sink.data_source.catalog import Catalog
from spark_sink.data_source.options import options_of
from spark_sink.data_source.reader import EventReader
from spark_sink.event_files.frames import Header
from spark_sink.event_files.layout import Disk, segment_name
from spark_sink.writer.machine import Writer
from spark_sink.writer.settings import Settings

FLOWS: Final = 4000
FRAME_ROWS: Final = 1000
SEGMENT_ROWS: Final = 50_000
DAY: Final = 86_400
HEADER: Final = Header(broker_id="7f3a0000-0000-4000-8000-000000000001", broker_name="bench", epoch=1_800_000_000_000)


def write(folder: Path, requests: int, *, is_sealed: bool) -> None:
    """Event files of so many requests: segments of `SEGMENT_ROWS`, or one log."""
    rng = random.Random(1)
    writer = Writer(folder, HEADER, disk=Disk(), say=print, settings=Settings(roll_bytes=1 << 40))
    writer.begin(0.0, 0.0)
    texts = {"model": "request_response", "routing": "unicast", "service": "orders", "address": "service=orders"}
    definitions = [
        (DEFINITION, flow, *(texts.get(name, f"{name}-{flow % 200}") for name in DEFINITION_FIELDS[1:]))
        for flow in range(FLOWS)
    ]
    values = {"outcome": 0, "branches": 1, "items_in": 1, "items_out": 1, "key_hash": -1}
    for first in range(1, requests + 1, FRAME_ROWS):
        rows: list[tuple[object, ...]] = []
        for seq in range(first, first + FRAME_ROWS):
            drawn = {
                "seq": seq,
                "choice": seq,
                "ended": seq + rng.randrange(10),
                "flow": min(int(rng.paretovariate(1.0)), FLOWS - 1),
                "started_at_us": 1_800_000_000_000_000 + seq * 50,
                "duration_us": int(rng.lognormvariate(6.5, 1.0)),
            }
            numbers = values | drawn
            fields = (numbers[name] if name in numbers else rng.randrange(100, 400) for name in REQUEST_FIELDS)
            rows.append((REQUEST, *fields))
        writer.take(msgspec.msgpack.encode([*definitions, *rows] if first == 1 else rows), 0.0, 0.0)
        if is_sealed and (first - 1 + FRAME_ROWS) % SEGMENT_ROWS == 0:
            writer.seal_all(0.0, 0.0)


def read(folder: Path) -> tuple[int, float]:
    """Rows, and seconds of CPU."""
    began = time.process_time()
    reader = EventReader(options_of({"source": "requests", "path": str(folder)}))
    rows = sum(batch.num_rows for part in reader.whole() for batch in reader.read(part))
    return rows, time.process_time() - began


def look(folder: Path) -> float:
    """Seconds of CPU for a look into a folder that holds a day of segments, when all footers are known but the last."""
    (folder / "flows").mkdir(parents=True)
    for number in range(1, DAY + 1):
        (folder / "flows" / segment_name(HEADER.broker_id, HEADER.epoch, number)).touch()
    options = options_of({"source": "flows", "path": str(folder)})
    catalog = Catalog(options.open_store(), "flows", print, fails_on_loss=True)
    catalog.refresh()
    began = time.process_time()
    catalog.refresh()
    return time.process_time() - began


def main() -> None:
    """The figures."""
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--requests", type=int, default=1_000_000)
    parser.add_argument("--day", action="store_true")
    said = parser.parse_args()
    print(describe_machine())
    folder = Path(tempfile.mkdtemp(prefix="source-"))
    try:
        for name, requests, is_sealed in (("segments", said.requests, True), ("log", said.requests // 5, False)):
            write(folder / name, requests, is_sealed=is_sealed)
            rows, seconds = min((read(folder / name) for _ in range(3)), key=lambda figures: figures[1])
            print(f"{name:10} {rows:>9,} rows  {rows / seconds:>9,.0f} rows/s  {1e6 * seconds / rows:.2f} us each")
        if said.day:
            print(f"look       {DAY:>9,} files {look(folder / 'day') * 1000:.0f} ms")
    finally:
        shutil.rmtree(folder)


if __name__ == "__main__":
    main()
