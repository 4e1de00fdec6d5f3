"""Files that somebody names and that cannot be used: what the system says of it, in the words of all our texts."""

import os
from difflib import get_close_matches
from itertools import islice
from typing import Final

MAX_NAMES: Final = 1_000  # of a folder, among which one like a missing one is looked for


def system_reason(error: OSError) -> str:
    """`no such file or directory`: without the number, and the path, which stands beside it."""
    return (error.strerror or str(error)).lower()


def missing_advice(path: str) -> str:
    """Of a file that is not there: where it was looked for, and what to do; `; it was looked for at …`."""
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
    return f"{where}; write the path of a file that is there"
