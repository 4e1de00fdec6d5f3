"""The pipeline as spark-submit runs it, with the code that the document packs."""

import os
import shutil
import subprocess
import sys
from pathlib import Path

import pytest

from spark_sink.java import ensure_java
from tests.spark_sink.pipeline.folders import BEFORE_MIDNIGHT_MS, assert_tables_tell, seal
from tests.spark_sink.records import PROJECT, events


@pytest.mark.spark
@pytest.mark.long
@pytest.mark.usefixtures("short_spark")
def test_spark_submit_with_py_files_makes_the_tables(tmp_path: Path) -> None:
    pyspark = pytest.importorskip("pyspark")
    records = events(1, 120, BEFORE_MIDNIGHT_MS)
    seal(tmp_path / "events", records)
    for package in ("rsocket_wire", "broker", "spark_sink"):
        shutil.copytree(PROJECT / package, tmp_path / "packed" / package)
    packed = shutil.make_archive(str(tmp_path / "rsocket_broker"), "zip", tmp_path / "packed")
    program = str(Path(pyspark.__file__).parent / "bin" / "spark-submit")
    command = [program, "--master", "local[2]", "--py-files", packed, str(PROJECT / "spark_sink" / "submit.py"), "run"]
    folders = ["--events", str(tmp_path / "events"), "--tables", str(tmp_path / "tables")]
    environment = os.environ | {"JAVA_HOME": str(ensure_java()), "PYSPARK_PYTHON": sys.executable}
    done = subprocess.run(
        [*command, *folders, "--once"],
        env=environment | {"SPARK_LOCAL_IP": "127.0.0.1"},
        cwd=tmp_path,
        stderr=subprocess.PIPE,
        text=True,
        timeout=300,
    )
    assert done.returncode == 0, done.stderr[-4000:]
    assert_tables_tell(tmp_path / "tables", records)
