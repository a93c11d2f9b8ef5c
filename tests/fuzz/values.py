"""Strategies for values that nobody would write, and for damage to what somebody wrote."""

from __future__ import annotations

from hypothesis import strategies as st

ODD_NUMBERS = st.sampled_from((0, -1, 1 << 31, 1 << 63, -(1 << 63), 10**30, 1e308, -1e-300, float("nan"), float("inf")))
ODD_TEXTS = st.sampled_from(
    (
        "",
        " ",
        "0",
        "-1",
        "1e400",
        "NaN",
        "9" * 5_000,
        "\x00",
        "é",
        "1.5",
        "true",
        "null",
        "../x",
        "%s",
        "1_000",
        "٣",
        "\ud800",
    )
)
SCALARS = st.one_of(st.none(), st.booleans(), st.integers(), st.floats(), st.text(max_size=20), ODD_NUMBERS, ODD_TEXTS)
VALUES = st.recursive(
    SCALARS,
    lambda inner: st.lists(inner, max_size=4) | st.dictionaries(st.text(max_size=8), inner, max_size=4),
    max_leaves=12,
)


@st.composite
def damaged(draw: st.DrawFn, content: bytes) -> bytes:
    """`content` with a few stretches cut, repeated or replaced."""
    for _ in range(draw(st.integers(1, 4))):
        start = draw(st.integers(0, len(content)))
        stop = min(len(content), start + draw(st.sampled_from((0, 1, 2, 8, 64, 1 << 20))))
        piece = draw(st.one_of(st.binary(max_size=12), ODD_TEXTS.map(_encoded), st.just(content[start:stop] * 2)))
        content = content[:start] + piece + content[stop:]
    return content


def _encoded(text: str) -> bytes:
    return text.encode("utf-8", "surrogatepass")
