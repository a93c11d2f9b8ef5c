"""Where the public traces are, and what their bytes must be:

`catalogue.tsv` has a line `name, sha256, path` for each file.
"""

from __future__ import annotations

import csv
from dataclasses import dataclass
from pathlib import Path

from schedlab.errors import UsageError

_TABLE = Path(__file__).with_name("catalogue.tsv")
_ADDRESS = "https://raw.githubusercontent.com"


@dataclass(frozen=True)
class Repository:
    """A public repository at one commit, with what its licence asks for."""

    at: str
    commit: str
    licence: str
    credit: str


@dataclass(frozen=True)
class Original:
    """One public file: its address and the SHA-256 of its bytes."""

    name: str
    file: str
    address: str
    sha256: str
    repository: Repository


_AZURE = Repository(
    "Azure/AzurePublicDataset",
    "b469a113cedca53ddc3bdea71a143dc4b7d8700c",
    "CC BY 4.0",
    "Patel et al., Splitwise, ISCA 2024",
)
_MOONCAKE = Repository(
    "kvcache-ai/Mooncake", "3b5a594133958449a1feaf1c9e0fc1b553e34a28", "Apache-2.0", "Qin et al., FAST 2025"
)
_SERVEGEN = Repository(
    "alibaba/ServeGen", "f891d1189eb32b3868dfc443800c4150548c282a", "Apache-2.0", "Xiang et al., arXiv 2505.09999"
)
_VTC = Repository(
    "Ying1123/VTC-artifact", "192c2e2014c69c8c6c699d7113c3822e4db632e6", "Apache-2.0", "Sheng et al., OSDI 2024"
)
_WEKA = Repository(
    "callanjfox/kv-cache-tester", "94f6046dfd9c0c8bc0cdb24a5aa6579bac8669bf", "Apache-2.0", "callanjfox/kv-cache-tester"
)
_VIDUR = Repository("microsoft/vidur", "7d47513363ec447a741ac5e47241580b47724fbf", "MIT", "Agrawal et al., MLSys 2024")
_SERVINGSIM = Repository(
    "casys-kaist/LLMServingSim", "5daddb21a545658d5150b535712d0494584b5278", "MIT", "CASYS Lab, KAIST"
)
_TRACELAB = Repository(
    "uw-syfi/TraceLab", "0b8a262ba69602869133b65972d51a388bde45e1", "CC BY 4.0", "SyFI Lab, University of Washington"
)
_REPOSITORIES = {
    "azure": _AZURE,
    "llmservingsim": _SERVINGSIM,
    "mooncake": _MOONCAKE,
    "servegen": _SERVEGEN,
    "tracelab": _TRACELAB,
    "vidur": _VIDUR,
    "vtc": _VTC,
    "weka": _WEKA,
}


def catalogue() -> dict[str, list[Original]]:
    """The public traces by name, each with its files in the order of their paths."""
    found: dict[str, list[Original]] = {}
    with _TABLE.open(encoding="utf-8", newline="") as table:
        for name, sha256, path in list(csv.reader(table, delimiter="\t"))[1:]:
            repository = _REPOSITORIES[name.partition("-")[0]]
            address = f"{_ADDRESS}/{repository.at}/{repository.commit}/{path}"
            original = Original(name, path.rpartition("/")[2], address, sha256, repository)
            found.setdefault(name, []).append(original)
    return found


def originals(name: str) -> list[Original]:
    """The files of one public trace. UsageError when the name is not known."""
    known = catalogue()
    if name not in known:
        raise UsageError(f"{name}: no such public trace; known: {', '.join(known)}")
    return known[name]
