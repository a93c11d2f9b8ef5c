"""What a scheduler under test has, so that laws about it are judged. Told as what a step needs for that."""

from __future__ import annotations

from enum import StrEnum

from schedlab.core.scheduler import Scheduler
from schedlab.policies.base import Policy
from schedlab.policies.priority import Priority
from schedlab.testing.liveness import bounds_waiting


class Feature(StrEnum):
    """Of a configuration, its device and its policy; the value says it to a reader."""

    COMMITMENTS = "admission by commitments"
    DENSE_SLOTS = "a device that wants dense slots"
    IMMUNITY = "immunity of those that return"
    ONE_LINE = "one line for preempted and new requests"
    PREFIX_CACHE = "a prefix cache"
    SNAPSHOTS = "a cache of states, for hybrid models"
    STATES = "states that sequences carry, of hybrid models"
    SWAP = "swapping"
    SWAP_AT_ADMISSION = "swap-out at admission"
    WINDOWS = "windows on disk"
    BOUNDED = "a policy and a victim rule that let nobody starve"
    EVICTION = "a priority policy that evicts"
    RULE_ADMITS = "a policy that leaves `admit` to the configured rule"
    RULE_COMPOSES = "a policy that leaves `compose` to the configured rule"
    RULE_CHOOSES_VICTIMS = "a policy that leaves `yield_` to the configured rule"


def features_of(core: Scheduler) -> tuple[Feature, ...]:
    """Those that it has."""
    config, policy, kind = core.config, core.policy, type(core.policy)
    has = {
        Feature.COMMITMENTS: core.ledger is not None,
        Feature.DENSE_SLOTS: core.device.facts.wants_dense_slots,
        Feature.IMMUNITY: config.immunity_tokens > 0,
        Feature.ONE_LINE: core.in_line,
        Feature.PREFIX_CACHE: config.prefix_cache,
        Feature.SNAPSHOTS: core.snapshots is not None,
        Feature.STATES: core.device.facts.state_bytes > 0,
        Feature.SWAP: config.uses_swap,
        Feature.SWAP_AT_ADMISSION: config.swap_at_admission,
        Feature.WINDOWS: config.window_blocks > 0,
        Feature.BOUNDED: bounds_waiting(core),
        Feature.EVICTION: isinstance(policy, Priority) and policy.evict,
        Feature.RULE_ADMITS: kind.admit is Policy.admit,
        Feature.RULE_COMPOSES: kind.compose is Policy.compose,
        Feature.RULE_CHOOSES_VICTIMS: kind.yield_ is Policy.yield_,
    }
    return tuple(feature for feature, is_there in has.items() if is_there)
