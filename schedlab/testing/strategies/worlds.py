"""Whole worlds: any policy, any device, any load; roomy, crowded, or pressed from all sides."""

from __future__ import annotations

from dataclasses import replace
from functools import cache
from typing import Any

from hypothesis import strategies as st

from schedlab.memory.blocks import blocks_for
from schedlab.memory.swap import GIB
from schedlab.testing.strategies.configs import configs, policies, snapshot_rules
from schedlab.testing.strategies.devices import costs, fault_plans, links
from schedlab.testing.strategies.loads import chats, crowds, resets, sessions
from schedlab.testing.world import PolicyFactory, Session, World


@st.composite
def worlds(draw: st.DrawFn, policy: PolicyFactory | None = None) -> World:
    """Everything at once but faults and states: half of the time more than the pool can hold.

    Args:
        policy: the one that decides; None = any bundled or hostile one.
    """
    config = draw(configs())
    cost, unit_ns = draw(costs())
    made = policy or draw(policies(config, unit_ns))
    crowded = draw(st.booleans())
    hash_block_tokens = draw(trace_blocks(config.block_size))
    load = crowds(unit_ns, hash_block_tokens) if crowded else sessions(unit_ns, hash_block_tokens=hash_block_tokens)
    arrivals = draw(load)
    num_blocks = draw(_tight_pools(arrivals, config.block_size) if crowded else st.integers(1, 60))
    block_bytes = GIB // draw(st.integers(1, 30))
    transfers = draw(links(block_bytes, unit_ns))
    return World(config, made, cost, num_blocks, arrivals, block_bytes, transfers, draw(st.booleans()))


@st.composite
def hybrid_worlds(draw: st.DrawFn, policy: PolicyFactory | None = None) -> World:
    """Any world whose sequences carry a state, small or large beside a block, and with a prefix cache."""
    world = draw(worlds(policy))
    size = world.config.block_size
    config = replace(world.config, prefix_cache=True, **draw(snapshot_rules(size)))
    changed: dict[str, Any] = {"config": config, "state_bytes": GIB // draw(st.integers(1, 40))}
    if draw(st.booleans()):
        changed["sessions"] = draw(st.lists(chats(1000, size), min_size=1, max_size=6).map(tuple))
        changed["num_blocks"] = draw(st.integers(10, 300))
    return replace(world, **changed)


@st.composite
def pressed_worlds(draw: st.DrawFn, policy: PolicyFactory | None = None) -> World:
    """Everything at once, in a pool that is too small for it: caches, swaps, windows, states, faults, cancels.

    Args:
        policy: the one that decides; None = any bundled or hostile one.
    """
    hybrid = draw(st.booleans())
    config = draw(configs(hybrid=hybrid))
    cost, unit_ns = draw(costs())
    hash_block_tokens = draw(trace_blocks(config.block_size))
    crowd = draw(crowds(unit_ns, hash_block_tokens))
    arrivals = crowd + draw(st.lists(chats(unit_ns, hash_block_tokens), max_size=3).map(tuple))
    block_bytes = GIB // draw(st.integers(1, 30))
    return World(
        config,
        policy or draw(policies(config, unit_ns)),
        cost,
        draw(_tight_pools(draw(st.sampled_from((crowd, crowd, arrivals))), config.block_size)),
        arrivals,
        block_bytes,
        draw(links(block_bytes, unit_ns)),
        draw(st.booleans()),
        GIB // draw(st.integers(1, 40)) if hybrid else 0,
        draw(fault_plans(unit_ns)),
        draw(resets(unit_ns)),
    )


@cache
def trace_blocks(block_size: int) -> st.SearchStrategy[int]:
    """Tokens behind an id of the trace: a pool's blocks must be whole parts or whole multiples of them."""
    divisors = [part for part in range(1, block_size) if block_size % part == 0]
    return st.sampled_from((block_size, block_size, 2 * block_size, *divisors))


def _tight_pools(arrivals: tuple[Session, ...], block_size: int) -> st.SearchStrategy[int]:
    """Hardly more blocks than the longest request needs, and now and then one fewer."""
    longest = 0
    for index, session in enumerate(arrivals):
        for number, turn in enumerate(session.turns):
            prompt = session.prompt(index, number)
            assert prompt is not None
            longest = max(longest, blocks_for(prompt.num_tokens + turn.output_tokens, block_size))
    return st.integers(max(1, longest - 1), longest + 6)
