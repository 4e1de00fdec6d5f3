"""Parts of the package that an installation may be without, and the line that installs them.

The base install has what a client and a broker need; numpy and pyarrow (240 MB) come with the extra `events`, ZeroMQ
and the client of RabbitMQ with the extra `samwise`.
"""

from collections.abc import Sequence
from importlib.util import find_spec
from typing import Final

EVENTS_MODULES: Final = ("numpy", "pyarrow")
EVENTS_LINE: Final = 'pip install "rsocket-broker[events]"'
SAMWISE_MODULES: Final = ("zmq", "aiormq")
SAMWISE_LINE: Final = 'pip install "rsocket-broker[samwise]"'


def lack_of_events() -> str:
    """Why this installation can neither write nor read event files, and the line that changes it; empty: it can."""
    return _lack(EVENTS_MODULES, EVENTS_LINE)


def lack_of_samwise(*, with_rabbitmq: bool) -> str:
    """Likewise of the Samwise gateway; `with_rabbitmq`: of one that publishes to RabbitMQ."""
    return _lack(SAMWISE_MODULES if with_rabbitmq else SAMWISE_MODULES[:1], SAMWISE_LINE)


def _lack(modules: Sequence[str], line: str) -> str:
    lacking = [name for name in modules if find_spec(name) is None]
    return f"needs {' and '.join(lacking)}: {line}" if lacking else ""
