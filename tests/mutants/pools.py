"""Attacks on the pools of blocks and slots: long runs of any operations, beside models that keep plain lists."""

from __future__ import annotations

from functools import partial
from random import Random

from schedlab.errors import KvExhausted
from schedlab.memory.blocks import BlockPool
from schedlab.memory.prefix import CachingBlockPool
from schedlab.memory.slots import SlotTable
from schedlab.request import Prompt, Request
from schedlab.sequence import Sequence
from tests.mutants.attack import Attack
from tests.mutants.pool_models import Copy, PoolModel, SlotModel

OPERATIONS = 60
RUNS = 20
TEXTS = 3
LONGEST = 5


class Reader:
    """Holds a table; its text's blocks have these keys."""

    def __init__(self, text: int, table: list[int], published: int) -> None:
        self.text = text
        self.table = table
        self.published = published
        # Blocks of its beginning that it has let go.
        self.gone = 0


class PoolRun:
    """A pool and its model, and who uses both alike."""

    def __init__(self, kind: type[BlockPool], seed: int) -> None:
        self._chance = Random(seed)
        total = self._chance.randint(1, 14)
        self._pool, self._model = kind(total), PoolModel(total)
        self._readers: list[Reader] = []
        self._copies: list[Copy] = []
        self._num_copies = 0
        self._acts = [self._come, self._come, self._leave, self._copy, self._end_copy, self._share, self._reset]
        self._acts += [self._take_tickets]
        if isinstance(self._pool, CachingBlockPool):
            self._acts += [self._publish, self._publish, self._let_go]

    def run(self) -> None:
        for _ in range(OPERATIONS):
            answers, version = self._answers(), self._version()
            self._chance.choice(self._acts)()
            self._compare()
            assert answers == self._answers() or version != self._version(), "a lookup changes and the version stays"

    def _come(self) -> None:
        pool, model, text = self._pool, self._model, self._chance.randrange(TEXTS)
        length, found = self._chance.randint(0, LONGEST), list[int]()
        if isinstance(pool, CachingBlockPool):
            found = pool.lookup(keys_of(text), self._chance.randint(0, length))
            pool.hold(found)
            model.hold(found)
        taken = model.allocate(length - len(found))
        try:
            table = pool.allocate(length - len(found))
        except KvExhausted:
            assert taken is None, f"{taken} could be had"
            assert pool.release(found) == model.release(found)
        else:
            assert table == taken, f"{table} are handed out, should be {taken}"
            self._readers.append(Reader(text, found + table, len(found)))

    def _leave(self) -> None:
        if not self._readers:
            return
        reader = self._readers.pop(self._chance.randrange(len(self._readers)))
        if self._chance.random() < 0.4:
            copy = self._new_copy()
            self._model.keep_open(reader.table, copy)
            freed = self._pool.release_after(reader.table, copy)
        else:
            freed = self._pool.release(reader.table)
        expected = self._model.release(reader.table)
        assert freed == expected, f"{freed} blocks come free, should be {expected}"

    def _copy(self) -> None:
        """A copy begins that reads a part of a table."""
        if self._readers:
            table = self._chance.choice(self._readers).table
            blocks, copy = table[: self._chance.randint(0, len(table))], self._new_copy()
            self._pool.keep_open(blocks, copy)
            self._model.keep_open(blocks, copy)

    def _end_copy(self) -> None:
        if self._copies:
            copy = self._copies.pop(self._chance.randrange(len(self._copies)))
            self._pool.close(copy)
            self._model.close(copy)

    def _share(self) -> None:
        if self._readers:
            other = self._chance.choice(self._readers)
            blocks = other.table[: self._chance.randint(0, len(other.table))]
            self._pool.share(blocks)
            for block in blocks:
                self._model.holders[block] += 1
            twin = Reader(other.text, list(blocks), min(other.published, len(blocks)))
            twin.gone = other.gone
            self._readers.append(twin)

    def _reset(self) -> None:
        if self._chance.random() < 0.2:
            while self._readers:
                self._leave()
        assert self._pool.reset() == self._model.reset()

    def _take_tickets(self) -> None:
        found, self._model.tickets, expected = self._pool.take_tickets(), set(), self._model.tickets
        assert sorted(found, key=lambda copy: copy.number) == sorted(expected), f"{found}, should be {expected}"

    def _publish(self) -> None:
        pool, reader = self._pool, self._chance.choice(self._readers or [Reader(0, [], 0)])
        assert isinstance(pool, CachingBlockPool)
        first, end = reader.published, len(reader.table)
        if reader.gone or first == end:
            return
        last, table = self._chance.randint(first, end), list(reader.table)
        replaced = pool.publish(keys_of(reader.text), reader.table, first, last)
        expected = sum(ours != theirs for ours, theirs in zip(table, reader.table, strict=True))
        assert replaced == expected, f"{replaced} replaced, {expected} are others"
        self._model.publish(keys_of(reader.text), table, first, last)
        assert table == reader.table
        reader.published = last

    def _let_go(self) -> None:
        """The beginning of a table leaves, and nobody finds it."""
        pool, reader = self._pool, self._chance.choice(self._readers or [Reader(0, [], 0)])
        assert isinstance(pool, CachingBlockPool)
        count = self._chance.randint(0, len(reader.table))
        leaving, reader.table = reader.table[:count], reader.table[count:]
        for one in (pool, self._model):
            one.hide(leaving)
            one.release(leaving)
        reader.gone += count

    def _compare(self) -> None:
        pool, model = self._pool, self._model
        found: dict[str, object] = {
            "empty": list(pool.free_list())[::-1],
            "references": list(pool.reference_counts()),
            "free": pool.free_blocks,
            "used": pool.used_blocks,
            "ready": pool.ready_blocks,
            "cached": pool.cached_blocks,
            "evicted": pool.num_evicted,
        }
        ready = pool.free_list()[::-1][: pool.ready_blocks]
        assert not model.reader.keys() & {*ready}, f"of {ready}, copies read {sorted(model.reader)}"
        used = sum(map(bool, model.holders))
        expected: dict[str, object] = {
            "empty": model.empty,
            "references": model.holders,
            "free": model.total - used,
            "used": used,
            "ready": model.ready,
            "cached": len(model.key),
            "evicted": model.evicted,
        }
        if isinstance(pool, CachingBlockPool):
            found |= {"idle": list(pool.idle_list()), "keys": list(pool.keys()), "answers": self._answers()}
            answers = [model.lookup(keys_of(text), LONGEST) for text in range(TEXTS)]
            keys = [model.key.get(block) for block in range(model.total)]
            expected |= {"idle": model.idle, "keys": keys, "answers": answers}
        for name, value in expected.items():
            assert found[name] == value, f"{name}: {found[name]}, should be {value}"

    def _answers(self) -> list[list[int]]:
        pool = self._pool
        if not isinstance(pool, CachingBlockPool):
            return []
        return [pool.lookup(keys_of(text), LONGEST) for text in range(TEXTS)]

    def _version(self) -> int:
        return self._pool.version if isinstance(self._pool, CachingBlockPool) else 0

    def _new_copy(self) -> Copy:
        self._num_copies += 1
        self._copies.append(copy := Copy(self._num_copies))
        return copy


def keys_of(text: int) -> list[int]:
    return [100 * text + number for number in range(LONGEST)]


def pools_do_as_their_model(kind: type[BlockPool]) -> None:
    for seed in range(RUNS):
        PoolRun(kind, seed).run()


def slots_do_as_their_model() -> None:
    """Claims, releases, copies that begin and end, and compactions."""
    for seed in range(RUNS):
        chance, copies, number = Random(seed), list[Copy](), 0
        total = chance.randint(1, 6)
        table, model, owners = SlotTable(total), SlotModel(total), list[Sequence]()
        for step in range(OPERATIONS):
            act = chance.randrange(5)
            if act < 2 and len(owners) < total:
                owners.append(one := Sequence(Request(step, Prompt(4), 9), step, 9))
                reader = table.claim(one)
                assert (one.slot, reader) == (expected := model.claim(step)), f"{one.slot, reader}, {expected}"
            elif act == 2 and owners:
                one = owners.pop(chance.randrange(len(owners)))
                if chance.random() < 0.6:
                    copies.append(Copy(number := number + 1))
                    table.keep_open(one.slot, copies[-1])
                    model.user[one.slot] = copies[-1]
                model.release(one.slot)
                table.release(one)
            elif act == 3 and copies:
                copy = copies.pop(chance.randrange(len(copies)))
                table.close(copy)
                model.close(copy)
            elif act == 4:
                moved = [(one.request_id, source, target) for one, source, target in table.moves(owners, len(owners))]
                expected_moves = model.moves([one.request_id for one in owners], len(owners))
                assert moved == expected_moves, f"{moved}, should be {expected_moves}"
            found = {slot: one.request_id for slot in range(total) if (one := table.owner(slot))}
            assert found == model.owner == {one.slot: one.request_id for one in owners}
            assert [slot for slot in range(total) if table.is_open(slot)] == sorted(model.user)


def pool_attacks() -> list[Attack]:
    """All of them."""
    return [
        Attack("pools: BlockPool", partial(pools_do_as_their_model, BlockPool)),
        Attack("pools: CachingBlockPool", partial(pools_do_as_their_model, CachingBlockPool)),
        Attack("pools: slots", slots_do_as_their_model),
    ]
