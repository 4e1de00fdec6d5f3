"""D-53: what each worker is told."""

import io
import os
import uuid
from dataclasses import replace
from pathlib import Path

import pytest

from broker.commands.workers.plan import Assignment, Plan, usable_cores
from broker.config.cluster import secret_of
from broker.config.load import load
from broker.config.options import OPTIONS, Config
from broker.config.settings import cluster_settings_of

ID = "6f1c7a52-5d1e-4f0b-9a55-0f6f0a3f0c11"
SECRET = "made by chance for these workers"
FLAGS = {"server.listen": ("tcp://127.0.0.1:7878", "unix:///run/b.sock", "ws://127.0.0.1:7879"), "admin.listen": "off"}


def plan(**options: object) -> Plan:
    """Of three workers."""
    variables = {f"RSB_{key.upper()}": str(value) for key, value in options.items()}
    return Plan(load(None, variables, FLAGS), 3, "/tmp/w", ID, SECRET)


def assignment(number: int, **options: object) -> Config:
    return plan(**options).assignment(number).config


def test_each_worker_has_an_id_of_its_own_that_is_the_same_again() -> None:
    ids = [assignment(number).broker.id for number in (1, 2, 3)]
    assert ids == [str(uuid.uuid5(uuid.UUID(ID), f"worker {number}")) for number in (1, 2, 3)]
    assert len({ID, *ids}) == 4


@pytest.mark.parametrize("name, expected", [("eu-1", "eu-1.2"), ("broker", "broker")])
def test_a_worker_has_the_name_of_all_and_its_number_where_there_is_a_name(name: str, expected: str) -> None:
    assert assignment(2, broker__name=name).broker.name == expected


def test_ports_are_for_all_and_unix_sockets_for_the_first() -> None:
    assert [str(each) for each in assignment(1).server.listen] == list(FLAGS["server.listen"])
    assert [str(each) for each in assignment(2).server.listen] == ["tcp://127.0.0.1:7878", "ws://127.0.0.1:7879"]


def test_ports_for_other_brokers_are_for_all_workers_too() -> None:
    options = {"cluster__secret": "x" * 16, "cluster__listen": "tcp://127.0.0.1:7100,unix:///tmp/links.sock"}
    listens = [[str(each) for each in assignment(number, **options).cluster.listen] for number in (1, 2)]
    assert listens == [["tcp://127.0.0.1:7100", "unix:///tmp/links.sock"], ["tcp://127.0.0.1:7100"]]


def test_each_worker_dials_those_before_it_and_all_other_brokers() -> None:
    options = {"cluster__secret": "x" * 16, "cluster__peers": "tls://far:7878"}
    peers = [[str(peer) for peer in assignment(number, **options).cluster.peers] for number in (1, 2, 3)]
    far, one, two = "tls://far:7878", "unix:///tmp/w/w1.sock", "unix:///tmp/w/w2.sock"
    assert peers == [[far], [far, one], [far, one, two]]


def test_workers_without_a_configured_secret_have_one_that_nobody_else_knows() -> None:
    cluster = assignment(2).cluster
    assert (cluster.secret, cluster.mesh) == (SECRET, False)
    assert SECRET not in repr(plan().assignment(2).config)
    configured = assignment(2, cluster__secret="x" * 16).cluster
    assert (configured.secret, configured.mesh) == ("x" * 16, True)


def test_a_secret_in_a_file_is_that_of_the_workers(tmp_path: Path) -> None:
    path = tmp_path / "secret"
    path.write_text("y" * 20)
    cluster = assignment(2, cluster__secret_file=path).cluster
    assert (cluster.secret, secret_of(cluster)) == ("", b"y" * 20)


def test_with_certificates_the_other_workers_are_known_by_their_user() -> None:
    config = plan().config
    config = replace(config, cluster=replace(config.cluster, auth="tls", principals=("commonName=b",)))
    cluster = replace(plan(), config=config).assignment(2).config.cluster
    assert (cluster.principals, cluster.secret) == (("commonName=b", f"uid:{os.getuid()}"), "")


def test_a_worker_answers_its_supervisor_only_and_starts_no_workers() -> None:
    config = assignment(2, admin__changes="off")
    assert (config.admin.listen, config.admin.changes, config.server.workers) == (None, "all", 1)
    assert plan().assignment(2).admin_path == "/tmp/w/a2.sock"
    assert plan().assignment(2).link_path == "/tmp/w/w2.sock"


def test_each_worker_knows_which_brokers_are_the_others() -> None:
    """D-64."""
    told = [plan().assignment(number) for number in (1, 2, 3)]
    ids = [each.config.broker.id for each in told]
    assert [each.mates for each in told] == [(ids[1], ids[2]), (ids[0], ids[2]), (ids[0], ids[1])]
    settings = cluster_settings_of(told[1].config, told[1].mates)
    assert settings is not None
    assert settings.mates == [uuid.UUID(ids[0]).bytes, uuid.UUID(ids[2]).bytes]
    assert [plan(server__worker_locality="local").assignment(number).mates for number in (1, 2, 3)] == [()] * 3


def test_links_between_workers_leave_the_configured_bounds_to_others() -> None:
    config = assignment(2, limits__max_connections_per_principal=5)
    usual = {name: OPTIONS[f"cluster.{name}"].default for name in ("max_links", "max_brokers")}
    assert usual == {"max_links": config.cluster.max_links - 2, "max_brokers": config.cluster.max_brokers - 2}
    assert config.limits.max_connections_per_principal == 7
    assert assignment(2, limits__max_connections_per_principal=0).limits.max_connections_per_principal == 0


def test_all_the_rest_is_as_configured_and_makes_a_cluster() -> None:
    whole, worker = plan(limits__max_tags_per_route=7).config, assignment(3, limits__max_tags_per_route=7)
    for section in ("events", "routing", "protection", "tls", "log", "annotations", "service"):
        assert getattr(worker, section) == getattr(whole, section)
    assert worker.limits.max_tags_per_route == 7
    settings = cluster_settings_of(worker)
    assert settings is not None
    assert settings.peers == ["unix:///tmp/w/w1.sock", "unix:///tmp/w/w2.sock"]


def test_what_a_worker_is_told_comes_out_of_the_pipe_as_it_went_in() -> None:
    told = plan(cluster__secret="x" * 16).assignment(2)
    raw = told.encode()
    assert Assignment.read(io.BytesIO(raw).read) == told
    for size in (0, 3, 4, len(raw) - 1):  # the supervisor is gone
        assert Assignment.read(io.BytesIO(raw[:size]).read) is None


def test_there_is_a_core() -> None:
    assert 1 <= usable_cores() <= (os.cpu_count() or 1)
