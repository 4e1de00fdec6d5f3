"""broker.config.reference: the document and the file of all defaults hold the options as they are."""

import tomllib
from dataclasses import fields
from pathlib import Path

import pytest

from broker.config.options import OPTIONS, SERVICE_KEYS, Config
from broker.config.reference import options_markdown, options_toml
from tests.broker.config.sources import of_file, write_pem

DOCUMENT = Path(__file__).parents[3] / "docs" / "configuration.md"


def test_the_file_of_all_defaults_gives_the_defaults(folder: Path) -> None:
    assert of_file(folder, options_toml()) == Config()
    assert leaves_n(tomllib.loads(options_toml())) == len(OPTIONS.values())


def test_the_document_holds_the_options_as_they_are() -> None:
    """Should it fail: put what `options_markdown()` gives between the two comments of the document."""
    text = DOCUMENT.read_text(encoding="utf-8")
    table = text.partition("<!-- options -->\n")[2].partition("<!-- end of options -->")[0]
    assert table.strip() == options_markdown().strip()


def test_the_example_of_a_service_in_the_file_of_all_defaults_is_right(folder: Path) -> None:
    at = options_toml().index('# [service."orders.eu"]')
    example = options_toml()[at:].partition("\n\n")[0].replace("# ", "", 1).replace("\n# ", "\n")
    assert {name: sorted(own) for name, own in of_file(folder, example).service.items()} == {
        "orders.eu": sorted(SERVICE_KEYS)
    }


@pytest.mark.parametrize("place, name", [("rabbitmq", "rabbit-1"), ("exchange", "orders")])
def test_the_examples_of_tables_of_the_gateway_are_right(folder: Path, place: str, name: str) -> None:
    """Each option there has another value than the default."""
    at = options_toml().index(f"# [samwise.{place}.{name}]")
    example = options_toml()[at:].partition("\n\n")[0].replace("# ", "", 1).replace("\n# ", "\n")
    write_pem(folder)
    example = example.replace("/etc/rabbitmq/ca.pem", "certificate")
    made = getattr(of_file(folder, example).samwise, place)[name]
    default = type(made)()
    assert [each.name for each in fields(made) if getattr(made, each.name) == getattr(default, each.name)] == []


def leaves_n(section: dict[str, object]) -> int:
    """Keys with values, those of sections within it counted."""
    return sum(leaves_n(value) if isinstance(value, dict) else 1 for value in section.values())
