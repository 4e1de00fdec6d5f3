"""The compiled copy of the tree that benchmarks and the second run of the tests use."""

from __future__ import annotations

import subprocess
import sys
from pathlib import Path

ROOT = Path(__file__).resolve().parent.parent


def build() -> Path:
    """Compiles what has changed; the folder to put on PYTHONPATH."""
    target = ROOT / "build" / "compiled"
    subprocess.run([sys.executable, str(ROOT / "broker" / "build_hook.py"), str(target)], check=True)
    return target


if __name__ == "__main__":
    print(build())
