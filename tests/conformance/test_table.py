"""docs/conformance.md is held to the sources: what it names exists, and what the specification demands has a row."""

import re

import pytest

from tests.conformance.table import ROOT, dangling_in, functions_in, mistakes_of, rows_of
from tests.conformance.test_keys import KEYS as NAMED_KEYS

PAGE = ROOT / "docs/conformance.md"
OTHER_PAGE = ROOT / "docs/annotations.md"  # see `test_annotations_table`

# Every sentence of the specification with MUST, SHOULD, MAY or RECOMMENDED, and those that say it in lower case.
DEMANDS = [
    "Implementations MUST support both cases.",
    "A request that has more than one of these flags set is considered invalid, and the request MUST be rejected.",
    "It SHOULD only be metadata about how the message is to be routed.",
    "A routable destination that wishes to receive requests MUST send a ROUTE_SETUP frame to broker that it wishes to"
    " receive traffic from.",
    "When connecting to a broker the routable destination MUST provide a Route Id.",
    "The Route Id SHOULD be correlated with RSocket’s physical transport connection.",
    "If a connection disconnects, it SHOULD reconnect with the same Route Id.",
    "In the example with 4 connections, if the 3rd connection with router id 1234 is disconnected, when it reconnects"
    " to a broker it SHOULD reconnect with router id 1234.",
    "A broker or a broker cluster MUST only allow one connection for a given Route Id.",
    "If a routable destination connects, and it is determined that there is an existing route present with the same"
    " Route Id the Broker or Broker cluster MUST close the existing route, and remove it from the table, and replace it"
    " with the information from the new ROUTE_SETUP.",
    "A broker SHOULD announce the new route to other interested brokers.",
    "ROUTE_ADD frames MAY be sent to other Brokers to reconcile route information when requested by another Broker.",
    "Each routable destination MUST have two tags automatically added its ROUTE_ADD frame by the Broker if they are not"
    " already present.",
    "A Broker MAY chose to add additional tags depending on the implementation.",
    "When a routable destination disconnects from the Broker, the Broker MUST emit a ROUTE_REMOVE frame to interested"
    " Brokers.",
    "Brokers that receive this frame MUST remove the indicated front from their Route table if ROUTE_REMOVE frame’s"
    " timestamp is newer than the route table’s timestamp.",
    "The route table MUST not allow duplicate Route Id entries.",
    "It is RECOMMENDED that this is used with composite metadata.",
    "The one or more instances of the metadata io.rsocket.routing.ShardKey MUST be present.",
    "The value of the io.rsocket.routing.ShardKey metadata MUST be to a tag key that is present on the request.",
    "If the value in the io.rsocket.routing.ShardKey metadata is not to a tag that is present, the request is invalid"
    " and MUST be rejected.",
    "A broker forwarding a message MAY add additional metadata, and tags to the envelope but it MUST not mutate the"
    " wrapped metadata, or data of the request.",
    # In lower case.
    "They may be used in conjunction with the composite metadata field.",
    "A route must be unique for all other routes.",
    "Used to indicate a route is no longer valid and should be removed from the routing table.",
    "It may be attached as the payload’s only metadata, or it can be included in composite metadata.",
    "Brokers can only allow one connection for a given Route Id to be connected at a time.",
    "It is recommended that these tags are added by the origin.",
    "Clients may want to forward a message that has existing metadata.",
    "All tags must have a valid index.",
    "When the shard route flag is set, a broker must select a route from the list of routes using sharding.",
    "When the multicast route flag is set, a broker must forward a request to all routes in the list of routes.",
]

# The keys of the specification's table.
KEYS = {
    **{f"io.rsocket.routing.{name}": id for name, id in NAMED_KEYS.items()},
    "No Tag Present": 0x00,
    "Broker Implementation Ext Key": 0x7C,
    "Well Know Ext Key": 0x7F,
}


def test_every_clause_has_its_row_and_every_row_its_tests() -> None:
    page = PAGE.read_text()
    assert mistakes_of(page, DEMANDS, KEYS) == []
    assert len(rows_of(page)) > 200


def test_every_byte_script_is_named() -> None:
    """A script that no row names pins a clause that nobody finds."""
    pages = PAGE.read_text() + OTHER_PAGE.read_text()
    named = set(re.findall(r"`(tests/conformance/\w+\.py::test_\w+)`", pages))
    paths = sorted((ROOT / "tests/conformance").glob("test_*.py"))
    files = [path for path in paths if not path.name.endswith("table.py")]
    scripts = {f"tests/conformance/{path.name}::{name}" for path in files for name in functions_in(path)}
    assert scripts - named == set()


def test_decisions_and_rows_that_are_named_exist() -> None:
    page = PAGE.read_text()
    assert dangling_in(page) == set()
    assert dangling_in(f"{page} See N-01, D-01 and N-99.") == {"N-99"}


HERE = "tests/conformance/test_table.py::test_a_mistake_is_told"
GOOD = f"| F-99 | “Nothing.” | field | It is read. | `broker/core.py` | `{HERE}` |"


@pytest.mark.parametrize(
    ("old", "new", "mistake"),
    [
        ("", "", ""),
        ("| F-99", f"{GOOD}\n| F-99", "F-99 stands 2 times"),
        ("F-99", "F99", "'F99' is no id"),
        ("It is read.", "", "F-99: a cell is missing or empty"),
        ("| field ", "", "F-99: a cell is missing or empty"),
        ("It is read.", "It is partly read.", "F-99 says 'partly'"),
        ("It is read.", "Not yet.", "F-99 says 'Not yet'"),
        ("It is read.", "TODO", "F-99 says 'TODO'"),
        ("core.py", "cores.py", "F-99: there is no file broker/cores.py"),
        ("`broker/core.py`", "broker", "F-99 names no file or no test"),
        (HERE, f"{HERE}_", f"F-99: there is no test {HERE}_"),
        (HERE, "tests/conformance/none.py::test_none", "F-99: there is no test tests/conformance/none.py::test_none"),
        (
            "test_a_mistake_is_told",
            "mistakes_of",
            "F-99: there is no test tests/conformance/test_table.py::mistakes_of",
        ),
    ],
)
def test_a_mistake_is_told(old: str, new: str, mistake: str) -> None:
    row = GOOD.replace(old, new) if old else GOOD
    assert mistakes_of(f"{PAGE.read_text()}{row}\n", DEMANDS, KEYS) == ([mistake] if mistake else [])


@pytest.mark.parametrize("id", ["AD-07", "SH-04", "FR-02", "K-07"])
def test_a_clause_that_loses_its_row_is_told(id: str) -> None:
    page = PAGE.read_text()
    rest = "\n".join(line for line in page.splitlines() if not line.startswith(f"| {id} "))
    assert len(mistakes_of(rest, DEMANDS, KEYS)) == 1
