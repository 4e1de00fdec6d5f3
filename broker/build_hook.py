"""Compiles the core with mypyc while a wheel is built, and unpacks such a wheel for tests and benchmarks.

The list of compiled modules stands once, in pyproject.toml under [tool.rsocket-broker]. One unit, so that calls bind
early. Without a C compiler a wheel is still built, of the same source, interpreted: it says so and goes on.

    python broker/build_hook.py build/compiled      a wheel unpacked: what `pip install` gives to users

RSOCKET_BROKER_OPTIMIZE is the level of the C compiler, 0 to 3. Without it 2, which is what is shipped: 3 takes a
quarter longer to compile, and a request takes no less time.
"""

from __future__ import annotations

import fcntl
import hashlib
import os
import shutil
import subprocess
import sys
import tempfile
import tomllib
import zipfile
from pathlib import Path
from typing import Any

ROOT = Path(__file__).resolve().parent.parent
PACKAGES = ("rsocket_wire", "broker", "client_sdk", "admin_api", "spark_sink")
STAMP = "source.sha256"
STARTS = "compiling the core, for some minutes; RSOCKET_BROKER_PURE=1 leaves that out"  # pip shows it with -v

# Functions of the unit may be called and inlined without asking the dynamic linker, which could put others in their
# place: a request takes 7 % less time. macOS does so anyway.
_BINDS_EARLY = "-fno-semantic-interposition" if sys.platform == "linux" else ""
# The generated C is indented by hundreds of spaces. gcc with all warnings on measures them for longer than it compiles:
# 420 s of CPU, 175 without this one.
_QUIET = "-Wno-misleading-indentation"


def compiled_modules(root: Path = ROOT) -> list[str]:
    """Paths of the modules in the unit, relative to the root."""
    with open(root / "pyproject.toml", "rb") as file:
        patterns: list[str] = tomllib.load(file)["tool"]["rsocket-broker"]["compiled"]
    found: list[str] = []
    for pattern in patterns:
        found += sorted(str(path.relative_to(root)) for path in root.glob(pattern) if path.name != "__init__.py")
    return found


def compile_tree(root: Path, modules: list[str]) -> None:
    """Compiles the modules beside their sources. CalledProcessError, its output the reason, when that fails."""
    (root / "mypy-build.ini").write_text("[mypy]\nfollow_imports = silent\n")  # without an import of theirs it fails
    command = [sys.executable, "-P", "broker/build_unit.py", _level(), *modules]
    environment = {**os.environ, "CFLAGS": f"{_BINDS_EARLY} {_QUIET} {os.environ.get('CFLAGS', '')}".strip()}
    subprocess.run(
        command, cwd=root, env=environment, check=True, stdout=subprocess.PIPE, stderr=subprocess.STDOUT, text=True
    )
    shutil.rmtree(root / "build", ignore_errors=True)  # the objects, and copies of what is beside the sources now


def unpack_wheel(target: Path) -> None:
    """The packages of a compiled wheel in `target`, made anew only when a source or the list has changed. One process
    at a time. CalledProcessError, its output the reason, when there is none."""
    digest = hashlib.sha256(f"{sys.version} {_level()}".encode() + (ROOT / "pyproject.toml").read_bytes())
    for package in PACKAGES:
        for path in sorted((ROOT / package).rglob("*")):
            if path.is_file() and path.suffix not in (".pyc", ".so"):
                digest.update(str(path.relative_to(ROOT)).encode() + path.read_bytes())
    stamp = target / STAMP
    target.parent.mkdir(parents=True, exist_ok=True)
    with open(target.parent / f"{target.name}.lock", "w") as lock:
        fcntl.flock(lock, fcntl.LOCK_EX)
        if stamp.exists() and stamp.read_text() == digest.hexdigest():
            return
        shutil.rmtree(target, ignore_errors=True)
        with tempfile.TemporaryDirectory() as folder, zipfile.ZipFile(_wheel(Path(folder))) as wheel:
            wheel.extractall(target, [name for name in wheel.namelist() if ".dist-info/" not in name])
        stamp.write_text(digest.hexdigest())


def _wheel(folder: Path) -> Path:
    """As pip builds it: in an environment that has what pyproject.toml says and nothing else."""
    command = [
        sys.executable,
        "-P",
        "-m",
        "pip",
        "wheel",
        "--verbose",
        "--no-deps",
        "--wheel-dir",
        str(folder),
        str(ROOT),
    ]
    environment = {**os.environ, "RSOCKET_BROKER_PURE": ""}
    done = subprocess.run(
        command, env=environment, check=True, stdout=subprocess.PIPE, stderr=subprocess.STDOUT, text=True
    )
    (wheel,) = folder.iterdir()
    if wheel.name.endswith("-none-any.whl"):
        raise subprocess.CalledProcessError(1, command, done.stdout)
    return wheel


def _level() -> str:
    return os.environ.get("RSOCKET_BROKER_OPTIMIZE", "2")


def _first_lines(error: subprocess.CalledProcessError) -> str:
    lines = [line for line in str(error.stdout).splitlines() if "error" in line.lower()]
    return (lines or str(error.stdout).splitlines() or ["no reason given"])[0]


try:
    from hatchling.builders.hooks.plugin.interface import BuildHookInterface
except ImportError:  # run as a program
    pass
else:

    class CoreBuildHook(BuildHookInterface[Any]):
        """Adds the compiled modules to a wheel."""

        def initialize(self, version: str, build_data: dict[str, Any]) -> None:
            """Called by hatchling before the wheel is packed."""
            if self.target_name != "wheel" or version == "editable" or os.environ.get("RSOCKET_BROKER_PURE"):
                return
            self.app.display_info(STARTS)
            root = Path(self.root)
            work = root / "build" / "wheel"
            shutil.rmtree(work, ignore_errors=True)
            for package in {module.split("/")[0] for module in compiled_modules(root)}:
                shutil.copytree(root / package, work / package, ignore=shutil.ignore_patterns("__pycache__", "*.so"))
            try:
                compile_tree(work, compiled_modules(root))
            except (subprocess.CalledProcessError, OSError) as error:
                reason = _first_lines(error) if isinstance(error, subprocess.CalledProcessError) else str(error)
                self.app.display_warning(f"the core is not compiled and will run interpreted: {reason}")
                return
            for path in work.rglob("*.so"):
                build_data["force_include"][str(path)] = str(path.relative_to(work))
            build_data["pure_python"] = False
            build_data["infer_tag"] = True


if __name__ == "__main__":
    try:
        unpack_wheel(Path(sys.argv[1]).resolve())
    except subprocess.CalledProcessError as error:
        sys.exit(f"the core could not be compiled:\n{error.stdout[-4000:]}")
