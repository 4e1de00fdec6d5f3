"""Messages of the Samwise gateway as tables of texts."""

from spark_sink.report.facts import Facts
from spark_sink.report.section import Section, of_records
from spark_sink.report.texts import count_of, elapsed_of


def deliveries_section(facts: Facts) -> Section:
    messages = facts.messages
    return of_records(
        "Messages by exchange and destination",
        "exchange | acknowledged by = destination | >times = delivered | >tried again = again | >p50 = ms(p50_ms) | "
        ">p99 = ms(p99_ms) | >max = ms(max_ms)",
        messages.rows,
        f"From the answer 0 to the acknowledgement. {count_of(messages.delivered, 'acknowledgement')} in all.",
        nothing="No message was acknowledged.",
        of=(messages.count, "row"),
        formats={"ms": elapsed_of},
    )


def dead_letters_section(facts: Facts) -> Section:
    messages = facts.messages
    return of_records(
        "Dead letters",
        "exchange | reason | >messages = dead | >most tries = tries | last at (UTC) = moment(last_us)",
        messages.dead_rows,
        nothing="No message became a dead letter.",
        of=(messages.dead_count, "row"),
    )
