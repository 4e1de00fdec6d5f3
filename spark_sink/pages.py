"""The HTML page of a command with plots: its shell, plotly's program within it, and the policy in its head.

A page works alone, also from file://. The policy names each script that may run by its hash, and allows no request.
"""

import base64
import hashlib
import html
import re
from collections.abc import Iterable
from typing import Final

from spark_sink.errors import MissingPart

_SCRIPT: Final = re.compile(r"<script[^>]*>(.*?)</script>", re.DOTALL)


def plotly_script() -> str:
    """Plotly's JavaScript. MissingPart: it is not installed."""
    try:
        from plotly.offline import get_plotlyjs  # optional: the extra report
    except ImportError as error:
        raise MissingPart('the page with plots needs plotly: pip install "rsocket-broker[report]"') from error
    script: str = get_plotlyjs()
    assert "</script" not in script.lower()  # plotly's own build keeps to it, or no page could hold it
    return script


def html_page(title: str, style: str, body: str, scripts: Iterable[str]) -> str:
    """A whole page. `title`: plain text; `body`: HTML; `scripts`: the programs in the body, no other may run."""
    policy = html.escape(policy_of(scripts))
    head = [
        "<!DOCTYPE html>",
        '<html lang="en">',
        "<head>",
        '<meta charset="utf-8">',
        f'<meta http-equiv="Content-Security-Policy" content="{policy}">',
        '<meta name="viewport" content="width=device-width, initial-scale=1">',
        f"<title>{html.escape(title)}</title>",
        f"<style>{style}</style>",
        "</head>",
        "<body>",
    ]
    return "\n".join([*head, body, "</body>", "</html>"]) + "\n"


def scripts_in(text: str) -> list[str]:
    """The programs in a piece of HTML that was made here."""
    return _SCRIPT.findall(text)


def policy_of(scripts: Iterable[str]) -> str:
    """The Content-Security-Policy of a page in which these scripts run and no other."""
    hashes = " ".join(dict.fromkeys(map(_hash, scripts)))
    return f"default-src 'none'; style-src 'unsafe-inline'; img-src data: blob:; script-src {hashes}"


def _hash(script: str) -> str:
    """How a policy names a script that may run."""
    digest = hashlib.sha256(script.encode("utf-8")).digest()
    return f"'sha256-{base64.b64encode(digest).decode('ascii')}'"
