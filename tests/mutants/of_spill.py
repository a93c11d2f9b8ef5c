"""Wrong spill stores: budgets, checksums, files, locks, moves."""

from __future__ import annotations

from schedlab.memory.spill import codec, directory, files, image, store
from schedlab.memory.spill.store import SpillStore
from tests.mutants.mutant import Mutant, edit, mutant

MUTANTS: tuple[Mutant, ...] = (
    mutant(
        "spill budget not enforced",
        "an image is kept whatever the tier's budget",
        edit(SpillStore._reserved, "if size_bytes > room_bytes:", "if False:"),
        defect=6,
    ),
    mutant(
        "spill budget short by a byte",
        "an image that just fits is refused",
        edit(SpillStore._reserved, "size_bytes > room_bytes", "size_bytes >= room_bytes"),
    ),
    mutant(
        "bytes of a failed put stay",
        "an image that could not be kept takes budget",
        edit(SpillStore._reserved, "self._release(tier, size_bytes)", "pass"),
    ),
    mutant(
        "bytes of a dropped image stay",
        "a drop gives no budget back",
        edit(SpillStore.drop, "self._release(held.tier, image.size_bytes)", "pass"),
    ),
    mutant(
        "file of a dropped image stays",
        "a drop leaves the file",
        edit(SpillStore.drop, "self._erase(held)", "pass"),
    ),
    mutant(
        "dropped twice, freed twice",
        "a second drop gives the budget back again",
        edit(SpillStore.drop, "del self._live[image.image_id]", "pass"),
    ),
    mutant(
        "any handle will do",
        "a handle of another image drops what has its number",
        edit(SpillStore.drop, "if held is None or held.image != image:", "if held is None:"),
    ),
    mutant(
        "moved and kept",
        "a move leaves the file where it was",
        edit(SpillStore.move, "self._erase(old)", "pass"),
    ),
    mutant(
        "moved and counted twice",
        "a moved image counts in both tiers for good",
        edit(SpillStore.move, "self._release(old.tier, image.size_bytes)", "pass"),
    ),
    mutant(
        "moved in the wrong books",
        "a move gives back the budget of the tier that it goes to",
        edit(SpillStore.move, "self._release(old.tier, image.size_bytes)", "self._release(tier, image.size_bytes)"),
    ),
    mutant(
        "moved unverified",
        "a damaged image is moved as if it were whole",
        edit(SpillStore._relocate, "self._verified(held)", "self._read(held)"),
    ),
    mutant(
        "read unverified",
        "an image is read without a look at its checksum",
        edit(SpillStore._verified, "verify(content, held.image)", "pass"),
    ),
    mutant(
        "another image in its place",
        "a whole image that lies in the place of another is taken for it",
        edit(codec.verify, "if stated != image.checksum.encode():", "if False:"),
    ),
    mutant(
        "checksum of the header only",
        "the checksum covers no tensor",
        edit(codec.Layout.seal, ", *self.chunks])\n    prefix", "])\n    prefix"),
        edit(
            codec.verify,
            "content[CHECKSUM_STOP:]",
            "content[CHECKSUM_STOP : LENGTH_BYTES + int.from_bytes(content[:8], 'little')]",
        ),
    ),
    mutant(
        "short file accepted",
        "a file of another size is read as the image",
        edit(files._read_all, "if found.st_size != size_bytes:", "if False:"),
    ),
    mutant(
        "short write accepted",
        "a file that holds less than was written counts as written",
        edit(files._fill, "if held_bytes != size_bytes:", "if False:"),
    ),
    mutant(
        "one write only",
        "what a write did not take is not written",
        edit(files._fill, "rest = rest[written_bytes:]", "break"),
    ),
    mutant(
        "leftovers of a failed write",
        "a write that fails leaves its temporary file",
        edit(files.write_image, "remove_own(directory_fd, each)", "pass"),
    ),
    mutant(
        "links are followed",
        "a link in the place of an image is read",
        edit(files.read_image, "os.open(name, READ_FLAGS,", "os.open(name, READ_FLAGS & ~os.O_NOFOLLOW,"),
    ),
    mutant(
        "foreign files removed",
        "a start removes whatever lies in the directory",
        edit(files.remove_all_own, "if OWN_NAME.fullmatch(name):", "if True:"),
    ),
    mutant(
        "images of the dead stay",
        "a start leaves the images of dead processes",
        edit(directory.SpillDirectory.__init__, "remove_all_own(self._fd)", "pass"),
    ),
    mutant(
        "two holders",
        "two stores hold one directory",
        edit(directory._lock, "fcntl.flock(lock_fd, fcntl.LOCK_EX | fcntl.LOCK_NB)", "pass"),
    ),
    mutant(
        "a directory for all",
        "a directory that others may read is used",
        edit(directory._check_private, "found.st_mode & 0o077", "False"),
    ),
    mutant(
        "files stay when it closes",
        "a store that closes leaves its images",
        edit(directory.SpillDirectory.close, "remove_all_own(self._fd)", "pass"),
    ),
    mutant(
        "open after its end",
        "a closed store still takes images",
        edit(SpillStore.close, "self._closed = True", "pass"),
    ),
    mutant(
        "sampler state lost",
        "an image comes back without what the sampler needs",
        edit(
            store.SpillStore.put,
            "replace(header, image_id=self._new_id())",
            "replace(header, image_id=self._new_id(), sampler={})",
        ),
        defect=17,
    ),
    mutant(
        "adapter lost",
        "an image comes back without the adapter under which it was written",
        edit(
            image.ImageHeader.from_json, "values = json.loads(text)", 'values = {**json.loads(text), "adapter": None}'
        ),
        edit(image.ImageHeader.to_json, "if ImageHeader.from_json(text) != self:", "if False:"),
    ),
    mutant(
        "a header that does not survive",
        "values that JSON changes are taken",
        edit(image.ImageHeader.to_json, "if ImageHeader.from_json(text) != self:", "if False:"),
    ),
    mutant(
        "ids are used again",
        "two images have one number",
        edit(SpillStore._new_id, "self._next_id += 1", "self._next_id = 1"),
    ),
    mutant(
        "two movers",
        "two threads move one image at once",
        edit(SpillStore._only_mover, "held.moving = True", "pass"),
    ),
    mutant(
        "tensors may be written to",
        "what a read gives can change the image",
        edit(codec.decode, "content[data_start:].toreadonly()", "content[data_start:]"),
    ),
)
