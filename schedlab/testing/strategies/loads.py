"""What comes: requests with any end, alone, together, in bursts, in sessions, with texts that begin alike."""

from __future__ import annotations

from hypothesis import strategies as st

from schedlab.testing.world import UNLIMITED, Reset, Session, Text, Turn


def times(unit_ns: int) -> st.SearchStrategy[int]:
    """Times that meet one another and the ends of even steps, and some that do not."""
    return st.one_of(
        st.integers(0, 30).map(lambda count: count * unit_ns), st.integers(0, 30 * unit_ns), st.integers(0, 3)
    )


@st.composite
def turns(draw: st.DrawFn, unit_ns: int) -> Turn:
    """A request with any end: natural, by its limit, by its deadline, cancelled, refused."""
    rarely = st.integers(0, 4).map(lambda number: number == 4)
    return Turn(
        prompt_tokens=draw(st.one_of(st.integers(1, 12), st.integers(1, 12), st.integers(1, 80))),
        output_tokens=draw(st.one_of(st.integers(0, 2), st.integers(0, 40))),
        max_tokens=draw(st.one_of(st.just(UNLIMITED), st.integers(0, 2), st.integers(0, 40))),
        priority=draw(st.integers(0, 2)),
        timeout_ns=draw(times(unit_ns)) if draw(rarely) else None,
        cancel_ns=draw(times(unit_ns)) if draw(rarely) else None,
        think_ns=draw(st.one_of(st.just(0), times(unit_ns))),
    )


def resets(unit_ns: int) -> st.SearchStrategy[tuple[Reset, ...]]:
    """None, or a few."""
    return st.just(()) | st.lists(st.builds(Reset, times(unit_ns), st.booleans()), max_size=3).map(tuple)


@st.composite
def texts(draw: st.DrawFn, hash_block_tokens: int | None) -> Text | None:
    """Prompts that begin alike; or nothing but lengths."""
    if hash_block_tokens is None or draw(st.booleans()):
        return None
    return Text(
        family=draw(st.integers(0, 2)),
        shared_tokens=draw(st.integers(0, 60)),
        hash_block_tokens=hash_block_tokens,
        grows=draw(st.booleans()),
        salt=draw(st.sampled_from(("", "", "a", "b"))),
        tenant=draw(st.sampled_from(("", "x", "y"))),
    )


@st.composite
def sessions(
    draw: st.DrawFn, unit_ns: int, most: int = 14, hash_block_tokens: int | None = None
) -> tuple[Session, ...]:
    """Arrivals alone, together, in bursts; a few with later turns. Without trace blocks they have no text."""
    drawn = []
    for _ in range(draw(st.integers(1, most))):
        num_turns = draw(st.sampled_from((1, 1, 1, 2, 3)))
        later_turns = tuple(draw(turns(unit_ns)) for _ in range(num_turns))
        drawn.append(Session(draw(times(unit_ns)), later_turns, draw(texts(hash_block_tokens))))
    return tuple(drawn)


@st.composite
def crowds(draw: st.DrawFn, unit_ns: int, hash_block_tokens: int) -> tuple[Session, ...]:
    """Short prompts with long outputs, close together: they all come in and then outgrow the pool."""
    drawn = []
    for _ in range(draw(st.integers(2, 10))):
        turn = draw(turns(unit_ns))._replace(
            prompt_tokens=draw(st.integers(1, 8)), output_tokens=draw(st.integers(4, 30)), max_tokens=UNLIMITED
        )
        drawn.append(Session(draw(st.integers(0, 5)) * unit_ns, (turn,), draw(texts(hash_block_tokens))))
    return tuple(drawn)


@st.composite
def chats(draw: st.DrawFn, unit_ns: int, hash_block_tokens: int) -> Session:
    """Each turn begins with all that was said before; two families, and now and then a client that leaves."""
    drawn = []
    for _ in range(draw(st.integers(2, 4))):
        cancel_ns = draw(st.sampled_from((None, None, None, 9 * unit_ns, 30 * unit_ns)))
        tokens, output_tokens = draw(st.integers(1, 30)), draw(st.integers(1, 40))
        think_ns = draw(st.sampled_from((0, 3 * unit_ns, 50 * unit_ns)))
        drawn.append(Turn(tokens, output_tokens, cancel_ns=cancel_ns, think_ns=think_ns))
    text = Text(draw(st.integers(0, 1)), draw(st.integers(0, 60)), hash_block_tokens, grows=True)
    return Session(draw(st.integers(0, 20)) * unit_ns, tuple(drawn), text)
