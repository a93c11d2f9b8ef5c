"""Wrong prefix caches: keys, lookups, publishing, eviction."""

from __future__ import annotations

from schedlab.core import caching
from schedlab.core.scheduler import Scheduler
from schedlab.memory.prefix import CachingBlockPool
from schedlab.request import Prompt
from tests.mutants.mutant import Mutant, edit, mutant

MUTANTS: tuple[Mutant, ...] = (
    mutant(
        "cached block freed while shared",
        "the first of several holders makes a cached block idle",
        edit(CachingBlockPool._release_shared, "if left == 0:", "if left >= 0:"),
    ),
    mutant(
        "most recently used",
        "the most recently used idle block is evicted first",
        edit(
            CachingBlockPool._release_shared,
            "tail = previous[end]\n                following[tail] = previous[end] = block\n"
            "                previous[block] = tail\n                following[block] = end",
            "head = following[end]\n                previous[head] = following[end] = block\n"
            "                following[block] = head\n                previous[block] = end",
        ),
    ),
    mutant(
        "first block first",
        "idle blocks are evicted from the beginning of a prompt on",
        edit(CachingBlockPool.release, "leaving = blocks[::-1]", "leaving = blocks[:]"),
    ),
    mutant(
        "stale key",
        "an evicted block can still be found",
        edit(CachingBlockPool._empty, "del known[key]", "pass"),
    ),
    mutant(
        "lookup beyond the end",
        "a lookup may give a block more than was asked for",
        edit(CachingBlockPool.lookup, "keys[:most]", "keys[: most + 1]"),
    ),
    mutant(
        "lookup with holes",
        "a lookup goes on behind the first block that is not known",
        edit(CachingBlockPool.lookup, "break", "continue"),
    ),
    mutant(
        "held but idle",
        "a held block stays on the idle list",
        edit(CachingBlockPool.hold, "if references[block] == 0:", "if references[block] < 0:"),
    ),
    mutant(
        "late duplicate kept",
        "a late duplicate of a known block is not given back",
        edit(CachingBlockPool.publish, "self.release([block])", "pass"),
    ),
    mutant(
        "the later one is known",
        "a late duplicate takes the key from the block that has it",
        edit(CachingBlockPool.publish, "elif found != block:", "elif found != block and known.update({key: block}):"),
    ),
    mutant(
        "version stands still",
        "answers of former lookups stay when blocks were evicted",
        edit(CachingBlockPool._empty, "self.version += 1", "pass"),
    ),
    mutant(
        "publishing is no news",
        "answers of former lookups stay when blocks were published",
        edit(CachingBlockPool.publish, "self.version += 1", "pass"),
    ),
    mutant(
        "short by one idle block",
        "the last idle block cannot be had",
        edit(CachingBlockPool._empty, "if missing > self._num_idle:", "if missing >= self._num_idle:"),
    ),
    mutant(
        "idle blocks are used",
        "idle blocks count as used",
        edit(CachingBlockPool.used_blocks, " - self._num_idle", ""),
    ),
    mutant(
        "whole prompt cached",
        "a prompt that is cached whole has nothing left to compute",
        edit(caching._look_up, "(sequence.num_known - 1) // size", "sequence.num_known // size"),
    ),
    mutant(
        "published early",
        "the block that a chunk has begun can be found",
        edit(
            caching.publish_prompt,
            "min(sequence.num_computed // core.config.block_size, len(keys))",
            "min(len(sequence.block_table), len(keys))",
        ),
    ),
    mutant(
        "adapter not in the key",
        "prompts for different adapters share blocks",
        edit(caching._namespace, "return request.adapter,", 'return "",'),
    ),
    mutant(
        "salt not in the key",
        "prompts with different salts share blocks",
        edit(caching._namespace, "request.cache_salt,", '"",'),
    ),
    mutant(
        "tenant not in the key",
        "prompts of different tenants share blocks though they must not",
        edit(caching._namespace, 'request.tenant if core.config.cache_per_tenant else ""', '""'),
    ),
    mutant(
        "output keys without a name",
        "blocks that outputs filled are shared whatever the adapter, salt and tenant",
        edit(caching.learn_output_keys, "keys += pool.in_namespace(more, _namespace(core, sequence))", "keys += more"),
    ),
    mutant(
        "trace parts mixed up",
        "the parts of a trace's block have the keys of those of another",
        edit(Prompt.block_keys, "key * len(parts) + part", "key + part"),
    ),
    mutant(
        "first id of a block",
        "where our block has several ids of the trace, the first stands for it",
        edit(Prompt.block_keys, "self.hash_ids[step - 1 :: step]", "self.hash_ids[::step]"),
    ),
    mutant(
        "shared block written",
        "a sequence goes on in the last cached block, as if it were its own",
        edit(
            caching.take_prefix,
            "sequence.num_computed = len(found) * core.config.block_size",
            "sequence.num_computed = len(found) * core.config.block_size - 1",
        ),
    ),
    mutant(
        "no hold on what was found",
        "a sequence takes cached blocks without a reference",
        edit(caching.take_prefix, "core.pool.hold(found)", "pass"),
    ),
    mutant(
        "published counts stay",
        "a sequence that lost its blocks believes that they are published",
        edit(caching.forget_prefix, "sequence.published_blocks = 0", "pass"),
    ),
    mutant(
        "errors are cached",
        "what a failed sequence has computed can be found",
        edit(Scheduler.end, "and reason is not FinishReason.ERROR", ""),
    ),
)
