"""The same settings of Hypothesis as the property tests."""

from tests.property import conftest as conftest
