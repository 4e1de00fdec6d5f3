"""What a configuration says about the Samwise gateway: its endpoints, and what does not go together or is not there."""

import re
from collections.abc import Mapping
from dataclasses import dataclass
from pathlib import Path
from typing import Final

from broker.config.extras import lack_of_rabbitmq, lack_of_zeromq
from broker.config.sections.samwise import MAX_EXPIRATION_MS, RabbitmqOptions
from broker.config.toml import shown_value
from broker.config.urls import MAX_UNIX_PATH_BYTES
from rsocket_wire.errors import BrokerError

CONTROL_NAME: Final = "control.sock"  # in samwise.dir: where operators ask a gateway that runs
VERSIONS: Final = (100, 110, 120)  # of the protocol
LOCAL: Final = ("localhost", "lo", "[::1]")
KEY_SUFFIX: Final = ".key"  # of files with a public key, as zmq.auth names them
_SECRET_KEY: Final = re.compile(rb'^\s*secret-key\s*=\s*"[!-~]{40}"', re.MULTILINE)
_DIGITS: Final = re.compile(r"[0-9]{1,12}")
_HOST: Final = re.compile(r"\*|[A-Za-z0-9._-]{1,253}|\[[0-9A-Fa-f:.]+\]")


@dataclass(frozen=True)
class Endpoint:
    """Where the gateway listens, as ZeroMQ writes it."""

    scheme: str  # "ipc" or "tcp"
    place: str  # a path, or HOST:PORT; the port 0: any free one

    @staticmethod
    def parse(text: object) -> "Endpoint":
        """BrokerError "bad-config" whose text begins with the quoted endpoint."""
        scheme, _, place = text.partition("://") if isinstance(text, str) and text.isprintable() else ("", "", "")
        if scheme == "ipc":
            size = len(place.encode())
            if not place.startswith(("/", "@")) or not 2 <= size <= MAX_UNIX_PATH_BYTES:
                raise _bad(text, f"has no absolute path of 2 to {MAX_UNIX_PATH_BYTES} bytes; write ipc:///run/samwise")
        elif scheme == "tcp":
            host, colon, port = place.rpartition(":")
            is_port = re.fullmatch("[0-9]{1,5}", port) is not None and int(port) < 1 << 16
            if not (colon and is_port and _HOST.fullmatch(host)):
                raise _bad(text, "has no address and port; write tcp://127.0.0.1:5999")
        else:
            raise _bad(text, "is not an endpoint ipc:// or tcp://")
        return Endpoint(scheme, place)

    @property
    def is_local(self) -> bool:
        """Nobody on another machine reaches it."""
        host = self.place.rpartition(":")[0]
        return self.scheme == "ipc" or host in LOCAL or re.fullmatch(r"127(\.[0-9]{1,3}){3}", host) is not None

    def __str__(self) -> str:
        return f"{self.scheme}://{self.place}"


def samwise_mistakes(
    values: Mapping[str, object], tables: Mapping[str, Mapping[str, Mapping[str, object]]], wrong: set[str]
) -> list[tuple[str, str, str]]:
    """What does not go together in these values: the option to blame, a sentence, and the item of a list or nothing.

    `values` by name as `load` has read them, `tables` by place; nothing follows from those that are `wrong`.
    """
    found: list[tuple[str, str, str]] = []
    own = {name.removeprefix("samwise."): value for name, value in values.items() if name.startswith("samwise.")}
    is_rabbitmq = own["backend"] == "rabbitmq"
    if is_rabbitmq and not tables["samwise.rabbitmq"]:
        found.append(("samwise.backend", '"rabbitmq" needs a table [samwise.rabbitmq.NAME]', ""))
    if own["min_version"] not in VERSIONS:
        allowed = ", ".join(map(str, VERSIONS))
        found.append(("samwise.min_version", f"must be one of {allowed}, not {own['min_version']}", ""))
    if is_rabbitmq:
        found += _default_mistakes(own, tables["samwise.rabbitmq"])
    found += _curve_mistakes(str(own["curve_key"]), str(own["curve_clients"]), wrong)
    folder = str(own["dir"])
    size = len(str(Path(folder).absolute() / CONTROL_NAME).encode())
    if folder and size > MAX_UNIX_PATH_BYTES:
        text = f"the path of its {CONTROL_NAME} has {size} bytes; a unix socket can have {MAX_UNIX_PATH_BYTES}"
        found.append(("samwise.dir", text, ""))
    endpoints = own["endpoints"]
    assert isinstance(endpoints, tuple)  # what `load` gives
    for at, text in enumerate(endpoints):
        if text in endpoints[:at]:
            found.append(("samwise.endpoints", f"{shown_value(text)} stands there twice", text))
        if not Endpoint.parse(text).is_local and not own["curve_key"]:
            sentence = "is reachable from other machines, which needs samwise.curve_key"
            found.append(("samwise.endpoints", f"{shown_value(text)} {sentence}", text))
    if endpoints and not folder and "samwise.dir" not in wrong:
        found.append(("samwise.endpoints", "needs samwise.dir, where messages are stored", ""))
    if endpoints and is_rabbitmq and (text := lack_of_rabbitmq()):
        found.append(("samwise.backend", text, ""))
    is_tcp = any(Endpoint.parse(text).scheme == "tcp" for text in endpoints)
    if is_tcp and own["curve_key"] and (text := lack_of_zeromq()):
        found.append(("samwise.curve_key", text, ""))
    return [mistake for mistake in found if mistake[0] not in wrong]


def _default_mistakes(
    own: Mapping[str, object], brokers: Mapping[str, Mapping[str, object]]
) -> list[tuple[str, str, str]]:
    """What RabbitMQ refuses, and the gateway before it, in each message that says nothing else."""
    found: list[tuple[str, str, str]] = []
    priority, expiration, user = (str(own[f"defaults.{name}"]) for name in ("priority", "expiration", "user_id"))
    for name, text, most in (("priority", priority, 255), ("expiration", expiration, MAX_EXPIRATION_MS)):
        if text and not (_DIGITS.fullmatch(text) and int(text) <= most):
            found.append((f"samwise.defaults.{name}", f"must be 0 to {most}, not {shown_value(text)}", ""))
    for name, broker in brokers.items():
        if user not in ("", broker.get("user", RabbitmqOptions.user)):
            text = f"{shown_value(user)} is not the user of the RabbitMQ broker {shown_value(name)}"
            found.append(("samwise.defaults.user_id", text, ""))
    return found


def _curve_mistakes(key: str, clients: str, wrong: set[str]) -> list[tuple[str, str, str]]:
    """Who is to be let in by a key, and with which."""
    found: list[tuple[str, str, str]] = []
    if clients and not key:
        found.append(("samwise.curve_clients", "needs samwise.curve_key", ""))
    if clients and "samwise.curve_clients" not in wrong and not any(Path(clients).glob(f"*{KEY_SUFFIX}")):
        found.append(("samwise.curve_clients", f"{shown_value(clients)} holds no public key, *{KEY_SUFFIX}", ""))
    if key and "samwise.curve_key" not in wrong and not _SECRET_KEY.search(Path(key).read_bytes()):
        found.append(("samwise.curve_key", f"{shown_value(key)} holds no secret key of CURVE", ""))
    return found


def _bad(text: object, sentence: str) -> BrokerError:
    return BrokerError("bad-config", f"{shown_value(text)} {sentence}")
