"""A post: what it says of a file, and its headers as they came.

Sections "BODY", "THE FIXED HEADERS" and "Optional Headers" of the document. A post is read whole, or is a BadPost.
Headers are kept as bytes, so what is forwarded is what was received (`bodies`). `topic` is reserved and never among
them. A header whose value is null counts as absent.

Knows no folders: where a file may lie is decided by the one who writes it.
"""

import posixpath
from collections.abc import Mapping
from typing import Final
from urllib.parse import quote

import msgspec

from spark_sink.feed.blocks import Blocks, find_last_identity, read_blocks, read_count
from spark_sink.feed.bodies import read_body, write_body
from spark_sink.feed.errors import BadPost, shown
from spark_sink.feed.identity import Identity, read_identity
from spark_sink.feed.older import OLDER, OLDER_IDENTITY, renewed
from spark_sink.feed.times import read_time, time_text

LINK: Final = "link"
HLINK: Final = "hlink"
REMOVE: Final = "remove"
RENAME: Final = "rename"
DIRECTORY: Final = "directory"  # of sr3: a folder was made, or with REMOVE and RENAME, what that is about
FILE_OPS: Final = (LINK, HLINK, REMOVE, RENAME, DIRECTORY)
TOPIC: Final = "topic"  # "RESERVED … not present in the JSON payload"
MAX_MODE: Final = 0o7777
MAX_PUB_TIME_NS: Final = (1 << 63) - 1  # in the year 2262: what is later, or before 1677, is kept as that moment

# Every header that has a meaning here; those that are not among them are forwarded unread.
_READ: Final = frozenset(
    (
        *("pubTime", "baseUrl", "relPath", "identity", "fileOp", "size", "blocks", "rename", "retrievePath", "content"),
        *("source", "from_cluster", "to_clusters", "atime", "mtime", "mode"),
        *OLDER,
    )
)
_VALUE: Final = msgspec.json.Decoder()


class FileOp(msgspec.Struct, frozen=True):
    """Something else than new data: one of FILE_OPS.

    `value`: of LINK and HLINK what it points to, of RENAME the path before, in the form of relPath; else empty.
    """

    kind: str
    value: str = ""
    is_directory: bool = False  # REMOVE or RENAME of a folder; always, of DIRECTORY
    link: str = ""  # RENAME of a symbolic link: what it points to
    hlink: str = ""  # RENAME of a hard link: what it is one of


class Post(msgspec.Struct, frozen=True, kw_only=True):
    """What a post says. Texts that are absent are empty."""

    pub_time: str
    base_url: str
    rel_path: str
    headers: Mapping[str, msgspec.Raw]  # all of them, in their order: JSON as it came
    pub_time_ns: int = 0  # since 1970
    identity: Identity | None = None
    file_op: FileOp | None = None
    size: int | None = None  # bytes that are advertised: of the block, where there are blocks
    blocks: Blocks | None = None
    content: bytes | None = None  # the data itself
    mtime_ns: int | None = None  # since 1970
    atime_ns: int | None = None
    mode: int | None = None  # 0 to MAX_MODE
    rename: str = ""
    source: str = ""
    from_cluster: str = ""
    to_clusters: str = ""  # names with commas between them
    retrieve_path: str = ""  # of sr3: appended to base_url as it is, in place of rel_path

    @property
    def url(self) -> str:
        """Where the data is: base_url and the path, in URL encoding, with one slash between them."""
        # "URL encoding, as per IETF RFC 1738, is used to escape unsafe characters where appropriate." D-90
        path = self.retrieve_path or quote(self.rel_path, safe="/+")
        return f"{self.base_url.removesuffix('/')}/{path.removeprefix('/')}"

    @property
    def place(self) -> str:
        """Where the file is to be below a root, as the post wants it: `rename`, or rel_path.

        A rename that ends with a slash is a folder, as in the document's example: the name of the file is added. D-90
        """
        return (
            self.rename + self.rel_path.rpartition("/")[2]
            if self.rename.endswith("/")
            else self.rename or self.rel_path
        )

    @property
    def is_report(self) -> bool:
        """Whether it is a report of a post, and announces nothing."""
        return "report" in self.headers

    def encode(self) -> bytes:
        """The body: headers in their order."""
        return write_body(self.headers)

    def changed(self, **values: object) -> "Post":
        """With these headers, the others as they are: in their place, new ones at the end, None removes.

        BadPost: a value that a post cannot have, or a body that is too large.
        """
        return read_post(write_body(_merged(self.headers, values)))

    def identified(self, identity: Identity) -> "Post":
        """With this identity in place of the one that it had, in whatever form."""
        older = {name: None for name in OLDER_IDENTITY if name in self.headers}
        return self.changed(**older, identity={"method": identity.method, "value": identity.value})


def read_post(body: bytes) -> Post:
    """The post that these bytes are; BadPost names the header that is wrong, or `body`."""
    headers = read_body(body)
    headers.pop(TOPIC, None)
    return _post_of(headers)


def read_remains(body: bytes) -> Post:
    """Of a body that is a BadPost: its headers, where there are any, and no more than texts of a path; never raises.

    Only for the report that says so.
    """
    try:
        headers = read_body(body)
    except BadPost:
        headers = {}
    texts = {name: _text_or_empty(headers.get(name)) for name in ("pubTime", "baseUrl", "relPath")}
    headers.pop(TOPIC, None)
    return Post(
        pub_time=texts["pubTime"],
        base_url=texts["baseUrl"],
        rel_path="" if "\0" in texts["relPath"] else texts["relPath"],
        headers=headers,
    )


def make_post(
    base_url: str,
    rel_path: str,
    pub_time_ns: int,
    *,
    identity: Identity | None = None,
    file_op: FileOp | None = None,
    size: int | None = None,
    blocks: Blocks | None = None,
    mtime_ns: int | None = None,
    atime_ns: int | None = None,
    mode: int | None = None,
    source: str = "",
    from_cluster: str = "",
    to_clusters: str = "",
    content: bytes | None = None,
    extra: Mapping[str, object] | None = None,
) -> Post:
    """A new post; what is None or empty is left out. `extra`: user defined headers, values of JSON.

    BadPost: what a post cannot say, as a name that is no UTF-8, or a body that is too large.
    """
    values: dict[str, object] = {
        "pubTime": time_text(pub_time_ns),
        "baseUrl": base_url,
        "relPath": rel_path,
        "identity": None if identity is None else {"method": identity.method, "value": identity.value},
        "fileOp": None if file_op is None else _operation_values(file_op, rel_path),
        "size": size,
        "blocks": None if blocks is None else blocks.values(),
        "mtime": None if mtime_ns is None else time_text(mtime_ns, "mtime"),
        "atime": None if atime_ns is None else time_text(atime_ns, "atime"),
        "mode": None if mode is None else f"{mode & MAX_MODE:04o}",  # "the permission string is four characters"
        "source": source or None,
        "from_cluster": from_cluster or None,
        "to_clusters": to_clusters or None,
        "content": None if content is None else content_values(content),
        **(extra or {}),
    }
    return read_post(write_body(_merged({}, values)))


def former_value(path: str, rel_path: str) -> str:
    """How a rename says the path before. D-86: sr3 looks for it from the folder of the new name, rel_path."""
    value = posixpath.relpath(f"/{path}", posixpath.dirname(f"/{rel_path}"))
    return value if value.startswith("../") else f"./{value}"


def content_values(content: bytes) -> dict[str, object]:
    """utf-8 where the bytes are that, else base64."""
    try:
        return {"encoding": "utf-8", "value": content.decode()}
    except UnicodeDecodeError:
        return {"encoding": "base64", "value": msgspec.to_builtins(content)}


# Writing


def _merged(headers: Mapping[str, msgspec.Raw], values: Mapping[str, object]) -> dict[str, msgspec.Raw]:
    """The headers with these values; a None takes one away."""
    merged = dict(headers)
    for name, value in values.items():
        if value is None:
            merged.pop(name, None)
            continue
        try:
            merged[name] = msgspec.Raw(msgspec.json.encode(value))
        except (UnicodeEncodeError, TypeError, ValueError, msgspec.MsgspecError) as error:
            raise BadPost(name, f"{shown(value)} cannot be said in JSON: {error}") from None
    return merged


def _operation_values(file_op: FileOp, rel_path: str) -> dict[str, str]:
    value = file_op.value
    if file_op.kind == RENAME:
        value = former_value(value, rel_path)
    values = {file_op.kind: value}
    if file_op.is_directory:
        values[DIRECTORY] = ""
    values.update({name: text for name, text in ((LINK, file_op.link), (HLINK, file_op.hlink)) if text})
    return values


# Reading


def _post_of(headers: dict[str, msgspec.Raw]) -> Post:
    values = _known_values(headers)
    pub_time = _required(values, "pubTime")
    base_url = _required(values, "baseUrl")
    rel_path = _required(values, "relPath")
    if "\0" in rel_path:
        raise BadPost("relPath", f"{shown(rel_path)} holds NUL")
    get = values.get
    identity, file_op, size, blocks = get("identity"), get("fileOp"), get("size"), get("blocks")
    mtime, atime, mode, content = get("mtime"), get("atime"), get("mode"), get("content")
    read = None if identity is None else read_identity("identity", identity)
    last = None if blocks is None else find_last_identity("blocks", blocks)
    if last is not None:  # D-91: what is said of the whole file is said of its last block
        blocks = None
        read = None if read is not None and read.value == last else read
    return Post(
        pub_time=pub_time,
        base_url=base_url,
        rel_path=rel_path,
        headers=headers,
        pub_time_ns=max(-MAX_PUB_TIME_NS, min(read_time("pubTime", pub_time), MAX_PUB_TIME_NS)),
        identity=read,
        file_op=None if file_op is None else _read_operation(file_op, rel_path),
        size=None if size is None else read_count("size", size),
        blocks=None if blocks is None else read_blocks("blocks", blocks),
        content=None if content is None else _read_content(content),
        mtime_ns=None if mtime is None else read_time("mtime", _text("mtime", mtime)),
        atime_ns=None if atime is None else read_time("atime", _text("atime", atime)),
        mode=None if mode is None else _read_mode(mode),
        rename=_text("rename", get("rename", "")),
        source=_text("source", get("source", "")),
        from_cluster=_text("from_cluster", get("from_cluster", "")),
        to_clusters=_read_clusters(get("to_clusters", "")),
        retrieve_path=_text("retrievePath", get("retrievePath", "")),
    )


def _known_values(headers: Mapping[str, msgspec.Raw]) -> dict[str, object]:
    """Of the headers that are read, without those that are null; older forms are those of v03."""
    values: dict[str, object] = {}
    is_old = False
    for name, raw in headers.items():
        if name in _READ:
            try:
                value = _VALUE.decode(raw)
            except (msgspec.DecodeError, ValueError) as error:  # a number that has no place anywhere
                raise BadPost(name, f"its value cannot be read: {error}") from None
            if value is not None:
                values[name] = value
                is_old = is_old or name in OLDER
    return renewed(values) if is_old or _is_operation(values.get("identity")) else values


def _is_operation(identity: object) -> bool:
    return isinstance(identity, dict) and identity.get("method") in (LINK, REMOVE)


def _required(values: Mapping[str, object], name: str) -> str:
    """ "Mandatory fields must be present in every message"."""
    value = values.get(name)
    if value is None:
        raise BadPost(name, "it is missing")
    if not isinstance(value, str) or not value:
        raise BadPost(name, f"{shown(value)} is no text that says anything")
    return value


def _text(name: str, value: object) -> str:
    if not isinstance(value, str):
        raise BadPost(name, f"{shown(value)} is no text")
    return value


def _text_or_empty(raw: msgspec.Raw | None) -> str:
    try:
        value = _VALUE.decode(raw) if raw is not None else ""
    except (msgspec.DecodeError, ValueError):
        return ""
    return value if isinstance(value, str) else ""


def _read_operation(value: object, rel_path: str) -> FileOp:
    """BadPost: none of FILE_OPS, or several that cannot be meant together."""
    if not isinstance(value, dict):
        raise BadPost("fileOp", f"{shown(value)} is no object")
    named = [each for each in FILE_OPS if value.get(each) is not None]
    is_directory = DIRECTORY in named
    kinds = [each for each in named if each != DIRECTORY]
    if RENAME in kinds:  # what was renamed may be a link
        kinds = [RENAME]
    if len(kinds) > 1 or (is_directory and kinds and kinds[0] in (LINK, HLINK)):
        raise BadPost("fileOp", f"{' and '.join(named)} cannot be meant together")
    if not kinds and not is_directory:
        raise BadPost("fileOp", f"{shown(sorted(value))} names none of {', '.join(FILE_OPS)}")
    kind = kinds[0] if kinds else DIRECTORY
    if kind in (REMOVE, DIRECTORY):
        return FileOp(kind, is_directory=is_directory)
    texts = {name: _text(f"fileOp.{name}", value[name]) for name in named if name != DIRECTORY}
    for name, text in texts.items():
        if not text or "\0" in text:
            raise BadPost(f"fileOp.{name}", f"{shown(text)} names no file")
    if kind != RENAME:
        return FileOp(kind, texts[kind])
    return FileOp(kind, _path_before(texts[RENAME], rel_path), is_directory, texts.get(LINK, ""), texts.get(HLINK, ""))


def _path_before(value: str, rel_path: str) -> str:
    """Of a rename. D-86: one that begins with a dot is seen from the folder of the new name; it may lead anywhere."""
    if not value.startswith(("./", "../")):
        return value
    return posixpath.normpath(posixpath.join(posixpath.dirname(rel_path), value))


def _read_content(value: object) -> bytes:
    """The bytes, by `encoding` alone. "For smaller files, the content may be embedded"."""
    if not isinstance(value, dict):
        raise BadPost("content", f"{shown(value)} is no object of encoding and value")
    encoding, text = value.get("encoding"), _text("content.value", value.get("value"))
    if encoding == "utf-8":
        return text.encode()
    if encoding != "base64":
        raise BadPost("content.encoding", f"{shown(encoding)} is neither utf-8 nor base64")
    try:
        return msgspec.convert(text.replace("\n", ""), bytes)
    except msgspec.ValidationError:
        raise BadPost("content.value", f"{shown(text)} is no base64") from None


def _read_mode(value: object) -> int:
    """Permission bits: "intended to be interpreted as traditional octal". A number is the bits, as in sr3."""
    if isinstance(value, str) and value.isascii() and value.isdecimal() and len(value) <= 7:
        try:
            value = int(value, 8)
        except ValueError:
            raise BadPost("mode", f"{shown(value)} is no octal number") from None
    if not isinstance(value, int) or isinstance(value, bool) or not 0 <= value <= MAX_MODE:
        raise BadPost("mode", f"{shown(value)} is no octal number up to {MAX_MODE:o}")
    return value


def _read_clusters(value: object) -> str:
    """Names with commas between them, which a list may have, too."""
    if isinstance(value, list) and all(isinstance(each, str) for each in value):
        return ",".join(value)
    return _text("to_clusters", value)
