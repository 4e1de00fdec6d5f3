"""The footer of a segment: what the writer says there of the file, and what readers find.

Its keys begin with `rsocket_broker.`; whatever else a program puts into a Parquet file is not ours.
"""

from collections.abc import Mapping
from typing import Final

from spark_sink.event_files.folder import EventFile
from spark_sink.event_files.frames import Header
from spark_sink.schema import SCHEMA_VERSION

METADATA_PREFIX: Final = "rsocket_broker."


def segment_metadata(header: Header, source: str, first_row: int, number: int = 0) -> dict[str, str]:
    """What the footer of a segment says about it. `first_row`: rows of this source in all segments before it. `number`:
    its own, so that a copy under another one is seen; 0: it is not said."""
    told = {"number": str(number)} if number else {}
    return told | {
        "schema_version": str(SCHEMA_VERSION),
        "source": source,
        "broker_id": header.broker_id,
        "broker_name": header.broker_name,
        "epoch": str(header.epoch),
        "broker_version": header.version,
        "first_row": str(first_row),
    }


def footer_of(metadata: Mapping[bytes, bytes] | None, errors: str = "replace") -> dict[str, str]:
    """The same, read from the key-value metadata of a Parquet file; empty: no broker wrote it. `errors`: as of
    `bytes.decode`, for texts that are no UTF-8."""
    begin = METADATA_PREFIX.encode()
    return {
        key[len(begin) :].decode("utf-8", errors): value.decode("utf-8", errors)
        for key, value in (metadata or {}).items()
        if key.startswith(begin)
    }


def why_other(footer: Mapping[str, str], file: EventFile) -> str:
    """Why this is not the footer of the segment that the file is called; empty: it is."""
    broker_id, epoch = file.origin
    for key, value in (("source", file.source), ("broker_id", broker_id), ("epoch", str(epoch))):
        found = footer.get(key, "nothing")
        if found != value:
            return f"its footer has the {key} {found!r}, not {value!r}"
    version = footer.get("schema_version", "0")
    if not version.isdecimal() or int(version) > SCHEMA_VERSION:
        return f"its schema version is {version}, this program reads up to {SCHEMA_VERSION}"
    return why_copy(footer, file)


def why_copy(footer: Mapping[str, str], file: EventFile) -> str:
    """A segment under another number than its footer says (D-71); empty: it is none, or the footer does not say."""
    told = footer.get("number", "")
    return "" if told in ("", str(file.number)) else f"its footer has the number {told}: it is a copy, or was renamed"
