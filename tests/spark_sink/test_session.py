"""What is told when Spark does not start, and which settings it gets from whom; with a Spark that only remembers."""

import logging
import os
import subprocess
import sys
import types
from pathlib import Path
from typing import Any

import pytest

from spark_sink import session as session_module
from spark_sink.errors import MissingPart, SinkError
from spark_sink.session import (
    CLIENT_SETTINGS,
    LITTLE_WORK_JAVA,
    SQL_SETTINGS,
    is_submitted,
    open_session,
    reason_of,
    session_settings,
)


class Builder:
    """Of a session that is what it was told."""

    error: Exception | None = None

    def __init__(self) -> None:
        self.told: dict[str, str] = {}

    def master(self, text: str) -> "Builder":
        self.told["master"] = text
        return self

    def remote(self, text: str) -> "Builder":
        self.told["remote"] = text
        return self

    def appName(self, text: str) -> "Builder":
        self.told["name"] = text
        return self

    def config(self, key: str, value: str) -> "Builder":
        self.told[key] = value
        return self

    def getOrCreate(self) -> dict[str, str]:
        if self.error is not None:
            raise self.error
        return self.told


@pytest.fixture
def builder(monkeypatch: pytest.MonkeyPatch, tmp_path: Path) -> Builder:
    made, module = Builder(), types.ModuleType("pyspark.sql")
    module.__dict__["SparkSession"] = types.SimpleNamespace(builder=made)
    monkeypatch.setitem(sys.modules, "pyspark", types.ModuleType("pyspark"))
    monkeypatch.setitem(sys.modules, "pyspark.sql", module)
    monkeypatch.setattr(session_module, "ensure_java", lambda: tmp_path)
    for name in ("JAVA_HOME", "PYSPARK_PYTHON", "PYSPARK_DRIVER_PYTHON", "SPARK_LOCAL_IP"):
        monkeypatch.setenv(name, "")
    return made


def test_own_spark_gets_a_java_this_python_and_all_settings(builder: Builder, tmp_path: Path) -> None:
    told: Any = open_session("spark://host:7077", name="a job")
    assert told == {"master": "spark://host:7077", "name": "a job"} | session_settings("spark://host:7077")
    assert (os.environ["JAVA_HOME"], os.environ["PYSPARK_PYTHON"]) == (str(tmp_path), sys.executable)


def test_python_of_a_cluster_is_the_one_that_the_environment_says(
    builder: Builder, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setenv("PYSPARK_PYTHON", "/opt/python")
    open_session("spark://host:7077")
    assert os.environ["PYSPARK_PYTHON"] == "/opt/python"
    open_session("local[2]")
    assert os.environ["PYSPARK_PYTHON"] == sys.executable


def test_connect_and_spark_submit_need_no_java_and_get_what_a_session_may_change(builder: Builder) -> None:
    told: Any = open_session("sc://host", name="a job")
    assert told == {"remote": "sc://host", "name": "a job"} | SQL_SETTINGS
    builder.told = {}
    told = open_session(None, name="a job")
    assert told == {"name": "a job"} | SQL_SETTINGS | CLIENT_SETTINGS | {"spark.log.level": "ERROR"}
    assert os.environ["JAVA_HOME"] == ""


def test_local_spark_listens_on_this_machine_only_and_java_is_compiled_by_the_fast_compiler_alone() -> None:
    local, cluster = session_settings("local[*]"), session_settings("yarn")
    assert local["spark.driver.host"] == "127.0.0.1"
    assert "spark.driver.host" not in cluster
    assert all(LITTLE_WORK_JAVA in each["spark.driver.extraJavaOptions"] for each in (local, cluster))


@pytest.mark.parametrize(
    "master, error, kind, text",
    [
        ("local[1]", RuntimeError("boom\nat x"), SinkError, "Spark did not start on local[1]: boom"),
        ("sc://host", ImportError("grpcio must be installed"), MissingPart, 'pip install "pyspark[connect]"'),
        (None, RuntimeError(), SinkError, "Spark did not start: RuntimeError"),
    ],
)
def test_spark_that_does_not_start_is_one_sentence(
    builder: Builder, master: str | None, error: Exception, kind: type[SinkError], text: str
) -> None:
    builder.error = error
    with pytest.raises(kind) as raised:
        open_session(master)
    assert text in str(raised.value)
    assert "\n" not in str(raised.value)


def test_reason_is_the_last_cause_of_a_java_stack() -> None:
    text = "An error\nCaused by: java.io.IOException: first\n\tat x\nCaused by: java.lang.Error: the disk is gone\n"
    assert reason_of(RuntimeError(text)) == "the disk is gone"


def test_reason_of_a_task_is_what_its_python_says() -> None:
    text = "An exception was thrown from the Python worker:\nTraceback (most recent call last):\n  File\nOSError: why\n"
    assert reason_of(RuntimeError(text)) == "OSError: why"


def test_errors_of_java_go_through_until_they_are_silenced() -> None:
    code = """if True:
        import subprocess
        from spark_sink.session import java_errors, silence_java
        echo = "while read line; do echo $line >&2; done"
        with java_errors():
            java = subprocess.Popen(["sh", "-c", echo], stdin=subprocess.PIPE, text=True)
        java.stdin.write("WARNING: Using incubator modules: x\\nfirst\\n")
        java.stdin.flush()
        input()
        silence_java()
        java.communicate("second\\n")
    """
    process = subprocess.Popen([sys.executable, "-c", code], stdin=subprocess.PIPE, stderr=subprocess.PIPE, text=True)
    assert process.stdin is not None
    assert process.stderr is not None
    assert process.stderr.readline() == "first\n"
    _, rest = process.communicate("silence\n")
    assert rest == ""


def test_reason_of_a_query_that_ended_is_what_ended_it() -> None:
    text = "[STREAM_FAILED] Query [id = 6b, runId = 13] terminated with exception: java.io.IOException: No space left"
    assert reason_of(RuntimeError(f"{text} SQLSTATE: XXKST")) == "No space left"


def test_java_that_is_gone_is_said_and_py4j_prints_no_stack_of_it(
    builder: Builder, caplog: pytest.LogCaptureFixture
) -> None:
    class Py4JNetworkError(Exception):
        pass

    class Py4JError(Exception):
        pass

    for error in (
        Py4JNetworkError("Error while sending or receiving"),
        Py4JError("An error occurred while calling o127.getResult"),
        ConnectionRefusedError(111, "Connection refused"),
    ):
        assert "the Java of Spark is gone" in reason_of(error)
    assert reason_of(Py4JError("An error occurred\nCaused by: x.Y: why")) == "why"
    open_session("local[1]")
    for path in ("/lib/py4j/clientserver.py", "/lib/other.py"):
        record = logging.LogRecord("root", logging.ERROR, path, 1, f"of {path}", None, None)
        logging.getLogger().handle(record)
    assert caplog.messages == ["of /lib/other.py"]


def test_spark_submit_is_known_by_the_port_of_its_java(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.delenv("PYSPARK_GATEWAY_PORT", raising=False)
    assert not is_submitted()
    monkeypatch.setenv("PYSPARK_GATEWAY_PORT", "1")
    assert is_submitted()
