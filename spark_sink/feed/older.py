"""Headers of older forms, which the document shows: read into what v03 has in their place.

    integrity          identity, before it was called so
    sum                `d,25d2…`: a letter for the method, and the value in hex
    parts              `1,256,1,0,0`: size, or blocks
    link               the value of a symbolic link, where `sum` or `identity` says that it is one
    oldname, newname   a file that was renamed: one post under each name (D-86)
    retPath            of sr3: retrievePath, before it was called so

Nothing is written in these forms. They are forwarded as they came.
"""

import binascii
from collections.abc import Mapping
from typing import Final

from spark_sink.feed.blocks import INPLACE, PARTITIONED
from spark_sink.feed.errors import BadPost, shown
from spark_sink.feed.identity import ARBITRARY, COD, METHODS, RANDOM, encoded

SUM_METHODS: Final = {
    "0": RANDOM,
    "a": ARBITRARY,
    "d": "md5",
    "L": "link",
    "n": "md5name",
    "R": "remove",
    "s": "sha512",
    "z": COD,
}
PART_METHODS: Final = {"p": PARTITIONED, "i": INPLACE}
OLDER: Final = ("integrity", "sum", "parts", "link", "oldname", "newname", "retPath")
# What stands for them when a post gets an identity, or blocks, of its own.
OLDER_IDENTITY: Final = ("integrity", "sum")


def renewed(values: Mapping[str, object]) -> dict[str, object]:
    """The same values of headers, in the names and forms of v03. BadPost: an older form that cannot be read."""
    new = dict(values)
    if "retPath" in new:
        new.setdefault("retrievePath", new["retPath"])
    if "integrity" in new:
        new.setdefault("identity", new["integrity"])
    if "sum" in new and "identity" not in new:
        new["identity"] = read_sum(new["sum"])
    if "parts" in new and "blocks" not in new:
        new.update(read_parts(new["parts"]))
    _renew_operation(new)
    return new


def read_sum(value: object) -> dict[str, object]:
    """An identity. "There is a change in encoding from hex to base64"; cod and random values "are not encoded"."""
    letter, comma, text = value.partition(",") if isinstance(value, str) else ("", "", "")
    if not letter or not comma:
        raise BadPost("sum", f"{shown(value)} is no method and value")
    method = SUM_METHODS.get(letter, letter)
    if method == COD:
        text = SUM_METHODS.get(text, text)
    elif method in METHODS:
        try:
            text = encoded(binascii.a2b_hex(text))
        except ValueError:  # binascii.Error, and text that is not ASCII
            raise BadPost("sum", f"{shown(text)} is no hex") from None
    return {"method": method, "value": text}


def read_parts(value: object) -> dict[str, object]:
    """Size or blocks. "In v03, only size header will be present" where the file is in a single part."""
    fields = value.split(",") if isinstance(value, str) else []
    if len(fields) != 5 or fields[0] not in ("1", *PART_METHODS):
        raise BadPost("parts", f"{shown(value)} is no method, block size, count, remainder and number")
    method, size, count, remainder, number = fields
    if method == "1":
        return {"size": size}
    return {
        "blocks": {
            "method": PART_METHODS[method],
            "size": size,
            "count": count,
            "remainder": remainder,
            "number": number,
        }
    }


def _renew_operation(new: dict[str, object]) -> None:
    """What v03 has in `fileOp`: of `link`, `oldname` and `newname`, and of methods that say what happened."""
    identity = new.get("identity")
    method = identity.get("method") if isinstance(identity, dict) else None
    if method in ("link", "remove"):
        # D-84: a first list has both among the methods, a second one has fileOp in their place.
        del new["identity"]
    if "fileOp" in new:
        return
    if method == "remove":
        new["fileOp"] = {"remove": ""}
    elif method == "link" or ("link" in new and "identity" not in new):
        new["fileOp"] = {"link": new.get("link")}
    if "oldname" in new:
        old = new.get("fileOp")
        new["fileOp"] = {"rename": new["oldname"], **(old if isinstance(old, dict) else {})}
    elif "newname" in new:
        new["fileOp"] = {"remove": ""}
