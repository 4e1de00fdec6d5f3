"""Compiles modules as one unit: mypyc makes C of them, several compilers turn it into objects side by side, and these
become one library, with a shim for each module that asks it.

    python -P broker/build_unit.py LEVEL MODULE…      in the root of the tree

Decides which modules one compiler sees together: it puts functions of these into each other, so those that a request
passes are a part of their own, with the runtime of mypyc. Between parts nothing is asked of the dynamic linker either:
all symbols but those that Python looks for are hidden. What no request passes is compiled at level 1, which takes
three fifths of the time.
"""

import os
import subprocess
import sys
import sysconfig
from concurrent.futures import ThreadPoolExecutor
from dataclasses import dataclass, field
from pathlib import Path
from typing import Final

from mypyc.build import mypycify
from setuptools import Extension, setup
from setuptools._distutils.ccompiler import CCompiler, new_compiler
from setuptools._distutils.sysconfig import customize_compiler

PARTS: Final = 2  # of what requests pass seldom, and as many of what none passes
LOW_LEVEL: Final = "1"  # of what none passes
PASSED: Final = (  # by a request; as mypyc names the C of a module
    "rsocket_wire___",
    "broker___core",
    "broker___edge___",
    "broker___forwarding___",
    "broker___routing___",
)
BESIDE: Final = ("broker___forwarding___interbroker___", "broker___forwarding___multicast___")  # of these, but not
NOT_PASSED: Final = (  # but when connections, routes and brokers come, change or go
    "broker___access___",
    "broker___cluster___",
    "broker___connections___",
    "broker___event_log___",
    "broker___forwarding___settings",
    "broker___lifecycle",
    "broker___routing___digest",
    "broker___routing___max_weights",
    "broker___routing___near_names",
    "broker___routing___policies",
    "broker___routing___reach",
    "broker___routing___remarks",
    "broker___routing___table",
    "rsocket_wire___errors",
    "rsocket_wire___rsocket___claims",
    "rsocket_wire___rsocket___foreign",
    "rsocket_wire___rsocket___mimes",
    "rsocket_wire___rsocket___notices",
    "rsocket_wire___rsocket___resumption",
    "rsocket_wire___wire___authentication",
)


@dataclass
class Part:
    """What one compiler sees together."""

    is_passed: bool  # by requests
    sources: list[str] = field(default_factory=list)
    length: int = 0  # bytes of its sources

    def add(self, source: str) -> None:
        self.sources.append(source)
        self.length += os.path.getsize(source)


def main(level: str, modules: list[str]) -> None:
    """Builds all beside the sources. Exits with another status than 0 when that fails, the reason on standard error."""
    unit, *shims = mypycify(
        [*modules, "--config-file=mypy-build.ini"],
        opt_level=level,
        debug_level="0",
        multi_file=True,
    )
    jobs_n = len(os.sched_getaffinity(0)) if hasattr(os, "sched_getaffinity") else os.cpu_count() or 1
    precompile_header(shims, Path("build", "headers"))
    unit.extra_objects, unit.sources = compile_parts(unit, parts_of(unit.sources), level, jobs_n), []
    setup(
        name="rsocket-broker-core",
        packages=[],
        ext_modules=[unit, *shims],
        script_args=["--quiet", "build_ext", "--inplace", f"--parallel={jobs_n}"],
    )


def precompile_header(shims: list[Extension], folder: Path) -> None:
    """Python.h as gcc has read it, in `folder`: a shim is little else, and there is one for each module. gcc looks for
    it before it looks for the header, and takes it if it fits; other compilers do not look."""
    compiler = _compiler()
    if not shims or compiler.compiler_type != "unix":
        return
    folder.mkdir(parents=True, exist_ok=True)
    header = str(Path(sysconfig.get_path("include"), "Python.h"))
    options = [*shims[0].extra_compile_args, "-x", "c-header", header, "-o", str(folder / "Python.h.gch")]
    command = vars(compiler)["compiler_so"]  # of this kind of compiler, as customize_compiler has put it there
    subprocess.run([*command, *options], check=False)  # without it each shim reads the header itself
    for shim in shims:
        shim.include_dirs = [str(folder), *shim.include_dirs]


def parts_of(sources: list[str]) -> list[Part]:
    """What a request passes, PARTS of about a length with what it passes seldom, and as many with what none passes, in
    the order of their lengths, the longest first."""
    together, seldom, never = Part(True), [Part(True) for _ in range(PARTS)], [Part(False) for _ in range(PARTS)]
    for source in sorted(sources, key=os.path.getsize, reverse=True):
        name = Path(source).name.removeprefix("__native_")
        if name.startswith(NOT_PASSED):
            part = min(never, key=lambda each: each.length)
        elif "___" not in name or (name.startswith(PASSED) and not name.startswith(BESIDE)):
            part = together  # without ___ it is of mypyc's runtime, or begins the unit
        else:
            part = min(seldom, key=lambda each: each.length)
        part.add(source)
    return sorted((each for each in (together, *seldom, *never) if each.sources), key=lambda each: -each.length)


def compile_parts(unit: Extension, parts: list[Part], level: str, jobs_n: int) -> list[str]:
    """The objects, of as many compilers at a time as there are jobs."""

    def compile_part(at: int) -> list[str]:
        source = Path(unit.sources[0]).parent / f"part{at}.c"
        source.write_text("".join(f'#include "{os.path.relpath(each, source.parent)}"\n' for each in parts[at].sources))
        compiler = _compiler()
        options: list[str] = []
        if compiler.compiler_type == "unix":
            options = ["-fvisibility=hidden", f"-O{level if parts[at].is_passed else min(level, LOW_LEVEL)}"]
        objects: list[str] = compiler.compile(
            [str(source)],
            include_dirs=[*unit.include_dirs, sysconfig.get_path("include")],
            extra_postargs=[*unit.extra_compile_args, *options],
        )
        return objects

    with ThreadPoolExecutor(jobs_n) as pool:
        return [each for objects in pool.map(compile_part, range(len(parts))) for each in objects]


def _compiler() -> CCompiler:
    """That of this Python, with the options of the environment."""
    compiler = new_compiler()
    customize_compiler(compiler)
    return compiler


if __name__ == "__main__":
    main(sys.argv[1], sys.argv[2:])
