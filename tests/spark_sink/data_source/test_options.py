"""What can be said to the data source, and what is a mistake."""

import pytest

from spark_sink.data_source.http_store import HttpStore
from spark_sink.data_source.options import Options, options_of
from spark_sink.data_source.stores import ArrowStore, LocalStore
from spark_sink.errors import BadFolder, BadOptions

GOOD = {"source": "flows", "path": "/events"}


def test_defaults() -> None:
    assert options_of(GOOD) == Options("flows", "/events")
    assert options_of(GOOD).offsets() == {}


def test_all_of_them_in_any_case() -> None:
    given = {
        "SOURCE": "requests",
        "url": "http://one:7070/, https://two",
        "token": "secret",
        "startingoffsets": '{"b-1": 3}',
        "maxRecordsPerTrigger": "100",
        "FAILONDATALOSS": "False",
    }
    options = options_of(given)
    urls = ("http://one:7070", "https://two")
    assert options == Options("requests", "", urls, "secret", '{"b-1": 3}', 100, False)
    assert options.offsets() == {"b-1": 3}


@pytest.mark.parametrize(
    "changes, said",
    [
        ({"source": "flow"}, "source must be flows, lifecycle, requests, messages or files, not 'flow'"),
        ({"source": ""}, "source must be"),
        ({"path": ""}, "one of path"),
        ({"url": "http://h"}, "one of path"),
        ({"path": "", "url": "h:7070"}, "url must be http://HOST:PORT of the admin API (serve --admin), not 'h:7070'"),
        ({"path": "", "url": "http://h?x=1"}, "url must be"),
        ({"token": "x"}, "token goes with url only"),
        ({"startingOffsets": "first"}, "startingOffsets must be"),
        ({"startingOffsets": '{"b-1": -1}'}, "startingOffsets must be"),
        ({"startingOffsets": '{"b-1": true}'}, "startingOffsets must be"),
        ({"startingOffsets": "[1]"}, "startingOffsets must be"),
        ({"startingOffsets": '{"seven": 1}'}, "startingOffsets must be"),
        ({"maxRecordsPerTrigger": "many"}, "maxRecordsPerTrigger must be a whole number"),
        ({"failOnDataLoss": "no"}, "failOnDataLoss must be true or false, not 'no'"),
        ({"reader": "../x"}, "reader must be letters"),
        ({"path": "s3://b/e", "reader": "x"}, "for a path of this machine"),
        (
            {"verbose": "1"},
            "there is no option 'verbose'; there are source, path, url, token, startingOffsets, maxRecordsPerTrigger, "
            "failOnDataLoss, reader",
        ),
        ({"startingoffset": "latest"}, "there is no option 'startingoffset'; did you mean startingOffsets?"),
    ],
)
def test_mistakes_are_named(changes: dict[str, str], said: str) -> None:
    with pytest.raises(BadOptions) as raised:
        options_of(GOOD | changes)
    assert said in str(raised.value)


def test_all_mistakes_are_told_together() -> None:
    with pytest.raises(BadOptions) as raised:
        options_of({"source": "x", "failOnDataLoss": "y"})
    assert str(raised.value).count(";") == 2


def test_the_store_is_where_the_files_are() -> None:
    assert isinstance(options_of(GOOD).open_store(), LocalStore)
    assert isinstance(options_of(GOOD | {"path": "file:///events"}).open_store(), ArrowStore)
    assert isinstance(options_of({"source": "flows", "url": "http://h:1"}).open_store(), HttpStore)
    with pytest.raises(BadFolder, match=r"is no folder that pyarrow\.fs knows"):
        options_of(GOOD | {"path": "foo://events"}).open_store()
