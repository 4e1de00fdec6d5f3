"""What the options of [samwise] mean to the parts of a gateway.

Decides nothing: each option stands in `broker.config.sections.samwise`, what it does where the part is.
"""

import importlib
import math
import ssl
from pathlib import Path
from typing import Final

from broker.config.certificates import client_context
from broker.config.sections.samwise import RabbitmqOptions, SamwiseOptions
from broker.config.urls import Listen
from client_sdk.connecting import Connecting, connect
from client_sdk.gateways.samwise.assignment import Assignment
from client_sdk.gateways.samwise.backends.backend import Backend
from client_sdk.gateways.samwise.backends.exchanges import Exchange, Exchanges
from client_sdk.gateways.samwise.backends.services import ServicesBackend
from client_sdk.gateways.samwise.delivery import Retry
from client_sdk.gateways.samwise.endpoint.server import ServerSettings
from client_sdk.gateways.samwise.requests import Defaults, Rules
from client_sdk.gateways.samwise.store import Store
from client_sdk.gateways.samwise.values import OPTIONS
from rsocket_wire.errors import BrokerError

STORE_NAME: Final = "messages.db"  # in samwise.dir
EXCHANGES_NAME: Final = "exchanges.json"  # in samwise.dir: those that callers have declared
RABBITMQ: Final = "client_sdk.gateways.samwise.backends.rabbitmq"  # imported where it is used: it needs aiormq


def rules_of(options: SamwiseOptions) -> Rules:
    """What requests may be."""
    given = options.defaults
    defaults = Defaults(
        distribution=given.distribution,
        acks_n=given.min_acknowledged or None,
        exchange=given.exchange,
        routing_key=given.routing_key,
        options={name: value for name in OPTIONS if (value := getattr(given, name, ""))},
    )
    return Rules(
        strict=options.strict,
        min_version=options.min_version,
        controls=frozenset(options.controls),
        defaults=defaults,
        max_frames=options.max_frames,
        max_message_bytes=options.max_message_bytes,
    )


def server_settings_of(options: SamwiseOptions) -> ServerSettings:
    """Where callers are listened to, and how many."""
    return ServerSettings(
        endpoints=options.endpoints,
        rules=rules_of(options),
        max_callers=options.max_callers,
        max_requests_per_s=options.max_requests_per_s,
        max_requests_per_caller_per_s=options.max_requests_per_caller_per_s,
        curve_key=Path(options.curve_key) if options.curve_key else None,
        curve_clients=Path(options.curve_clients) if options.curve_clients else None,
    )


def retry_of(options: SamwiseOptions) -> Retry:
    """When messages are delivered again."""
    retry = options.retry
    return Retry(tries=retry.tries, interval_s=retry.interval, threshold_s=retry.threshold)


def store_of(options: SamwiseOptions) -> Store:
    """The store, not opened yet; its folder is there."""
    return Store(
        Path(options.dir) / STORE_NAME,
        durability=options.durability,
        max_messages=options.max_messages,
        max_bytes=options.max_bytes,
    )


def backend_of(assignment: Assignment) -> Backend:
    """The backend, not started yet. BrokerError "bad-config": a file is not what it should be."""
    options = assignment.options
    if options.backend == "rabbitmq":
        module = importlib.import_module(RABBITMQ)
        brokers = [
            module.RabbitBroker(
                name=name,
                host=each.host,
                port=each.port,
                user=each.user,
                password=each.password,
                vhost=each.virtual_host,
                heartbeat_s=math.ceil(each.heartbeat),
                tls=_rabbitmq_tls(each),
            )
            for name, each in options.rabbitmq.items()
        ]
        backend: Backend = module.RabbitBackend(brokers, declare_durable=options.declare_durable)
        return backend
    configured = {name: Exchange(each.service or name, each.type) for name, each in options.exchange.items()}
    try:
        exchanges = Exchanges(configured, Path(options.dir) / EXCHANGES_NAME)
    except ValueError as error:
        raise BrokerError("bad-config", str(error)) from None
    return ServicesBackend(_connecting(assignment), exchanges)


def _connecting(assignment: Assignment) -> Connecting:
    is_tls = any(Listen.parse(url).is_tls for url in assignment.brokers)
    tls = assignment.tls
    context = client_context(assignment.options.ca, tls.certificate, tls.key, tls.min_version) if is_tls else None
    try:
        return connect(assignment.brokers, ssl=context)
    except ValueError as error:  # one of them is encrypted, and another one is not
        raise BrokerError("bad-config", f"samwise.brokers: {error}".replace("ssl= needs", "all need")) from None


def _rabbitmq_tls(options: RabbitmqOptions) -> ssl.SSLContext | None:
    return client_context(options.ca) if options.tls else None
