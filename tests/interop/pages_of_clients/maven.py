"""Maven for the pages of Java: what it compiles and fetches into a folder, and the programs of it."""

import os
import shutil
import subprocess
from pathlib import Path

from tests.conftest import missing

# Maven fetches its plugins and packages at the first use, which takes up to a minute; they are kept by Maven.
BUILD_S = 300.0
# Programs that run for seconds are not worth the second compiler of the JVM, nor threads that collect garbage.
SHORT = ("-XX:TieredStopAtLevel=1", "-XX:+UseSerialGC")


def find_java() -> str:
    """Path of the program java, beside which Maven and the compiler are there."""
    paths = [shutil.which(name) for name in ("java", "javac", "mvn")]
    if paths[0] is None or None in paths:
        missing("a JDK and Maven are not installed: apt install default-jdk-headless maven")
    return paths[0]


def run_maven(folder: Path, *goals: str) -> None:
    """Without the network where everything is there: else it asks for what is new of everything that has no number."""
    environment = {**os.environ, "MAVEN_OPTS": " ".join(SHORT)}
    for asks in (["-o"], []):
        command = ["mvn", *asks, "-q", "-B", *goals]
        done = subprocess.run(
            command, cwd=folder, env=environment, capture_output=True, text=True, timeout=BUILD_S, check=False
        )
        if done.returncode == 0:
            return
    raise AssertionError(done.stdout + done.stderr)
