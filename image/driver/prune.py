"""prune.py FROM TO CAPABILITY..: copies a CUDA library with only the GPU code that GPUs of these compute capabilities run.

The code is in containers ("fat binaries"): a header of 16 bytes (magic, version, header size, size of
what follows), then entries: a header (kind 1 PTX or 2 ELF, its own size, the payload's size, at byte 28
the architecture) and a payload. Payloads that are not kept become zeros; headers, sizes and all other
bytes stay, so every address in the library stays valid. The driver chooses an entry by its header and
never looks into those that it does not choose. Zeros cost nothing in the image.
"""

import struct
import sys

MAGIC = b"\x50\xed\x55\xba"
PTX, ELF = 1, 2
# Written by the device linker for every library, a few bytes each, whatever the library was built for.
STUB = 52


def fail(why):
    sys.exit(f"firstlight: error: {sys.argv[1]}: {why}")


def containers(data):
    """Start and end of the entries of each container."""
    at = data.find(MAGIC)
    while at >= 0:
        version, header, size = struct.unpack_from("<HHQ", data, at + 4)
        if version == 1 and header == 16 and at + header + size <= len(data):
            yield at + header, at + header + size
            at += size
        at = data.find(MAGIC, at + header if version == 1 else at + 4)


def entries(data, at, end):
    """(kind, architecture, payload's start, payload's end) of each entry."""
    while at < end:
        if end - at < 32:
            fail(f"a container's entry at {at:#x} is cut off")
        kind, _, header, payload = struct.unpack_from("<HHIQ", data, at)
        (arch,) = struct.unpack_from("<I", data, at + 28)
        start, at = at + header, at + header + payload
        if kind not in (PTX, ELF) or header < 32 or at > end:
            fail(f"a container's entry before {start:#x} is not understood")
        yield kind, arch, start, at


def prune(data, keep):
    """Overwrites payloads that are not kept with zeros; returns {(kind, architecture): [entries, bytes, kept]}."""
    seen = {}
    for first, last in containers(data):
        for kind, arch, start, end in entries(data, first, last):
            kept = arch == STUB or (kind == ELF and arch in keep)
            count = seen.setdefault((kind, arch), [0, 0, kept])
            count[0] += 1
            count[1] += end - start
            if not kept:
                data[start:end] = bytes(end - start)
    return seen


def code_for(capability, there):
    """The architecture whose code a GPU of a compute capability runs: code runs on its own major version, from its minor version
    on (CUDA C++ Programming Guide, "Binary Compatibility")."""
    major, minor = capability.split(".")
    fits = [arch for arch in there if arch // 10 == int(major) and arch % 10 <= int(minor)]
    if not fits:
        fail(f"there is no code for GPUs of compute capability {capability} in it, only {' '.join(f'sm_{arch}' for arch in sorted(there))}")
    return max(fits)


def main(source, target, capabilities):
    with open(source, "rb") as file:
        data = bytearray(file.read())
    found = [(kind, arch) for first, last in containers(data) for kind, arch, _, _ in entries(data, first, last)]
    there = {arch for kind, arch in found if kind == ELF and arch != STUB}
    keep = {code_for(capability, there) for capability in capabilities}
    seen = prune(data, keep)
    if all(kept for _, _, kept in seen.values()):
        fail("there is no GPU code in it that could be dropped: nothing pruned")
    with open(target, "wb") as file:
        file.write(data)
    for (kind, arch), (count, size, kept) in sorted(seen.items()):
        name = f"sm_{arch}" if kind == ELF else f"PTX compute_{arch}"
        print(f"{'kept   ' if kept else 'dropped'}  {name:15}  {count:4} pieces  {size:10} bytes")


if __name__ == "__main__":
    main(sys.argv[1], sys.argv[2], sys.argv[3:])
