"""spark_sink.feed.consumer.heads: what is asked, and the beginning of what is answered."""

import pytest

from spark_sink.feed.consumer.heads import Address, BadHead, Head, read_chunk, read_head, read_url


@pytest.mark.parametrize(
    "url, address, target, host",
    [
        ("http://h/a/b?c=1#d", Address("http", "h", 80), "/a/b?c=1", "h"),
        ("HTTPS://H.example:8443", Address("https", "H.example", 8443), "/", "H.example:8443"),
        ("https://h:443/f", Address("https", "h", 443), "/f", "h"),
        ("http://[::1]:8080/f", Address("http", "::1", 8080), "/f", "[::1]:8080"),
        ("http://h?q", Address("http", "h", 80), "/?q", "h"),
        ("http://bücher.example/ä b%20\r\nX: y", Address("http", "xn--bcher-kva.example", 80), None, None),
    ],
)
def test_urls_say_where_and_what(url: str, address: Address, target: str | None, host: str | None) -> None:
    read = read_url(url)
    assert read.address == address
    if target is not None:
        assert read.request({"Range": "bytes=1-"}).split(b"\r\n") == [
            f"GET {target} HTTP/1.1".encode(),
            f"Host: {host}".encode(),
            *(b"Accept: */*", b"Accept-Encoding: identity", b"Range: bytes=1-", b"", b""),
        ]
    else:
        assert read.target == "/%C3%A4%20b%20%0D%0AX:%20y"


def test_user_and_password_are_sent() -> None:
    assert "Authorization: Basic dTpwQHdk\r\n" in read_url("http://u:p%40wd@h/").fields


@pytest.mark.parametrize(
    "url",
    [
        "",
        "ftp://h/f",
        "http:///f",
        "http://h:99999/f",
        "http://h:0/f",
        "http://a b/f",
        "http://h\r\nX/",
        "http://[::1/f",
    ],
)
def test_what_is_no_url_is_refused(url: str) -> None:
    with pytest.raises(ValueError, match=r"it is none|host|port|label|IDNA|idna"):
        read_url(url)


def head(status: int = 200, length: int | None = 3, *, is_chunked: bool = False, stays: bool = True) -> Head:
    return Head(status, "OK", {}, length, is_chunked, stays)


@pytest.mark.parametrize(
    "text, expected",
    [
        ("HTTP/1.1 200 OK\r\nContent-Length: 3", head()),
        ("HTTP/1.1 200 OK\r\ncontent-length:3 \r\nConnection: Keep-Alive, Close", head(stays=False)),
        ("HTTP/1.1 200 OK\r\nContent-Length: 3\r\nContent-Length: 3", head()),
        ("HTTP/1.1 200 OK\r\nContent-Length: 3\r\nTransfer-Encoding: Chunked", head(length=None, is_chunked=True)),
        ("HTTP/1.0 200 OK\r\nContent-Length: 3", head(stays=False)),
        ("HTTP/1.0 200 OK\r\nContent-Length: 3\r\nConnection: keep-alive", head()),
        ("HTTP/1.1 200 OK", head(length=None, stays=False)),
        ("HTTP/1.1 304 OK\r\nContent-Length: 3", head(304, 0)),
    ],
)
def test_heads_say_how_their_bodies_end(text: str, expected: Head) -> None:
    assert read_head(text.encode())._replace(headers={}) == expected


def test_headers_have_names_in_lower_case() -> None:
    read = read_head(b"HTTP/1.1 404 Not Found\r\nX-A: 1\r\nx-a: \t2 \r\nE: \xe4")
    assert (read.status, read.reason, read.headers) == (404, "Not Found", {"x-a": "1, 2", "e": "ä"})


@pytest.mark.parametrize(
    "text",
    [
        *(
            "",
            "nonsense",
            "HTTP/2 200 OK",
            "HTTP/1.1 20 OK",
            "HTTP/1.1 200 OK\r\n continued",
            "HTTP/1.1 200 OK\r\na b: c",
        ),
        *("HTTP/1.1 200 OK\r\nContent-Length: 3, 4", "HTTP/1.1 200 OK\r\nContent-Length: -1"),
        *("HTTP/1.1 200 OK\r\nContent-Length: 1e3", "HTTP/1.1 200 OK\r\nTransfer-Encoding: gzip, chunked"),
    ],
)
def test_what_is_no_head_is_refused(text: str) -> None:
    with pytest.raises(BadHead):
        read_head(text.encode())


def test_chunks_say_how_long_they_are() -> None:
    assert [read_chunk(each) for each in (b"0", b"1aF;name=value", b"10 ")] == [0, 0x1AF, 16]
    for each in (b"", b"-1", b"0x1", b"1_0", b"f" * 16):
        with pytest.raises(BadHead):
            read_chunk(each)
