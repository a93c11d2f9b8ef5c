"""Attack a policy: worlds to run it in, on a device whose every output shows what its memory held.

    from schedlab.testing import run
    from schedlab.testing.strategies import pressed_worlds

    @hypothesis.given(pressed_worlds(policy=MyPolicy))
    def test_my_policy_keeps_every_law(world):
        assert run(world).end == "done"

`schedlab.testing.strategies` needs Hypothesis (the extra `check`); nothing else here does.
"""

from schedlab.testing.actions import Script, Stage, play
from schedlab.testing.run import Ending, Node, Outcome, Sessions, alone, run
from schedlab.testing.script_file import loads
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
    "Script",
    "Session",
    "Sessions",
    "Stage",
    "Testbed",
    "Text",
    "Turn",
    "World",
    "alone",
    "constant",
    "find_testbed",
    "loads",
    "play",
    "roofline",
    "run",
]
