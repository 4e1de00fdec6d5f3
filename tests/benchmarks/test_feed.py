"""benchmarks.feed: how fast a mirror is, measured on a small scale."""

import subprocess
import sys
from pathlib import Path
from subprocess import PIPE

import pytest
from click.testing import CliRunner

from benchmarks.feed import files_in, main
from benchmarks.feed_programs import bodies_of, cpu_s, make_files
from spark_sink.feed.posts import read_post
from tests.client_sdk.gateways.samwise.rabbitmq import RabbitNode

SMALL = ["--rounds", "1", "--seconds", "0.2", "--files", "300", "--mib", "1", "--segments", "3", "--posts", "20"]


def test_files_are_counted_under_their_own_names(tmp_path: Path) -> None:
    make_files(tmp_path, 20, 5)
    for name in (".feed-1.part", "f.tmp"):
        (tmp_path / "d1" / name).touch()
    assert files_in(tmp_path) == 20


def test_each_file_has_a_post(tmp_path: Path) -> None:
    make_files(tmp_path, 20, 5)
    posts = [read_post(body) for body in bodies_of(tmp_path, "http://h/")]
    assert sorted(post.rel_path for post in posts) == sorted(f"d{number % 10}/f{number}" for number in range(20))
    assert {post.size for post in posts} == {5}


def test_cpu_of_a_process_is_what_it_has_used_itself() -> None:
    spin = "import os, time\nwhile time.process_time() < 0.3: pass\nprint(sum(os.times()[:2]), flush=True)\ninput()"
    with subprocess.Popen([sys.executable, "-c", spin], stdin=PIPE, stdout=PIPE, text=True) as process:
        assert process.stdout is not None
        said_s = float(process.stdout.readline())
        assert cpu_s(process.pid) == pytest.approx(said_s, abs=0.05)
        process.communicate("\n")


@pytest.mark.interop
@pytest.mark.long
def test_it_measures_all_that_it_names(rabbit: RabbitNode) -> None:
    arguments = [*SMALL, "--without-sr3", "--port", str(rabbit.port)]
    result = CliRunner().invoke(main, arguments, catch_exceptions=False)
    assert result.exit_code == 0, result.output
    for title in ("Files of 4096", "A file of 1 MiB", "winnowed", "3 sealed segments", "20 posts wait"):
        assert title in result.stdout
