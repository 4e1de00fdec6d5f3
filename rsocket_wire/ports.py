"""What a URL of a broker begins with, and the ports that nothing else names, for both ends.

Not 7000 and 5000, which the AirPlay receiver of macOS listens on.
"""

from typing import Final

SCHEMES: Final = ("tcp", "tls", "ws", "wss", "unix")
TCP_PORT: Final = 7878  # of tcp:// and tls://
WS_PORT: Final = 7879  # of ws:// and wss://
DEFAULT_URL: Final = f"tcp://127.0.0.1:{TCP_PORT}"  # of commands that are given none
