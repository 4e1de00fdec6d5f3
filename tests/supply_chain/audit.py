"""Known holes in what users install: `make audit`.

pip-audit asks PyPI for advisories. An advisory for which there is a newer version fails, unless `ACCEPTED` says why it
does not concern us; one without is told. Where advisories cannot be had, one line says so, and nothing fails.
"""

from __future__ import annotations

import json
import subprocess
import sys
import tempfile
from collections.abc import Mapping
from pathlib import Path
from typing import Any, Final, NamedTuple

from tests.supply_chain.installed import installed

ANSWER_S: Final = 5  # for one package
AUDIT_S: Final = 120.0  # for all
ACCEPTED: Final[Mapping[str, str]] = {}  # id of an advisory -> why it does not concern us


class Hole(NamedTuple):
    """An advisory about a version that is installed."""

    package: str
    version: str
    id: str
    mended_in: str  # versions; empty: in none
    accepted: str  # why it does not concern us; empty: it does

    def __str__(self) -> str:
        fate = self.accepted or (f"raise it to {self.mended_in}" if self.mended_in else "there is no newer version")
        return f"{self.package} {self.version}: {self.id}: {fate}"


class Unreachable(Exception):
    """Nobody could say whether there are any; the text says why."""


def holes_in(report: str, accepted: Mapping[str, str] = ACCEPTED) -> list[Hole]:
    """What pip-audit has found, from its JSON; Unreachable when it could not look at a single package."""
    try:
        packages: list[dict[str, Any]] = json.loads(report)["dependencies"]
    except (ValueError, KeyError):
        raise Unreachable("pip-audit has written no report") from None
    if not any("vulns" in each for each in packages):
        raise Unreachable(f"no advisory could be read for any of {len(packages)} packages")
    return [
        Hole(
            package["name"],
            package["version"],
            hole["id"],
            " or ".join(hole["fix_versions"]),
            next((accepted[name] for name in (hole["id"], *hole.get("aliases", ())) if name in accepted), ""),
        )
        for package in packages
        for hole in package.get("vulns", ())
    ]


def main() -> int:
    """The exit status."""
    packages = installed()
    try:
        holes = holes_in(_ask("".join(f"{name}=={version}\n" for name, version in packages.items())))
    except Unreachable as error:
        print(f"audit: not done: {error}")
        return 0
    for hole in holes:
        print(f"audit: {hole}")
    failing_n = sum(bool(hole.mended_in) and not hole.accepted for hole in holes)
    print(f"audit: {len(packages)} packages, {len(holes)} known holes, {failing_n} to be mended")
    return 1 if failing_n else 0


def _ask(requirements: str) -> str:
    """What pip-audit says of them; Unreachable."""
    with tempfile.TemporaryDirectory() as folder:
        file = Path(folder) / "requirements.txt"
        file.write_text(requirements)
        command = [sys.executable, "-m", "pip_audit", "-r", str(file), "--no-deps", "--disable-pip"]
        command += ["-f", "json", "--progress-spinner", "off", "--timeout", str(ANSWER_S)]
        try:
            done = subprocess.run(command, capture_output=True, text=True, timeout=AUDIT_S, check=False)
        except subprocess.TimeoutExpired:
            raise Unreachable(f"no answer within {AUDIT_S:.0f} s") from None
    if not done.stdout:
        raise Unreachable((done.stderr.strip().splitlines() or ["pip-audit has said nothing"])[-1])
    return done.stdout


if __name__ == "__main__":
    sys.exit(main())
