"""Parts of the package that an installation may be without, and the line that installs them.

The base install has what a client and a broker need; numpy and pyarrow (240 MB) come with the extra `events`.
"""

from importlib.util import find_spec
from typing import Final

EVENTS_MODULES: Final = ("numpy", "pyarrow")
EVENTS_LINE: Final = 'pip install "rsocket-broker[events]"'


def lack_of_events() -> str:
    """Why this installation can neither write nor read event files, and the line that changes it; empty: it can."""
    lacking = [name for name in EVENTS_MODULES if find_spec(name) is None]
    return f"needs {' and '.join(lacking)}: {EVENTS_LINE}" if lacking else ""
