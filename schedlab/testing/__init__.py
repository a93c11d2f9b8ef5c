"""Attack a policy: worlds to run it in, on a device whose every output shows what its memory held.

    from schedlab.testing import run
    from schedlab.testing.strategies import pressed_worlds

    @hypothesis.given(pressed_worlds(policy=MyPolicy))
    def test_my_policy_keeps_every_law(world):
        assert run(world).end == "done"

`schedlab.testing.strategies` needs Hypothesis (`pip install 'schedlab[check]'`); nothing else here does.
"""

from schedlab.testing.run import Ending, Node, Outcome, Sessions, alone, run
from schedlab.testing.testbed import Bench, Testbed, find_testbed
from schedlab.testing.world import Cost, PolicyFactory, Reset, Session, Text, Turn, World, constant, roofline

__all__ = [
    "Bench",
    "Cost",
    "Ending",
    "Node",
    "Outcome",
    "PolicyFactory",
    "Reset",
    "Session",
    "Sessions",
    "Testbed",
    "Text",
    "Turn",
    "World",
    "alone",
    "constant",
    "find_testbed",
    "roofline",
    "run",
]
