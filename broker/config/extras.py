"""Parts of the package that an installation may be without, and the line that installs them.

The base install has what a client and a broker need; numpy and pyarrow (240 MB) come with the extra `events`, libzmq
and the client of RabbitMQ with the extra `samwise`, those of RabbitMQ and MQTT with the extra `feed`, what verifies
passwords and tokens with the extra `auth`. A Samwise gateway for services, without keys, needs no extra.
"""

from collections.abc import Sequence
from importlib.util import find_spec
from typing import Final

EVENTS_MODULES: Final = ("numpy", "pyarrow")
EVENTS_LINE: Final = 'pip install "rsocket-broker[events]"'
ZEROMQ_MODULE: Final = "zmq"  # of pyzmq
RABBITMQ_MODULE: Final = "aiormq"
SAMWISE_LINE: Final = 'pip install "rsocket-broker[samwise]"'
FEED_MODULES: Final = {"amqp": RABBITMQ_MODULE, "mqtt": "aiomqtt"}  # by the beginning of a URL
FEED_LINE: Final = 'pip install "rsocket-broker[feed]"'
AUTH_MODULES: Final = ("argon2", "cryptography", "jwt")
AUTH_LINE: Final = 'pip install "rsocket-broker[auth]"'
INSTALLS: Final = (EVENTS_LINE, SAMWISE_LINE, FEED_LINE, AUTH_LINE)  # how each text of a lack ends


def lack_of_events() -> str:
    """Why this installation can neither write nor read event files, and the line that changes it; empty: it can."""
    return _lack(EVENTS_MODULES, EVENTS_LINE)


def lack_of_zeromq() -> str:
    """Likewise of programs that ask a Samwise gateway, and of a gateway with keys of CURVE."""
    return _lack([ZEROMQ_MODULE], SAMWISE_LINE)


def lack_of_rabbitmq() -> str:
    """Likewise of a Samwise gateway that publishes to RabbitMQ."""
    return _lack([RABBITMQ_MODULE], SAMWISE_LINE)


def lack_of_feed(protocol: str) -> str:
    """Likewise of a feed that speaks amqp or mqtt."""
    return _lack([FEED_MODULES[protocol]], FEED_LINE)


def lack_of_auth() -> str:
    """Likewise of a broker that verifies passwords and tokens."""
    return _lack(AUTH_MODULES, AUTH_LINE)


def _lack(modules: Sequence[str], line: str) -> str:
    lacking = [name for name in modules if find_spec(name) is None]
    return f"needs {' and '.join(lacking)}: {line}" if lacking else ""
