"""broker.config.load: the sources of a configuration, which one wins, and every mistake with its place and sentence."""

from pathlib import Path

import pytest

from broker.config.load import ConfigErrors, Mistake, load
from broker.config.options import OPTIONS, SECTIONS, Config
from broker.config.sections.near import CALLED, LISTEN
from broker.config.urls import Listen
from tests.broker.config.sources import A_CHOOSER, GIVE_ONE, LISTS_ALL, NOT_THERE, SCHEMES, mistakes_of, of_file

A_NUMBER_OF_TAGS = "must be a whole number from 1 to 125"


def test_no_source_gives_the_defaults() -> None:
    config = load(None, {"PATH": "/bin"}, {})
    assert config == Config()
    assert [str(listen) for listen in config.server.listen] == ["tcp://127.0.0.1:7878", "ws://127.0.0.1:7879"]
    assert config.admin.listen == Listen("http", "127.0.0.1", 7070)


def test_flags_win_over_environment_over_file_over_default(folder: Path) -> None:
    (folder / "b.toml").write_text('[broker]\nname = "file"\n[log]\nlevel = "error"\nformat = "json"\n')
    environ = {"RSB_BROKER__NAME": "environment", "RSB_LOG__LEVEL": "debug"}
    config = load("b.toml", environ, {"broker.name": "flag", "server.listen": None})
    assert (config.broker.name, config.log.level, config.log.format) == ("flag", "debug", "json")
    assert config.server == Config().server


def test_flags_that_were_not_given_change_nothing() -> None:
    assert load(None, {}, {"server.listen": (), "admin.listen": None}) == Config()


def test_variables_are_read_as_the_type_of_their_option() -> None:
    config = load(
        None,
        {
            "RSB_SERVER__LISTEN": "tcp://0.0.0.0:7878, ws://0.0.0.0:7879/rsocket",
            "RSB_AUTH__MODE": "off",
            "RSB_SERVER__STOP_GRACE_S": "2.5",
            "RSB_ROUTING__STRICT_HINTS": "true",
            "RSB_LIMITS__MAX_CONNECTIONS": "12",
            "RSB_ADMIN__LISTEN": "off",
        },
        {},
    )
    assert config.server.listen == (Listen("tcp", "0.0.0.0", 7878), Listen("ws", "0.0.0.0", 7879, "/rsocket"))
    assert (config.server.stop_grace_s, config.routing.strict_hints) == (2.5, True)
    assert (config.limits.max_connections, config.admin.listen) == (12, None)


def test_flags_may_be_of_the_type_or_text() -> None:
    typed = {"server.listen": ("tcp://127.0.0.1:1", "unix:///b"), "limits.max_connections": 5, "broker.name": "x"}
    texts = {"server.listen": "tcp://127.0.0.1:1,unix:///b", "limits.max_connections": "5", "broker.name": "x"}
    assert load(None, {}, typed) == load(None, {}, texts)


def test_a_whole_number_does_for_a_number_of_seconds(folder: Path) -> None:
    grace_s = of_file(folder, "[server]\nstop_grace_s = 3\n").server.stop_grace_s
    assert (grace_s, type(grace_s)) == (3.0, float)


def test_a_broker_id_is_kept_in_its_canonical_text(folder: Path) -> None:
    config = of_file(folder, '[broker]\nid = "112233445566778899AABBCCDDEEFF00"\n')
    assert config.broker.id == "11223344-5566-7788-99aa-bbccddeeff00"


@pytest.mark.parametrize(
    "line, sentence",
    [
        ("[sever]", "2: sever: unknown section; did you mean server?"),
        ("[zzz]", f"2: zzz: unknown section{LISTS_ALL}"),
        ("[server]\nlisten_on = 1", "3: server.listen_on: unknown option; did you mean server.listen?"),
        ("[tls]\ncert = 1", "3: tls.cert: unknown option; did you mean tls.certificate?"),
        ("[server]\nchooser = 1", "3: server.chooser: unknown option; did you mean routing.chooser?"),
        ("[server]\nqq = 1", f"3: server.qq: unknown option{LISTS_ALL}"),
        ("[server]\nport = 1", f"3: server.port: unknown option{LISTEN}"),
        ("[server]\nhost = 1", f"3: server.host: unknown option{LISTEN}"),
        ("bind = 1", f"2: bind: unknown option outside a section{LISTEN}"),
        ("[server]\nchoser = 1", "3: server.choser: unknown option; did you mean routing.chooser?"),
        ('[routing]\nload_balancer = "x"', "3: routing.load_balancer: unknown option; did you mean routing.chooser?"),
        ("[admin]\nport = 1", '3: admin.port: unknown option; write listen = "127.0.0.1:7070" in [admin]'),
        ("[metrics]\na = 1", "2: metrics: unknown section; it is of the REST API, /metrics: admin.listen says where"),
        (
            '[log]\nfile = "x"',
            "3: log.file: unknown option; the log goes to standard error: rsocket-broker serve 2>broker.log",
        ),
        (
            "[service.a]\nweight = 5",
            "3: service.a.weight: unknown option of a service; weight is a tag, which a service gives its routes: "
            "Service('orders', tags={'weight': '5'})",
        ),
        (
            "[server]\nws_port = 1",
            '3: server.ws_port: unknown option; write listen = ["ws://127.0.0.1:7879"] in [server]',
        ),
        ("[server]\nprioritet = 1", f"3: server.prioritet: unknown option{LISTS_ALL}"),
        ("[server.tls]\nkey = 1", "2: server.tls: unknown option; did you mean [tls]?"),
        (
            "listen = 1",
            f"2: listen: unknown option outside a section{LISTEN}",
        ),
        (
            "RSB_SERVER__WORKERS=4",
            "2: RSB_SERVER__WORKERS: unknown option outside a section; in a file it is workers in [server]",
        ),
        ("server = 1", "2: server: must be a section, not 1"),
        ("[broker]\nname = 1", '3: broker.name: must be printable text of 1 to 255 bytes, not 1; write "1"'),
        ('[broker]\nname = ""', '3: broker.name: must be printable text of 1 to 255 bytes, not ""'),
        ('[broker]\nname = "a\\nb"', '3: broker.name: must be printable text of 1 to 255 bytes, not "a\\nb"'),
        ('[broker]\nid = "7"', '3: broker.id: must be a uuid or empty, not "7"'),
        (
            "[server]\nlisten = 1",
            '3: server.listen: must be a list of one or more URLs, not 1; write ["tcp://127.0.0.1:1"]',
        ),
        (
            "[server]\nlisten = []",
            '3: server.listen: must be a list of one or more URLs, not []; write it as in ["tcp://127.0.0.1:7878"]',
        ),
        ('[server]\nstop_grace_s = "9"', '3: server.stop_grace_s: must be a number from 0 to 3600, not "9"; write 9'),
        ("[server]\nstop_grace_s = -1", "3: server.stop_grace_s: must be a number from 0 to 3600, not -1"),
        ("[server]\nstop_grace_s = nan", "3: server.stop_grace_s: must be a number from 0 to 3600, not NaN"),
        ("[server]\nstop_grace_s = true", "3: server.stop_grace_s: must be a number from 0 to 3600, not true"),
        ("[tls]\nmin_version = 1.2", '3: tls.min_version: must be "1.2" or "1.3", not 1.2; write "1.2"'),
        ('[tls]\nclient_ca = "no.pem"', f'3: tls.client_ca: "no.pem" {NOT_THERE}/no.pem{GIVE_ONE}'),
        (
            '[tls]\nclient_ca = "."',
            '3: tls.client_ca: "." cannot be read: Is a directory; write the path of a file in it, such as broker.toml',
        ),
        (
            '[events]\ndir = "broker.toml"',
            '3: events.dir: "broker.toml" is not a directory; write the path of a folder',
        ),
        ("[events]\nroll_s = 0", "3: events.roll_s: must be a number from 0.1 to 3600, not 0"),
        ('[routing]\nchooser = "best"', f'3: routing.chooser: must be {A_CHOOSER}, not "best"'),
        ("[routing]\nstrict_hints = 1", "3: routing.strict_hints: must be true or false, not 1; write true"),
        ("[limits]\nmax_tags_per_route = 126", f"3: limits.max_tags_per_route: {A_NUMBER_OF_TAGS}, not 126"),
        ("[limits]\nmax_tags_per_route = 5.0", f"3: limits.max_tags_per_route: {A_NUMBER_OF_TAGS}, not 5.0; write 5"),
        ("[limits]\nmax_tags_per_route = false", f"3: limits.max_tags_per_route: {A_NUMBER_OF_TAGS}, not false"),
        ('[log]\nlevel = "loud"', '3: log.level: must be "debug", "info", "warning" or "error", not "loud"'),
        ("[server]\nstop_grace_s = '5s'", '3: server.stop_grace_s: must be a number from 0 to 3600, not "5s"; write 5'),
        ('[events]\nroll_s = "1 min"', '3: events.roll_s: must be a number from 0.1 to 3600, not "1 min"; write 60'),
        (
            '[server]\nlisten = "tcp://a:1"',
            '3: server.listen: must be a list of one or more URLs, not "tcp://a:1"; write ["tcp://a:1"]',
        ),
        (
            '[server]\nlisten = "0.0.0.0:1, ws://a:2"',
            '3: server.listen: must be a list of one or more URLs, not "0.0.0.0:1, ws://a:2"; '
            'write ["tcp://0.0.0.0:1", "ws://a:2"]',
        ),
        (
            "[server]\nlisten = 7878",
            '3: server.listen: must be a list of one or more URLs, not 7878; write ["tcp://127.0.0.1:7878"]',
        ),
        (
            "[server]\nlisten = [7878]",
            f'3: server.listen: "7878" is not a URL of {SCHEMES}; write tcp://127.0.0.1:7878',
        ),
        (
            "[server]\nlisten = true",
            '3: server.listen: must be a list of one or more URLs, not true; write it as in ["tcp://127.0.0.1:7878"]',
        ),
        (
            '[server]\nlisten = "http://a:1"',
            '3: server.listen: must be a list of one or more URLs, not "http://a:1"; "http://a:1" is not a URL of '
            f"{SCHEMES}; write tcp://a:1, or ws://a:1 for a WebSocket",
        ),
        (
            '[auth]\naccept = "password"',
            '3: auth.accept: must be a list of "certificate", "jwt", "user", "uid" or "anonymous", not "password"; '
            'write ["user"]',
        ),
        (
            "[admin]\nlisten = [7070]",
            '3: admin.listen: must be HOST:PORT or "off", not [7070]; write "127.0.0.1:7070"',
        ),
        (
            '[admin]\nlisten = ["http://a:1"]',
            '3: admin.listen: must be HOST:PORT or "off", not ["http://a:1"]; "http://a:1" is neither HOST:PORT nor '
            '"off"; write a:1',
        ),
        (
            '[samwise]\nendpoints = "127.0.0.1:5555"',
            '3: samwise.endpoints: must be a list of endpoints ipc:// and tcp://, not "127.0.0.1:5555"; '
            'write ["tcp://127.0.0.1:5555"]',
        ),
        (
            '[log]\nlevel = "INFO"',
            '3: log.level: must be "debug", "info", "warning" or "error", not "INFO"; write "info"',
        ),
        ("[[server]]", "2: server: must be a section, not [{}]; write [server], with one pair of brackets"),
        ("[service.a.b]", '2: service.a.b: unknown option of a service; write [service."a.b"] for one of that name'),
        (
            "[service.a]\nmax_conections = 1",
            "3: service.a.max_conections: unknown option of a service; did you mean limits.max_connections, which is "
            "one of all?",
        ),
        (
            "[auth.users]\nada = 'x'",
            '2: auth.users: must be the path of a file or empty, not {…}; write users = "FILE", and '
            "rsocket-broker password NAME makes the lines of that file",
        ),
        (
            '[[auth.users]]\nname = "ada"\npassword = "secret"',
            '2: auth.users: must be the path of a file or empty, not [{…}]; write users = "FILE", and '
            "rsocket-broker password NAME makes the lines of that file",
        ),
        (
            '[auth]\nmode = "required"\naccept = ["user"]\nusers = "ada:secret"',
            "5: auth.users: the file cannot be read: No such file or directory; write the path of a file; "
            "rsocket-broker password NAME makes its lines",
        ),
        ("[admin]\nlisten = 7070", '3: admin.listen: must be HOST:PORT or "off", not 7070; write "127.0.0.1:7070"'),
        (
            '[events]\ndir = "~/events"',
            f'3: events.dir: "~/events" begins with ~, which only a shell replaces; write "{Path.home()}/events"',
        ),
        (
            '[server]\nlisten = ["tcp://127.0.0.1:${PORT}"]',
            '3: server.listen: "tcp://127.0.0.1:${PORT}" has a port that is not a number from 0 to 65535; ${PORT} is '
            "not replaced: write the number, or the whole option as a variable, as RSB_SERVER__LISTEN=URL",
        ),
        ('[admin]\nlisten = "7070"', '3: admin.listen: "7070" is a port without a host; write 127.0.0.1:7070'),
        ('[admin]\nlisten = "http://a:1"', '3: admin.listen: "http://a:1" is neither HOST:PORT nor "off"; write a:1'),
        ('[admin]\nlisten = "a:1/x"', '3: admin.listen: "a:1/x" is neither HOST:PORT nor "off"; write a:1'),
        ('[admin]\nlisten = "me@a:1"', '3: admin.listen: "me@a:1" is neither HOST:PORT nor "off"'),
    ],
)
def test_a_wrong_option_is_told_with_its_line_and_key(folder: Path, line: str, sentence: str) -> None:
    assert mistakes_of(folder, f"# first line\n{line}\n") == [f"broker.toml:{sentence}"]


def test_a_file_that_is_not_there_is_one_mistake(folder: Path) -> None:
    with pytest.raises(ConfigErrors) as caught:
        load("gone.toml", {}, {})
    text = f"{NOT_THERE.replace('FOLDER', str(folder))}/gone.toml{GIVE_ONE}; rsocket-broker check --options prints one"
    assert caught.value.mistakes == [Mistake("gone.toml", 0, "", text)]
    assert str(caught.value) == f"gone.toml: {text}"


def test_a_file_that_is_no_text_is_one_mistake(folder: Path) -> None:
    (folder / "b.toml").write_bytes(b"[log]\n\xff")
    with pytest.raises(ConfigErrors, match=r"^b.toml: is not UTF-8 at byte 6; save it as UTF-8$"):
        load("b.toml", {}, {})


@pytest.mark.parametrize(
    "variable, text, sentence",
    [
        (
            "RSB_LISTEN",
            "x",
            "unknown option; did you mean RSB_SERVER__LISTEN, RSB_ADMIN__LISTEN or RSB_CLUSTER__LISTEN?",
        ),
        ("RSB_TLS__CERT", "x", "unknown option; did you mean RSB_TLS__CERTIFICATE?"),
        ("RSB_SERVER_LISTEN", "x", "unknown option; did you mean RSB_SERVER__LISTEN?"),
        (
            "RSB_PORT",
            "1",
            "unknown option; write RSB_SERVER__LISTEN=tcp://HOST:PORT, such as tcp://127.0.0.1:7878",
        ),
        ("RSB_ADMIN_PORT", "1", "unknown option; write RSB_ADMIN__LISTEN=127.0.0.1:7070"),
        ("RSB_LOG_LEVEL", "debug", "unknown option; did you mean RSB_LOG__LEVEL?"),
        ("rsb_log__level", "debug", "unknown option; write RSB_LOG__LEVEL"),
        (
            "RSB_SAMWISE__ENABLED",
            "yes",
            "unknown option; samwise.endpoints says where the gateway listens, and without it there is no gateway",
        ),
        (
            "RSB_ROUTING__ENABLED",
            "yes",
            "unknown option; no section has a switch; rsocket-broker check --options lists what each has",
        ),
        ("RSB_AUTH", "off", "unknown option; a section has no value, its options have, such as RSB_AUTH__MODE"),
        ("RSB_SERVER__WORKERS", "auto", 'must be a whole number from 0 to 256, not "auto"; write 0 for one a CPU'),
        (
            "RSB_AUTH__MODE",
            "password",
            'must be "off", "observe" or "required", not "password"; write mode = "required" and accept = ["user"] '
            "in [auth]",
        ),
        ("RSB_LOG__LEVEL", "trace", 'must be "debug", "info", "warning" or "error", not "trace"; write "debug"'),
        (
            "RSB_SERVER__LISTEN",
            "['tcp://a:1', 'ws://[::1]:2']",
            "\"['tcp://a:1', 'ws://[::1]:2']\" is no list with commas; write tcp://a:1,ws://[::1]:2",
        ),
        ("RSB_SERVER__LISTEN", '["0.0.0.0:1"]', r'"[\"0.0.0.0:1\"]" is no list with commas; write tcp://0.0.0.0:1'),
        ("RSB_AUTH__MODE", "on", 'must be "off", "observe" or "required", not "on"; write "required"'),
        (
            "RSB_LIMITS__MAX_CONNECTIONS",
            "10k",
            'must be a whole number from 1 to 1000000, not "10k"; write 10000',
        ),
        ("RSB_AUTH__ACCEPT", "user jwt", '"user jwt" is no list with commas; write user,jwt'),
        (
            "RSB_ROUTING__CHOOSER",
            "least-connections",
            f'must be {A_CHOOSER}, not "least-connections"; write "least_busy"',
        ),
        ("RSB_CONFIG", "x", "unknown option; write rsocket-broker serve --config FILE"),
        ("RSB_LOGLEVEL", "debug", "unknown option; did you mean RSB_LOG__LEVEL?"),
        ("RSB_SERVER__QQ", "x", f"unknown option{LISTS_ALL}"),
        ("RSB_SERVER__LISTEN", "tcp://a:1,tpc://b:2", f'"tpc://b:2" is not a URL of {SCHEMES}; write tcp://b:2'),
        ("RSB_SERVER__STOP_GRACE_S", "1e3", 'must be a number from 0 to 3600, not "1e3"'),
        ("RSB_LIMITS__MAX_TAGS_PER_ROUTE", "many", f'{A_NUMBER_OF_TAGS}, not "many"'),
        ("RSB_LIMITS__MAX_TAGS_PER_ROUTE", "0", f"{A_NUMBER_OF_TAGS}, not 0"),
        ("RSB_ROUTING__STRICT_HINTS", "yes", 'must be true or false, not "yes"; write true'),
        ("RSB_TLS__KEY", "no.pem", f'"no.pem" {NOT_THERE}/no.pem{GIVE_ONE}'),
    ],
)
def test_a_wrong_variable_is_told_with_its_name(folder: Path, variable: str, text: str, sentence: str) -> None:
    assert mistakes_of(folder, "", {variable: text}) == [f"environment: {variable}: {sentence}"]


@pytest.mark.parametrize(
    "flags, sentence",
    [
        ({"server.listen": ("tpc://b:2",)}, f'--listen: "tpc://b:2" is not a URL of {SCHEMES}; write tcp://b:2'),
        ({"admin.listen": "on"}, '--admin: "on" has no port; write 127.0.0.1:PORT; port 0 is any free one'),
        ({"broker.name": ""}, 'broker.name: must be printable text of 1 to 255 bytes, not ""'),
        ({"server.lisen": ""}, "server.lisen: unknown option; did you mean server.listen?"),
    ],
)
def test_a_wrong_flag_is_told_with_its_name(folder: Path, flags: dict[str, object], sentence: str) -> None:
    assert mistakes_of(folder, "", {}, flags) == [f"command line: {sentence}"]


def test_origins_and_names_are_read_as_browsers_say_them(folder: Path) -> None:
    text = '[server]\norigins = ["HTTPS://Shop.example:443", "null"]\nnames = ["Broker.Shop.example"]\n'
    server = of_file(folder, text).server
    assert (server.origins, server.names) == (("https://shop.example", "null"), ("broker.shop.example",))
    assert mistakes_of(folder, '[server]\norigins = ["shop.example", 3]\nnames = ["a:1", 4]\n') == [
        'broker.toml:2: server.origins: "shop.example" is not an origin like "https://shop.example:8443"',
        "broker.toml:2: server.origins: 3 is not an origin",
        'broker.toml:3: server.names: "a:1" is not a host name',
        "broker.toml:3: server.names: 4 is not a host name",
    ]


EVERYTHING_WRONG = """\
quxquux = "mine"         # [server]
server . stop_grace_s = "10"
"server"."listen" = [    # an "array" of [several] lines
  "tcp://127.0.0.1:7878", # "]"
  "tpc://127.0.0.1:7878",
  'ws://:7879',
]
[limits]
max_conections = 5
max_frame_bytes = 1

[log]   # multi-line strings hold no keys
level = \"\"\"
[tls]
key = "x"\"\"\"
format = 'xml'
[events]
dir = { roll_s = 3 }
"""


def test_all_mistakes_of_all_sources_come_together_in_order(folder: Path) -> None:
    environ = {"RSB_ROUTING__CHOOSER": "best"}
    flags = {"admin.listen": "here", "log.format": "json"}
    assert mistakes_of(folder, EVERYTHING_WRONG, environ, flags) == [
        f"broker.toml:1: quxquux: unknown option outside a section{LISTS_ALL}",
        'broker.toml:2: server.stop_grace_s: must be a number from 0 to 3600, not "10"; write 10',
        f'broker.toml:5: server.listen: "tpc://127.0.0.1:7878" is not a URL of {SCHEMES}; write tcp://127.0.0.1:7878',
        'broker.toml:6: server.listen: "ws://:7879" has no host; write ws://127.0.0.1:7879, or ws://0.0.0.0:7879 for '
        "all addresses",
        "broker.toml:9: limits.max_conections: unknown option; did you mean limits.max_connections?",
        "broker.toml:10: limits.max_frame_bytes: must be a whole number from 64 to 16777215, not 1",
        'broker.toml:13: log.level: must be "debug", "info", "warning" or "error", not "[tls]\\nkey = \\"x\\""',
        'broker.toml:16: log.format: must be "text" or "json", not "xml"',
        "broker.toml:18: events.dir: must be the path of a directory or empty, not {…}",
        f'environment: RSB_ROUTING__CHOOSER: must be {A_CHOOSER}, not "best"',
        'command line: --admin: "here" has no port; write here:PORT; port 0 is any free one',
    ]


def test_a_syntax_error_does_not_hide_the_mistakes_of_other_sources(folder: Path) -> None:
    assert len(mistakes_of(folder, "=", {"RSB_LOG__LEVEL": "loud"}, {"server.listen": "x"})) == 3


def test_errors_have_the_word_and_every_mistake_as_a_value(folder: Path) -> None:
    with pytest.raises(ConfigErrors) as caught:
        load(None, {"RSB_LOG__LEVEL": "loud"}, {})
    sentence = 'must be "debug", "info", "warning" or "error", not "loud"'
    assert caught.value.word == "bad-config"
    assert caught.value.mistakes == [Mistake("environment", 0, "RSB_LOG__LEVEL", sentence)]


def test_what_others_call_an_option_is_none_here() -> None:
    assert not set(CALLED) & {*OPTIONS, *SECTIONS}
    assert {each.partition("=")[0] for each in CALLED.values() if " " not in each} <= set(OPTIONS)
