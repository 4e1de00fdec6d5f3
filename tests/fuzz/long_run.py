"""Long runs of the functions of `targets.py` under atheris, guided by coverage of the broker.

    python -m tests.fuzz.long_run authentication -max_total_time=3600       # options of libFuzzer
    python -m tests.fuzz.long_run authentication build/fuzz/authentication/crash-…    # that file again, and no other

The first form needs atheris (`make fuzz` installs it: Linux, CPython 3.11 to 3.13) and the core interpreted, since
coverage does not see into compiled modules. It begins with what is kept in `corpus/NAME`; what it finds is in
`build/fuzz/NAME`. An input that breaks a promise is put into `corpus/NAME` together with what mends it.
"""

from __future__ import annotations

import sys
from collections.abc import Sequence
from pathlib import Path
from typing import Final

CORPUS: Final = Path(__file__).parent / "corpus"
FOUND: Final = Path("build/fuzz")
OURS: Final = ["broker", "rsocket_wire", "websockets"]  # whose coverage guides


def main(arguments: Sequence[str]) -> int:
    """Runs a target for a time, or files through it once. The exit status."""
    name, *more = arguments[1:] or ["?"]
    files = [Path(each) for each in more if Path(each).is_file()]
    if files:
        return _run_again(name, files)
    try:
        import atheris
    except ImportError:
        print("atheris is not installed: pip install 'rsocket-broker[fuzz]', or name files", file=sys.stderr)
        return 2
    with atheris.instrument_imports(include=OURS):
        from tests.fuzz.targets import TARGETS
    if name not in TARGETS:
        return _unknown(name, list(TARGETS))
    found = FOUND / name
    found.mkdir(parents=True, exist_ok=True)
    folders = [str(found), str(CORPUS / name)]
    atheris.Setup([arguments[0], f"-artifact_prefix={found}/", *more, *folders], TARGETS[name])
    atheris.Fuzz()  # ends the process
    return 0


def _run_again(name: str, files: list[Path]) -> int:
    from tests.fuzz.targets import TARGETS

    if name not in TARGETS:
        return _unknown(name, list(TARGETS))
    for file in files:
        TARGETS[name](file.read_bytes())
        print(f"{file}: no promise was broken")
    return 0


def _unknown(name: str, names: list[str]) -> int:
    print(f"{name} is none of {', '.join(names)}", file=sys.stderr)
    return 2


if __name__ == "__main__":
    sys.exit(main(sys.argv))
