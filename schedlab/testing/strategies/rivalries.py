"""One request beside many that keep coming: whoever can be kept waiting for ever is."""

from __future__ import annotations

from hypothesis import strategies as st

from schedlab.config import SchedulerConfig
from schedlab.testing.strategies.configs import configs
from schedlab.testing.world import PolicyFactory, Session, Text, Turn, World, constant

# Steps of a second, so that what a policy does over minutes is seen in few steps.
STEP_NS = 1_000_000_000
RIVAL_TURNS = 40


@st.composite
def rivalries(draw: st.DrawFn, policy: PolicyFactory) -> World:
    """Clients that ask again as soon as they are answered take every seat; one of another kind comes among them."""
    config = draw(configs())
    priorities = draw(st.permutations((0, 2)))
    lengths = draw(st.tuples(st.integers(1, 12), st.integers(1, 12)))
    rival = Turn(min(lengths), draw(st.integers(1, 3)), priority=priorities[0])
    victim = Turn(max(lengths), draw(st.integers(1, 9)), priority=priorities[1])
    if draw(st.booleans()):
        rival, victim = victim, rival
    texts = draw(st.tuples(_texts(config), _texts(config)))
    seats = config.max_num_seqs
    crowd = tuple(Session(0, (rival,) * RIVAL_TURNS, texts[0]) for _ in range(seats + draw(st.integers(1, 4))))
    late = Session(draw(st.integers(1, 9)) * STEP_NS, (victim,), texts[1])
    return World(config, policy, constant(STEP_NS), draw(st.integers(4, 64)), (*crowd, late))


def _texts(config: SchedulerConfig) -> st.SearchStrategy[Text | None]:
    said = Text(0, 60, config.block_size)
    return st.sampled_from((None, said, said._replace(tenant="x"), said._replace(family=1, tenant="y")))
