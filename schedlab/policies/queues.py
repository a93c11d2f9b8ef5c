"""Queues of waiting requests."""

from __future__ import annotations

from collections import OrderedDict
from collections.abc import Callable, Iterator
from typing import Any, Protocol

from sortedcontainers import SortedKeyList

from schedlab.sequence import Sequence


class WaitingQueue(Protocol):
    """Requests that wait, in the order in which a policy considers them. No operation may cost O(length)."""

    def __len__(self) -> int: ...

    def push(self, sequence: Sequence) -> None: ...

    def remove(self, sequence: Sequence) -> None: ...

    def candidates(self) -> Iterator[Sequence]:
        """In the order of consideration, lazily. The queue is not changed while the iterator is in use."""
        ...


class FifoQueue(OrderedDict[Sequence, None]):
    """Arrival order."""

    __slots__ = ()

    def push(self, sequence: Sequence) -> None:
        self[sequence] = None

    def remove(self, sequence: Sequence) -> None:
        del self[sequence]

    def candidates(self) -> Iterator[Sequence]:
        return iter(self)


class KeyedQueue:
    """Ascending order of a key that does not change while a request waits."""

    __slots__ = ("_sequences", "key")

    def __init__(self, key: Callable[[Sequence], Any]) -> None:
        self.key = key
        self._sequences = SortedKeyList(key=key)

    def __len__(self) -> int:
        return len(self._sequences)

    def push(self, sequence: Sequence) -> None:
        self._sequences.add(sequence)

    def remove(self, sequence: Sequence) -> None:
        self._sequences.remove(sequence)

    def candidates(self) -> Iterator[Sequence]:
        return iter(self._sequences)
