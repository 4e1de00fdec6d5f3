"""Event files of brokers that are asked over HTTP: paths below `/api/v1/events` of the admin API (docs/admin-api.md).

Several brokers may be asked; a file that two of them have, because they share a folder, is taken from the first. A
broker that does not answer is asked again for `RETRY_S`, because it may be starting. What files hold it does not know.
"""

import time
import urllib.error
import urllib.parse
import urllib.request
from collections.abc import Iterator, Mapping, Sequence
from http.client import HTTPException, HTTPResponse
from typing import Final, TypeVar

import msgspec

from spark_sink.data_source.stores import MAX_FILE_BYTES, check_size
from spark_sink.errors import BadFolder
from spark_sink.event_files.folder import EventFile, Listing
from spark_sink.event_files.local_token import find_local_token

EVENTS_PATH: Final = "/api/v1/events"
PAGE: Final = 1000  # items of one answer, the most that the API gives
TIMEOUT_S: Final = 30.0  # for a broker to go on with an answer
RETRY_S: Final = 30.0  # how long a broker that does not answer is asked again
PAUSE_S: Final = 1.0
MAX_ANSWER_BYTES: Final = 4 << 20  # of a part of a list; a thousand items have a tenth of it

NO_HEADERS: Final[Mapping[str, str]] = {}

T = TypeVar("T")

# To the broker itself: never through a proxy of the environment, and never to where a redirection points.
_opener: Final = urllib.request.OpenerDirector()
for _handler in (urllib.request.HTTPHandler, urllib.request.HTTPSHandler, urllib.request.HTTPDefaultErrorHandler):
    _opener.add_handler(_handler())
_opener.add_handler(urllib.request.HTTPErrorProcessor())


class _Stream(msgspec.Struct):
    stream: str


class _Streams(msgspec.Struct):
    """A part of the list of streams."""

    items: list[_Stream]
    total: int
    is_written: bool
    foreign: list[str] = []


class _File(msgspec.Struct):
    source: str
    number: int
    is_archived: bool


class _Files(msgspec.Struct):
    """A part of the list of a stream's files."""

    items: list[_File]
    total: int


class _Problem(msgspec.Struct):
    detail: str
    reasons: list[str] = []


class HttpStore:
    """The event files of brokers."""

    def __init__(self, urls: Sequence[str], token: str = "", retry_s: float = RETRY_S) -> None:
        """`token` is sent as `Authorization: Bearer …`; empty: to a broker of this machine its own, if it is found."""
        self._urls: Final = [url.rstrip("/") for url in urls]
        self.name: Final = ", ".join(self._urls)
        self._token: Final = token
        self._retry_s: Final = retry_s

    def list(self, source: str, *, has_archive: bool) -> Listing:
        listing = Listing()
        archived = "true" if has_archive else "false"
        for url in self._urls:
            offset, total = 0, 1
            while offset < total:
                page = self._ask(f"{url}{EVENTS_PATH}?archived={archived}&limit={PAGE}&offset={offset}", _Streams)
                if not page.is_written:
                    raise BadFolder(f"the broker at {url} writes no event files: start it with --events DIR")
                for one in page.items:
                    for file in self._files(url, one.stream, source, archived):
                        listing.add(file)
                if not offset:
                    for place in page.foreign:
                        listing.add_foreign(place)
                offset, total = offset + PAGE, page.total
        return listing

    def read(self, file: EventFile, last: int | None = None) -> bytes:
        if last is None:
            return self._get(file.place, MAX_FILE_BYTES)[1]
        return self._get(file.place, last, {"Range": f"bytes=-{last}"})[1]

    def size(self, file: EventFile) -> int:
        size = self._get(file.place, 0, method="HEAD")[0]
        check_size(file, size)
        return size

    def is_mirror(self) -> bool:
        return False  # brokers write there

    def arrived_at(self, file: EventFile) -> float:
        return 0.0  # each in its turn, and nobody asks

    def _files(self, url: str, stream: str, source: str, archived: str) -> Iterator[EventFile]:
        """After the highest number that came, and not by offsets: what lies before may be removed meanwhile."""
        base = f"{url}{EVENTS_PATH}/{urllib.parse.quote(stream, safe='')}"
        query = {"source": source, "archived": archived, "limit": str(PAGE)}
        after, left = 0, 1
        while left > 0:
            page = self._ask(f"{base}?{urllib.parse.urlencode(query | {'after': str(after)})}", _Files)
            for one in page.items:
                yield EventFile(stream, one.number, one.source, f"{base}/{one.source}", one.is_archived)
                after = max(after, one.number)
            left = page.total - len(page.items) if page.items else 0

    def _ask(self, url: str, kind: type[T]) -> T:
        try:
            return msgspec.json.decode(self._get(url, MAX_ANSWER_BYTES)[1], type=kind)
        except FileNotFoundError as error:
            raise BadFolder(f"{error}; is it a broker of this version, started with --events?") from error
        except msgspec.MsgspecError as error:
            raise BadFolder(f"{url} is not the admin API of a broker: {error}") from error

    def _get(
        self, url: str, most: int, headers: Mapping[str, str] = NO_HEADERS, method: str = "GET"
    ) -> tuple[int, bytes]:
        """The length of the answer, and its bytes, of which HEAD gives none."""
        give_up_at = time.monotonic() + self._retry_s
        while True:
            try:
                with self._open(url, headers, method) as answer:
                    data: bytes = answer.read(most + 1)
                    told = answer.headers.get("Content-Length", None if method == "HEAD" else len(data))
                if told is None:
                    raise OSError(f"{url} has no Content-Length; does a proxy before the broker leave it out?")
                length = int(told)
                if len(data) > most:
                    raise OSError(f"{url} has more than {most} bytes, the most that are read")
                if len(data) != length and method == "GET":
                    raise ConnectionError(f"{url} was cut off after {len(data)} of {length} bytes")
                return length, data
            except (ConnectionError, TimeoutError, HTTPException) as error:
                if time.monotonic() >= give_up_at:
                    raise OSError(f"{url} did not answer within {self._retry_s:.0f} s: {error}") from error
                time.sleep(min(PAUSE_S, self._retry_s))

    def _open(self, url: str, headers: Mapping[str, str], method: str) -> HTTPResponse:
        """ConnectionError: nobody answers, or not now."""
        request = urllib.request.Request(url, headers=dict(headers), method=method)
        token = self._token or find_local_token(url)
        if token:
            request.add_unredirected_header("Authorization", f"Bearer {token}")
        try:
            answer = _opener.open(request, timeout=TIMEOUT_S)
        except urllib.error.HTTPError as error:
            text = f"{url} says {error.code} {error.reason}{_detail(error)}"
            if error.code == 404:
                raise FileNotFoundError(text) from error
            if error.code in (502, 503, 504):
                raise ConnectionError(text) from error
            raise PermissionError(text) if error.code in (401, 403) else OSError(text) from error
        except urllib.error.URLError as error:
            raise ConnectionError(f"no broker answers at {url}: {error.reason}") from error
        assert isinstance(answer, HTTPResponse)  # the opener knows nothing else
        return answer


def _detail(error: urllib.error.HTTPError) -> str:
    """What a broker says of its refusal, after a colon; empty: it is none of a broker's."""
    try:
        problem = msgspec.json.decode(error.read(MAX_ANSWER_BYTES), type=_Problem)
    except (OSError, HTTPException, msgspec.MsgspecError, UnicodeDecodeError):
        return ""
    finally:
        error.close()
    return ": " + "; ".join([problem.detail, *problem.reasons])
