"""The options of calls and of `connect`, for functions that pass them on: the blocking client, `offer`, `serve`, `run`.

What each means, and what holds without it, says `Client.request_response` and the other calls, and `connect`.
"""

import ssl as tls
from collections.abc import Mapping
from typing import TypedDict

from client_sdk.calls.hedge import Hedging
from client_sdk.calls.retry import RetryPolicy
from client_sdk.codecs import Codec
from client_sdk.credentials import CredentialsSource
from client_sdk.rsocket_py.typing import HandlerSource
from client_sdk.services.service import Service


class AnyCallOptions(TypedDict, total=False):
    """Of every call."""

    route: str | None
    timeout_s: float | None
    wait_for_reconnect: bool | float | None


class CallOptions(AnyCallOptions, total=False):
    """Of `fire_and_forget`, and of every call with data."""

    metadata: Mapping[str, bytes] | None


class RequestOptions(CallOptions, total=False):
    """Of `request_response`."""

    idempotent: bool
    retry: RetryPolicy | None
    hedging: Hedging | None


class ChannelOptions(CallOptions, total=False):
    """Of `request_channel`."""

    initial_n: int


class StreamOptions(ChannelOptions, total=False):
    """Of `request_stream`."""

    idempotent: bool
    retry: RetryPolicy | None


class SubscribeOptions(TypedDict, total=False):
    """Of `subscribe`."""

    endless: bool
    wait_for_service: bool
    route: str | None
    metadata: Mapping[str, bytes] | None
    initial_n: int


class PushOptions(AnyCallOptions, total=False):
    """Of `metadata_push`."""

    mime_type: str


class GatherOptions(CallOptions, total=False):
    """Of `gather`."""

    enough_n: int | None
    with_tags: bool


class OfferOptions(TypedDict, total=False):
    """Of `offer`, `serve` and `run`: those of `connect` that several connections can share."""

    tags: Mapping[str, str | None] | None
    handler: HandlerSource | None
    keepalive_s: float
    lifetime_s: float
    mime_type: str
    connect_timeout_s: float
    ssl: tls.SSLContext | None
    credentials: CredentialsSource | None
    timeout_s: float | None
    says_deadlines: bool | None
    wait_for_reconnect: bool | float
    retry: RetryPolicy
    hedging: Hedging | None
    codec: Codec
    tracing: bool
    fragment_bytes: int
    resume: bool
    lease: tuple[int, float] | None


class ConnectOptions(OfferOptions, total=False):
    """Of `connect`."""

    service: str | Service | None
    instance: str | None
    route_id: str | None
