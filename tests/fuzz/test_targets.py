"""Each kind of input of `targets.py`: what is kept, and what Hypothesis makes of it."""

from __future__ import annotations

from pathlib import Path

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from tests.fuzz.long_run import CORPUS, main
from tests.fuzz.targets import TARGETS

MAX_CORPUS_BYTES = 64 << 10  # of one target: all of it is read and run in each run of the tests

KEPT = {name: sorted((CORPUS / name).iterdir()) for name in TARGETS}


@pytest.mark.parametrize("name", TARGETS)
def test_what_is_kept_breaks_no_promise(name: str) -> None:
    inputs = [file.read_bytes() for file in KEPT[name]]
    assert 0 < sum(len(each) for each in inputs) <= MAX_CORPUS_BYTES
    for each in inputs:
        TARGETS[name](each)


@st.composite
def changed(draw: st.DrawFn, name: str) -> bytes:
    """One that is kept, with some bytes other, more or fewer."""
    data = bytearray(draw(st.sampled_from(KEPT[name])).read_bytes())
    for _ in range(draw(st.integers(1, 4))):
        at = draw(st.integers(0, len(data)))
        data[at : at + draw(st.integers(0, 4))] = draw(st.binary(max_size=4))
    return bytes(data)


@pytest.mark.parametrize("name", [name for name in TARGETS if name != "receive"])  # which test_receive.py has
def test_what_is_kept_may_be_changed(name: str) -> None:
    @settings(max_examples=40)
    @given(changed(name) | st.binary(max_size=80))
    def run(data: bytes) -> None:
        TARGETS[name](data)

    run()


def test_a_file_of_a_long_run_is_run_again(tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    found = tmp_path / "crash-1"
    found.write_bytes(b"\x0f\x01\x00\x02")
    assert main(["long_run", "receive", str(found)]) == 0
    assert "no promise was broken" in capsys.readouterr().out
    assert main(["long_run", "nothing", str(found)]) == 2
    assert "nothing is none of authentication, " in capsys.readouterr().err
