"""Who asked most, and who was refused: by the tag that left no route over, by code word, by caller."""

from dataclasses import dataclass
from typing import Any, Final

import numpy as np
import pyarrow as pa

from spark_sink.report.groups import Groups, group, is_in, numbers
from spark_sink.tables import FAILED_OUTCOMES

MAX_CALLERS: Final = 15
MAX_REFUSALS: Final = 15

_CALLER: Final = ["caller_service", "caller_route", "service"]
_REFUSAL: Final = ["service", "caller_service", "address", "word", "emptied_by"]


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


def callers_of(table: pa.Table) -> Callers:
    """`table`: partials of `callers`."""
    groups = group(table, _CALLER)
    requests = numbers(table, "requests")
    sums = groups.sums(requests)
    errors = groups.sums(np.where(is_in(table, "outcome", FAILED_OUTCOMES), requests, 0))
    sizes = [groups.sums(numbers(table, name)) for name in ("bytes_in", "bytes_out")]
    rows = [
        Caller(*groups.key(number), *(int(column[number]) for column in (sums, errors, *sizes)))
        for number in groups.top(sums, MAX_CALLERS)
    ]
    return Callers(rows, int((sums > 0).sum()), int(requests.sum()))


def rejections_of(table: pa.Table) -> Rejections:
    """`table`: partials of `rejections`."""
    requests = numbers(table, "requests")
    tags = group(table, ["emptied_by"])
    by_tag = tags.sums(requests)
    if tags.count and tags.key(0) == ("",):  # groups are numbered by their keys: the empty one is the first
        by_tag[0] = 0
    words = group(table, ["word"])
    groups = group(table, _REFUSAL)
    sums = groups.sums(requests)
    rows = []
    for number in groups.top(sums, MAX_REFUSALS):
        service, caller_service, address, word, emptied_by = groups.key(number)
        rows.append(Refusal(service, caller_service, address, word, emptied_by, int(sums[number])))
    return Rejections(
        int(requests.sum()),
        _ranking(tags, by_tag),
        _ranking(words, words.sums(requests)),
        rows,
        int((sums > 0).sum()),
    )


def _ranking(groups: Groups, sums: Any) -> Ranking:
    top = groups.top(sums, MAX_REFUSALS)
    shown = [int(sums[number]) for number in top]
    return Ranking(
        [groups.key(number)[0] for number in top], shown, int((sums > 0).sum()), int(sums.sum()) - sum(shown)
    )
