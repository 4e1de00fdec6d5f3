"""Names of the interaction models, as programs, commands and tables have them. RSocket protocol, "Introduction"."""

from typing import Final

REQUEST_RESPONSE: Final = "request_response"
FIRE_AND_FORGET: Final = "fire_and_forget"
REQUEST_STREAM: Final = "request_stream"
REQUEST_CHANNEL: Final = "request_channel"
METADATA_PUSH: Final = "metadata_push"
MODELS: Final = (REQUEST_RESPONSE, FIRE_AND_FORGET, REQUEST_STREAM, REQUEST_CHANNEL, METADATA_PUSH)
STREAMS: Final = (REQUEST_STREAM, REQUEST_CHANNEL)  # answered with any number of items
ONE_WAY: Final = (FIRE_AND_FORGET, METADATA_PUSH)  # answered with nothing
