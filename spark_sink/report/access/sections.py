"""Identities as tables of texts."""

from typing import Final

from spark_sink.report.facts import Facts
from spark_sink.report.section import Section, of_records
from spark_sink.report.texts import count_of

_TIMES: Final = ">times | first at (UTC) = moment(first_us) | last at (UTC) = moment(last_us)"


def admissions_section(facts: Facts) -> Section:
    access = facts.access
    return of_records(
        "Identities that were let in or refused",
        f"identity = principal | role | event | word | why = reason | {_TIMES}",
        access.rows,
        f"{count_of(access.admitted, 'connection')} let in, {count_of(access.refused, 'time')} refused or cut off. "
        "With auth.mode observe who is refused here was let in.",
        nothing="Nobody was let in or refused.",
        of=(access.count, "row"),
    )


def denials_section(facts: Facts) -> Section:
    access = facts.access
    return of_records(
        "What roles did not allow",
        f"identity = principal | role | asked | service | tag | value = tag_value | why = reason | {_TIMES}",
        access.denied_rows,
        nothing="Nothing was denied.",
        of=(access.denied_count, "row"),
    )


def changes_section(facts: Facts) -> Section:
    access = facts.access
    return of_records(
        "What operators have changed",
        f"who = principal | role | from = peer | operation | subject | word | {_TIMES}",
        access.changed_rows,
        "By the REST API. With a word it was refused.",
        nothing="Nothing was changed.",
        of=(access.changed_count, "row"),
    )
