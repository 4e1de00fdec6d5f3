"""Who asked most, and who was refused: by the tag that left no route over, by code word, by caller."""

from dataclasses import dataclass
from typing import Final

from spark_sink.report.reading import TableReader
from spark_sink.report.traffic.facts import IS_ERROR
from spark_sink.report.traffic.grains import totals_of
from spark_sink.tables import CALLERS, REJECTIONS

MAX_CALLERS: Final = 15
MAX_REFUSALS: Final = 15

_CALLER: Final = "caller_service, caller_route, service"
_REFUSAL: Final = "service, caller_service, address, word, emptied_by"


@dataclass(frozen=True)
class Caller:
    """What one caller asked of one service."""

    caller_service: str
    caller_route: str
    service: str
    requests: int
    errors: int
    bytes_in: int
    bytes_out: int


@dataclass(frozen=True)
class Callers:
    rows: list[Caller]  # the most requests first
    count: int
    requests: int  # of all


@dataclass(frozen=True)
class Refusal:
    service: str
    caller_service: str
    address: str
    word: str
    emptied_by: str
    requests: int


@dataclass(frozen=True)
class Ranking:
    """Names by requests, the most first."""

    names: list[str]
    requests: list[int]
    count: int  # of names in all
    others: int  # requests of those that are left out


@dataclass(frozen=True)
class Rejections:
    requests: int
    by_tag: Ranking  # only those that a tag left without a route
    by_word: Ranking
    rows: list[Refusal]
    count: int


def callers_of(reader: TableReader, begin_us: int) -> Callers:
    sums = "sum(requests)::BIGINT AS requests, sum(bytes_in)::BIGINT AS bytes_in, sum(bytes_out)::BIGINT AS bytes_out"
    errors = f"coalesce(sum(requests) FILTER ({IS_ERROR}), 0)::BIGINT AS errors"
    reader.make(
        "asked", f"SELECT {_CALLER}, {sums}, {errors} FROM {totals_of(reader, CALLERS, begin_us)} GROUP BY {_CALLER}"
    )
    rows, count = reader.top(_CALLER, "asked", MAX_CALLERS, ["errors", "bytes_in", "bytes_out"])
    [(requests,)] = reader.rows("SELECT coalesce(sum(requests), 0)::BIGINT FROM asked")
    return Callers([Caller(*row) for row in rows], count, requests)


def rejections_of(reader: TableReader, begin_us: int) -> Rejections:
    totals = totals_of(reader, REJECTIONS, begin_us)
    reader.make("refused", f"SELECT {_REFUSAL}, sum(requests)::BIGINT AS requests FROM {totals} GROUP BY {_REFUSAL}")
    rows, count = reader.top(_REFUSAL, "refused", MAX_REFUSALS)
    [(requests,)] = reader.rows("SELECT coalesce(sum(requests), 0)::BIGINT FROM refused")
    by_tag = _ranking(reader, "emptied_by", "(FROM refused WHERE emptied_by <> '')")
    return Rejections(requests, by_tag, _ranking(reader, "word", "refused"), [Refusal(*row) for row in rows], count)


def _ranking(reader: TableReader, key: str, source: str) -> Ranking:
    top, count = reader.top(key, source, MAX_REFUSALS)
    [(requests,)] = reader.rows(f"SELECT coalesce(sum(requests), 0)::BIGINT FROM {source}")
    shown = [count for _, count in top]
    return Ranking([name for name, _ in top], shown, count, requests - sum(shown))
