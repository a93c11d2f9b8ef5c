"""Where a device keeps the KV images of swapped-out sequences: a host tier and a disk tier, each with a byte budget.

with SpillStore(host_bytes, disk_bytes, directory) as store:
    image = store.put(Tier.DISK, header, tensors)     # TierFull, DiskFull, ...: nothing remains, choose otherwise
    header, tensors = store.get(image)                # CorruptImage, ImageVanished: recompute
    store.drop(image)
"""

from schedlab.memory.spill.errors import (
    CorruptImage,
    DiskFull,
    ImageVanished,
    ShortWrite,
    SpillError,
    SpillUnavailable,
    TierFull,
)
from schedlab.memory.spill.image import ImageHandle, ImageHeader, TensorBytes
from schedlab.memory.spill.store import SpillStore
from schedlab.memory.swap import Tier

__all__ = [
    "CorruptImage",
    "DiskFull",
    "ImageHandle",
    "ImageHeader",
    "ImageVanished",
    "ShortWrite",
    "SpillError",
    "SpillStore",
    "SpillUnavailable",
    "TensorBytes",
    "Tier",
    "TierFull",
]
