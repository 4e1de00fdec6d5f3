"""`rsocket-broker feed`: what is said where the command line is wrong, or no feed runs."""

from pathlib import Path

import pytest
from click.testing import CliRunner, Result

from broker.commands.main import main


def run(*arguments: str) -> Result:
    return CliRunner().invoke(main, ["feed", *arguments])


@pytest.mark.parametrize(
    "arguments, sentence",
    [
        (("watch",), "nothing is configured: give FOLDER, or a table [feed.post.NAME] in --config"),
        (("watch", "--segments"), "without FOLDER only --config and --dir may be given: the rest is configured"),
        (("watch", "x", "--dir", "f"), "give --base-url, where others fetch the files from, or --listen with a port"),
        (("watch", "x", "--dir", "f", "--listen", "x"), '--listen: "x" has no port; write x:PORT; port 0 is any'),
        (("watch", "x", "--base-url", "http://x/"), "needs feed.dir, where the feed keeps what it has to remember"),
        (("watch", "x", "--dir", "f", "--base-url", "ftp://x/"), '"ftp://x/" is no URL of http or https'),
        (("post", ".", "--dir", "f"), "give --to, a broker of messages that gets the posts"),
        (("post", "/no/such", "--dir", "f"), "Directory '/no/such' does not exist."),
        (
            ("post", ".", "--dir", "f", "--base-url", "http://x/", "--to", "ftp://h"),
            "is no URL of tcp, tls, ws, wss, unix, amqp, amqps, mqtt or mqtts with a host",
        ),
        (
            ("post", ".", "--dir", "f", "--base-url", "http://x/", "--to", "tcp://h:1"),
            "--to tcp://h:1: posts are offered there as long as `feed watch` runs; use that",
        ),
        (("status",), "feed.dir is not set; give --dir or --config"),
    ],
)
def test_a_wrong_command_line_is_said_in_a_sentence(arguments: tuple[str, ...], sentence: str) -> None:
    result = run(*arguments)
    assert (result.exit_code, sentence in result.stderr) == (2, True), result.stderr


def test_a_feed_that_does_not_run_is_said(tmp_path: Path) -> None:
    result = run("status", "--dir", str(tmp_path))
    assert (result.exit_code, result.stderr) == (3, f"rsocket-broker: no feed runs in {tmp_path}\n")
