"""broker.config.load: the tables of services, [service.NAME]."""

from pathlib import Path

import pytest

from broker.config.options import MAX_SERVICES
from tests.broker.config.sources import A_CHOOSER, LISTS_ALL, SERVICES, mistakes_of, of_file


def test_what_tables_of_services_say_is_kept_by_name(folder: Path) -> None:
    assert of_file(folder, SERVICES).service == {
        "orders": {"chooser": "round_robin", "sticky_ttl_s": 7.0},
        "billing.eu": {"eject_after_errors": 0},
        "a b": {"max_in_flight_per_route": 3},
    }


@pytest.mark.parametrize(
    "text, sentence",
    [
        (
            "[service.orders]\n\nchoser = 1",
            "4: service.orders.choser: unknown option of a service; did you mean chooser?",
        ),
        (
            "[service.orders]\nmax_tags_per_route = 1",
            "3: service.orders.max_tags_per_route: unknown option of a service; limits.max_tags_per_route is "
            "one of all",
        ),
        ("[service.orders]\nqq = 1", f"3: service.orders.qq: unknown option of a service{LISTS_ALL}"),
        (
            '[service.a]\nchooser = "random"\n[service."b.c \\"d\\""]\nchooser = "best"',
            f'5: service."b.c \\"d\\"".chooser: must be {A_CHOOSER}, not "best"',
        ),
        (
            '[service."gr\\u00fc\\u00dfe"]\npanic_percent = 101',
            '3: service."grüße".panic_percent: must be a whole number from 0 to 100, not 101',
        ),
        (
            "[service.orders]\neject_s = true",
            "3: service.orders.eject_s: must be a number from 0.001 to 86400, not true",
        ),
        ("[service]\nchooser = 1", "3: service.chooser: must be a table [service.NAME] of one service, not 1"),
        (
            "[[service.orders]]\nchooser = 1",
            "2: service.orders: must be a table [service.NAME] of one service, not [{…}]",
        ),
        ("service = 1", "2: service: must be a section, not 1"),
        ('[service.""]', '2: service."": the name of a service must be printable text of 1 to 255 bytes'),
        ('[service."a\\tb"]', '2: service."a\\tb": the name of a service must be printable text of 1 to 255 bytes'),
        ("[services.orders]", "2: services: unknown section; did you mean service?"),
    ],
)
def test_a_mistake_about_a_service_is_told_with_its_line_and_key(folder: Path, text: str, sentence: str) -> None:
    assert mistakes_of(folder, f"# first line\n{text}\n") == [f"broker.toml:{sentence}"]


def test_a_name_of_a_service_has_255_bytes_at_most(folder: Path) -> None:
    assert list(of_file(folder, f"[service.{'n' * 255}]").service) == ["n" * 255]
    assert len(mistakes_of(folder, f'[service."{"ä" * 128}"]')) == 1


def test_so_many_services_have_tables_and_no_more(folder: Path) -> None:
    tables = "\n".join(f"[service.s{number}]" for number in range(MAX_SERVICES))
    assert len(of_file(folder, tables).service) == MAX_SERVICES == 1000
    assert mistakes_of(folder, f"{tables}\n[service.more]") == [
        "broker.toml:1: service: 1001 services have tables of their own, the limit is 1000"
    ]


def test_all_mistakes_about_services_come_together(folder: Path) -> None:
    text = "[service.b]\neject_s = 0\nqq = 1\n[service.a]\neject_s = 0\n[log]\nlevel = 1\n"
    assert [line.partition(": ")[0] for line in mistakes_of(folder, text)] == [
        f"broker.toml:{line}" for line in (2, 3, 5, 7)
    ]


def test_services_have_no_variables(folder: Path) -> None:
    assert mistakes_of(folder, "", {"RSB_SERVICE__ORDERS__CHOOSER": "random"}) == [
        "environment: RSB_SERVICE__ORDERS__CHOOSER: services have no variables, only tables [service.NAME] in the file"
    ]
