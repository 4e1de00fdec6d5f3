"""Posts as bytes, for tests that change one header of them."""

import json
from typing import Any

from spark_sink.feed.posts import Post, read_post

PUB_TIME = "20260102T030405.678"
PUB_TIME_NS = 1_767_323_045_678_000_000
HEADERS: dict[str, Any] = {"pubTime": PUB_TIME, "baseUrl": "http://h/", "relPath": "a/f"}


def body_of(**changed: Any) -> bytes:
    """The shortest post, with other headers; None leaves one out."""
    headers = {**HEADERS, **changed}
    return json.dumps({name: value for name, value in headers.items() if value is not None}).encode()


def post_of(**changed: Any) -> Post:
    return read_post(body_of(**changed))
