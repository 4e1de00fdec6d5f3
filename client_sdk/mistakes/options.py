"""Options that a function has not: what they are called here, and whose they are."""

import warnings
from collections.abc import Collection, Iterable, Mapping
from typing import Final

from client_sdk.mistakes.likeness import near

LIKE: Final = 0.75  # how alike two names are, of 1, before one is proposed for the other
MAX_FUNCTIONS: Final = 3  # that are named as those which have an option
MAX_OPTIONS: Final = 10  # of a function whose example is shown beside their names
FUNCTIONS: Final[dict[str, frozenset[str]]] = {}  # what each public function knows by name; filled by `advised`
_HEADERS: Final = "headers header meta attributes"

# How an option is written, and what others call it.
CALLED_ELSEWHERE: Final = {
    how: frozenset(names.split())
    for how, names in {
        "data=": "payload body message msg content value values item args params json obj",
        "items=": "data body messages payloads",
        "route=": "method topic path endpoint handler action subject operation command procedure function",
        "returns=": "type response_type return_type result_type model schema cls into decode_as",
        "metadata={'text/plain': b'...'}": _HEADERS,
        "initial_n=": (
            "request_n initial_request_n prefetch prefetch_count window buffer buffer_size credits max_pending "
            "max_queue pending_msgs_limit"
        ),
        "enc_hook=": "default encoder default_encoder",
        "dec_hook=": "object_hook object_pairs_hook decoder",
        "enough_n=": (
            "n count quorum minimum min_answers max_answers first limit max_responses min_responses max_results "
            "max_replies min_replies replies expected"
        ),
        "timeout_s=": (
            "deadline deadline_s ttl wait wait_s max_wait socket_timeout request_timeout read_timeout response_timeout"
        ),
        "connect_timeout_s=": "socket_connect_timeout connection_timeout open_timeout dial_timeout",
        "wait_for_reconnect=": "wait_for_ready",
        "handler=": "handler_factory request_handler",
        "lease=": "honor_lease lease_publisher",
        "idempotent=True": "safe retry_safe",
        "retry=RetryPolicy(attempts=3)": "retries retry_policy max_retries attempts max_attempts tries",
        "hedging=Hedging(after_s=0.1)": "hedge hedge_after hedged",
        "attempts=": "retries max_retries max_attempts tries times n",
        "first_delay_s=": "delay delay_s backoff base_delay initial_delay min_delay initial_backoff",
        "after_s=": "delay delay_s wait timeout timeout_s",
        "try_timeout_s=": "timeout timeout_s attempt_timeout",
        "quantile=": "percentile p",
        "max_concurrency=": (
            "workers max_workers threads parallel limit max_concurrent semaphore prefetch prefetch_count"
        ),
        "tags={'region': 'eu'}": "labels attributes properties region zone version group env metadata",
        "service=": "name service_name",
        "codec=JSON": (
            "serializer serialiser encoder decoder format json content_type serde encoding data_mime_type "
            "data_encoding deserializer value_serializer value_deserializer"
        ),
        "ssl=ssl.create_default_context(cafile=FILE)": (
            "ca cafile ca_file ca_cert ca_certs cacert ca_bundle ca_path root_cert root_certificates context tls "
            "tls_context tls_ca tls_ca_cert tls_ca_file tls_verify ssl_context ssl_ca ssl_cafile ssl_ca_file "
            "ssl_capath ssl_ca_cert ssl_ca_certs ssl_cert_reqs ssl_check_hostname ssl_verify sslrootcert "
            "channel_credentials check_hostname verify verify_ssl insecure"
        ),
        "credentials=Token('...'), or Password('name', '...')": (
            "token user username password user_credentials auth api_key apikey authorization jwt bearer login secret "
            "nkeys_seed user_jwt user_jwt_cb signature_cb creds access_token auth_token bearer_token call_credentials "
            "sasl_mechanism sasl_username sasl_password sasl_plain_username sasl_plain_password"
        ),
        "every_s=": "interval interval_s period period_s",
        "lifetime_s=": "max_outstanding_pings keepalive_timeout max_lifetime max_lifetime_period ping_timeout",
        "keepalive_s=": (
            "heartbeat heartbeat_s heartbeat_interval ping_interval ping keepalive_interval keep_alive "
            "keep_alive_period"
        ),
        "connections=": "pool pool_size",
        "drain_s=": "grace grace_s grace_period shutdown_timeout stop_timeout drain_timeout",
    }.items()
}
NOT_CALLED_BACK: Final = (
    "no call takes a callback: request_response gives the answer, and items are read by "
    "`async for item in client.subscribe(...):`, without async by `for`"
)
_ON_ITEM: Final = ("cb", "callback", "handler", "on_message", "on_next", "on_item", "on_response", "on_success")
_STORED: Final = (  # of those who store messages
    *("offset", "offsets", "auto_offset_reset", "from_beginning", "last_id", "replay", "deliver_policy"),
    *("start_seq", "opt_start_seq", "opt_start_time", "start_position", "start_from", "enable_auto_commit"),
    *("durable", "durable_name", "persistent", "delivery_mode"),
)
_ACKED: Final = ("ack", "acks", "no_ack", "auto_ack", "manual_ack", "ack_wait", "ack_policy", "acks_late")
_GROUPS: Final = ("group", "group_id", "queue", "queue_group", "consumer_group")
_NOT_STORED: Final = "nothing is stored, so there are no offsets"
_ANSWERED: Final = "an answer says that a request was processed: leave it out"
OF_CALLS: Final = {  # they are no option of a call, and what they are of would be the wrong thing to change
    **dict.fromkeys(
        ("service", "name", "service_name", "to", "target", "exchange", "queue"),
        "the address names it: address('orders')",
    ),
    **dict.fromkeys(("tags", "labels", "region"), "the address has them: address('orders', region='eu')"),
    "codec": "it is of connect(url, codec=JSON)",
    **dict.fromkeys(
        ("key", "partition", "partition_key", "shard_key", "routing_key", "hash_key"),
        "the address has it: shard('carts', key='user', user='ada')",
    ),
    **dict.fromkeys(("reply_to", "correlation_id"), "an answer finds its call by itself: leave it out"),
    **dict.fromkeys(_ON_ITEM, NOT_CALLED_BACK),
    **dict.fromkeys((*_ACKED, "durable", "persistent", "delivery_mode"), f"nothing is stored; {_ANSWERED}"),
}
OF_UNANSWERED: Final = {  # calls that nobody answers
    **OF_CALLS,
    **dict.fromkeys(
        ("returns", "response_type", *_ON_ITEM, *_ACKED), "nobody answers it, and request_response has an answer"
    ),
    **dict.fromkeys(("idempotent", "hedging"), "nobody answers it, and it is never sent twice: leave it out"),
}
OF_PUSHES: Final = {
    **OF_UNANSWERED,
    **dict.fromkeys(_HEADERS.split(), "metadata= are bytes, and mime_type= says of what kind"),
}
OF_GATHERS: Final = {
    **OF_CALLS,
    **dict.fromkeys(_ON_ITEM, "nobody is called back: it gives all answers"),
    **dict.fromkeys(
        ("return_exceptions", "raise_errors"), "an answer has its service's error, answer.error: leave it out"
    ),
}
OF_STREAMS: Final = {
    **OF_CALLS,
    **dict.fromkeys(
        ("limit", "max_items", "max_msgs", "max_messages", "batch_size", "count", "n", "take", "first"),
        "leave the loop by break; initial_n= says how many the service may send before the first is read",
    ),
    **dict.fromkeys(
        _ON_ITEM,
        "nobody is called back: write `async for item in ...:`, in a task of its own where other work goes on; "
        "without async `for`, in a thread",
    ),
    **dict.fromkeys(_STORED, f"{_NOT_STORED}; the data of the request can say where its stream begins"),
    **dict.fromkeys(_ACKED, "items are not acknowledged: more are asked for as the loop takes them"),
    **dict.fromkeys(_GROUPS, "a stream has one reader, and the services of one name share the requests by themselves"),
}
OF_SUBSCRIPTIONS: Final = {
    **OF_STREAMS,
    **dict.fromkeys(_STORED, f"{_NOT_STORED}; resume=lambda last: ... goes on after the last item"),
    **dict.fromkeys(
        ("timeout_s", "timeout", "deadline"),
        "it goes on without end: leave the loop by break, or in an event loop put it in "
        "`async with asyncio.timeout(seconds):`",
    ),
    **dict.fromkeys(("retry", "retries", "idempotent", "wait_for_reconnect"), "it comes back by itself after a loss"),
}
_SPREAD: Final = {
    **dict.fromkeys(_GROUPS, "the services of one name share its requests by themselves"),
    **dict.fromkeys(_STORED, f"{_NOT_STORED}: leave it out"),
    **dict.fromkeys(_ACKED, _ANSWERED),
}
_AROUND: Final = dict.fromkeys(
    ("lifespan", "startup", "shutdown", "on_startup", "on_shutdown"),
    "write it before and behind `await serve(url, service)`, in an async function",
)
_IN_CODE: Final = {  # options of web frameworks that are plain Python here
    **dict.fromkeys(
        ("interceptors", "middleware", "middlewares", "plugins", "hooks", "event_hooks"),
        "there are none: put it into a function around the call, or around the handler",
    ),
    **dict.fromkeys(("dependencies", "depends"), "nothing is injected: make it before the functions that use it"),
}
OF_SERVICES: Final = {
    **_SPREAD,
    **_AROUND,
    **_IN_CODE,
    **dict.fromkeys(
        (
            *("url", "urls", "broker", "brokers", "broker_url", "uri", "host", "port", "servers", "bootstrap_servers"),
            *("credentials", "ssl", "instance", "keepalive_s", "lifetime_s"),
        ),
        "it is of run(url, service), or connect(url, service=service)",
    ),
    "version": "it is a tag: tags={'version': '1'}",
    **dict.fromkeys(
        ("prefix", "route_prefix", "path_prefix"), "the route has it: @orders.request_response('v1/create')"
    ),
    **dict.fromkeys(("description", "title", "summary", "doc"), "callers do not see it: write it as a comment"),
    **dict.fromkeys(
        ("error_handler", "error_handlers", "exception_handler", "exception_handlers", "on_error"),
        "catch it in the handler, and raise ApplicationError('no order 42', word='not-found')",
    ),
    **dict.fromkeys(
        ("max_concurrency", "concurrency", "max_waiting", "workers", "prefetch", "prefetch_count"),
        "handlers have limits of their own: @orders.request_response('create', max_concurrency=8)",
    ),
    **dict.fromkeys(
        ("handler", "handlers", "routes", "route", "methods"), "decorate functions: @orders.request_response('create')"
    ),
}
OF_HANDLERS: Final = {
    **_SPREAD,
    **_IN_CODE,
    **dict.fromkeys(
        ("name", "path", "topic", "endpoint", "subject"), "the route stands first: @orders.request_response('create')"
    ),
    **dict.fromkeys(
        ("retries", "max_retries", "retry", "idempotent"), "callers say it: their calls have retry= and idempotent="
    ),
    "tags": "its service has them: Service('orders', tags={'region': 'eu'})",
    **dict.fromkeys(
        ("timeout_s", "timeout", "deadline"), "callers say it; here write `async with asyncio.timeout(seconds):`"
    ),
    **dict.fromkeys(
        ("status", "status_code"), "a handler that fails writes raise ApplicationError('no order 42', word='not-found')"
    ),
    **dict.fromkeys(("model", "kind", "methods"), "the decorator says it: @orders.request_stream('watch')"),
    **dict.fromkeys(("returns", "response_model", "type"), "the function says it: `-> bytes`, or another type"),
}
OF_APPLICATION_ERRORS: Final = {
    **dict.fromkeys(
        ("status", "status_code", "error_code", "reason", "name", "kind", "type", "title"),
        "a word names the failure: ApplicationError('no order 42', word='not-found')",
    ),
    **dict.fromkeys(
        ("message", "msg", "detail", "description", "error"),
        "the text stands first: ApplicationError('no order 42', word='not-found')",
    ),
    **dict.fromkeys(
        ("data", "details", "body", "payload", "extra", "metadata", "headers", "context"),
        "callers get the text, the word and the code, nothing else: put it into the text",
    ),
    **dict.fromkeys(("cause", "exc", "exception"), "write `raise ApplicationError(...) from error`"),
}
OF_RUNNING: Final = {
    **dict.fromkeys(
        ("workers", "processes", "replicas", "instances"), "it is one process: start the program several times"
    ),
    **dict.fromkeys(("debug", "log_level", "verbose"), "logging.basicConfig(level=logging.INFO) shows what it says"),
    "reload": "end the program, and start it again",
    **dict.fromkeys(
        ("signal_handlers", "handle_signals", "install_signal_handlers", "stop_signals"),
        "run() and serve() end by SIGTERM and SIGINT, serve(url, service, stop=asyncio.Event()) by that event, too",
    ),
    **_AROUND,
    **dict.fromkeys(("listen", "bind", "reuse_port"), "it connects to the broker and listens nowhere: leave it out"),
}
OF_LOCAL_BROKERS: Final = {
    **dict.fromkeys(
        ("port", "host", "url", "urls", "address"), "write listen=['tcp://127.0.0.1:7878']; without it a port is chosen"
    ),
    **dict.fromkeys(
        ("config", "config_file", "config_path", "conf", "file", "path", "toml", "settings"),
        "options are given as options={'limits.max_connections': 10}; a file is read by a process of its own: "
        "local_broker('--config', 'broker.toml')",
    ),
}
OF_JSON: Final = {
    "cls": "how values are written is enc_hook=, how they are read dec_hook=",
    **dict.fromkeys(
        ("indent", "ensure_ascii", "sort_keys", "separators", "skipkeys", "allow_nan", "check_circular", "option"),
        "JSON is written in one way, compact and in UTF-8: leave it out",
    ),
    **dict.fromkeys(("type", "model"), "a call says it: returns=Order; a handler's function by its types"),
}
CALLBACKS: Final = (
    *("connected_cb", "disconnected_cb", "reconnected_cb", "closed_cb", "error_cb"),
    *("on_connect", "on_disconnect", "on_reconnect", "on_close", "on_error"),
)
NO_CALLBACK: Final = "the log says what becomes of the connection, and client.changes() tells a program"
OF_CALLERS: Final = {  # who make one connection
    **dict.fromkeys(
        ("pool", "pool_size", "max_connections", "connection_pool"),
        "one connection carries all calls at the same time: leave it out",
    ),
    **dict.fromkeys(
        ("on_message", "on_request", "handlers"),
        "handlers are of a Service: connect(url, service=service), with @service.request_response('create')",
    ),
    **dict.fromkeys(
        ("wait_for_broker", "wait_for_connection", "wait_connected", "retry_on_failed_connect"),
        "`async for client in connect(...)` waits for a broker, and sync.connect() is called again while it raises "
        "NotConnected",
    ),
}
OF_CONNECTIONS: Final = {
    **_SPREAD,
    **dict.fromkeys(
        ("host", "port", "uri", "base_url", "address", "endpoint", "target"),
        "it is in the URL, the first argument: 'tcp://127.0.0.1:7878'",
    ),
    **dict.fromkeys(
        ("tls", "use_tls", "secure", "encrypted"),
        "it is in the URL: tls://HOST:PORT, or wss://; ssl= is for certificates of one's own",
    ),
    **dict.fromkeys(
        ("servers", "hosts", "brokers", "nodes", "seeds", "endpoints", "addresses", "bootstrap_servers"),
        "the URLs come first: connect(['tcp://127.0.0.1:7878', 'tcp://127.0.0.1:7880'])",
    ),
    **dict.fromkeys(
        (
            *("reconnect", "auto_reconnect", "allow_reconnect", "max_reconnect_attempts", "reconnect_time_wait"),
            *("retry_on_timeout", "reconnect_delay", "max_reconnects", "reconnect_backoff_ms"),
        ),
        "a client comes back by itself when its connection is lost, until it is closed: leave it out",
    ),
    **dict.fromkeys(CALLBACKS, NO_CALLBACK),
    **dict.fromkeys(
        ("route", "path", "topic", "topics", "subject"),
        "it is of calls: client.request_response(address('orders'), b'', route='create')",
    ),
    **dict.fromkeys(
        ("headers", "default_headers", "metadata"),
        "it is of calls: client.request_response(address('orders'), b'', metadata={'text/plain': b'...'})",
    ),
    **dict.fromkeys(
        (
            *("cert", "certfile", "certificate", "certificate_chain", "client_cert", "tls_cert", "sslcert"),
            *("keyfile", "key_file", "private_key", "client_key", "tls_key", "sslkey", "ssl_key"),
            *("ssl_cert", "ssl_certfile", "ssl_certificate", "ssl_keyfile", "tls_certfile", "tls_keyfile"),
        ),
        "write ssl=context, with context = ssl.create_default_context(cafile=CA), and for a certificate of the client "
        "context.load_cert_chain(CERTIFICATE, KEY)",
    ),
    **dict.fromkeys(
        ("compression", "compression_type", "enable_compression", "compress"), "nothing is compressed: leave it out"
    ),
    **_IN_CODE,
    **dict.fromkeys(
        ("virtual_host", "virtualhost", "vhost", "db", "database", "namespace"),
        "a broker is not divided: services differ by their names and tags",
    ),
    **dict.fromkeys(
        ("options", "channel_options", "config", "settings"), "each option is an argument of its own, as timeout_s=5"
    ),
    **dict.fromkeys(
        ("max_message_size", "max_message_length", "max_msg_size", "max_request_size", "max_frame_size", "max_size"),
        "large payloads are sent in fragments by themselves: leave it out",
    ),
    **dict.fromkeys(
        ("max_workers", "concurrency", "prefetch", "prefetch_count"),
        "handlers have limits of their own: @orders.request_response('create', max_concurrency=8)",
    ),
    **dict.fromkeys(("loop", "event_loop"), "the event loop is found without it: leave it out"),
    **dict.fromkeys(
        ("transport", "transport_provider", "scheme", "protocol", "security_protocol"),
        "the URL says it, as tcp:// or wss://",
    ),
    "metadata_encoding": "metadata is composite: leave it out",
    "decode_responses": "a call says it: returns=bytes, or with codec=JSON returns=str",
    **dict.fromkeys(
        ("name", "client_name", "client_id", "id"), "a caller needs no name; others call a Service: Service('orders')"
    ),
    **dict.fromkeys(("debug", "verbose", "log_level", "logger", "echo"), "its log is logging.getLogger('client_sdk')"),
}


def unknown_option(
    function: str,
    given: str,
    known: Iterable[str],
    example: str = "",
    *,
    is_addressed: bool = True,
    named: Iterable[str] = (),
) -> TypeError:
    """For a keyword argument that `function` has not: the name that is meant, whose it is, or all names and `example`.

    Not `is_addressed`: it may stand for the address, which is missing. `named`: all that were given, for data in parts.

    >>> print(unknown_option("connect()", "payload", ["data", "route"]))
    connect() has no argument payload=; did you mean data=?
    """
    names = sorted(frozenset(known) - {"self"})
    has_more = len(names) > 1  # of one, the example says more than what others have
    mend = (
        (not is_addressed and f"the address comes first: write `{example}`")
        or _special(names).get(given)
        or _parts_of_data([each for each in named if each not in names], names)
        or (has_more and _called_elsewhere(given, names))
        or near(f"{given}=", (f"{each}=" for each in names), LIKE)
        or (has_more and _of_others(given))
        or f"it has {', '.join(f'{each}=' for each in names)}"
        + (f": write `{example}`" if example and len(names) <= MAX_OPTIONS else "")
    )
    return TypeError(f"{function} has no argument {given}=; {mend}")


def _parts_of_data(unknown: list[str], known: list[str]) -> str:
    """For several names of which no library is known to have one as an option; empty for others."""
    if len(unknown) < 2 or "data" not in known:
        return ""
    options = {*_special(known), *(name for names in CALLED_ELSEWHERE.values() for name in names)} - {"item"}
    for name in unknown:
        if name in options or _of_others(name) or near(f"{name}=", (f"{each}=" for each in known), LIKE):
            return ""
    return f"data= is one value: make a dataclass of {', '.join(unknown)}, and write codec=JSON in connect()"


def _special(known: list[str]) -> Mapping[str, str]:
    if "urls" in known:
        return OF_CONNECTIONS | (OF_RUNNING if "connections" in known else OF_CALLERS)
    if "max_waiting" in known:
        return OF_HANDLERS
    if "word" in known:
        return OF_APPLICATION_ERRORS
    if "listen" in known:
        return OF_LOCAL_BROKERS
    if "enc_hook" in known:
        return OF_JSON
    if "wait_for_service" in known:
        return OF_SUBSCRIPTIONS
    if "enough_n" in known:
        return OF_GATHERS
    if "address" in known:
        if "returns" not in known and "contract" not in known:
            return OF_PUSHES if "mime_type" in known else OF_UNANSWERED
        return OF_STREAMS if "initial_n" in known else OF_CALLS
    return OF_SERVICES if "codecs" in known and "tags" in known else {}


def called_here(given: str, known: Collection[str]) -> str:
    """The one of the `known` options that is meant; empty where it is none."""
    named = (how.partition("=")[0] for how, names in CALLED_ELSEWHERE.items() if given in names)
    return next((each for each in (given, f"{given}_s", *named) if each in known), "")


def _called_elsewhere(given: str, known: list[str]) -> str:
    for how, names in CALLED_ELSEWHERE.items():
        if given in names and how.partition("=")[0] in known:
            return f"did you mean {how}?" if how.endswith("=") else f"write {how}"
    return ""


def _of_others(given: str) -> str:
    name = given if any(given in known for known in FUNCTIONS.values()) else f"{given}_s"
    functions = [each for each, known in FUNCTIONS.items() if name in known and f"Client.{each}" not in FUNCTIONS]
    having = [f"{each}()" for each in functions[:MAX_FUNCTIONS]]
    if not having:
        return ""
    *first, last = having
    return f"{name}= is of {', '.join(first)} and {last}" if first else f"{name}= is of {last}"


def warn_set(name: str) -> None:
    """Of an attribute of a client that a program has set: as a callback, or an option of `connect`, it does nothing."""
    if name in CALLBACKS:
        how = NO_CALLBACK
    elif name in FUNCTIONS["connect"]:
        how = f"write connect(url, {name}=...)"
    else:
        return
    warnings.warn(f"client.{name} = ... does nothing: {how}", RuntimeWarning, stacklevel=3)
