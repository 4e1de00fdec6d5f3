"""Long runs of the play in `tests/fuzz/play.py` under atheris, guided by coverage of the core.

    pip install atheris                                  # Linux, CPython 3.11..3.13
    python -m tests.fuzz.fuzz_receive -max_total_time=3600 build/fuzz/receive
    python -m tests.fuzz.fuzz_receive build/fuzz/receive/crash-…      # plays one file again, also without atheris

Needs the core interpreted: coverage does not see into compiled modules. The folder holds the corpus and may be empty.
A file that breaks a rule becomes an `@example` in `tests/fuzz/test_receive.py`.
"""

import sys
from pathlib import Path

from tests.fuzz.play import play


def main(arguments: list[str]) -> int:
    """Runs atheris, or plays the named files when there is no atheris. The exit status."""
    try:
        import atheris
    except ImportError:
        files = [Path(argument) for argument in arguments[1:] if Path(argument).is_file()]
        if not files:
            print("atheris is not installed: pip install atheris, or name files to play again", file=sys.stderr)
            return 2
        for file in files:
            play(file.read_bytes())
            print(f"{file}: no rule was broken")
        return 0
    atheris.instrument_all()
    atheris.Setup(arguments, play)
    atheris.Fuzz()
    return 0


if __name__ == "__main__":
    sys.exit(main(sys.argv))
