"""What users install as a software bill of materials, CycloneDX in JSON: `make sbom`.

python -m tests.supply_chain.sbom build/sbom.json
"""

from __future__ import annotations

import json
import subprocess
import sys
from collections.abc import Collection
from pathlib import Path
from typing import Any

from tests.supply_chain.installed import installed, normal
from tests.system.support.processes import ROOT


def narrowed(bill: dict[str, Any], names: Collection[str]) -> dict[str, Any]:
    """The bill of an environment without what is in it for other reasons. `names`: of packages, as registries write."""
    kept = [each for each in bill["components"] if normal(each["name"]) in names]
    refs = {each["bom-ref"] for each in (*kept, bill["metadata"]["component"])}
    depending = [
        {**each, "dependsOn": [ref for ref in each.get("dependsOn", ()) if ref in refs]}
        for each in bill["dependencies"]
        if each["ref"] in refs
    ]
    return {**bill, "components": kept, "dependencies": depending}


def main(file: Path) -> None:
    """Writes the bill of this environment."""
    command = [sys.executable, "-m", "cyclonedx_py", "environment", "--pyproject", str(ROOT / "pyproject.toml")]
    command += ["--mc-type", "application", "--output-reproducible", "--no-validate", sys.executable]
    done = subprocess.run(command, capture_output=True, text=True, check=True)
    bill = narrowed(json.loads(done.stdout), installed())
    file.parent.mkdir(parents=True, exist_ok=True)
    file.write_text(json.dumps(bill, indent=1) + "\n")
    print(f"{file}: {len(bill['components'])} packages")


if __name__ == "__main__":
    main(Path(sys.argv[1]))
