"""Folders that options name: made where a process starts, so whoever starts it hears at once that one cannot be."""

import os
from typing import Final

from rsocket_wire.errors import BrokerError

FOLDER_MODE: Final = 0o750  # messages, and who asks for what, are nobody else's business


def make_folder(option: str, path: str) -> None:
    """It is there afterwards, and so are those that it is in. BrokerError "bad-config" names the option."""
    try:
        os.makedirs(path, FOLDER_MODE, exist_ok=True)
    except OSError as error:
        reason = os.strerror(error.errno).lower() if error.errno else str(error)
        raise BrokerError("bad-config", f"{option}: {path}: {reason}") from None
