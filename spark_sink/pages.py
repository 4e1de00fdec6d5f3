"""What pages with plots have in common: plotly's program, which is in them, and the policy in their heads.

A page works alone, also from file://. The policy names each script that may run by its hash, and allows no request.
"""

import base64
import hashlib
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
