"""What other programs call our commands and options."""

from typing import Final

# What people type for a command, by the group: the words behind the program.
COMMANDS: Final = {
    "": {
        **dict.fromkeys(("start", "run", "broker", "server", "listen"), "serve"),
        **dict.fromkeys(("send", "request", "invoke", "req", "pub", "publish"), "call"),
        **dict.fromkeys(("reply", "respond", "service"), "offer"),
        **dict.fromkeys(("benchmark", "perf"), "bench"),
        **dict.fromkeys(("validate", "config", "lint"), "check"),
        **dict.fromkeys(("tokens", "login"), "token list"),
        **dict.fromkeys(("user", "passwd"), "password"),
        **dict.fromkeys(("admin", "inspect"), "ctl"),
        "version": "--version",
        "ping": "ctl status",
        "health": "ctl status --check",
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

# What no command is for, by the group, and what is done instead.
NO_COMMANDS: Final = {
    "": dict.fromkeys(
        ("stop", "kill", "shutdown", "quit"),
        "A broker ends by Ctrl-C or SIGTERM; rsocket-broker ctl drain broker takes it out of service",
    ),
    "ctl": dict.fromkeys(("logs", "log"), "A broker writes its log to its own standard error"),
}

# What they type for an option of ours, where the command has that.
OPTIONS: Final = {
    "--admin": ("--rest", "--http", "--admin-listen", "--api"),
    "--ca": ("--cacert", "--cafile", "--ca-file", "--ca-cert", "--tlsca"),
    "--cert": ("--certificate", "--client-cert", "--tlscert"),
    "--config": ("--file", "--config-file", "-f", "-c"),
    "--connections": ("--concurrency", "--clients", "--parallel", "-c"),
    "--data": ("--payload", "--body", "--message", "--input", "-d"),
    "--days": ("--expires", "--ttl"),
    "--dir": ("--directory", "--folder", "--state"),
    "--every": ("--interval",),
    "--header": ("--headers", "--property"),
    "--json": ("--output", "--format", "-o", "-j"),
    "--key": ("--private-key", "--tlskey"),
    "--meta": ("--header", "--headers", "--metadata", "--mime", "-H"),
    "--payload-bytes": ("--size", "--bytes", "--payload-size"),
    "--rate": ("--qps", "--rps"),
    "--route": ("--handler", "--endpoint", "--path", "--function", "--procedure"),
    "--seconds": ("--duration", "--time"),
    "--service": ("--svc", "--service-name", "--name", "--target", "-s"),
    "--tag": ("--tags", "--label", "--labels"),
    "--take": ("--limit", "--count", "--max", "-n"),
    "--timeout": ("--wait", "-t"),
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
