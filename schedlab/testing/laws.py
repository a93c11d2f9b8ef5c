"""Laws that the test machine adds to those of `schedlab.invariants`: liveness, and that a policy answers at all."""

from __future__ import annotations

from schedlab.errors import InvariantViolation

EVERY_RUN_ENDS = "every_run_ends"
PROGRESS = "progress_within_a_bound"
SOMETHING_IS_DUE = "something_is_due_while_requests_live"
BOUNDED_WAITING = "waiting_is_bounded"
POLICY_ANSWERS = "the_policy_answers"
SAME_INPUT = "same_input_same_decisions"

SENTENCES = {
    EVERY_RUN_ENDS: "When nothing more comes, every request ends and the scheduler shuts down.",
    PROGRESS: "Some request gets further within 32 ticks and two for each token of those that live.",
    SOMETHING_IS_DUE: "While a request lives, a step, a copy or a time is due that lets it go on.",
    BOUNDED_WAITING: "Later requests pass one that gets no further only so often, unless the policy may starve.",
    POLICY_ANSWERS: "Every question to the policy is answered, and the scheduler can use the answer.",
    SAME_INPUT: "The same requests at the same times are decided the same way.",
}


def broken(law: str, found: str) -> InvariantViolation:
    """The error of the law called `law`; `found` says what was seen, and whom it concerns."""
    return InvariantViolation(f"{law}: {found}")
