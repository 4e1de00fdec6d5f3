"""Programs of the pages about clients in other languages: the blocks of a page, by the file named first in the
paragraph above each."""

import re
from dataclasses import dataclass
from pathlib import Path

from tests.system.support.processes import ROOT, BrokerProcess

CLIENTS = ROOT / "docs" / "clients"
WRITTEN_PORTS = {"tcp": "7878", "ws": "7879"}

_BLOCK = re.compile(r"((?:[^\n]+\n)*[^\n]+):\n\n```(\w+)\n(.*?)^```$", re.MULTILINE | re.DOTALL)
_SAYS = re.compile(r"^```text\n(.*?)^```$", re.MULTILINE | re.DOTALL)


@dataclass(frozen=True)
class ClientPage:
    """What a page tells its reader to save and what the programs say."""

    files: dict[str, str]
    says: list[str]  # in the order of the page

    def write(self, folder: Path, broker: BrokerProcess) -> None:
        """Saves all files, with the ports of this broker in place of those that are written."""
        for name, text in self.files.items():
            for scheme, port in WRITTEN_PORTS.items():
                text = text.replace(port, broker.url(scheme).rpartition(":")[2])
            path = folder / name
            path.parent.mkdir(parents=True, exist_ok=True)
            path.write_text(text)


def read_page(name: str, language: str) -> ClientPage:
    """The page of that name; each of its blocks in that language has the name of a file."""
    text = (CLIENTS / name).read_text()
    files = {above.split("`")[1]: block for above, written_in, block in _BLOCK.findall(text) if written_in == language}
    assert len(files) == text.count(f"```{language}\n")
    return ClientPage(files, _SAYS.findall(text))
