"""The known formats, in the order in which a first line is tried against them."""

from __future__ import annotations

from traces.file_trace import Format
from traces.formats import (
    azure,
    bailian,
    burstgpt,
    llmservingsim,
    lmcache,
    mooncake,
    own,
    servegen,
    tracelab,
    vidur,
    vtc,
    weka,
)

FORMATS: tuple[Format, ...] = (
    own.CSV,
    own.JSONL,
    azure.FORMAT,
    burstgpt.FORMAT,
    vidur.FORMAT,
    vidur.LENGTHS,
    llmservingsim.CSV,
    llmservingsim.JSONL,
    bailian.FORMAT,
    lmcache.FORMAT,
    mooncake.FORMAT,
    tracelab.FORMAT,
    vtc.FORMAT,
    weka.FORMAT,
    servegen.FORMAT,
)
