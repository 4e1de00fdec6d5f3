"""broker.config.settings: what the options say reaches the core, each by its own declaration."""

from dataclasses import fields, make_dataclass
from pathlib import Path

import pytest

from broker.cluster.settings import ClusterSettings
from broker.config.load import load
from broker.config.options import OPTIONS, SERVICE_KEYS, Config, OptionDoc
from broker.config.settings import (
    CLUSTER_WORKED_OUT,
    OTHER_NAMES,
    WORKED_OUT,
    cluster_settings_of,
    options_of,
    settings_of,
)
from broker.forwarding.settings import Settings
from broker.routing.policies import Policy
from tests.broker.config.sources import SERVICES, of_file


def values_of(policy: Policy) -> dict[str, object]:
    """Everything that a policy says."""
    return {key: getattr(policy, key) for key in dir(policy) if not key.startswith("_")}


def test_a_service_has_what_its_table_says_and_the_rest_as_all(folder: Path) -> None:
    (folder / "broker.toml").write_text(SERVICES)
    settings = settings_of(load("broker.toml", {"RSB_PROTECTION__EJECT_S": "9"}, {}))
    of_all = {**values_of(Policy()), "chooser": "random", "eject_s": 9.0}
    assert values_of(settings.policy) == of_all
    assert {name: values_of(policy) for name, policy in settings.policies.items()} == {
        "orders": {**of_all, "chooser": "round_robin", "sticky_ttl_s": 7.0},
        "billing.eu": {**of_all, "eject_after_errors": 0},
        "a b": {**of_all, "max_in_flight_per_route": 3},
    }


def test_a_service_can_have_all_that_a_policy_has() -> None:
    assert sorted(SERVICE_KEYS) == sorted(values_of(Policy()))


def test_without_a_configuration_the_core_is_set_as_by_itself() -> None:
    def plain(settings: Settings) -> dict[str, object]:
        found = {each.name: getattr(settings, each.name) for each in fields(settings)}
        return {**found, "policy": values_of(settings.policy)}

    assert plain(settings_of(Config())) == plain(Settings())


def test_every_setting_has_an_option_or_is_worked_out() -> None:
    """An option of the core is declared in its settings and documented in its section; no other list holds it."""
    for kind, worked_out in ((Settings, WORKED_OUT), (ClusterSettings, CLUSTER_WORKED_OUT)):
        options = options_of(kind)
        assert {each.name for each in fields(kind)} == options.keys() | worked_out
        assert not options.keys() & worked_out
        assert set(options.values()) <= OPTIONS.keys()
    assert OTHER_NAMES.keys() <= options_of(Settings).keys() | options_of(ClusterSettings).keys()


def test_no_two_options_are_one_setting() -> None:
    """Settings find their options by key."""
    names = [*options_of(Settings).values(), *options_of(ClusterSettings).values()]
    keys = [OPTIONS[name].key for name in names if name not in OTHER_NAMES.values()]
    assert [doc.name for doc in OPTIONS.values() if keys.count(doc.key) and doc.name not in names] == []


def test_every_option_of_the_sections_of_the_core_reaches_it() -> None:
    """What bounds sockets and logins is the edge's."""
    names = {*options_of(Settings).values(), *(doc.name for doc in SERVICE_KEYS.values())}
    assert [
        doc.name
        for doc in OPTIONS.values()
        if doc.section in ("routing", "protection", "limits", "annotations") and doc.name not in names
    ] == ["limits.max_wrong_logins_per_s", "limits.stuck_s", "annotations.version"]


@pytest.mark.parametrize(("text", "every_n"), [("flows", 0), ("all", 1), ("1/2", 2), ("1/1000000", 1_000_000)])
def test_single_requests_and_snapshots_are_made_where_somebody_writes_them(
    folder: Path, text: str, every_n: int
) -> None:
    said = f'[events]\nrequests = "{text}"\nsnapshot_s = 7\n'
    settings = settings_of(of_file(folder, said + f'dir = "{folder}"'))
    assert (settings.single_requests, settings.snapshot_s) == (every_n, 7.0)
    settings = settings_of(of_file(folder, said))
    assert (settings.single_requests, settings.snapshot_s) == (0, 0.0)


LONELY = ("auth", "auth_mode")  # the example of each needs other options


@pytest.mark.parametrize(
    ("kind", "setting", "name"),
    [
        (kind, *each)
        for kind in (Settings, ClusterSettings)
        for each in options_of(kind).items()
        if each[0] not in LONELY
    ],
    ids=str,
)
def test_what_an_option_says_reaches_the_core(
    folder: Path, kind: type[Settings | ClusterSettings], setting: str, name: str
) -> None:
    doc = OPTIONS[name]
    section = "" if doc.section == "cluster" else f"[{doc.section}]\n"
    secret = '[cluster]\nsecret = "one that is long enough"\n'
    config = of_file(folder, f"{secret}{section}{doc.key} = {doc.option.example}")
    settings = settings_of(config) if kind is Settings else cluster_settings_of(config)
    assert getattr(settings, setting) == getattr(getattr(config, doc.section), doc.key) != doc.default


@pytest.mark.parametrize("doc", SERVICE_KEYS.values(), ids=lambda doc: doc.name)
def test_what_an_option_says_reaches_the_policy_of_all_services(folder: Path, doc: OptionDoc) -> None:
    config = of_file(folder, f"[{doc.section}]\n{doc.key} = {doc.option.example}")
    value = getattr(settings_of(config).policy, doc.key)
    assert value == getattr(getattr(config, doc.section), doc.key) != doc.default


def test_a_setting_without_an_option_is_told_by_name() -> None:
    with pytest.raises(KeyError, match=r"More.example_n has no option: declare one in broker/config/sections"):
        options_of(make_dataclass("More", ["example_n"]))
