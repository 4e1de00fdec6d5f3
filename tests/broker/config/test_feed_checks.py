"""broker.config.sections.feed_checks, and [feed] with the tables in it."""

from pathlib import Path

import pytest

from broker.config.load import load
from broker.config.options import Config
from broker.config.sections.feed import FeedOptions, MessageBrokerOptions, PostOptions
from tests.broker.config.sources import mistakes_of, of_file

DIR = '[feed]\ndir = "f"\n'


def test_tables_of_folders_are_kept_by_name_with_their_lists(folder: Path) -> None:
    text = f'{DIR}[feed.post.data]\nfolder = "d"\naccept = ["a.*", "b"]\ninline_bytes = "4K"\nsettle = "1m"\n'
    options = PostOptions(folder="d", accept=("a.*", "b"), inline_bytes=4096, settle=60.0)
    assert of_file(folder, text).feed == FeedOptions(dir="f", post={"data": options})


def test_segments_are_those_of_the_broker_where_no_folder_is_named(folder: Path) -> None:
    config = of_file(folder, f'{DIR}[events]\ndir = "e"\n[feed.post.events]\nwhat = "segments"\n')
    assert config.feed.post["events"].root(config.events.dir) == Path("e")


def test_brokers_of_messages_have_defaults_and_names_that_folders_refer_to(folder: Path) -> None:
    text = f'{DIR}[feed.broker.r]\nurl = "amqp://u:p@h/"\n[feed.post.a]\nfolder = "d"\nto = ["r"]\n'
    feed = of_file(folder, text).feed
    assert feed.broker == {"r": MessageBrokerOptions(url="amqp://u:p@h/")}
    assert feed.post["a"].to == ("r",)
    assert "u:p" not in repr(feed)


def test_a_feed_without_tables_is_not_used() -> None:
    assert not Config().feed.is_used


@pytest.mark.parametrize(
    "text, sentences",
    [
        (
            '[feed.post.a]\nfolder = "d"',
            ["1: feed.post.a: needs feed.dir, where the feed keeps what it has to remember"],
        ),
        (
            '[feed]\ndir = "d/e/../f"\n[feed.post.a]\nfolder = "./d"',
            ["2: feed.dir: is in the folder of feed.post.a, and would be announced"],
        ),
        (
            f'{DIR}[feed.subscribe.a]\ninto = "f"\nbrokers = ["r"]\n[feed.broker.r]\nurl = "tcp://h:1"',
            ["2: feed.dir: is in the folder of feed.subscribe.a, and posts could write to it"],
        ),
        (f"{DIR}[feed.post.a]", ["3: feed.post.a: needs a folder whose files are announced"]),
        (f'{DIR}[feed.post.a]\nwhat = "segments"', ["3: feed.post.a: needs events.dir, or a folder of its own"]),
        (
            f'{DIR}[feed.post."a/b"]\nfolder = "d"',
            [
                '3: feed.post."a/b": the name "a/b" must be letters, digits, - _ and dots: files and URLs are named '
                "by it"
            ],
        ),
        (
            f'{DIR}[feed.post.a]\nfolder = "d"\naccept = ["(", 4]\nreject = ["["]',
            [
                "5: feed.post.a.accept: 4 is not printable text",
                '6: feed.post.a.reject: "[" is no regular expression: unterminated character set at position 0',
            ],
        ),
        (
            f'{DIR}[feed.post.a]\nfolder = "d"\nbase_url = "ftp://x/"',
            ['5: feed.post.a.base_url: "ftp://x/" is no URL of http or https'],
        ),
        (
            f'{DIR}[feed.post.a]\nfolder = "d"\nbase_url = "http://u:p@x/"',
            ['5: feed.post.a.base_url: "http://u:p@x/" has more than a scheme, a host, a port and a path'],
        ),
        (
            f'{DIR}[feed.post.a]\nfolder = "d"\nidentity = "sha1"',
            [
                "5: feed.post.a.identity: must be md5, sha512, cod,md5, cod,sha512, random, arbitrary,VALUE or none, "
                'not "sha1"'
            ],
        ),
        (
            f'{DIR}[feed.post.a]\nfolder = "d"\nrequired = ["u@h"]',
            ['5: feed.post.a.required: is for what = "segments" only: nothing is removed of other folders'],
        ),
        (
            f'{DIR}[feed.post.a]\nwhat = "segments"\nfolder = "d"\nrequired = ["u"]',
            ['6: feed.post.a.required: "u" is not USER@HOST'],
        ),
        (
            f'{DIR}[feed.post.a]\nwhat = "segments"\nfolder = "d"\nrequired = ["u@h a", "u@h b"]',
            ['6: feed.post.a.required: "u@h b": u@h is named twice; join the patterns with |'],
        ),
        (
            f'{DIR}[feed.post.a]\nwhat = "segments"\nfolder = "d"\nrequired = ["{"ü" * 40}@h"]',
            [
                f'6: feed.post.a.required: "{"ü" * 40}@h": its name has 242 bytes, escaped; 240 are possible',
            ],
        ),
        (
            f'{DIR}[feed.post.a]\nwhat = "segments"\nfolder = "d"\nrequired = {[f"u{n}@h" for n in range(257)]}',
            ["6: feed.post.a.required: names 257 consumers; 256 can be waited for"],
        ),
        (
            f'{DIR}[feed.post.a]\nwhat = "segments"\nfolder = "d"\nrequired = ["u@h ("]',
            [
                '6: feed.post.a.required: "u@h (": the pattern is no regular expression: missing ), '
                "unterminated subpattern at position 0"
            ],
        ),
        (
            f'{DIR}[feed.post.a]\nfolder = "d"\nto = ["r"]',
            ['5: feed.post.a.to: "r" is not configured; add [feed.broker.r]'],
        ),
        (f"{DIR}[feed.subscribe.m]", ["3: feed.subscribe.m: needs into, a folder for the files"]),
        (
            f'{DIR}[feed.post.a]\nfolder = "d"\n[feed.subscribe.a]\ninto = "i"',
            ["5: feed.subscribe.a: has the name of a posted folder; give it another one"],
        ),
        (
            f'{DIR}[feed.broker.r]\nurl = "tcp://h:1"\n[feed.subscribe.m]\ninto = "i"\nto = ["r"]\nbase_url = "http://h/"',
            [
                '7: feed.subscribe.m.to: "r" is a broker of RSocket, at which posts are offered by who has made '
                "them only"
            ],
        ),
        (
            f'{DIR}[feed.broker.r]\nurl = "amqp://h/"\n[feed.subscribe.m]\ninto = "i"\nto = ["r"]',
            ["5: feed.subscribe.m: needs a base_url, where others find what it passes on"],
        ),
        (f"{DIR}[feed.winnow.w]", ["3: feed.winnow.w: needs to, brokers of messages that get the posts"]),
        (
            f'{DIR}[feed.broker.r]\nurl = "tcp://h:1"\n[feed.winnow.w]\nto = ["r"]',
            ['6: feed.winnow.w.to: "r" is a broker of RSocket, at which posts are offered by who has made them only'],
        ),
        (f"{DIR}[feed.broker.r]", ["3: feed.broker.r: needs a url"]),
        (
            f'{DIR}[feed.broker.r]\nurl = "http://u:secret@h/"',
            ["4: feed.broker.r.url: is no URL of tcp, tls, ws, wss, unix, amqp, amqps, mqtt or mqtts with a host"],
        ),
        (
            f'{DIR}[admin]\nlisten = "off"\n[feed.post.a]\nfolder = "d"',
            ["5: feed.post.a: needs a base_url, because admin.listen is off and serves no files"],
        ),
    ],
)
def test_what_does_not_go_together_is_said_with_its_line(folder: Path, text: str, sentences: list[str]) -> None:
    assert mistakes_of(folder, text) == [f"broker.toml:{sentence}" for sentence in sentences]


def test_a_command_line_gives_a_table_whose_texts_are_read_as_those_of_the_environment() -> None:
    table = {"folder": "d", "settle": "0", "inline_bytes": "4K", "accept": ["a"]}
    config = load(None, {}, {"feed.dir": "f"}, {"feed.post": {"one": table}})
    assert config.feed.post == {"one": PostOptions(folder="d", settle=0.0, inline_bytes=4096, accept=("a",))}
