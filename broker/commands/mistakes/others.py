"""What other programs call our commands and options."""

from typing import Final

# What people type for a command, by the group: the words behind the program.
COMMANDS: Final = {
    "": {
        **dict.fromkeys(("start", "run", "broker", "server", "listen"), "serve"),
        **dict.fromkeys(("send", "request", "invoke", "req", "pub", "publish"), "call"),
        **dict.fromkeys(("subscribe", "sub", "consume", "stream", "receive"), "call --stream"),
        **dict.fromkeys(("monitor", "top", "stats", "metrics"), "ctl traffic --watch 1"),
        **dict.fromkeys(("reply", "respond", "service"), "offer"),
        **dict.fromkeys(("benchmark", "perf"), "bench"),
        **dict.fromkeys(("validate", "config", "lint"), "check"),
        **dict.fromkeys(("tokens", "login"), "token list"),
        **dict.fromkeys(("user", "passwd"), "password"),
        **dict.fromkeys(("admin", "inspect"), "ctl"),
        "version": "--version",
        "ping": "ctl status",
        "health": "ctl status --check",
        "info": "ctl status",
        "ls": "ctl services",
        **{
            name: f"ctl {name}"
            for name in (
                *("status", "services", "routes", "connections", "drain", "undrain", "redirect", "close", "revoke"),
                *("traffic", "limits", "brokers", "links", "drains"),
            )
        },
    },
    "access": {"check": "why", "test": "why", "explain": "why"},
    "context": {
        **dict.fromkeys(("ls", "all"), "list"),
        **dict.fromkeys(("rm", "delete", "del"), "remove"),
        **dict.fromkeys(("new", "create", "set"), "add"),
        **dict.fromkeys(("select", "switch"), "use"),
        "current": "show",
    },
    "ctl": {
        **dict.fromkeys(("ls", "list"), "services"),
        **dict.fromkeys(("health", "ping", "info"), "status"),
        **dict.fromkeys(("stats", "metrics"), "traffic"),
        **dict.fromkeys(("peers", "clients"), "connections"),
        **dict.fromkeys(("kick", "disconnect"), "close"),
        **dict.fromkeys(("pause", "disable", "cordon"), "drain"),
        **dict.fromkeys(("resume", "enable", "uncordon"), "undrain"),
        **dict.fromkeys(("cluster", "nodes"), "brokers"),
    },
    "feed": {
        **dict.fromkeys(("announce", "publish"), "post"),
        **dict.fromkeys(("mirror", "download", "get"), "subscribe"),
        "ls": "status",
    },
    "pipeline": {"start": "run", "compaction": "compact", "migrate": "upgrade"},
    "samwise": {
        **dict.fromkeys(("send", "put"), "publish"),
        **dict.fromkeys(("start", "run"), "serve"),
        **dict.fromkeys(("ls", "queue", "list"), "messages list"),
    },
    "token": {
        **dict.fromkeys(("create", "add", "make", "issue"), "new"),
        **dict.fromkeys(("rm", "remove", "delete", "del"), "revoke"),
        **dict.fromkeys(("ls", "show"), "list"),
    },
}

_OUT: Final = "rsocket-broker ctl drain tag service=NAME takes it out of service, ctl close NUMBER ends a connection"
MAKING: Final = ("add", "create", "new", "set")  # of what alone `ctl` has words for: redirects and drains
# What no command is for, on its own and in `ctl`, and what is done instead.
_NOWHERE: Final = {
    **dict.fromkeys(
        ("stop", "kill", "restart", "shutdown", "quit"),
        f"A broker ends by Ctrl-C or SIGTERM, and ctl drain broker takes it out of service; a service ends where it "
        f"runs: {_OUT}",
    ),
    **dict.fromkeys(
        ("delete", "remove", "rm", "del", "deregister", "unregister"),
        f"A service has its routes as long as it is connected: {_OUT}",
    ),
    **dict.fromkeys(
        ("register", "scale", "deploy", "apply", *(f"{verb} route" for verb in MAKING)),
        "A service makes its routes by connecting; rsocket-broker ctl services lists them",
    ),
    **dict.fromkeys(("logs", "log"), "A broker writes its log to its own standard error"),
}
NO_COMMANDS: Final = {"": _NOWHERE, "ctl": {**_NOWHERE, "top": "Write rsocket-broker ctl traffic --watch 1"}}

# What they type in front of what `ctl` shows or changes, and how our name of that begins.
VERBS: Final = {
    **dict.fromkeys(("list", "ls", "get", "show", "describe", *MAKING), ""),
    **dict.fromkeys(("delete", "remove", "rm", "unset"), "un"),
}

MORE_LOG: Final = "More log: RSB_LOG__LEVEL=debug in front of the command, or level in [log] of the file of --config"

# What no option is for, by the command, and what is done instead.
NO_OPTIONS: Final = {
    "bench": {
        **dict.fromkeys(("--service", "--route", "--tag"), "It calls services of its own, which echo: leave it out"),
        **dict.fromkeys(
            ("--requests", "--count", "--number", "--total", "-n"),
            "It measures for a time and not for a number of requests: write --seconds 5",
        ),
        "--stream": "Write --model request_stream",
        "--channel": "Write --model request_channel",
        **dict.fromkeys(("--all", "--gather"), "Write --to multicast"),
        **dict.fromkeys(("--shard", "--shard-key"), "Write --to shard"),
    },
    "call": {
        **dict.fromkeys(
            ("--repeat", "--count", "--times", "--loop", "-n"),
            "It makes one call: many are rsocket-broker bench, so many items of a stream are --take",
        ),
        "--method": "Write --route NAME for the handler, or --model for another interaction model",
    },
    "offer": {
        **dict.fromkeys(("--route", "--path", "--handler"), "It answers every route: leave it out"),
        **dict.fromkeys(("--exec", "--command", "--cmd", "--script"), "It runs nothing: its answer is --answer TEXT"),
    },
    "demo": dict.fromkeys(("--events", "--tables", "--out"), "Write --dir DIR: events and tables are folders in it"),
    "serve": {
        **dict.fromkeys(
            ("--join", "--peer", "--seed", "--seeds", "--cluster"),
            "Write peers in [cluster] of the file of --config, or RSB_CLUSTER__PEERS=tcp://HOST:PORT",
        ),
        **dict.fromkeys(
            ("--auth", "--no-auth", "--anonymous", "--allow-anonymous", "--insecure"),
            "Write mode in [auth] of the file of --config, or RSB_AUTH__MODE=off (or required) in front of the command",
        ),
        **dict.fromkeys(
            ("--user", "--users", "--password", "--token", "--jwt"),
            'Write mode = "required", and users or jwt, in [auth] of the file of --config (docs/security.md)',
        ),
        **dict.fromkeys(
            (
                *("--cert", "--key", "--tls", "--ssl", "--certfile", "--keyfile", "--certificate"),
                *("--tls-cert", "--tls-key", "--ssl-certfile", "--ssl-keyfile", "--private-key"),
            ),
            "Write certificate and key in [tls] of the file of --config, and --listen tls://HOST:PORT",
        ),
        **dict.fromkeys(("--verbose", "--debug", "-v", "-vv"), MORE_LOG),
        **dict.fromkeys(("--ws", "--ws-port", "--websocket"), "Write --listen ws://127.0.0.1:7879 beside the others"),
        **dict.fromkeys(("--admin-port", "--rest-port", "--http-port"), "Write --admin 127.0.0.1:7070"),
        **dict.fromkeys(
            ("--daemon", "--detach", "--background", "-d"),
            "It runs until it is stopped: put & behind the command, or let systemd start it",
        ),
    },
    "ctl traffic": dict.fromkeys(
        ("--since", "--from", "--until", "--last", "--period", "--window", "--interval"),
        "It counts from the start of the broker on, and --watch 10 shows what is added; of any time the event files "
        "tell: serve --events DIR, then pipeline run and report",
    ),
    "table": dict.fromkeys(("--since", "--from", "--until"), "Write --at TIME, and --diff TIME for what changed since"),
}

# What they type for an option of ours, in one group.
OPTIONS_OF: Final = {
    "pipeline": {
        "--events": ("--in", "--input", "--source", "--from", "--dir"),
        "--tables": ("--out", "--output", "--target", "--sink", "--dest", "--to", "-o"),
    },
}

# What they type for an option of ours, where the command has that.
OPTIONS: Final = {
    "--all": ("--multicast", "--broadcast", "--everybody"),
    "--admin": ("--rest", "--http", "--admin-listen", "--api"),
    "--answer": ("--data", "--payload", "--reply", "--response", "--body", "-d"),
    "--ca": ("--cacert", "--cafile", "--ca-file", "--ca-cert", "--tlsca"),
    "--cert": ("--certificate", "--client-cert", "--tlscert"),
    "--chooser": ("--lb", "--method", "--balancer", "--policy", "--strategy", "--algorithm"),
    "--config": ("--file", "--config-file", "-f", "-c"),
    "--connections": ("--concurrency", "--clients", "--parallel", "--workers", "--threads", "-c"),
    "--data": ("--payload", "--body", "--message", "--input", "-d"),
    "--days": ("--expires", "--ttl"),
    "--dir": ("--directory", "--folder", "--state"),
    "--every": ("--interval",),
    "--header": ("--headers", "--property"),
    "--html": ("--out", "--report", "--plots"),
    "--json": ("--output", "--format", "-o", "-j"),
    "--key": ("--private-key", "--tlskey"),
    "--lb": ("--chooser", "--balancer", "--load-balancer", "--policy", "--strategy"),
    "--meta": ("--header", "--headers", "--metadata", "--mime", "-H"),
    "--payload-bytes": ("--data", "--size", "--bytes", "--payload-size"),
    "--rate": ("--qps", "--rps"),
    "--route": ("--handler", "--endpoint", "--path", "--function", "--procedure"),
    "--seconds": ("--duration", "--time"),
    "--service": ("--svc", "--service-name", "--name", "--target", "-s"),
    "--shard-key": ("--shard", "--keys", "--hash", "--partition-key"),
    "--tag": ("--tags", "--label", "--labels"),
    "--take": ("--limit", "--count", "--max", "--items", "-n"),
    "--timeout": ("--wait", "--seconds", "-t"),
    "--user": ("--username", "--login", "-u"),
    "--watch": ("--refresh", "-w"),
    "--workers": ("--threads", "--processes", "-w"),
}
ADDRESSES: Final = (
    "--url",
    "--uri",
    "--broker",
    "--host",
    "--hostname",
    "--address",
    "--addr",
    "--server",
    "--connect",
)
PORTS: Final = ("--port", "-p")
NO_CHECK: Final = ("--insecure", "--no-verify", "--skip-verify", "--insecure-skip-verify", "-k")
TLS: Final = ("--tls", "--ssl")
