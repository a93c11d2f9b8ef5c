"""Every law that a run must obey, to be checked while it runs.

`check(core)` looks at a scheduler between two ticks. `Checker().attach(core)` does so after every tick and also follows
the events, where it checks what no single moment shows: order, tiling, counts, and that every request ends once.
"""

from schedlab.invariants.checker import Checker
from schedlab.invariants.state import check

__all__ = ["Checker", "check"]
