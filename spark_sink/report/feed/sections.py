"""Files of the feed as tables of texts."""

from typing import Final

from spark_sink.report.facts import Facts
from spark_sink.report.section import Section, of_records
from spark_sink.report.texts import elapsed_of

_TIMES: Final = ">p50 = ms(p50_ms) | >p99 = ms(p99_ms) | >max = ms(max_ms)"


def feeds_section(facts: Facts) -> Section:
    files = facts.files
    return of_records(
        "Files by feed",
        "of = broker_name | feed | >posted | >mirrored | >bytes = bytes(bytes) | >repeats = repeated | "
        f">passed on = passed | >refused | >given up = failed | {_TIMES}",
        files.rows,
        "Times are from pubTime to the mirrored file.",
        of=(files.count, "feed"),
        formats=_FORMATS,
    )


def consumers_section(facts: Facts) -> Section:
    files = facts.files
    return of_records(
        "Consumers of files",
        f"feed | consumer | >reports | >has | >lacks | lacks since (UTC) = moment(since_us) | {_TIMES}",
        files.consumers,
        "What a consumer does not want it lacks, too. Times are from pubTime to the report that it is there.",
        nothing="No consumer has reported.",
        of=(files.consumer_count, "consumer"),
        formats=_FORMATS,
    )


def lacking_section(facts: Facts) -> Section:
    files = facts.files
    return of_records(
        "Files that a consumer lacks",
        "feed | file = path | posted at (UTC) = moment(posted_us) | lacked by = consumers",
        files.lacking,
        nothing="Each consumer that has reported has all files.",
        of=(files.lacking_count, "file"),
    )


def trouble_section(facts: Facts) -> Section:
    files = facts.files
    return of_records(
        "Refused and given up",
        "of = broker_name | feed | outcome | >code | reason | >files | >most tries = tries | "
        "last at (UTC) = moment(last_us)",
        files.trouble,
        nothing="No post was refused or given up.",
        of=(files.trouble_count, "row"),
    )


def _ms(ms: int | None) -> str:
    """Less than 0 where clocks differ."""
    return f"-{elapsed_of(-ms)}" if ms is not None and ms < 0 else elapsed_of(ms)


_FORMATS: Final = {"ms": _ms}
