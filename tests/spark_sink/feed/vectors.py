"""tests/vectors/v03_posts.json as values: what sr3_post and `sr3 watch` of metpx-sr3 3.3.1 sent, and what sr3 reads.

Where one of them has no `body`, or a comment in its place, it tells what sr3 does with another one.
"""

import json
from pathlib import Path
from typing import Any, Final

VECTORS: Final[dict[str, Any]] = json.loads((Path(__file__).parents[2] / "vectors/v03_posts.json").read_text())


def bodies_of(*sections: str) -> dict[str, bytes]:
    """Bodies by section and name."""
    found = {}
    for section in sections:
        for each in VECTORS[section]:
            if each.get("body", "").startswith("{"):
                found[f"{section}: {each['name']}"] = each["body"].encode()
    return found


SENT: Final = bodies_of("posts_by_sr3_post", "posts_by_sr3_watch", "reports_by_sr3")
FED: Final = bodies_of("seed_shaped_posts_fed_to_sr3_subscribe")
DECODED: Final = bodies_of("decode_by_sr3")
