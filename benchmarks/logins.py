"""What logins cost those who are connected: `python -m benchmarks.logins`.

They are the traffic of compare.py, and anonymous. Beside them in turn: nobody; 1,000 logins a second, each with another
token of ES256; and a flood of as many wrong passwords, from one address and from many. All within each round, each with
a broker of its own, which has one CPU for its event loop and its passwords; ratios are taken within the round.
"""

import base64
import sys
import tempfile
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path
from typing import Final

import click
from argon2 import PasswordHasher
from rich.console import Console

from benchmarks.compare import Comparison, nobody
from benchmarks.contestants import OURS, RunningBroker, ours
from benchmarks.figures import Row, table_of
from benchmarks.machine import build_programs
from benchmarks.slow_peer import HEAD, Beside, add_rows, process, run, show
from rsocket_wire.wire.authentication import BEARER, SIMPLE, Credentials
from tests.broker.edge.admission.signers import AUDIENCE, ISSUER, key_set, signer

PER_S: Final = 1000
CREDENTIALS_N: Final = 5000  # different ones
MOST: Final = 2.0  # times the p99: the promise
REQUESTS: Final = Row("request_response", 16, 16)


def write_credentials(path: Path, credentials: list[Credentials]) -> None:
    """One line each, for `beside.py`."""
    path.write_bytes(b"".join(base64.b64encode(each.encode()) + b"\n" for each in credentials))


def logins(file: Path, addresses_n: int, are_right: bool) -> Beside:
    """So many a second; `addresses_n` of the loopback network in turn. Right ones have to be let in."""

    @contextmanager
    def beside(broker: RunningBroker) -> Iterator[None]:
        with process(broker, "logins", file, PER_S, addresses_n, int(are_right)):
            yield

    return beside


def jwt_variables(folder: Path, accept: str) -> dict[str, str]:
    """Of a broker that accepts these kinds of identities, `jwt` by tokens of `signer`."""
    (folder / "keys.json").write_bytes(key_set(signer()))
    return {
        "RSB_AUTH__MODE": "required",
        "RSB_AUTH__ACCEPT": accept,
        "RSB_JWT__KEYS": str(folder / "keys.json"),
        "RSB_JWT__ISSUER": ISSUER,
        "RSB_JWT__AUDIENCE": AUDIENCE,
    }


def prepared(folder: Path) -> tuple[dict[str, str], dict[str, Beside]]:
    """Variables of the broker, and who is beside."""
    (folder / "users").write_text(f"ada:{PasswordHasher().hash('lovelace')}\n")
    numbers = range(CREDENTIALS_N)
    write_credentials(folder / "tokens", [Credentials(BEARER, "", signer().sign(sub=f"orders-{n}")) for n in numbers])
    write_credentials(folder / "passwords", [Credentials(SIMPLE, "ada", f"guess {n}") for n in numbers])
    variables = {"RSB_AUTH__USERS": str(folder / "users"), **jwt_variables(folder, "jwt,user,anonymous")}
    return variables, {
        "nobody": nobody,
        "1,000 logins/s with tokens": logins(folder / "tokens", 1, are_right=True),
        "1,000 guesses/s, one address": logins(folder / "passwords", 1, are_right=False),
        "1,000 guesses/s, 200 addresses": logins(folder / "passwords", 200, are_right=False),
    }


@click.command()
@click.option("--seconds", type=click.FloatRange(1.0, 9.0), default=4.0, show_default=True, help="Of each run.")
@click.option("--rounds", type=click.IntRange(1), default=5, show_default=True)
@click.option("--only", metavar="NAME", default="", help="Only brokers of ours whose name contains this.")
def main(seconds: float, rounds: int, only: str) -> None:
    """CPU time, rate and p99 of others beside logins and beside guesses at passwords."""
    console = Console(width=None if sys.stdout.isatty() else 150)
    build_programs()
    title = f"medians and ratios over the rounds; the promise: logins make the p99 of others at most {MOST:g} times"
    table = table_of(title, *HEAD, left_n=2)
    is_failed = False
    with tempfile.TemporaryDirectory() as folder:
        variables, cases = prepared(Path(folder))
        for name in OURS:
            if only not in name:
                continue
            comparison = Comparison(console, seconds, rounds)
            runner = ours(name, name == OURS[0], **variables)
            results = run(comparison, runner, REQUESTS, cases, rounds)
            if results[0].rounds:
                add_rows(table, runner, results)
            is_failed = is_failed or comparison.is_failed or any(figures.errors for figures in results)
    show(console, table, is_failed)


if __name__ == "__main__":
    main()
