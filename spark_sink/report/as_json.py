"""The facts as JSON, for programs: the names are those of the facts, `docs/spark/reports.md` lists them.

Times that end in `_us` are microseconds since 1970; others are ISO texts. Nothing is shortened or rounded here.
"""

import json
from datetime import datetime
from typing import Any

from spark_sink.report.facts import Facts


def json_report(facts: Facts) -> str:
    """One object, in ASCII."""
    return json.dumps(facts, default=_value, allow_nan=False) + "\n"


def _value(value: Any) -> Any:
    return value.isoformat() if isinstance(value, datetime) else vars(value)
