"""python -m client_sdk.rsocket_py PROGRAM [ARGUMENT…]: a program written for rsocket-py, as it is, on our engine."""

import runpy
import sys
from pathlib import Path

from client_sdk.rsocket_py.drop_in import substituted


def main(arguments: list[str]) -> int:
    """The exit status; the program's own when it says one."""
    if not arguments:
        print("usage: python -m client_sdk.rsocket_py PROGRAM [ARGUMENT…]", file=sys.stderr)
        return 2
    sys.argv = list(arguments)
    sys.path[0] = str(Path(arguments[0]).resolve().parent)
    with substituted():
        runpy.run_path(arguments[0], run_name="__main__")
    return 0


if __name__ == "__main__":
    sys.exit(main(sys.argv[1:]))
