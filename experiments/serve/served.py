"""What a server needs of a device, whichever it is."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass, field

from schedlab.core.scheduler import Scheduler
from schedlab.device import BlockingDevice
from schedlab.serve.tokenizer import Tokenizer


@dataclass(frozen=True, slots=True)
class Served:
    """A scheduler, ready to run on its device.

    Attributes:
        name: of the model, as clients call it.
        what: device and pool, for the line that says that the server is ready.
        sampling: of requests that do not say it, by the names of their fields.
    """

    core: Scheduler
    device: BlockingDevice
    tokenizer: Tokenizer
    name: str
    what: str
    sampling: Mapping[str, float] = field(default_factory=dict)
