"""`rsocket-broker shard-plan`: what it counts, and what it says of mistakes."""

import asyncio
import json
import socket
from collections.abc import AsyncIterator
from pathlib import Path

import pytest
from aiohttp.test_utils import TestServer
from click.testing import CliRunner, Result

from admin_api.app import make_app
from broker.commands.main import main
from broker.commands.shard_plan import MAX_KEY_BYTES, MAX_ROUTES, made_ids, shard_plan
from broker.routing.balance import gini
from broker.routing.sharding.hashes import key_hash
from broker.routing.sharding.methods import ShardMethods
from broker.routing.sharding.tables import ShardTables
from broker.routing.table import Route
from rsocket_wire.methods import SHARD_METHODS
from rsocket_wire.wire.ids import id_text
from tests.admin_api.fakes import FakeAdmin, shop

MADE = ["84fa41f7398a43079ab3a5a3e0ca80ab", "ad88ce2b3ee782a29ee40ea37d6599f9"]
NOBODY = "ffffffff-ffff-ffff-ffff-ffffffffffff"
WHICH_ROUTES = "one of --routes N, --route-ids FILE, --service NAME is required"
FEW = ("--keys", "2000")


def run(*arguments: str, given: str | bytes | None = None) -> Result:
    return CliRunner(env={"COLUMNS": "200"}).invoke(shard_plan, list(arguments), given)


def told(*arguments: str, given: str | bytes | None = None) -> dict[str, object]:
    """Its JSON, with the methods by name."""
    result = run(*arguments, "--json", given=given)
    assert (result.exit_code, result.stderr) == (0, "")
    body: dict[str, object] = json.loads(result.stdout)
    methods = body["methods"]
    assert isinstance(methods, list)
    return {**body, "methods": {each.pop("method"): each for each in methods}}


def mistake(*arguments: str, given: str | bytes | None = None) -> str:
    """The sentence about a mistake in the arguments."""
    result = run(*arguments, given=given)
    assert (result.exit_code, result.stdout) == (2, "")
    return result.stderr.splitlines()[-1].removeprefix("Error: ")


def owners(method: str, ids: list[bytes], keys: list[bytes]) -> list[str]:
    chosen = ShardMethods().find(method)
    assert chosen is not None
    routes = ShardTables([Route(each, "", [], None) for each in ids])
    return [chosen.choose(routes, key_hash([key])).id_text for key in keys]


@pytest.mark.parametrize("method", SHARD_METHODS)
@pytest.mark.parametrize("change, before_n, after_n", [(("--join", "1"), 8, 9), (("--leave", "2"), 8, 6)])
def test_counts_are_those_of_the_methods_that_the_broker_uses(
    method: str, change: tuple[str, str], before_n: int, after_n: int
) -> None:
    """D-36: nothing is estimated, and made-up routes and keys never change."""
    ids = made_ids(9)
    keys = [f"key-{number}".encode() for number in range(2000)]
    before, after = owners(method, ids[:before_n], keys), owners(method, ids[:after_n], keys)
    counts = sorted((after.count(id_text(each)) for each in ids[:after_n]), reverse=True)
    moved = sum(old != new for old, new in zip(before, after, strict=True))
    fullest = next(id_text(each) for each in sorted(ids[:after_n]) if after.count(id_text(each)) == counts[0])
    assert told("--routes", "8", *change, "--method", method, *FEW)["methods"] == {
        method: {
            "keys_moved": moved,
            "moved_percent": round(moved / 20, 3),
            "fullest_route": fullest,
            "fullest_keys": counts[0],
            "max_over_mean": round(counts[0] * after_n / 2000, 3),
            "gini": round(gini(counts), 4),
        }
    }


def test_rendezvous_moves_its_share_of_100_000_keys_and_a_hundredth_more_at_most() -> None:
    for change, ideal in ((("--join", "1"), 100 / 9), (("--leave", "1"), 100 / 8)):
        body = told("--routes", "8", *change, "--method", "rendezvous")
        methods = body["methods"]
        assert isinstance(methods, dict)
        assert (body["keys"], body["ideal_percent"]) == (100_000, round(ideal, 3))
        assert methods["rendezvous"]["moved_percent"] <= ideal + 1


def test_table_has_a_row_for_each_method() -> None:
    result = run("--routes", "8", "--join", "1", *FEW)
    assert result.exit_code == 0
    lines = [" ".join(line.split()) for line in result.stdout.splitlines() if line.strip(" ─")]
    assert lines[:2] == [
        "2,000 keys; 8 routes, 1 join, 0 leave: 9 routes",
        "method keys moved % ideal % fullest route max/mean gini",
    ]
    assert [line.split()[0] for line in lines[2:]] == list(SHARD_METHODS)
    methods = told("--routes", "8", "--join", "1", *FEW)["methods"]
    assert isinstance(methods, dict)
    said = methods["modulo"]
    moved, most = said["keys_moved"], said["fullest_keys"]
    row = f"modulo {moved:,} {said['moved_percent']:.2f} 11.11 {most:,} {said['max_over_mean']:.3f} {said['gini']:.4f}"
    assert lines[-1] == row


@pytest.mark.parametrize(
    "change, ideal", [("--join 2", 20.0), ("--leave 2", 25.0), ("--join 1 --leave 1", 12.5), ("--join 8", 50.0)]
)
def test_ideal_is_the_least_that_can_move(change: str, ideal: float) -> None:
    assert told("--routes", "8", *change.split(), "--method", "modulo", "--keys", "1")["ideal_percent"] == ideal


def test_routes_are_named_in_a_file_and_leave_and_join_by_name(tmp_path: Path) -> None:
    ids = made_ids(4)
    file = tmp_path / "ids"
    file.write_text("\n".join([id_text(ids[0]), "", f"Id{{{id_text(ids[1])}}}", ids[2].hex().upper()]) + "\n")
    body = told("--route-ids", str(file), "--leave", id_text(ids[1]), "--join", ids[3].hex(), *FEW)
    assert {name: body[name] for name in ("routes_before", "routes_after", "joined", "left")} == {
        "routes_before": 3,
        "routes_after": 3,
        "joined": [id_text(ids[3])],
        "left": [id_text(ids[1])],
    }


def test_numbers_and_names_add_up_and_the_last_ones_leave(tmp_path: Path) -> None:
    ids = made_ids(7)
    file = tmp_path / "ids"
    file.write_text("\n".join(id_text(each) for each in ids[:5]))
    body = told(
        "--route-ids", str(file), "--leave", "1", "--leave", id_text(ids[4]), "--leave", "1", "--join", "2", *FEW
    )
    assert (body["left"], body["joined"]) == ([id_text(each) for each in ids[2:5]], [id_text(each) for each in ids[5:]])


def test_keys_of_a_file_count_as_often_as_they_stand_there(tmp_path: Path) -> None:
    keys = [b"ada", b"bob", b"ada", b"\xff\xfe"]
    file = tmp_path / "keys"
    file.write_bytes(b"ada\r\nbob\n\nada\n\xff\xfe")
    after = owners("rendezvous", made_ids(3), keys)
    most = max(after.count(each) for each in after)
    body = told("--routes", "2", "--join", "1", "--method", "hrw", "--keys-file", str(file))
    methods = body["methods"]
    assert isinstance(methods, dict)
    assert (body["keys"], methods["rendezvous"]["fullest_keys"]) == (4, most)
    assert told("--routes", "2", "--join", "1", "--method", "hrw", "--keys-file", "-", given=file.read_bytes()) == body


@pytest.mark.parametrize(
    "arguments, sentence",
    [
        ("--join 1", WHICH_ROUTES),
        ("--routes 2 --service orders --join 1", WHICH_ROUTES),
        (
            "--routes 2 --admin localhost:1 --join 1",
            "--admin needs --service NAME: it is asked for the routes of a service",
        ),
        ("--routes 2", "--join N, --leave N or both are required"),
        ("--routes 2 --leave 2", "no route would be left; a key needs at least one"),
        ("--routes 2 --leave 3", "--leave 3: there are only 2 routes that can leave"),
        ("--routes 2 --join 0", "--join '0' is neither a number from 1 to 100,000 nor a Route Id"),
        ("--routes 2 --leave x", "--leave 'x' is neither a number from 1 to 100,000 nor a Route Id"),
        (f"--routes 2 --leave {NOBODY}", f"--leave {NOBODY}: there is no such route"),
        (f"--routes 2 --join {MADE[0]}", f"--join {id_text(made_ids(1)[0])}: this route is there already"),
        (
            f"--routes {MAX_ROUTES} --join 1",
            f"{MAX_ROUTES + 1:,} routes afterwards; at most {MAX_ROUTES:,} are allowed",
        ),
        ("--routes 2 --join 1 --method fair", "--method 'fair' is none of rendezvous, maglev, ring, jump, modulo, all"),
        ("--routes 2 --join 1 --keys 1 --keys-file -", "--keys and --keys-file exclude each other"),
        ("--route-ids - --join 1 --keys-file -", "--route-ids and --keys-file cannot both be standard input"),
    ],
)
def test_mistakes_are_one_sentence_and_exit_status_2(arguments: str, sentence: str) -> None:
    assert mistake(*arguments.split()) == sentence


@pytest.mark.parametrize(
    "option, text, sentence",
    [
        ("--route-ids", "\n", "no Route Ids; write one a line"),
        (
            "--route-ids",
            f"{1:032x}\nRoute 7\n",
            "line 2: 'Route 7' is no id: a uuid, 32 hexadecimal digits or Id{uuid} is",
        ),
        ("--route-ids", f"{1:032x}\n\n{1:032x}\n", f"line 3: {id_text((1).to_bytes(16))} is line 1, too"),
        ("--keys-file", "\n", "no keys; write one a line"),
        ("--keys-file", "a\n" + "b" * 128, "line 2: a key of 128 bytes; the value of a tag has at most 127"),
    ],
)
def test_mistakes_in_a_file_are_told_by_line(tmp_path: Path, option: str, text: str, sentence: str) -> None:
    file = tmp_path / "given"
    file.write_text(text)
    routes = () if option == "--route-ids" else ("--routes", "2")
    colon = "," if sentence.startswith("line") else ":"
    assert mistake(*routes, option, str(file), "--join", "1") == f"{file}{colon} {sentence}"


def test_longest_key_of_a_file_is_a_key() -> None:
    body = told("--routes", "2", "--join", "1", "--keys-file", "-", given="k" * MAX_KEY_BYTES)
    assert body["keys"] == 1


def test_made_up_routes_never_change_and_are_none_that_are_there() -> None:
    assert [each.hex() for each in made_ids(2)] == MADE
    assert made_ids(2, taken=made_ids(1)) == made_ids(3)[1:]


@pytest.fixture
def admin() -> FakeAdmin:
    return FakeAdmin(shop())


@pytest.fixture
async def url(admin: FakeAdmin) -> AsyncIterator[str]:
    async with TestServer(make_app(admin)) as server:
        yield str(server.make_url("")).rstrip("/")


async def ask(*arguments: str) -> Result:
    """The command, in a thread, so that the broker of this loop can answer."""
    return await asyncio.to_thread(run, *arguments, "--method", "maglev", *FEW, "--json")


async def test_a_running_broker_is_asked_for_the_routes_of_a_service(url: str) -> None:
    result = await ask("--admin", url.removeprefix("http://"), "--service", "orders", "--leave", f"{1:032x}")
    assert (result.exit_code, result.stderr) == (0, "")
    body = json.loads(result.stdout)
    assert (body["routes_before"], body["routes_after"], body["left"]) == (2, 1, [id_text((1).to_bytes(16))])


async def test_a_service_without_routes_is_exit_status_1(url: str) -> None:
    result = await ask("--admin", url, "--service", "carts", "--join", "1")
    sentence = f"the broker at {url} has no route of 'carts'; rsocket-broker ctl --admin {url} services lists all"
    assert (result.exit_code, result.stdout, result.stderr) == (1, "", f"rsocket-broker shard-plan: {sentence}\n")


async def test_drained_routes_are_gone_already(admin: FakeAdmin, url: str) -> None:
    """D-42: for shards a drained route counts as gone."""
    route = admin.core.table.find((1).to_bytes(16))
    assert route is not None
    admin.core.table.masks.draining.add(route.slot)
    result = await ask("--admin", url, "--service", "orders", "--join", "1")
    assert json.loads(result.stdout)["routes_before"] == 1


def test_nobody_answers_is_exit_status_3() -> None:
    with socket.socket() as probe:  # bound and not listening: nobody else can answer there
        probe.bind(("127.0.0.1", 0))
        nowhere = f"http://127.0.0.1:{probe.getsockname()[1]}"
        result = run("--admin", nowhere, "--service", "orders", "--join", "1")
    sentence = f"no broker answers at {nowhere} (connection refused); --admin says where"
    assert (result.exit_code, result.stderr) == (3, f"rsocket-broker shard-plan: {sentence}\n")


def test_it_is_a_command_of_rsocket_broker() -> None:
    result = CliRunner().invoke(main, ["shard-plan", "--help"])
    assert result.exit_code == 0
    assert (
        result.stdout.splitlines()[2].strip() == "Tell how many shard keys get another owner when routes join or leave."
    )
