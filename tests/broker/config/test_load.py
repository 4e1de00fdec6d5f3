"""broker.config.load, and options, listen and toml_lines below it.

Each mistake has its sentence and place, all of them come at once, and the document is in step.
"""

import tomllib
from collections.abc import Mapping
from dataclasses import fields
from pathlib import Path

import pytest

from broker.cluster.settings import ClusterSettings
from broker.config.load import ConfigErrors, Mistake, load, load_all
from broker.config.options import CHOOSERS, MAX_SERVICES, OPTIONS, SERVICE_KEYS, WRAPPERS, Config, OptionDoc
from broker.config.reference import options_markdown, options_toml
from broker.config.settings import CLUSTER_WORKED_OUT, OTHER_NAMES, WORKED_OUT, options_of, settings_of
from broker.config.urls import Listen
from broker.forwarding.settings import Settings
from broker.routing.choosers.registry import Methods
from broker.routing.policies import Policy
from rsocket_wire.errors import BrokerError
from tests.pem import CERTIFICATE, ENCRYPTED_KEY, KEY, OTHER_KEY

DOCUMENT = Path(__file__).parents[3] / "docs" / "configuration.md"
SCHEMES = "tcp, tls, ws, wss or unix"
A_CHOOSER = (
    '"round_robin", "random", "weighted", "least_busy", "power_of_two", "peak_ewma", "zone_first" or "sticky", '
    'the last two with or without another behind a colon ("sticky:random")'
)
LISTS_ALL = "; rsocket-broker check --options lists all"


@pytest.fixture
def folder(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    """An empty directory that is the current one, so that files have short names."""
    monkeypatch.chdir(tmp_path)
    return tmp_path


def of_file(folder: Path, text: str) -> Config:
    (folder / "broker.toml").write_text(text, encoding="utf-8")
    return load("broker.toml", {}, {})


def mistakes_of(
    folder: Path, text: str, environ: Mapping[str, str] | None = None, flags: Mapping[str, object] | None = None
) -> list[str]:
    """The lines of everything that is wrong with these sources."""
    (folder / "broker.toml").write_text(text, encoding="utf-8")
    with pytest.raises(ConfigErrors) as caught:
        load("broker.toml", environ or {}, flags or {})
    return str(caught.value).splitlines()


# --- precedence ----------------------------------------------------------------------------------------------------


def test_no_source_gives_the_defaults() -> None:
    config = load(None, {"PATH": "/bin"}, {})
    assert config == Config()
    assert [str(listen) for listen in config.server.listen] == ["tcp://127.0.0.1:7000", "ws://127.0.0.1:7001"]
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
            "RSB_SERVER__LISTEN": "tcp://0.0.0.0:7000, ws://0.0.0.0:7001/rsocket",
            "RSB_SERVER__STOP_GRACE_S": "2.5",
            "RSB_ROUTING__STRICT_HINTS": "true",
            "RSB_LIMITS__MAX_CONNECTIONS": "12",
            "RSB_ADMIN__LISTEN": "off",
        },
        {},
    )
    assert config.server.listen == (Listen("tcp", "0.0.0.0", 7000), Listen("ws", "0.0.0.0", 7001, "/rsocket"))
    assert (config.server.stop_grace_s, config.routing.strict_hints) == (2.5, True)
    assert (config.limits.max_connections, config.admin.listen) == (12, None)


def test_flags_may_be_of_the_type_or_text() -> None:
    typed = {"server.listen": ("tcp://a:1", "unix:///b"), "limits.max_connections": 5, "broker.name": "x"}
    texts = {"server.listen": "tcp://a:1,unix:///b", "limits.max_connections": "5", "broker.name": "x"}
    assert load(None, {}, typed) == load(None, {}, texts)


def test_a_whole_number_does_for_a_number_of_seconds(folder: Path) -> None:
    grace_s = of_file(folder, "[server]\nstop_grace_s = 3\n").server.stop_grace_s
    assert (grace_s, type(grace_s)) == (3.0, float)


def test_a_broker_id_is_kept_in_its_canonical_text(folder: Path) -> None:
    config = of_file(folder, '[broker]\nid = "112233445566778899AABBCCDDEEFF00"\n')
    assert config.broker.id == "11223344-5566-7788-99aa-bbccddeeff00"


# --- every mistake -------------------------------------------------------------------------------------------------


@pytest.mark.parametrize(
    "line, sentence",
    [
        ("[sever]", "2: sever: there is no such section; did you mean server?"),
        ("[zzz]", f"2: zzz: there is no such section{LISTS_ALL}"),
        (
            "[server]\nlisten_on = 1",
            "3: server.listen_on: there is no such option; did you mean server.listen?",
        ),
        (
            "[server]\nchooser = 1",
            "3: server.chooser: there is no such option; did you mean routing.chooser?",
        ),
        ("[server]\nqq = 1", f"3: server.qq: there is no such option{LISTS_ALL}"),
        ("[server.tls]\nkey = 1", "2: server.tls: there is no such option; did you mean [tls]?"),
        (
            "listen = 1",
            "2: listen: there is no such option outside a section; did you mean server.listen or admin.listen?",
        ),
        ("server = 1", "2: server: must be a section, not 1"),
        ("[broker]\nname = 1", "3: broker.name: must be printable text of 1 to 255 bytes, not 1"),
        ('[broker]\nname = ""', '3: broker.name: must be printable text of 1 to 255 bytes, not ""'),
        ('[broker]\nname = "a\\nb"', '3: broker.name: must be printable text of 1 to 255 bytes, not "a\\nb"'),
        ('[broker]\nid = "7"', '3: broker.id: must be a uuid or empty, not "7"'),
        ("[server]\nlisten = 1", "3: server.listen: must be a list of one or more URLs, not 1"),
        ("[server]\nlisten = []", "3: server.listen: must be a list of one or more URLs, not []"),
        ("[server]\nlisten = [5]", f"3: server.listen: 5 is no URL of {SCHEMES}"),
        (
            '[server]\nstop_grace_s = "9"',
            '3: server.stop_grace_s: must be a number from 0 to 3600, not "9"',
        ),
        ("[server]\nstop_grace_s = -1", "3: server.stop_grace_s: must be a number from 0 to 3600, not -1"),
        ("[server]\nstop_grace_s = nan", "3: server.stop_grace_s: must be a number from 0 to 3600, not NaN"),
        ("[server]\nstop_grace_s = true", "3: server.stop_grace_s: must be a number from 0 to 3600, not true"),
        ("[tls]\nmin_version = 1.2", '3: tls.min_version: must be "1.2" or "1.3", not 1.2'),
        ('[tls]\nclient_ca = "no.pem"', '3: tls.client_ca: "no.pem" cannot be read: No such file or directory'),
        ('[tls]\nclient_ca = "."', '3: tls.client_ca: "." cannot be read: Is a directory'),
        ('[events]\ndir = "broker.toml"', '3: events.dir: "broker.toml" is no directory'),
        ("[events]\nroll_s = 0", "3: events.roll_s: must be a number from 0.1 to 3600, not 0"),
        ('[routing]\nchooser = "best"', f'3: routing.chooser: must be {A_CHOOSER}, not "best"'),
        ("[routing]\nstrict_hints = 1", "3: routing.strict_hints: must be true or false, not 1"),
        (
            "[limits]\nmax_tags_per_route = 126",
            "3: limits.max_tags_per_route: must be a whole number from 1 to 125, not 126",
        ),
        (
            "[limits]\nmax_tags_per_route = 5.0",
            "3: limits.max_tags_per_route: must be a whole number from 1 to 125, not 5.0",
        ),
        (
            "[limits]\nmax_tags_per_route = false",
            "3: limits.max_tags_per_route: must be a whole number from 1 to 125, not false",
        ),
        (
            '[log]\nlevel = "loud"',
            '3: log.level: must be "debug", "info", "warning" or "error", not "loud"',
        ),
        ("[admin]\nlisten = 7070", '3: admin.listen: must be HOST:PORT or "off", not 7070'),
        ('[admin]\nlisten = "7070"', '3: admin.listen: "7070" names no port; 0 takes any free one'),
        (
            '[admin]\nlisten = "http://a:1"',
            '3: admin.listen: "http://a:1" is neither HOST:PORT nor "off"',
        ),
        ('[admin]\nlisten = "a:1/x"', '3: admin.listen: "a:1/x" is neither HOST:PORT nor "off"'),
        ('[admin]\nlisten = "me@a:1"', '3: admin.listen: "me@a:1" is neither HOST:PORT nor "off"'),
    ],
)
def test_a_wrong_option_is_told_with_its_line_and_key(folder: Path, line: str, sentence: str) -> None:
    assert mistakes_of(folder, f"# first line\n{line}\n") == [f"broker.toml:{sentence}"]


@pytest.mark.parametrize(
    "url, sentence",
    [
        ("tpc://127.0.0.1:7000", f"is no URL of {SCHEMES}"),
        ("127.0.0.1:7000", f"is no URL of {SCHEMES}"),
        ("", f"is no URL of {SCHEMES}"),
        ("tcp://a b:1", f"is no URL of {SCHEMES}"),
        ("tcp://[::1:7000", f"is no URL of {SCHEMES}"),
        ("tcp://127.0.0.1", "names no port; 0 takes any free one"),
        ("tcp://:7000", "names no host; 0.0.0.0 or [::] listens on all"),
        ("tcp://a:65536", "has a port that is no number from 0 to 65535"),
        ("tcp://a..b:7000", "names a host that can be none"),
        ("tcp://a:x", "has a port that is no number from 0 to 65535"),
        ("tls://a:1/rsocket", "has a path, which tls does not know"),
        ("ws://a:1/x?y=1", "has more than a scheme, a host, a port and a path"),
        ("ws://me@a:1/x", "has more than a scheme, a host, a port and a path"),
        ("unix://run/x.sock", "names no absolute path; write unix:///run/broker.sock"),
        ("unix:///", "names no absolute path; write unix:///run/broker.sock"),
        (f"unix:///{'x' * 107}", "has a path of 108 bytes; a unix socket can have 107"),
    ],
)
def test_a_url_that_is_none_is_told_in_a_sentence(url: str, sentence: str) -> None:
    with pytest.raises(BrokerError) as caught:
        Listen.parse(url)
    shown = f'"{url}"' if len(url) < 78 else f'"{url[:78]}…'
    assert (caught.value.word, caught.value.text) == ("bad-config", f"{shown} {sentence}")


@pytest.mark.parametrize(
    "url, listen",
    [
        ("tcp://127.0.0.1:0", Listen("tcp", "127.0.0.1", 0)),
        ("tls://broker.example:7000", Listen("tls", "broker.example", 7000)),
        ("ws://[::1]:7001", Listen("ws", "::1", 7001)),
        ("wss://[::]:7001/rsocket", Listen("wss", "::", 7001, "/rsocket")),
        ("unix:///run/broker.sock", Listen("unix", path="/run/broker.sock")),
    ],
)
def test_a_url_is_parsed_and_written_back(url: str, listen: Listen) -> None:
    assert Listen.parse(url) == listen
    assert str(listen) == url


def test_a_file_that_is_not_there_is_one_mistake(folder: Path) -> None:
    with pytest.raises(ConfigErrors) as caught:
        load("gone.toml", {}, {})
    assert caught.value.mistakes == [Mistake("gone.toml", 0, "", "cannot be read: No such file or directory")]
    assert str(caught.value) == "gone.toml: cannot be read: No such file or directory"


def test_a_file_that_is_no_text_is_one_mistake(folder: Path) -> None:
    (folder / "b.toml").write_bytes(b"[log]\n\xff")
    with pytest.raises(ConfigErrors, match=r"^b.toml: is no UTF-8 at byte 6$"):
        load("b.toml", {}, {})


@pytest.mark.parametrize(
    "text, sentence",
    [
        (
            '[server]\nlisten ["tcp://a:1"]\n',
            '2: no TOML: Expected \'=\' after a key in a key/value pair: "listen [\\"tcp://a:1\\"]"',
        ),
        ("[log]\nlevel = \n", '2: no TOML: Invalid value: "level ="'),
        ('[log]\nlevel = "info', '2: no TOML: Unterminated string: "level = \\"info"'),
        ("[log]\n[log]\n", "2: no TOML: Cannot declare ('log',) twice: \"[log]\""),
    ],
)
def test_a_text_that_is_no_toml_is_told_with_its_line(folder: Path, text: str, sentence: str) -> None:
    assert mistakes_of(folder, text) == [f"broker.toml:{sentence}"]


@pytest.mark.parametrize("text", ["[limits]\nmax_connections = " + "9" * 5000, "a = " + "[" * 5000])
def test_a_text_that_toml_chokes_on_is_a_mistake_as_well(folder: Path, text: str) -> None:
    (line,) = mistakes_of(folder, text)
    assert line.startswith("broker.toml:")


@pytest.mark.parametrize(
    "variable, text, sentence",
    [
        ("RSB_LISTEN", "x", "there is no such option; did you mean RSB_SERVER__LISTEN or RSB_ADMIN__LISTEN?"),
        ("RSB_SERVER_LISTEN", "x", "there is no such option; did you mean RSB_SERVER__LISTEN?"),
        ("RSB_SERVER__QQ", "x", f"there is no such option{LISTS_ALL}"),
        ("RSB_SERVER__LISTEN", "tcp://a:1,tpc://b:2", f'"tpc://b:2" is no URL of {SCHEMES}'),
        ("RSB_SERVER__STOP_GRACE_S", "1e3", 'must be a number from 0 to 3600, not "1e3"'),
        ("RSB_LIMITS__MAX_TAGS_PER_ROUTE", "many", 'must be a whole number from 1 to 125, not "many"'),
        ("RSB_LIMITS__MAX_TAGS_PER_ROUTE", "0", "must be a whole number from 1 to 125, not 0"),
        ("RSB_ROUTING__STRICT_HINTS", "yes", 'must be true or false, not "yes"'),
        ("RSB_TLS__KEY", "no.pem", '"no.pem" cannot be read: No such file or directory'),
    ],
)
def test_a_wrong_variable_is_told_with_its_name(folder: Path, variable: str, text: str, sentence: str) -> None:
    assert mistakes_of(folder, "", {variable: text}) == [f"environment: {variable}: {sentence}"]


@pytest.mark.parametrize(
    "flags, sentence",
    [
        ({"server.listen": ("tpc://b:2",)}, f'--listen: "tpc://b:2" is no URL of {SCHEMES}'),
        ({"admin.listen": "on"}, '--admin: "on" names no port; 0 takes any free one'),
        ({"broker.name": ""}, 'broker.name: must be printable text of 1 to 255 bytes, not ""'),
        ({"server.lisen": ""}, "server.lisen: there is no such option; did you mean server.listen?"),
    ],
)
def test_a_wrong_flag_is_told_with_its_name(folder: Path, flags: dict[str, object], sentence: str) -> None:
    assert mistakes_of(folder, "", {}, flags) == [f"command line: {sentence}"]


# --- options that do not go together -------------------------------------------------------------------------------


def test_a_tls_listener_needs_certificate_and_key(folder: Path) -> None:
    assert mistakes_of(folder, '[server]\nlisten = [\n  "tcp://a:1",\n  "wss://a:2/x",\n]\n') == [
        'broker.toml:4: tls.certificate: is required by the listener "wss://a:2/x"',
        'broker.toml:4: tls.key: is required by the listener "wss://a:2/x"',
    ]


def test_a_certificate_that_is_wrong_is_not_called_missing_as_well(folder: Path) -> None:
    text = '[tls]\ncertificate = 5\nkey = "broker.toml"\n[server]\nlisten = ["tls://a:1"]\n'
    assert mistakes_of(folder, text) == ["broker.toml:2: tls.certificate: must be the path of a file or empty, not 5"]


def write_pem(folder: Path) -> None:
    """Files as options name them, and some that are something else."""
    texts = {"certificate": CERTIFICATE, "key": KEY, "client_ca": CERTIFICATE, "both": CERTIFICATE + KEY}
    for name, text in {
        **texts,
        "encrypted": ENCRYPTED_KEY,
        "other": OTHER_KEY,
        "junk": "no PEM\n",
        "empty": "",
    }.items():
        (folder / name).write_text(text)


@pytest.mark.parametrize(("certificate", "key"), [("certificate", "key"), ("both", "both"), ("both", "key")])
def test_a_tls_listener_with_its_files_is_right(folder: Path, certificate: str, key: str) -> None:
    write_pem(folder)
    config = of_file(
        folder,
        f'[tls]\ncertificate = "{certificate}"\nkey = "{key}"\nclient_ca = "both"\n[server]\nlisten = ["tls://a:1"]',
    )
    assert config.server.listen == (Listen("tls", "a", 1),)


@pytest.mark.parametrize(
    ("certificate", "key", "sentence"),
    [
        ("junk", "key", '2: tls.certificate: "junk" holds no certificate in PEM'),
        ("empty", "key", '2: tls.certificate: "empty" holds no certificate in PEM'),
        ("key", "key", '2: tls.certificate: "key" holds no certificate in PEM'),
        ("certificate", "other", '3: tls.key: "other" is the key of another certificate'),
        ("certificate", "junk", '3: tls.key: "junk" holds no private key in PEM without a password'),
        ("certificate", "certificate", '3: tls.key: "certificate" holds no private key in PEM without a password'),
        ("certificate", "encrypted", '3: tls.key: "encrypted" holds no private key in PEM without a password'),
        ("certificate", "", "2: tls.key: is required by tls.certificate"),
    ],
)
@pytest.mark.parametrize("listen", ["tls", "tcp"])
def test_a_certificate_or_key_that_is_none_is_told(
    folder: Path, certificate: str, key: str, sentence: str, listen: str
) -> None:
    """Also where nobody listens with it: other brokers may be dialled, and nobody is asked for a password."""
    if not key and listen == "tls":
        sentence = '5: tls.key: is required by the listener "tls://127.0.0.1:1"'
    write_pem(folder)
    text = f'[tls]\ncertificate = "{certificate}"\nkey = "{key}"\n[server]\nlisten = ["{listen}://127.0.0.1:1"]\n'
    assert mistakes_of(folder, text) == [f"broker.toml:{sentence}"]


@pytest.mark.parametrize(("section", "key"), [("tls", "client_ca"), ("cluster", "ca")])
@pytest.mark.parametrize("name", ["junk", "empty", "key"])
def test_roots_that_are_none_are_told(folder: Path, section: str, key: str, name: str) -> None:
    write_pem(folder)
    text = f'[{section}]\n{key} = "{name}"\n'
    assert mistakes_of(folder, text) == [f'broker.toml:2: {section}.{key}: "{name}" holds no certificate in PEM']


def test_two_listeners_cannot_have_one_address(folder: Path) -> None:
    assert mistakes_of(folder, '[server]\nlisten = [\n"tcp://a:1",\n"ws://a:1/x",\n"unix:///x", "unix:///x"]\n') == [
        'broker.toml:4: server.listen: "ws://a:1/x" wants the address of "tcp://a:1"',
        'broker.toml:5: server.listen: "unix:///x" wants the address of "unix:///x"',
    ]


@pytest.mark.parametrize(
    ("one", "other"),
    [
        ("tcp://0.0.0.0:1", "ws://127.0.0.1:1/x"),
        ("tcp://127.0.0.1:1", "ws://0.0.0.0:1/x"),
        ("tcp://localhost:1", "ws://0.0.0.0:1/x"),
        ("tcp://[::]:1", "ws://[::1]:1/x"),
    ],
)
def test_all_addresses_are_the_others_too(folder: Path, one: str, other: str) -> None:
    text = f'[server]\nlisten = [\n"{one}",\n"{other}"]\n'
    assert mistakes_of(folder, text) == [f'broker.toml:4: server.listen: "{other}" wants the address of "{one}"']


@pytest.mark.parametrize("other", ["tcp://[::]:1", "tcp://some.name:1", "tcp://127.0.0.1:2", "unix:///0.0.0.0:1"])
def test_what_may_well_have_its_place_is_no_mistake(folder: Path, other: str) -> None:
    config = of_file(folder, f'[server]\nlisten = ["tcp://0.0.0.0:1", "{other}"]\n')
    assert len(config.server.listen) == 2


def test_listeners_on_free_ports_do_not_collide(folder: Path) -> None:
    config = of_file(folder, '[server]\nlisten = ["tcp://a:0", "ws://a:0"]\n[admin]\nlisten = "a:0"\n')
    assert len(config.server.listen) == 2


def test_a_listener_cannot_have_the_address_of_the_admin_listener(folder: Path) -> None:
    wrong = '"tcp://127.0.0.1:7070" wants the address of admin.listen, "127.0.0.1:7070"'
    assert mistakes_of(folder, '[server]\nlisten = ["tcp://127.0.0.1:7070"]') == [
        f"broker.toml:2: server.listen: {wrong}",
    ]
    assert mistakes_of(folder, "", {"RSB_ADMIN__LISTEN": "127.0.0.1:7000"}) == [
        'environment: RSB_ADMIN__LISTEN: "127.0.0.1:7000" is the address of "tcp://127.0.0.1:7000" in server.listen',
    ]
    assert mistakes_of(folder, '[server]\nlisten = ["tcp://0.0.0.0:1"]\n[admin]\nlisten = "127.0.0.1:1"\n') == [
        'broker.toml:4: admin.listen: "127.0.0.1:1" is the address of "tcp://0.0.0.0:1" in server.listen',
    ]


# --- what is no mistake, and not wise either -----------------------------------------------------------------------


def warnings_of(folder: Path, text: str, environ: Mapping[str, str] | None = None) -> list[str]:
    (folder / "broker.toml").write_text(text, encoding="utf-8")
    return [str(warning) for warning in load_all("broker.toml", environ or {}, {}).warnings]


def test_listeners_that_other_machines_reach_in_the_clear_are_warned_of(folder: Path) -> None:
    write_pem(folder)
    urls = ["tcp://0.0.0.0:1", "ws://10.0.0.4:2/x", "tcp://[::]:3", "tcp://some.name:4", "tcp://127.some.name:4"]
    safe = [
        "tcp://127.0.0.1:5",
        "ws://127.9.9.9:6",
        "tcp://localhost:7",
        "tcp://[::1]:8",
        "unix:///x",
        "tls://0.0.0.0:9",
    ]
    lines = "".join(f'  "{url}",\n' for url in [*urls, *safe])
    text = f'[tls]\ncertificate = "certificate"\nkey = "key"\n[server]\nlisten = [\n{lines}]\n'
    (folder / "key").chmod(0o600)
    why = "is reached by other machines and not encrypted; tls and wss are"
    assert warnings_of(folder, text) == [
        f'broker.toml:{line}: server.listen: "{url}" {why}' for line, url in enumerate(urls, 6)
    ]


def test_an_admin_listener_that_other_machines_reach_is_warned_of(folder: Path) -> None:
    why = '"0.0.0.0:1" is reached by other machines, and asks nobody who they are'
    assert warnings_of(folder, '[admin]\nlisten = "0.0.0.0:1"\n') == [f"broker.toml:2: admin.listen: {why}"]
    more = '; with admin.changes = "all" they may drain, redirect and close connections'
    environ = {"RSB_ADMIN__LISTEN": "0.0.0.0:1", "RSB_ADMIN__CHANGES": "all"}
    assert warnings_of(folder, "", environ) == [f"environment: RSB_ADMIN__LISTEN: {why}{more}"]
    assert warnings_of(folder, '[admin]\nlisten = "localhost:1"\nchanges = "all"\n') == []
    assert warnings_of(folder, '[admin]\nlisten = "off"\n') == []


@pytest.mark.parametrize(("mode", "is_told"), [(0o644, True), (0o604, True), (0o640, False), (0o600, False)])
def test_keys_and_secrets_that_all_may_read_are_warned_of(folder: Path, mode: int, is_told: bool) -> None:
    write_pem(folder)
    (folder / "secret").write_text("one that is long enough")
    for name in ("key", "secret"):
        (folder / name).chmod(mode)
    text = '[tls]\ncertificate = "certificate"\nkey = "key"\n[cluster]\nsecret_file = "secret"\n'
    told = [
        'broker.toml:3: tls.key: every user of this machine may read "key"; chmod o-r takes that away',
        "broker.toml:5: cluster.secret_file: every user of this machine may read the file; chmod o-r takes that away",
    ]
    assert warnings_of(folder, text) == (told if is_told else [])


def test_a_secret_in_a_file_that_all_may_read_is_warned_of(folder: Path) -> None:
    text = '[cluster]\nsecret = "one that is long enough"\n'
    (folder / "broker.toml").write_text(text)
    (folder / "broker.toml").chmod(0o644)
    why = 'every user of this machine may read "broker.toml", in which it stands; chmod o-r takes that away'
    assert warnings_of(folder, text) == [f"broker.toml:2: cluster.secret: {why}"]
    (folder / "broker.toml").chmod(0o600)
    assert warnings_of(folder, text) == []
    (folder / "broker.toml").chmod(0o644)
    assert warnings_of(folder, "", {"RSB_CLUSTER__SECRET": "one that is long enough"}) == []


def test_the_defaults_are_no_reason_for_a_warning() -> None:
    assert load_all(None, {}, {}).warnings == []


# --- choosers and shard methods ------------------------------------------------------------------------------------

WORDS = [*CHOOSERS, *WRAPPERS, "best", "round-robin", ""]


@pytest.mark.parametrize("text", [*WORDS, *(f"{outer}:{inner}" for outer in WORDS for inner in WORDS)])
def test_a_chooser_is_one_that_the_core_has_in_the_one_spelling_of_the_documents(folder: Path, text: str) -> None:
    is_known = Methods().find(text, "round_robin") is not None
    is_documented = all(word in (*CHOOSERS, *WRAPPERS) for word in text.split(":"))
    if is_known and is_documented:
        assert of_file(folder, f'[routing]\nchooser = "{text}"').routing.chooser == text
    else:
        assert mistakes_of(folder, f'[routing]\nchooser = "{text}"') == [
            f'broker.toml:2: routing.chooser: must be {A_CHOOSER}, not "{text}"'
        ]


# --- services ------------------------------------------------------------------------------------------------------

SERVICES = """\
[routing]
chooser = "random"
[service.orders]
chooser = "round_robin"
sticky_ttl_s = 7
[service."billing.eu"]
eject_after_errors = 0
[service]
'a b' = { max_in_flight_per_route = 3 }
"""


def test_what_tables_of_services_say_is_kept_by_name(folder: Path) -> None:
    assert of_file(folder, SERVICES).service == {
        "orders": {"chooser": "round_robin", "sticky_ttl_s": 7.0},
        "billing.eu": {"eject_after_errors": 0},
        "a b": {"max_in_flight_per_route": 3},
    }


def values_of(policy: Policy) -> dict[str, object]:
    """Everything that a policy says."""
    return {key: getattr(policy, key) for key in dir(policy) if not key.startswith("_")}


def test_a_service_has_what_its_table_says_and_the_rest_as_all(folder: Path) -> None:
    (folder / "broker.toml").write_text(SERVICES)
    settings = settings_of(load("broker.toml", {"RSB_PROTECTION__EJECT_S": "9"}, {}))
    of_all = {**values_of(Policy()), "chooser": "random", "eject_s": 9.0}
    assert values_of(settings.policy) == of_all
    assert {name: values_of(policy) for name, policy in settings.policies.items()} == {
        "orders": {**of_all, "chooser": "round_robin", "sticky_ttl_s": 7.0},
        "billing.eu": {**of_all, "eject_after_errors": 0},
        "a b": {**of_all, "max_in_flight_per_route": 3},
    }


def test_a_service_can_have_all_that_a_policy_has() -> None:
    assert sorted(SERVICE_KEYS) == sorted(values_of(Policy()))


def test_without_a_configuration_the_core_is_set_as_by_itself() -> None:
    def plain(settings: Settings) -> dict[str, object]:
        found = {each.name: getattr(settings, each.name) for each in fields(settings)}
        return {**found, "policy": values_of(settings.policy)}

    assert plain(settings_of(Config())) == plain(Settings())


def test_every_setting_has_an_option_or_is_worked_out() -> None:
    """An option of the core is declared in its settings and documented in its section; no other list holds it."""
    for kind, worked_out in ((Settings, WORKED_OUT), (ClusterSettings, CLUSTER_WORKED_OUT)):
        options = options_of(kind)
        assert {each.name for each in fields(kind)} == options.keys() | worked_out
        assert not options.keys() & worked_out
        assert set(options.values()) <= OPTIONS.keys()
    assert OTHER_NAMES.keys() <= options_of(Settings).keys() | options_of(ClusterSettings).keys()


def test_no_two_options_are_one_setting() -> None:
    """Settings find their options by key."""
    names = [*options_of(Settings).values(), *options_of(ClusterSettings).values()]
    keys = [OPTIONS[name].key for name in names if name not in OTHER_NAMES.values()]
    assert [doc.name for doc in OPTIONS.values() if keys.count(doc.key) and doc.name not in names] == []


def test_every_option_of_the_sections_of_the_core_reaches_it() -> None:
    """What bounds sockets is the edge's."""
    names = {*options_of(Settings).values(), *(doc.name for doc in SERVICE_KEYS.values())}
    assert [
        doc.name
        for doc in OPTIONS.values()
        if doc.section in ("routing", "protection", "limits", "annotations") and doc.name not in names
    ] == ["limits.stuck_s", "annotations.version"]


@pytest.mark.parametrize(("text", "every_n"), [("flows", 0), ("all", 1), ("1/2", 2), ("1/1000000", 1_000_000)])
def test_single_requests_and_snapshots_are_made_where_somebody_writes_them(
    folder: Path, text: str, every_n: int
) -> None:
    said = f'[events]\nrequests = "{text}"\nsnapshot_s = 7\n'
    settings = settings_of(of_file(folder, said + f'dir = "{folder}"'))
    assert (settings.single_requests, settings.snapshot_s) == (every_n, 7.0)
    settings = settings_of(of_file(folder, said))
    assert (settings.single_requests, settings.snapshot_s) == (0, 0.0)


@pytest.mark.parametrize("text", ["", "none", "1/1", "1/0", "1/1000001", "2/3", "1/ten", "1/-5", "0.1", "1/٣"])
def test_single_requests_are_a_word_or_one_of_so_many(folder: Path, text: str) -> None:
    with pytest.raises(ConfigErrors, match='"flows", "all" or "1/N" with N from 2 to 1000000'):
        of_file(folder, f'[events]\nrequests = "{text}"')


@pytest.mark.parametrize(("setting", "name"), options_of(Settings).items(), ids=str)
def test_what_an_option_says_reaches_the_core(folder: Path, setting: str, name: str) -> None:
    doc = OPTIONS[name]
    config = of_file(folder, f"[{doc.section}]\n{doc.key} = {doc.option.example}")
    value = getattr(settings_of(config), setting)
    assert value == getattr(getattr(config, doc.section), doc.key) != doc.default


@pytest.mark.parametrize("doc", SERVICE_KEYS.values(), ids=lambda doc: doc.name)
def test_what_an_option_says_reaches_the_policy_of_all_services(folder: Path, doc: OptionDoc) -> None:
    config = of_file(folder, f"[{doc.section}]\n{doc.key} = {doc.option.example}")
    value = getattr(settings_of(config).policy, doc.key)
    assert value == getattr(getattr(config, doc.section), doc.key) != doc.default


@pytest.mark.parametrize(
    "text, sentence",
    [
        (
            "[service.orders]\n\nchoser = 1",
            "4: service.orders.choser: there is no such option of a service; did you mean chooser?",
        ),
        (
            "[service.orders]\nmax_tags_per_route = 1",
            "3: service.orders.max_tags_per_route: there is no such option of a service; limits.max_tags_per_route is "
            "one of all",
        ),
        ("[service.orders]\nqq = 1", f"3: service.orders.qq: there is no such option of a service{LISTS_ALL}"),
        (
            '[service.a]\nchooser = "random"\n[service."b.c \\"d\\""]\nchooser = "best"',
            f'5: service."b.c \\"d\\"".chooser: must be {A_CHOOSER}, not "best"',
        ),
        (
            '[service."gr\\u00fc\\u00dfe"]\npanic_percent = 101',
            '3: service."grüße".panic_percent: must be a whole number from 0 to 100, not 101',
        ),
        (
            "[service.orders]\neject_s = true",
            "3: service.orders.eject_s: must be a number from 0.001 to 86400, not true",
        ),
        ("[service]\nchooser = 1", "3: service.chooser: must be a table [service.NAME] of one service, not 1"),
        (
            "[[service.orders]]\nchooser = 1",
            '2: service.orders: must be a table [service.NAME] of one service, not [{"chooser": 1}]',
        ),
        ("service = 1", "2: service: must be a section, not 1"),
        ('[service.""]', '2: service."": the name of a service must be printable text of 1 to 255 bytes'),
        (
            '[service."a\\tb"]',
            '2: service."a\\tb": the name of a service must be printable text of 1 to 255 bytes',
        ),
        ("[services.orders]", "2: services: there is no such section; did you mean service?"),
    ],
)
def test_a_mistake_about_a_service_is_told_with_its_line_and_key(folder: Path, text: str, sentence: str) -> None:
    assert mistakes_of(folder, f"# first line\n{text}\n") == [f"broker.toml:{sentence}"]


def test_a_name_of_a_service_has_255_bytes_at_most(folder: Path) -> None:
    assert list(of_file(folder, f"[service.{'n' * 255}]").service) == ["n" * 255]
    assert len(mistakes_of(folder, f'[service."{"ä" * 128}"]')) == 1


def test_so_many_services_have_tables_and_no_more(folder: Path) -> None:
    tables = "\n".join(f"[service.s{number}]" for number in range(MAX_SERVICES))
    assert len(of_file(folder, tables).service) == MAX_SERVICES == 1000
    assert mistakes_of(folder, f"{tables}\n[service.more]") == [
        "broker.toml:1: service: 1001 services have tables of their own, the limit is 1000"
    ]


def test_all_mistakes_about_services_come_together(folder: Path) -> None:
    text = "[service.b]\neject_s = 0\nqq = 1\n[service.a]\neject_s = 0\n[log]\nlevel = 1\n"
    assert [line.partition(": ")[0] for line in mistakes_of(folder, text)] == [
        f"broker.toml:{line}" for line in (2, 3, 5, 7)
    ]


def test_services_have_no_variables(folder: Path) -> None:
    assert mistakes_of(folder, "", {"RSB_SERVICE__ORDERS__CHOOSER": "random"}) == [
        "environment: RSB_SERVICE__ORDERS__CHOOSER: services have no variables, only tables [service.NAME] in the file"
    ]


def test_the_example_of_a_service_in_the_file_of_all_defaults_is_right(folder: Path) -> None:
    at = options_toml().index('# [service."orders.eu"]')
    example = options_toml()[at:].replace("# ", "", 1).replace("\n# ", "\n")
    assert {name: sorted(own) for name, own in of_file(folder, example).service.items()} == {
        "orders.eu": sorted(SERVICE_KEYS)
    }


# --- all together, and where ---------------------------------------------------------------------------------------

EVERYTHING_WRONG = """\
title = "mine"           # [server]
server . stop_grace_s = "10"
"server"."listen" = [    # an "array" of [several] lines
  "tcp://127.0.0.1:7000", # "]"
  "tpc://127.0.0.1:7000",
  'ws://:7001',
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
        f"broker.toml:1: title: there is no such option outside a section{LISTS_ALL}",
        'broker.toml:2: server.stop_grace_s: must be a number from 0 to 3600, not "10"',
        f'broker.toml:5: server.listen: "tpc://127.0.0.1:7000" is no URL of {SCHEMES}',
        'broker.toml:6: server.listen: "ws://:7001" names no host; 0.0.0.0 or [::] listens on all',
        "broker.toml:9: limits.max_conections: there is no such option; did you mean limits.max_connections?",
        "broker.toml:10: limits.max_frame_bytes: must be a whole number from 64 to 16777215, not 1",
        'broker.toml:13: log.level: must be "debug", "info", "warning" or "error", not "[tls]\\nkey = \\"x\\""',
        'broker.toml:16: log.format: must be "text" or "json", not "xml"',
        'broker.toml:18: events.dir: must be the path of a directory or empty, not {"roll_s": 3}',
        f'environment: RSB_ROUTING__CHOOSER: must be {A_CHOOSER}, not "best"',
        'command line: --admin: "here" names no port; 0 takes any free one',
    ]


def test_a_syntax_error_does_not_hide_the_mistakes_of_other_sources(folder: Path) -> None:
    assert len(mistakes_of(folder, "=", {"RSB_LOG__LEVEL": "loud"}, {"server.listen": "x"})) == 3


def test_keys_of_an_inline_table_have_the_line_of_the_table(folder: Path) -> None:
    assert mistakes_of(folder, '\nlog = { level = "loud" }\n') == [
        'broker.toml:2: log.level: must be "debug", "info", "warning" or "error", not "loud"'
    ]


def test_errors_have_the_word_and_every_mistake_as_a_value(folder: Path) -> None:
    with pytest.raises(ConfigErrors) as caught:
        load(None, {"RSB_LOG__LEVEL": "loud"}, {})
    sentence = 'must be "debug", "info", "warning" or "error", not "loud"'
    assert caught.value.word == "bad-config"
    assert caught.value.mistakes == [Mistake("environment", 0, "RSB_LOG__LEVEL", sentence)]


def test_a_long_wrong_value_is_shortened() -> None:
    with pytest.raises(ConfigErrors) as caught:
        load(None, {"RSB_LOG__LEVEL": "x" * 1000}, {})
    assert str(caught.value).endswith(f'not "{"x" * 78}…')


# --- the options themselves ----------------------------------------------------------------------------------------


@pytest.mark.parametrize("doc", OPTIONS.values(), ids=lambda doc: doc.name)
def test_every_option_has_a_reason_an_example_and_a_unit_where_it_counts(doc: OptionDoc) -> None:
    assert doc.option.why.endswith(".")
    assert doc.option.unit or doc.hint not in (int, float)
    assert tomllib.loads(f"x = {doc.option.example}") != tomllib.loads(f"x = {doc.default_text}")


NEEDS = {  # lines of its section without which an option is wrong
    "cluster.peers": ('secret = "one that is long enough"',),
    "cluster.auth": ('principals = ["commonName=b"]',),
}


@pytest.mark.parametrize("doc", OPTIONS.values(), ids=lambda doc: doc.name)
def test_every_example_is_right(folder: Path, doc: OptionDoc) -> None:
    lines = [f"{doc.key} = {doc.option.example}"]
    write_pem(folder)
    for name in ("certificate", "key", "client_ca"):  # which an example listener needs, and cluster.auth
        if doc.section != "tls":
            lines.append(f'[tls]\n{name} = "{name}"' if name == "certificate" else f'{name} = "{name}"')
    text = "\n".join([f"[{doc.section}]", *NEEDS.get(doc.name, ()), *lines])
    if doc.option.form == "file":  # the example's file is not here; it is the only thing wrong
        (mistake,) = mistakes_of(folder, text)
        assert mistake.endswith("cannot be read: No such file or directory")
    else:
        assert of_file(folder, text) != Config()


def test_the_file_of_all_defaults_gives_the_defaults(folder: Path) -> None:
    assert of_file(folder, options_toml()) == Config()
    assert sum(len(section) for section in tomllib.loads(options_toml()).values()) == len(OPTIONS.values())


def test_origins_and_names_are_read_as_browsers_say_them(folder: Path) -> None:
    text = '[server]\norigins = ["HTTPS://Shop.example:443", "null"]\nnames = ["Broker.Shop.example"]\n'
    server = of_file(folder, text).server
    assert (server.origins, server.names) == (("https://shop.example", "null"), ("broker.shop.example",))
    assert mistakes_of(folder, '[server]\norigins = ["shop.example", 3]\nnames = ["a:1", 4]\n') == [
        'broker.toml:2: server.origins: "shop.example" is no origin like "https://shop.example:8443"',
        "broker.toml:2: server.origins: 3 is no origin",
        'broker.toml:3: server.names: "a:1" is no name of a host',
        "broker.toml:3: server.names: 4 is no name of a host",
    ]


def test_the_document_holds_the_options_as_they_are() -> None:
    """Should it fail: put what `options_markdown()` gives between the two comments of the document."""
    text = DOCUMENT.read_text(encoding="utf-8")
    table = text.partition("<!-- options -->\n")[2].partition("<!-- end of options -->")[0]
    assert table.strip() == options_markdown().strip()
