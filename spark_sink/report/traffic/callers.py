"""Who asked most, and who was refused: by the tag that left no route over, by code word, by caller."""

from typing import Final

from spark_sink.report.reading import Record, TableReader
from spark_sink.report.traffic.facts import IS_ERROR
from spark_sink.report.traffic.grains import totals_of
from spark_sink.tables import CALLERS, REJECTIONS

MAX_CALLERS: Final = 15
MAX_REFUSALS: Final = 15
_REFUSAL: Final = "service, caller_service, address, word, emptied_by"


def callers_of(reader: TableReader, begin_us: int) -> Record:
    """What one caller asked of one service, the most requests first; and the requests of all."""
    totals = totals_of(reader, CALLERS, begin_us)
    sums = (
        f", coalesce(sum(requests) FILTER ({IS_ERROR}), 0)::BIGINT AS errors, sum(bytes_in)::BIGINT AS bytes_in, "
        "sum(bytes_out)::BIGINT AS bytes_out"
    )
    return reader.top("asked", "caller_service, caller_route, service", totals, MAX_CALLERS, sums)


def rejections_of(reader: TableReader, begin_us: int) -> Record:
    """All requests that were rejected, and which most. `by_tag`: only those that a tag left without a route."""
    totals = totals_of(reader, REJECTIONS, begin_us)
    reader.make("refused", f"SELECT {_REFUSAL}, sum(requests)::BIGINT AS requests FROM {totals} GROUP BY {_REFUSAL}")
    top = reader.top("refusals", _REFUSAL, "refused", MAX_REFUSALS)
    by_tag = _ranking(reader, "emptied_by", "(FROM refused WHERE emptied_by <> '')")
    by_word = _ranking(reader, "word", "refused")
    return Record(requests=top.requests, by_tag=by_tag, by_word=by_word, rows=top.rows, count=top.count)


def _ranking(reader: TableReader, key: str, source: str) -> Record:
    """Names by requests, the most first; how many names there are, and the requests of those that are left out."""
    top = reader.top("ranked", key, source, MAX_REFUSALS)
    counts = [row.requests for row in top.rows]
    names = [getattr(row, key) for row in top.rows]
    return Record(names=names, requests=counts, count=top.count, others=top.requests - sum(counts))
