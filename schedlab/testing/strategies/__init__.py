"""Hypothesis strategies for worlds and their parts."""

from schedlab.testing.strategies.configs import configs, policies, snapshot_rules
from schedlab.testing.strategies.devices import costs, fault_plans, links
from schedlab.testing.strategies.loads import chats, crowds, resets, sessions, texts, times, turns
from schedlab.testing.strategies.worlds import hybrid_worlds, pressed_worlds, trace_blocks, worlds

__all__ = [
    "chats",
    "configs",
    "costs",
    "crowds",
    "fault_plans",
    "hybrid_worlds",
    "links",
    "policies",
    "pressed_worlds",
    "resets",
    "sessions",
    "snapshot_rules",
    "texts",
    "times",
    "trace_blocks",
    "turns",
    "worlds",
]
