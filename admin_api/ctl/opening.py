"""How requests of commands are opened: they go to the broker, never through a proxy of the environment, and never to
another place than the one named."""

import urllib.request
from typing import Final

OPENER: Final = urllib.request.OpenerDirector()
for _handler in (urllib.request.HTTPHandler, urllib.request.HTTPSHandler, urllib.request.HTTPDefaultErrorHandler):
    OPENER.add_handler(_handler())
OPENER.add_handler(urllib.request.HTTPErrorProcessor())
