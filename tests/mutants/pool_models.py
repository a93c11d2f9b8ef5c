"""A pool of blocks and a table of slots as plain lists, looked through every time: what the real ones should do."""

from __future__ import annotations

from typing import NamedTuple


class Copy(NamedTuple):
    """A ticket."""

    number: int


class PoolModel:
    """Who holds what, which blocks have a key, and in which order free ones go out, said as directly as possible."""

    def __init__(self, total: int) -> None:
        self.total = total
        self.holders = [0] * total
        self.key: dict[int, int] = {}
        self.empty = list(range(total))  # the next to go out first
        self.idle: list[int] = []  # the next to be emptied first
        self.reader: dict[int, Copy] = {}
        self.tickets: set[Copy] = set()
        self.evicted = 0

    def allocate(self, count: int) -> list[int] | None:
        if count > len(self.empty) + len(self.idle):
            return None
        self.evict(max(0, count - len(self.empty)))
        taken, self.empty = self.empty[:count], self.empty[count:]
        for block in taken:
            self.holders[block] = 1
            if block in self.reader:
                self.tickets.add(self.reader[block])
        return taken

    def evict(self, count: int) -> None:
        """They go out behind all that is empty, the oldest first, and before what a copy reads."""
        for block in self.idle[:count]:
            del self.key[block]
        self.empty += self.idle[:count]
        self.read_last()
        self.evicted += count
        self.idle = self.idle[count:]

    def read_last(self) -> None:
        self.empty.sort(key=lambda block: block in self.reader)

    def release(self, table: list[int]) -> int:
        """A table goes out again in its order, before other empty blocks, but behind them all what a copy reads."""
        freed, empty = 0, list[int]()
        for block in reversed(table):
            self.holders[block] -= 1
            if self.holders[block]:
                continue
            freed += 1
            if block in self.key:
                self.idle.append(block)
            else:
                empty.insert(0, block)
        waiting = [block for block in empty if block in self.reader]
        self.empty = [block for block in empty if block not in self.reader] + self.empty + waiting
        return freed

    def keep_open(self, blocks: list[int], copy: Copy) -> None:
        self.reader.update((block, copy) for block in blocks)

    def close(self, copy: Copy) -> None:
        self.reader = {block: reader for block, reader in self.reader.items() if reader != copy}
        self.read_last()

    @property
    def ready(self) -> int:
        """Idle ones go out behind all that is empty, so they are not ready while a copy reads anything."""
        if not self.reader:
            return len(self.empty) + len(self.idle)
        return sum(block not in self.reader for block in self.empty)

    def hold(self, blocks: list[int]) -> None:
        for block in blocks:
            if block in self.idle:
                self.idle.remove(block)
            self.holders[block] += 1

    def publish(self, keys: list[int], table: list[int], first: int, last: int) -> None:
        for index in range(first, last):
            known = self.find(keys[index])
            if known is None:
                self.key[table[index]] = keys[index]
            elif known != table[index]:
                self.hold([known])
                self.release([table[index]])
                table[index] = known

    def find(self, key: int) -> int | None:
        return next((block for block, own in self.key.items() if own == key), None)

    def lookup(self, keys: list[int], most: int) -> list[int]:
        found: list[int] = []
        for key in keys[:most]:
            block = self.find(key)
            if block is None:
                break
            found.append(block)
        return found

    def hide(self, blocks: list[int]) -> None:
        for block in blocks:
            if self.holders[block] == 1:
                self.key.pop(block, None)

    def reset(self) -> bool:
        if any(self.holders):
            return False
        self.evict(len(self.idle))
        return True


class SlotModel:
    """Who owns which slot, and which a copy still uses."""

    def __init__(self, total: int) -> None:
        self.owner: dict[int, int] = {}
        self.free = list(range(total))
        self.user: dict[int, Copy] = {}

    def claim(self, owner: int) -> tuple[int, Copy | None]:
        """The lowest that no copy uses, or else the lowest; and the copy that uses it."""
        slot = min(self.free, key=lambda one: (one in self.user, one))
        self.free.remove(slot)
        self.owner[slot] = owner
        return slot, self.user.pop(slot, None)

    def release(self, slot: int) -> None:
        del self.owner[slot]
        self.free.append(slot)

    def close(self, copy: Copy) -> None:
        self.user = {slot: user for slot, user in self.user.items() if user != copy}

    def moves(self, owners: list[int], count: int) -> list[tuple[int, int, int]]:
        """Each from a slot above to the lowest below that is free and that no copy uses."""
        moved = []
        for owner in owners:
            source = next(slot for slot, one in self.owner.items() if one == owner)
            targets = [slot for slot in self.free if slot < count and slot not in self.user]
            if source < count or not targets:
                continue
            target = min(targets)
            self.free.remove(target)
            self.free.append(source)
            del self.owner[source]
            self.owner[target] = owner
            moved.append((owner, source, target))
        return moved
