"""broker.config.options: every option has a reason, a unit where it counts and a right example."""

import tomllib
from pathlib import Path

import pytest

from broker.config.auth import OPERATORS
from broker.config.load import ConfigErrors
from broker.config.options import OPTIONS, Config, OptionDoc
from broker.routing.choosers.registry import Methods
from rsocket_wire.methods import CHOOSERS, WRAPPERS
from tests.broker.config.sources import A_CHOOSER, mistakes_of, of_file, write_pem

WORDS = [*CHOOSERS, *WRAPPERS, "best", "round-robin", ""]


@pytest.mark.parametrize("text", [*WORDS, *(f"{outer}:{inner}" for outer in WORDS for inner in WORDS)])
def test_a_chooser_is_one_that_the_core_has_in_the_one_spelling_of_the_documents(folder: Path, text: str) -> None:
    is_known = Methods().find(text, "round_robin") is not None
    is_documented = all(word in (*CHOOSERS, *WRAPPERS) for word in text.split(":"))
    if is_known and is_documented:
        assert of_file(folder, f'[routing]\nchooser = "{text}"').routing.chooser == text
    else:
        near = '; write "round_robin"' if text == "round-robin" else ""
        assert mistakes_of(folder, f'[routing]\nchooser = "{text}"') == [
            f'broker.toml:2: routing.chooser: must be {A_CHOOSER}, not "{text}"{near}'
        ]


@pytest.mark.parametrize("text", ["", "none", "1/1", "1/0", "1/1000001", "2/3", "1/ten", "1/-5", "0.1", "1/٣"])
def test_single_requests_are_a_word_or_one_of_so_many(folder: Path, text: str) -> None:
    with pytest.raises(ConfigErrors, match='"flows", "all" or "1/N" with N from 2 to 1000000'):
        of_file(folder, f'[events]\nrequests = "{text}"')


@pytest.mark.parametrize("doc", OPTIONS.values(), ids=lambda doc: doc.name)
def test_every_option_has_a_reason_an_example_and_a_unit_where_it_counts(doc: OptionDoc) -> None:
    assert doc.option.why.endswith(".")
    assert doc.unit or doc.hint not in (int, float)
    assert tomllib.loads(f"x = {doc.option.example}") != tomllib.loads(f"x = {doc.default_text}")


NEEDS = {  # lines of its section without which an option is wrong
    "cluster.peers": ('secret = "one that is long enough"',),
    "cluster.auth": ('principals = ["commonName=b"]',),
    "cluster.listen": ('secret = "one that is long enough"',),
    "auth.mode": ('accept = ["uid"]',),
    "samwise.endpoints": ('dir = "stored"',),
    "samwise.backend": ("rabbitmq.one.port = 5672",),
    "samwise.curve_clients": ('curve_key = "curve_key"',),
}


@pytest.mark.parametrize("doc", OPTIONS.values(), ids=lambda doc: doc.name)
def test_every_example_is_right(folder: Path, doc: OptionDoc) -> None:
    lines = [f"{doc.key} = {doc.option.example}"]
    write_pem(folder)
    for name in ("certificate", "key", "client_ca"):  # which an example listener needs, and cluster.auth
        if doc.section != "tls":
            lines.append(f'[tls]\n{name} = "{name}"' if name == "certificate" else f'{name} = "{name}"')
    (folder / "curve_key").write_text(f'secret-key = "{"k" * 40}"')
    if doc.name == "server.listen":
        lines.append('[auth]\nmode = "off"')
    if doc.name in OPERATORS:
        (folder / "keys").write_text('{"keys": [{"kty": "EC"}]}')
        lines.append('[jwt]\nkeys = "keys"\nissuer = "https://id.example"\naudience = "rsocket-broker"')
    if doc.name == "cluster.auth":
        lines.append('[broker]\nname = "b"')
    text = "\n".join([f"[{doc.section}]", *NEEDS.get(doc.name, ()), *lines])
    if doc.option.form == "file":  # the example's file is not here; it is the only thing wrong
        (mistake,) = mistakes_of(folder, text)
        assert "cannot be read: No such file or directory" in mistake
    elif doc.name == "samwise.curve_clients":  # nor is the example's folder, in which keys must be
        (mistake,) = mistakes_of(folder, text)
        assert mistake.endswith("holds no public key, *.key")
    else:
        assert of_file(folder, text) != Config()
