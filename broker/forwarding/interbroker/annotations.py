"""What stands in front of a request between brokers, and what it says: stamping, reading, checking, counting (D-49).

    composite metadata on a link

    | annotations | caller-mimes | caller | caller's metadata, byte for byte …   of one that speaks composite metadata
    | annotations | caller-mimes | caller | broker mime: ADDRESS as it came |    of one whose metadata is the ADDRESS
    └─ the prefix: made once ──┘ └ for services that want to know it, see `callers`

Decides the bytes of the prefix, whether a section may come in here (loops, too many hops), and what its to-override
asks for. Does not know streams, and chooses no route: `ingress` does with it what it says.

    to-override   [<role> ][service:<name> ]route:<route id>             this route, and no other decision
                  [<role> ][service:<name> ]broker:<name>[,<name> …]     your own routes, and a copy towards the others
                  [<role> ]service:<name>, <role>  or none               decide yourself

    <role>        role:<name>[/<name of the identity>]                   among what this role of yours may reach (D-98);
                  said where you may have to decide. Other bytes than letters, digits and -._~:@=,+ are %XX in it
"""

from typing import Final

from broker.forwarding.interbroker.remote import Remote
from broker.forwarding.mime_translation import Mimes
from broker.routing.table import Route
from broker.routing.targets import ORIGIN_AT, ORIGIN_TO, Target
from rsocket_wire.errors import BrokerError, InvalidFrame, Refusal
from rsocket_wire.rsocket.metadata import ABSENT, COMPOSITE_MIME, encode_entry, find_broker_frame
from rsocket_wire.wire.annotations import ANNOTATIONS_MIME, STREAMING, Annotations, decode_annotations
from rsocket_wire.wire.ids import parse_id
from rsocket_wire.wire.ints import u24_at, u24_bytes

CALLER_MIMES: Final = b"message/x.rsocket.broker.caller-mimes.v0"
DATA_MIME: Final = "application/octet-stream"  # of links: theirs is that of the caller

# An entry's head: the length of its mime type, less one, and the mime type. Three bytes of length follow.
ANNOTATIONS_HEAD: Final = bytes([len(ANNOTATIONS_MIME) - 1]) + ANNOTATIONS_MIME
CALLER_MIMES_HEAD: Final = bytes([len(CALLER_MIMES) - 1]) + CALLER_MIMES

MAX_PREFIXES: Final = 16_384  # made and kept; some 200 bytes each. At the bound all are forgotten and made again
MAX_SECTIONS: Final = 16_384  # read and kept; the same
MAX_SECTION_KEPT: Final = 1024  # bytes; a longer one is read each time: 255 brokers with long names, or large extras
MAX_NEAR_BYTES: Final = 2048  # of a request's metadata, to the end of its ADDRESS; a longer one is read each time
MAX_MIME_BYTES: Final = 128  # of a metadata mime type, as it fits in an entry's head
MAX_PATHS: Final = 1024  # that are told apart; requests on later ones are counted together

_PLAIN: Final = frozenset(b"ABCDEFGHIJKLMNOPQRSTUVWXYZabcdefghijklmnopqrstuvwxyz0123456789-._~:@=,+")
_KEY_BITS: Final = 41  # of a prefix's key: the number of a pair of mime types, of which a broker never meets 2^40
_KEY_MASK: Final = (1 << _KEY_BITS) - 1
ORIGIN_BYTES: Final = ORIGIN_TO - ORIGIN_AT
NO_ROUTE: Final = b""  # a section that names none
WORD: Final = "bad-annotations"


class Path:
    """A way that requests have come here."""

    def __init__(self, ingress: str, way: str, hops_n: int) -> None:
        self.ingress: Final = ingress  # where they came in; empty of those that are counted together
        self.way: Final = way  # `b1>b2>b3`, the last one is this broker
        self.hops_n: Final = hops_n  # links on it
        self.requests = 0
        self.last_at = 0.0  # seconds, monotonic


class Section:
    """A section that was read, and what this broker makes of it. Good for as long as names stay."""

    def __init__(self, raw: bytes, annotations: Annotations, path: Path) -> None:
        self.raw: Final = raw
        self.annotations: Final = annotations
        self.trace: Final = annotations.trace  # brokers that had the request
        self.path: Final = path
        self.hops_n: Final = len(annotations.trace)  # links that it came by
        self.refusal: Refusal | None = None  # why such a request is not taken; None: it is
        self.role_part = ""  # `role:…`; empty: the caller has none
        self.role = ""  # name of the role
        self.identity = ""  # name of the identity, where the role needs it; else empty
        self.service = ""  # of a redirect; empty: none
        self.route_id = NO_ROUTE  # 16 bytes when it names a route
        self.brokers: list[str] = []  # that get a copy
        self.route: Route | None = None  # that it named when it was looked for last; its slot is -1 once it has left
        self.onward = b""  # the entry with this broker's name behind the trace; empty until it is needed
        # Of the latest request for the route, which was found to be what the ADDRESS asks for: the next one is like it.
        self.generation = 0  # of the table by which that was found; 0: none was yet
        self.head = b""  # its metadata from the section on, up to the origin in the ADDRESS
        self.rest = b""  # what the ADDRESS has behind the origin
        self.start = 0  # where the caller's own metadata begins in the head
        self.mimes = -1  # the caller's

    def is_like_latest(self, data: bytes, at: int, to: int, generation: int) -> bool:
        """The metadata `data[at:to]`, which begins with this section, is like that of the latest request."""
        head_to = at + len(self.head)
        rest_at = head_to + ORIGIN_BYTES
        rest_to = rest_at + len(self.rest)
        if generation != self.generation or rest_to > to:
            return False
        if data[at:head_to] != self.head or data[rest_at:rest_to] != self.rest:
            return False
        return rest_to == to or find_broker_frame(data, rest_to, to)[0] == ABSENT  # the last ADDRESS counts: D-69


class Refused:
    """Requests that were refused for one reason, since somebody has told so."""

    def __init__(self, reason: str) -> None:
        self.reason: Final = reason
        self.requests = 0
        self.peer = ""  # name of the peer of the latest one
        self.detail = ""  # and the sentence


class RouterAnnotations:
    """Everything about hops that one broker keeps."""

    def __init__(self, name: str, max_hops: int) -> None:
        self.name = name  # of this broker, as it stands in traces; see `rename`
        self.brokers_n = 1  # that are known and can be reached, this one included; the cluster says so
        self.remotes: dict[str, Remote] = {}  # the other brokers by name; the cluster keeps it
        self._max_hops: Final = max_hops  # 0: as many as brokers are known
        self._naming = 0  # how often it was renamed
        self._prefixes: dict[int, bytes] = {}  # of requests for a route; bounded by MAX_PREFIXES
        self._names_prefixes: dict[str, bytes] = {}  # of all others; bounded by MAX_PREFIXES
        self.latest: Section | None = None  # the one that was asked for last
        self.latest_entry = b""  # the entry of composite metadata that it was in; at most some KiB
        self.sections: Final[dict[bytes, Section]] = {}  # that were read, by their bytes; bounded by MAX_SECTIONS
        self.paths: dict[str, Path] = {}  # by `b1>b2>b3`; bounded by MAX_PATHS, and one for the rest under ""
        # The latest one that named a route of this broker, which has the caller's mime types, and came over one link:
        # most requests are like its latest one.
        self.near: Section | None = None
        self.near_n = 0  # requests for routes of this broker that came over one link
        self._far_counts: list[int] = [0, 0]  # those that came over so many
        self.loops_refused = 0
        self.refused: dict[str, int] = {}  # requests, by reason: half a dozen
        self.retried_n = 0  # requests that were decided upon a second time (D-50)
        self.stripped_n = 0  # sections of clients that were taken out
        self._refused_since: dict[str, Refused] = {}  # by reason

    def rename(self, name: str) -> None:
        """The name of this broker from now on: before the first request, or all that was made with the old one ends."""
        self.name = name
        self._prefixes.clear()
        self._names_prefixes.clear()
        self.sections.clear()
        self.latest = None
        self.latest_entry = b""
        self.near = None
        self._naming += 1

    @property
    def hop_counts(self) -> list[int]:
        """How many requests for routes of this broker came over 0, 1, 2 … links."""
        counts = self._far_counts[:]
        counts[1] = self.near_n
        return counts if len(counts) > 2 or self.near_n else counts[:1]

    # Where requests come in

    def prefix(
        self, route: Route, is_streaming: bool, mimes: Mimes, redirected: str, is_like_ours: bool, role_part: str = ""
    ) -> bytes:
        """What goes in front of the caller's metadata on the way to a route; `redirected`: the service, or empty.

        `is_like_ours`, `role_part`: see these functions.
        """
        # How the broker is called is part of the key, as a route remembers what was in front of its latest request.
        key = (self._naming << _KEY_BITS) | (mimes.number << 1) | (1 if is_streaming else 0)
        if key == route.prefix_key and not redirected and not is_like_ours and not role_part:
            return route.prefix
        if redirected or is_like_ours or role_part:
            to = override_text(role_part, redirected, f"route:{route.id_text}")
            return self.named_prefix(to, is_streaming, mimes, is_like_ours)
        full_key = (route.number << _KEY_BITS) | (key & _KEY_MASK)
        prefix = self._prefixes.get(full_key)
        if prefix is None:
            prefix = self._made(f"route:{route.id_text}", is_streaming, mimes, False)
            if len(self._prefixes) >= MAX_PREFIXES:
                self._prefixes.clear()
            self._prefixes[full_key] = prefix
        route.prefix_key = key
        route.prefix = prefix
        return prefix

    def named_prefix(self, to_override: str, is_streaming: bool, mimes: Mimes, is_like_ours: bool) -> bytes:
        """The same for any to-override, as that of the copy of a multicast."""
        key = f"{mimes.number} {is_streaming} {is_like_ours} {to_override}"
        prefix = self._names_prefixes.get(key)
        if prefix is None:
            prefix = self._made(to_override, is_streaming, mimes, is_like_ours)
            if len(self._names_prefixes) >= MAX_PREFIXES:
                self._names_prefixes.clear()
            self._names_prefixes[key] = prefix
        return prefix

    def _made(self, to_override: str, is_streaming: bool, mimes: Mimes, is_like_ours: bool) -> bytes:
        flags = STREAMING if is_streaming else 0
        annotations = Annotations(flags, to_override, self.name, [self.name])
        made = encode_entry(ANNOTATIONS_MIME, annotations.encode())
        if mimes.metadata_mime != COMPOSITE_MIME or mimes.data_mime != DATA_MIME or is_like_ours:
            made += encode_entry(CALLER_MIMES, encode_caller_mimes(mimes.metadata_mime, mimes.data_mime))
        return made

    # Where they come from another broker

    def read(self, raw: bytes) -> Section:
        """The section in these bytes, seen before or not; InvalidFrame `bad-annotations`."""
        section = self.sections.get(raw)
        if section is None:
            section = self._read(raw)
            if len(raw) <= MAX_SECTION_KEPT:
                if len(self.sections) >= MAX_SECTIONS:
                    self.sections.clear()
                self.sections[raw] = section
        return section

    def _read(self, raw: bytes) -> Section:
        annotations = decode_annotations(raw)
        way = ">".join([*annotations.trace, self.name])
        hops_n = len(annotations.trace)
        if self.name in annotations.trace:
            section = Section(raw, annotations, Path(annotations.ingress, way, hops_n))
            section.refusal = Refusal("loop", way)
            return section
        section = Section(raw, annotations, self._path(annotations.ingress, way, hops_n))
        read_override(section)
        return section

    def _path(self, ingress: str, way: str, hops_n: int) -> Path:
        name = way if way.startswith(ingress + ">") else f"{ingress}: {way}"
        path = self.paths.get(name)
        if path is None:
            if len(self.paths) >= MAX_PATHS:
                name = ingress = way = ""
                path = self.paths.get(name)
            if path is None:
                path = self.paths[name] = Path(ingress, way, hops_n if way else 0)
        return path

    def refusal_of(self, section: Section) -> Refusal | None:
        """Why such a request may not come in here; None: it may. One hop is never too many."""
        if section.refusal is not None:
            return section.refusal
        limit = self._max_hops if self._max_hops else max(1, self.brokers_n)
        hops_n = section.hops_n
        if hops_n > limit:
            return Refusal(
                "too-many-hops", f"{section.path.way or hops_n}: {hops_n} brokers passed it on, the limit is {limit}"
            )
        return None

    def arrived(self, hops_n: int) -> None:
        """A request is for routes of this broker."""
        if hops_n == 1:
            self.near_n += 1
            return
        counts = self._far_counts
        while len(counts) <= hops_n:  # at most MAX_TRACE
            counts.append(0)
        counts[hops_n] += 1

    def onward(self, section: Section) -> bytes:
        """The entry that goes on: the same, with this broker's name behind the trace; BrokerError `bad-annotations`."""
        if not section.onward:
            passed_on = section.annotations.passed_on(self.name)
            section.onward = encode_entry(ANNOTATIONS_MIME, passed_on.encode())
        return section.onward

    def redirected(self, section: Section, to_override: str) -> bytes:
        """As `onward`, for a request that this broker has decided upon anew."""
        said = section.annotations
        trace = [*said.trace, self.name]
        made = Annotations(said.flags, to_override, said.ingress, trace, said.extra, said.extra_n)
        return encode_entry(ANNOTATIONS_MIME, made.encode())

    # Counting

    def refuse(self, reason: str, peer: str, detail: str) -> None:
        """A request was refused."""
        if reason == "loop":
            self.loops_refused += 1
        self.refused[reason] = self.refused.get(reason, 0) + 1
        refused = self._refused_since.get(reason)
        if refused is None:
            refused = self._refused_since[reason] = Refused(reason)
        refused.requests += 1
        refused.peer = peer
        refused.detail = detail

    def take_refused(self) -> list[Refused]:
        """What was refused since the last call, by reason."""
        refused = list(self._refused_since.values())
        self._refused_since.clear()
        return refused


def override_text(role_part: str, redirected: str, to: str) -> str:
    """A to-override. `redirected`: the service, or empty; `to`: `route:…` or `broker:…`."""
    text = f"service:{redirected} {to}" if redirected else to
    return f"{role_part} {text}" if role_part else text


def copy_override(brokers: list[str], redirected: str, role_part: str) -> str:
    """The to-override of a multicast's copy."""
    return override_text(role_part, redirected, f"broker:{','.join(brokers)}")


def role_part(target: Target, only_observes: bool) -> str:
    """What a to-override says of the role of those who ask for this; empty: they reach everybody."""
    reach = target.reach
    if reach is None or only_observes:
        return ""
    if not reach.told_as:
        name = f"/{_quoted(reach.name)}" if reach.name else ""
        reach.told_as = f"role:{_quoted(reach.role.name)}{name}"
    return reach.told_as


def read_override(section: Section) -> None:
    """What the to-override asks for; InvalidFrame `bad-annotations` for what nobody knows."""
    text = section.annotations.to_override
    if text is None:
        return
    if text.startswith("role:"):
        section.role_part, _, text = text.partition(" ")
        name, _, identity = section.role_part[5:].partition("/")
        section.role, section.identity = _unquoted(name), _unquoted(identity)
        if not text:
            return
    part = text
    if text.startswith("service:") and len(text) > 8:
        # A service's name may hold spaces, what stands behind it does not.
        at = max(text.rfind(" route:"), text.rfind(" broker:"))
        section.service = text[8:at] if at > 8 else text[8:]
        if at <= 8:
            return
        part = text[at + 1 :]
    if part.startswith("route:"):
        try:
            section.route_id = parse_id(part[6:])
            return
        except BrokerError:
            pass
    elif part.startswith("broker:") and " " not in part:
        section.brokers = part[7:].split(",")
        if "" not in section.brokers:
            return
    raise InvalidFrame(f"to-override: {text[:80]!r} begins with none of route:, broker:, service: and role:", WORD)


def _quoted(text: str) -> str:
    """The text with all that could end it, or cannot be printed, as %XX."""
    return "".join([chr(byte) if byte in _PLAIN else f"%{byte:02X}" for byte in text.encode("utf-8", "replace")])


def _unquoted(text: str) -> str:
    """What was `_quoted`; InvalidFrame `bad-annotations` for what was not."""
    first, *others = text.encode().split(b"%")
    raw = first
    try:
        for each in others:
            raw += bytes.fromhex(each[:2].decode()) + each[2:]
            if len(each) < 2:
                raise ValueError
        return raw.decode()
    except ValueError:
        raise InvalidFrame(f"to-override: {text[:80]!r} is not written as the name of a role", WORD) from None


def encode_caller_mimes(metadata_mime: str, data_mime: str) -> bytes:
    """The content of a caller-mimes entry: u8 length and text, twice."""
    found = b""
    for mime in (metadata_mime, data_mime):
        raw = mime.encode("ascii", "replace")[:255]
        found += bytes([len(raw)]) + raw
    return found


def is_like_ours(data: bytes, at: int, to: int) -> bool:
    """A caller's composite metadata, or what has come of it, may begin with an entry of the name caller-mimes.

    It would be taken for the broker's where there is none: so there is one in front of it then, whatever it would say.
    """
    return at == to or data[at] == CALLER_MIMES_HEAD[0]


def decode_caller_mimes(raw: bytes) -> tuple[str, str]:
    """(metadata mime, data mime) of a caller-mimes entry; InvalidFrame `bad-annotations`."""
    length = raw[0] if raw else 0
    rest = raw[1 + length :]
    if not rest or len(rest) != 1 + rest[0]:
        raise InvalidFrame(f"caller-mimes: {len(raw)} bytes are not two texts", WORD)
    if length < 1 or length > MAX_MIME_BYTES:
        raise InvalidFrame(f"caller-mimes: {length} bytes are no mime type, 1..{MAX_MIME_BYTES} are", WORD)
    try:
        return raw[1 : 1 + length].decode("ascii"), rest[1:].decode("ascii")
    except UnicodeDecodeError:
        raise InvalidFrame("caller-mimes: not ASCII", WORD) from None


def find_section(data: bytes, at: int, to: int) -> tuple[int, int]:
    """(from, to) of the first annotations entry in composite metadata, its head included; (-1, -1): there is none.

    One that breaks off ends with the metadata.
    """
    while at < to:
        begin = at
        head = data[at]
        at += 1
        is_section = False
        if head < 0x80:
            is_section = data[begin : begin + len(ANNOTATIONS_HEAD)] == ANNOTATIONS_HEAD
            at += head + 1
        if to - at < 3:
            return (begin, to) if is_section else (-1, -1)
        at += 3 + u24_at(data, at)
        if is_section:
            return begin, min(at, to)
    return -1, -1


def without_sections(metadata: bytes) -> bytes:
    """Composite metadata without its annotations entries."""
    begin, end = find_section(metadata, 0, len(metadata))
    while begin >= 0:
        metadata = metadata[:begin] + metadata[end:]
        begin, end = find_section(metadata, begin, len(metadata))
    return metadata


def behind_sections(metadata: bytes) -> int:
    """Where a caller's own metadata begins in that of a link: behind the annotations and its mime types; 0: nowhere."""
    begin, at = find_section(metadata, 0, len(metadata))
    if begin:
        return 0
    head_to = at + len(CALLER_MIMES_HEAD)
    if metadata[at:head_to] != CALLER_MIMES_HEAD or len(metadata) < head_to + 3:
        return at
    return min(len(metadata), head_to + 3 + u24_at(metadata, head_to))


def entry_head(mimes: Mimes, size: int) -> bytes:
    """What makes one entry of the metadata of a caller that speaks no composite metadata; `size`: bytes of it."""
    mime = mimes.metadata_mime.encode("ascii", "replace")
    return bytes([len(mime) - 1]) + mime + u24_bytes(size)
