"""The configuration of a broker: which options there are, where they are read, and what they may say."""

from typing import Final

# Of commands that ask a broker. They begin as variables of options do, and are none.
URL_VARIABLE: Final = "RSB_URL"
ADMIN_VARIABLE: Final = "RSB_ADMIN"
ADMIN_TOKEN_VARIABLE: Final = "RSB_TOKEN"  # with the token of who asks an API
CONTEXT_VARIABLE: Final = "RSB_CONTEXT"
