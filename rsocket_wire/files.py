"""Files that somebody names and that cannot be used: what the system says of it, in the words of all our texts."""

import os
import shlex
from difflib import get_close_matches
from itertools import islice
from typing import Final

MAX_NAMES: Final = 1_000  # of a folder, among which one like a missing one is looked for


def system_reason(error: OSError) -> str:
    """`no such file or directory`: without the number, and the path, which stands beside it."""
    return (error.strerror or str(error)).lower()


def missing_advice(path: str, what: str = "file") -> str:
    """Of a file or folder that is not there: where it was looked for, and what to do; `; it was looked for at …`."""
    whole = os.path.abspath(path)
    folder, name = os.path.split(whole)
    where = "" if os.path.isabs(path) else f"; it was looked for at {whole}"
    try:
        with os.scandir(folder) as entries:
            names = [each.name for each in islice(entries, MAX_NAMES) if each.name.isprintable()]
    except FileNotFoundError:
        return f"{where}; there is no folder {folder}"
    except OSError:
        return where
    near = get_close_matches(name, names, 1)
    if near:
        return f"{where}; did you mean {os.path.join(os.path.dirname(path), near[0])}?"
    return f"{where}; write the path of a {what} that is there"


def pem_advice(path: str) -> str:
    """Of a file that should hold certificates: what PEM is, or how to make it; `; PEM has a line …`."""
    try:
        with open(path, "rb") as file:
            is_der = file.read(2) == b"\x30\x82"
    except OSError:
        return ""
    if is_der:
        return f"; this may be DER: openssl x509 -inform der -in {shlex.quote(path)} prints it as PEM"
    return "; PEM has a line -----BEGIN CERTIFICATE-----"
