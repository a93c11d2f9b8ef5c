"""Mutants that were written without a look at the attacks, and for which no attack was made afterwards: now none."""

from __future__ import annotations

from tests.mutants.mutant import Mutant

APART: tuple[Mutant, ...] = ()
