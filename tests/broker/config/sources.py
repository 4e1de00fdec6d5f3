"""Configurations as tests write them: a file in an empty folder, and every mistake in it."""

from collections.abc import Mapping
from pathlib import Path

import pytest

from broker.config.load import ConfigErrors, load
from broker.config.options import Config
from tests.pem import CERTIFICATE, ENCRYPTED_KEY, KEY, OTHER_KEY

SCHEMES = "tcp, tls, ws, wss or unix"
A_CHOOSER = (
    '"round_robin", "random", "weighted", "least_busy", "power_of_two", "peak_ewma", "zone_first" or "sticky", '
    'the last two alone or with another after a colon ("sticky:random")'
)
LISTS_ALL = "; rsocket-broker check --options lists all"
SERVICES = """\
[routing]
chooser = "random"
[service.orders]
chooser = "round_robin"
sticky_ttl_s = 7
[service."billing.eu"]
eject_after_errors = 0
[service]
'a b' = { max_in_flight_per_route = 3 }
"""


NOT_THERE = "cannot be read: No such file or directory; it was looked for at FOLDER"
GIVE_ONE = "; write the path of a file that is there"
OPEN = {"RSB_AUTH__MODE": "off"}  # else no listener may be reachable from other machines


def of_file(folder: Path, text: str) -> Config:
    (folder / "broker.toml").write_text(text, encoding="utf-8")
    return load("broker.toml", {} if "[auth]" in text else OPEN, {})


def mistakes_of(
    folder: Path, text: str, environ: Mapping[str, str] | None = None, flags: Mapping[str, object] | None = None
) -> list[str]:
    """The lines of everything that is wrong with these sources; in them the folder is called FOLDER."""
    (folder / "broker.toml").write_text(text, encoding="utf-8")
    with pytest.raises(ConfigErrors) as caught:
        load("broker.toml", {**({} if "[auth]" in text else OPEN), **(environ or {})}, flags or {})
    return str(caught.value).replace(str(folder), "FOLDER").splitlines()


def write_pem(folder: Path) -> None:
    """Files as options name them, and some that are something else."""
    texts = {"certificate": CERTIFICATE, "key": KEY, "client_ca": CERTIFICATE, "both": CERTIFICATE + KEY}
    others = {"encrypted": ENCRYPTED_KEY, "other": OTHER_KEY, "junk": "no PEM\n", "empty": ""}
    for name, text in {**texts, **others}.items():
        (folder / name).write_text(text)
