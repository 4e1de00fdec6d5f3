import json
import re
from pathlib import Path

from click.testing import CliRunner

from spark_sink.cli import report
from spark_sink.report.as_json import json_report
from tests.spark_sink.report.conftest import Case

ROOT = Path(__file__).resolve().parents[3]


def test_json_has_every_fact(case: Case) -> None:
    told = json.loads(json_report(case.facts))
    assert list(told) == list(vars(case.facts))
    assert told["traffic"]["requests"] == case.facts.traffic.requests
    assert told["callers"]["rows"] == list(map(vars, case.facts.callers.rows))
    assert case.facts.first is not None
    assert told["first"] == case.facts.first.isoformat()


def test_the_document_lists_the_names(case: Case) -> None:
    text = (ROOT / "docs" / "spark" / "reports.md").read_text(encoding="utf-8").partition("## As JSON")[2]
    listed = dict(re.findall(r"^\| `(\w+)` \| (.*) \|$", text, re.MULTILINE))
    facts = json.loads(json_report(case.facts))
    assert list(listed) == list(facts)
    for name, said in listed.items():
        if isinstance(facts[name], dict):
            assert set(re.findall(r"`(\w+)`", said)) >= set(facts[name]), name


def test_the_command_prints_json_alone(case: Case) -> None:
    result = CliRunner().invoke(report, [str(case.folder), "--json", "--by", "zone"])
    assert (result.exit_code, json.loads(result.stdout)["by_tag"]["tag"]) == (0, "zone")
