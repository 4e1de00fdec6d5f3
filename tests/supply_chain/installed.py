"""What users install: all that the base and their extras need, in the versions that this environment has."""

from __future__ import annotations

import re
import tomllib
from importlib.metadata import PackageNotFoundError, distribution
from typing import Final

from packaging.requirements import Requirement

from tests.system.support.processes import ROOT

OURS: Final = "rsocket-broker"
FOR_DEVELOPERS: Final = {"audit", "dev", "docs", "fuzz", "interop", "others"}  # extras; the others are for users


def installed() -> dict[str, str]:
    """Names and versions, in order; without what is not installed here, as a Java where the machine has one."""
    project = tomllib.loads((ROOT / "pyproject.toml").read_text())["project"]
    extras = {name: each for name, each in project["optional-dependencies"].items() if name not in FOR_DEVELOPERS}
    wanted = [
        Requirement(each) for each in (*project["dependencies"], *(text for each in extras.values() for text in each))
    ]
    seen: set[str] = set()
    found: dict[str, str] = {}
    while wanted:
        needed = wanted.pop()
        name = normal(needed.name)
        if name == OURS or f"{name} {sorted(needed.extras)}" in seen:
            continue
        seen.add(f"{name} {sorted(needed.extras)}")
        try:
            there = distribution(name)
        except PackageNotFoundError:
            continue
        found[name] = there.version
        wanted += [each for each in map(Requirement, there.requires or ()) if _is_needed(each, needed.extras)]
    return dict(sorted(found.items()))


def normal(name: str) -> str:
    """As registries write it."""
    return re.sub(r"[-_.]+", "-", name).lower()


def _is_needed(requirement: Requirement, extras: set[str]) -> bool:
    marker = requirement.marker
    return marker is None or any(marker.evaluate({"extra": extra}) for extra in (*extras, ""))
