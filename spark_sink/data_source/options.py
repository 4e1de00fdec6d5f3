"""The options of `format("rsocket_broker")`: what can be said, and what is a mistake. All mistakes are told at once."""

import json
import re
from collections.abc import Iterable, Mapping
from difflib import get_close_matches
from pathlib import Path
from typing import Final
from urllib.parse import urlsplit

import msgspec

from spark_sink.data_source.http_store import HttpStore
from spark_sink.data_source.stores import ArrowStore, LocalStore, Store
from spark_sink.errors import BadOptions
from spark_sink.event_files.folder import SOURCES

EARLIEST: Final = "earliest"
LATEST: Final = "latest"
MAX_PLACE: Final = 2**63 - 1
NAMES: Final = ("source", "path", "url", "token", "startingOffsets", "maxRecordsPerTrigger", "failOnDataLoss", "reader")
ALL: Final = f"; there are {', '.join(NAMES)}"
_STREAM: Final = re.compile(r".+-\d+")
_BOOLS: Final = {"true": True, "false": False}

Offsets = dict[str, int]  # <broker>-<epoch> -> rows of the source in this stream that are read


class Options(msgspec.Struct, frozen=True):
    """What was said, checked."""

    source: str
    path: str = ""
    urls: tuple[str, ...] = ()
    token: str = ""
    starting: str = EARLIEST  # earliest, latest; or a JSON text of offsets
    max_records: int = 0  # of one micro-batch; 0: no bound
    fails_on_loss: bool = True
    reader: str = ""  # name under which it declares what it has read; empty: it does not

    def __repr__(self) -> str:
        """Without the token."""
        return f"Options(source={self.source!r}, path={self.path!r}, urls={self.urls!r}, starting={self.starting!r})"

    def offsets(self) -> Offsets:
        """Where to start, of the streams that were named."""
        return {} if self.starting in (EARLIEST, LATEST) else json.loads(self.starting)

    def open_store(self) -> Store:
        """Where the files are. BadFolder: the URI of a file system that there is not."""
        if self.urls:
            return HttpStore(self.urls, self.token)
        return ArrowStore(self.path) if "://" in self.path else LocalStore(Path(self.path))


def options_of(given: Mapping[str, str]) -> Options:
    """BadOptions: names everything that is wrong with them. Names in any case, as Spark's own."""
    known = {name.lower(): name for name in NAMES}
    said = {known[name.lower()]: value for name, value in given.items() if name.lower() in known}
    wrong = [f"there is no option {name!r}{_near(name, NAMES, ALL)}" for name in given if name.lower() not in known]
    source, path = said.get("source", ""), said.get("path", "")
    if source not in SOURCES:
        wrong.append(
            f"source must be {', '.join(SOURCES[:-1])} or {SOURCES[-1]}, not {source!r}{_near(source, SOURCES)}"
        )
    urls = tuple(url.strip().rstrip("/") for url in said.get("url", "").split(",") if url.strip())
    wrong += [
        f"url must be http://HOST:PORT of the admin API (serve --admin), not {url!r}"
        for url in urls
        if not _is_url(url)
    ]
    if bool(path) == bool(urls):
        wrong.append("one of path (a folder, or a URI that pyarrow.fs knows) and url (a broker's admin API) is needed")
    if said.get("token") and not urls:
        wrong.append("token goes with url only")
    starting = said.get("startingOffsets", EARLIEST)
    if starting not in (EARLIEST, LATEST) and not _is_offsets(starting):
        wrong.append(f'startingOffsets must be earliest, latest or {{"<broker>-<epoch>": rows, …}}, not {starting!r}')
    records = said.get("maxRecordsPerTrigger", "0")
    if not (records.isascii() and records.isdigit() and int(records) <= MAX_PLACE):
        wrong.append(f"maxRecordsPerTrigger must be a whole number (0: no bound), not {records!r}")
    fails = said.get("failOnDataLoss", "true").lower()
    if fails not in _BOOLS:
        wrong.append(f"failOnDataLoss must be true or false, not {fails!r}")
    reader = said.get("reader", "")
    if reader and (urls or "://" in path or not reader.replace("-", "").replace("_", "").isalnum()):
        wrong.append(f"reader must be letters, digits, - and _, for a path of this machine, not {reader!r}")
    if wrong:
        raise BadOptions(f"rsocket_broker: {'; '.join(wrong)}")
    return Options(source, path, urls, said.get("token", ""), starting, int(records), _BOOLS[fails], reader)


def _near(name: str, known: Iterable[str], otherwise: str = "") -> str:
    """`; did you mean requests?`, where one of them is near."""
    names = {each.lower(): each for each in known}
    near = get_close_matches(name.lower(), names, 1)
    return f"; did you mean {names[near[0]]}?" if near else otherwise


def _is_url(url: str) -> bool:
    parts = urlsplit(url)
    return parts.scheme in ("http", "https") and bool(parts.netloc) and not parts.query and not parts.fragment


def _is_offsets(text: str) -> bool:
    try:
        said = json.loads(text)
    except ValueError:
        return False
    return isinstance(said, dict) and all(
        _STREAM.fullmatch(name) and type(rows) is int and 0 <= rows <= MAX_PLACE for name, rows in said.items()
    )
