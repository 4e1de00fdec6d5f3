"""What is said of a file that is not there."""

from pathlib import Path

import pytest

from rsocket_wire.files import missing_advice, pem_advice, system_reason


def test_the_reason_is_that_of_the_system_without_its_number() -> None:
    with pytest.raises(FileNotFoundError) as caught:
        Path("/nowhere/at/all").read_text()
    assert system_reason(caught.value) == "no such file or directory"
    assert system_reason(OSError("It Is Closed")) == "it is closed"


def test_the_advice_is_the_file_that_was_meant_or_the_folder_that_is_missing(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.chdir(tmp_path)
    (tmp_path / "conf").mkdir()
    (tmp_path / "conf" / "broker.toml").touch()
    (tmp_path / "conf" / "brokr\ntoml").touch()
    at = f"; it was looked for at {tmp_path}"
    assert missing_advice("conf/brokr.toml") == f"{at}/conf/brokr.toml; did you mean conf/broker.toml?"
    assert missing_advice("conf/keys") == f"{at}/conf/keys; write the path of a file that is there"
    assert missing_advice("cnf/broker.toml") == f"{at}/cnf/broker.toml; there is no folder {tmp_path}/cnf"
    assert missing_advice(f"{tmp_path}/conf/borker.toml") == f"; did you mean {tmp_path}/conf/broker.toml?"
    assert missing_advice("conf/broker.toml/x") == f"{at}/conf/broker.toml/x"  # no folder


def test_the_advice_to_a_file_without_pem_says_how_to_make_it_of_der(tmp_path: Path) -> None:
    (tmp_path / "a.der").write_bytes(b"\x30\x82\x03")
    assert pem_advice(f"{tmp_path}/a.der").endswith(f"openssl x509 -inform der -in {tmp_path}/a.der prints it as PEM")
    (tmp_path / "a.txt").touch()
    assert pem_advice(f"{tmp_path}/a.txt") == "; PEM has a line -----BEGIN CERTIFICATE-----"
    assert pem_advice(f"{tmp_path}/none") == ""
