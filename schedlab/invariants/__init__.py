"""Every law that a run must obey, to be checked while it runs.

`laws()` lists them. `check(core)` looks at a scheduler between two ticks. `Checker().attach(core)` does so while it
runs and also follows the events, where it checks what no single moment shows: order, tiling, counts, and that every
request ends once.
"""

from schedlab.invariants.checker import Checker
from schedlab.invariants.registry import law_named, laws
from schedlab.invariants.state import check
from schedlab.law import Law, When

__all__ = ["Checker", "Law", "When", "check", "law_named", "laws"]
