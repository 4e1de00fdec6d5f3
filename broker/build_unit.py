"""Compiles modules as one unit: mypyc makes C of them, several compilers turn it into objects side by side, and these
become one library, with a shim for each module that asks it.

    python -P broker/build_unit.py LEVEL MODULE…      in the root of the tree

Decides which modules one compiler sees together: it puts functions of these into each other, so those that a request
passes are a part of their own, with the runtime of mypyc. Between parts nothing is asked of the dynamic linker either:
all symbols but those that Python looks for are hidden.
"""

import os
import sys
import sysconfig
from concurrent.futures import ThreadPoolExecutor
from pathlib import Path
from typing import Final

from mypyc.build import mypycify
from setuptools import Extension, setup
from setuptools._distutils.ccompiler import new_compiler
from setuptools._distutils.sysconfig import customize_compiler

PARTS: Final = 3  # beside that of requests, which is a half; two cores have something to do until the end
PASSED: Final = (  # by a request; as mypyc names the C of a module
    "rsocket_wire___",
    "broker___core",
    "broker___edge___",
    "broker___forwarding___",
    "broker___lifecycle",
    "broker___routing___",
)
BESIDE: Final = ("broker___forwarding___interbroker___", "broker___forwarding___multicast___")  # of these, but not


def main(level: str, modules: list[str]) -> None:
    """Builds all beside the sources. Exits with another status than 0 when that fails, the reason on standard error."""
    unit, *shims = mypycify(
        [*modules, "--config-file=mypy-build.ini"],
        opt_level=level,
        debug_level="0",
        multi_file=True,
    )
    jobs_n = len(os.sched_getaffinity(0)) if hasattr(os, "sched_getaffinity") else os.cpu_count() or 1
    unit.extra_objects, unit.sources = compile_parts(unit, parts_of(unit.sources), jobs_n), []
    setup(
        name="rsocket-broker-core",
        packages=[],
        ext_modules=[unit, *shims],
        script_args=["--quiet", "build_ext", "--inplace", f"--parallel={jobs_n}"],
    )


def parts_of(sources: list[str]) -> list[list[str]]:
    """What is compiled together, the longest first: what a request passes, and the rest in PARTS of about a length."""
    parts: list[list[str]] = [[] for _ in range(PARTS + 1)]
    lengths = [0] * (PARTS + 1)
    for source in sorted(sources, key=os.path.getsize, reverse=True):
        name = Path(source).name.removeprefix("__native_")
        is_module = "___" in name  # or else it is of mypyc's runtime, or begins the unit
        is_passed = not is_module or (name.startswith(PASSED) and not name.startswith(BESIDE))
        at = 0 if is_passed else min(range(1, PARTS + 1), key=lengths.__getitem__)
        parts[at].append(source)
        lengths[at] += os.path.getsize(source)
    return sorted((each for each in parts if each), key=lambda part: -sum(map(os.path.getsize, part)))


def compile_parts(unit: Extension, parts: list[list[str]], jobs_n: int) -> list[str]:
    """The objects, of as many compilers at a time as there are jobs."""

    def compile_part(at: int) -> list[str]:
        source = Path(unit.sources[0]).parent / f"part{at}.c"
        source.write_text("".join(f'#include "{os.path.relpath(each, source.parent)}"\n' for each in parts[at]))
        compiler = new_compiler()
        customize_compiler(compiler)
        is_unix = compiler.compiler_type == "unix"
        objects: list[str] = compiler.compile(
            [str(source)],
            include_dirs=[*unit.include_dirs, sysconfig.get_path("include")],
            extra_postargs=[*unit.extra_compile_args, *(["-fvisibility=hidden"] if is_unix else [])],
        )
        return objects

    with ThreadPoolExecutor(jobs_n) as pool:
        return [each for objects in pool.map(compile_part, range(len(parts))) for each in objects]


if __name__ == "__main__":
    main(sys.argv[1], sys.argv[2:])
