"""What a second worker adds to the pipeline: a standalone cluster of Spark, each worker held to a part of one core.

    python -m benchmarks.pipeline_cluster          one worker, then two; about eight minutes, as root (cgroups)

Prints events per second, and what of all CPU the driver and its Java have used.
"""

import contextlib
import os
import subprocess
import sys
import tempfile
import time
from collections.abc import Iterator
from pathlib import Path
from typing import Final

import pyspark

from benchmarks.pipeline import Traffic, check, cpu_s, run_once
from benchmarks.shares import Shares
from spark_sink.java import ensure_java
from spark_sink.pipeline.spark import SparkEngine
from spark_sink.session import open_session

SHARE: Final = 0.4  # of a core, for each worker and all that it starts
WARM_S: Final = 150  # of traffic, before anything is measured: Java compiles
TRAFFIC_S: Final = 600  # 13.7 million events
PORT: Final = 17077
CLASSES: Final = "org.apache.spark.deploy"


def main() -> None:
    rates = [measured(workers) for workers in (1, 2)]
    print(f"two workers do {rates[1] / rates[0]:.2f} times as much as one")


def measured(workers: int) -> float:
    """Events per second."""
    with tempfile.TemporaryDirectory(prefix="pipeline-") as name, cluster(workers, Path(name)) as groups:
        engine = SparkEngine(open_session(f"spark://127.0.0.1:{PORT}"))
        for length_s in (WARM_S, TRAFFIC_S):
            folder = Path(name) / f"{length_s}"
            traffic, now_s = Traffic(folder / "events"), time.time()
            for second in range(length_s):
                traffic.write(1.0, now_s - length_s + second)
            began, driver, all_workers = time.monotonic(), cpu_s(engine), sum(map(used_s, groups))
            run_once(engine, folder)
            took, driver = time.monotonic() - began, cpu_s(engine) - driver
            check(folder / "tables", traffic)
        workers_cpu = sum(map(used_s, groups)) - all_workers
        events = traffic.requests + traffic.flow_records
        engine.session.stop()
        print(
            f"{workers} workers of {SHARE} cores: {events / took:,.0f} events/s; CPU of the driver {driver:.1f} s, "
            f"of the workers {workers_cpu:.1f} s: {driver / (driver + workers_cpu):.0%} of all"
        )
        return events / took


@contextlib.contextmanager
def cluster(workers: int, folder: Path) -> Iterator[list[Path]]:
    """Gives the control groups of the workers."""
    program = str(Path(pyspark.__file__).parent / "bin" / "spark-class")
    environment = os.environ | {"JAVA_HOME": str(ensure_java()), "PYSPARK_PYTHON": sys.executable}
    environment |= {"SPARK_LOCAL_IP": "127.0.0.1", "SPARK_WORKER_DIR": str(folder), "PYTHONPATH": os.getcwd()}
    master = [program, f"{CLASSES}.master.Master", "--host", "127.0.0.1", "--port", f"{PORT}", "--webui-port", "0"]
    worker = [program, f"{CLASSES}.worker.Worker", "--cores", "1", "--memory", "2g", "--webui-port", "0"]
    shares = Shares(SHARE)
    processes = [started(master, environment)]
    time.sleep(5)
    processes += [started([*worker, f"spark://127.0.0.1:{PORT}"], environment) for _ in range(workers)]
    try:
        shares.hold([process.pid for process in processes[1:]])
        time.sleep(10)
        yield shares.folders
    finally:
        for process in processes:
            process.terminate()
            process.wait()
        time.sleep(3)  # executors end after their worker
        shares.release()


def started(command: list[str], environment: dict[str, str]) -> subprocess.Popen[bytes]:
    """Its lines are nobody's."""
    return subprocess.Popen(command, env=environment, stdout=subprocess.DEVNULL, stderr=subprocess.DEVNULL)


def used_s(group: Path) -> float:
    """CPU time of all processes in the group that are there."""
    total = 0.0
    for process in (group / "cgroup.procs").read_text().split():
        with contextlib.suppress(OSError):
            fields = Path(f"/proc/{process}/stat").read_text().rpartition(")")[2].split()
            total += (int(fields[11]) + int(fields[12])) / 100
    return total


if __name__ == "__main__":
    main()
