"""Scripts survive their way through a file."""

from __future__ import annotations

from hypothesis import given
from hypothesis import strategies as st

from schedlab.policies.fifo import Fifo
from schedlab.testing import Script, loads
from schedlab.testing.actions import Action, Advance, Cancel, FailCopy, FailStep, Rotate, Submit, Tick
from schedlab.testing.script_file import dumps
from schedlab.testing.strategies import hybrid_worlds, pressed_worlds, sessions
from schedlab.testing.world import Cost
from tests.property.effort import examples

ACTIONS: st.SearchStrategy[Action] = st.one_of(
    sessions(1000, 1, 4).map(lambda drawn: Submit(drawn[0])),
    st.builds(Cancel, st.integers(0, 9)),
    st.builds(Tick, st.integers(1, 9)),
    st.builds(Advance, st.integers(1, 9000)),
    st.builds(FailStep),
    st.from_type(FailCopy),
    st.builds(Rotate, st.booleans()),
)


@given(pressed_worlds(Fifo) | hybrid_worlds(Fifo), st.lists(ACTIONS, max_size=6), st.booleans())
@examples(100)
def test_a_script_is_read_as_it_was_written(world: object, actions: list[Action], leap: bool) -> None:
    script = Script(world, tuple(actions), leap)  # type: ignore[arg-type]
    assert isinstance(script.world.cost, Cost)
    assert loads(dumps(script, "fifo"), Fifo) == script
