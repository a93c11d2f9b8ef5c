"""Laws that the test machine adds to those of `schedlab.invariants`: liveness, and that a policy answers at all."""

from __future__ import annotations

from schedlab.law import Law, When

EVERY_RUN_ENDS = Law(
    "every_run_ends", "When nothing more comes, every request ends and the scheduler shuts down.", When.TICK
)
PROGRESS = Law(
    "somebody_gets_further",
    "Some request gets further than ever before within 32 ticks and two more for each token of those that live "
    "and each copy that is under way.",
    When.TICK,
)
SOMETHING_IS_DUE = Law(
    "something_is_due",
    "While a request lives, something is due that lets it go on: a step, a copy, or a time.",
    When.TICK,
)
BOUNDED_WAITING = Law(
    "waiting_is_bounded",
    "Requests that came later pass one that gets no further only so often, unless the policy says that it may starve, "
    "or more is promised than the pool has and those with the fewest outputs give way.",
    When.EVENT,
)
POLICY_ANSWERS = Law(
    "the_policy_answers", "The policy answers every question, and the scheduler can use the answer.", When.CALL
)
POLICY_LOOKS_ON = Law(
    "the_policy_only_looks",
    "A question changes nothing: a policy looks at requests and scheduler, and answers.",
    When.CALL,
)
KEY_STAYS = Law(
    "a_key_stays",
    "The key that gives a request its place in line does not change while it stands there.",
    When.CALL,
)
# Processor time without the end of a tick; a tick takes less than a thousandth of a second.
MOST_CALL_S = 10.0
CALLS_RETURN = Law(
    "every_call_returns",
    f"Every call of the policy returns within {MOST_CALL_S:g} s of processor time, and with the memory that there is.",
    When.CALL,
)
SAME_INPUT = Law(
    "same_input_same_decisions",
    "The same requests at the same times are decided the same way: no clock, no global, no randomness but a seeded "
    "generator that the policy makes in its __init__.",
    When.CALL,
)
TESTING_LAWS = (
    EVERY_RUN_ENDS,
    PROGRESS,
    SOMETHING_IS_DUE,
    BOUNDED_WAITING,
    POLICY_ANSWERS,
    POLICY_LOOKS_ON,
    KEY_STAYS,
    CALLS_RETURN,
    SAME_INPUT,
)
