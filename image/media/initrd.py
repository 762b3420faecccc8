"""initrd.py: reads an initrd of ours: archives in cpio's format newc, each compressed by zstd as one frame, one after the
other. The system's archive comes first; the driver's and the identity of the whole image follow it. Imported by scripts that
run in the tools tree.
"""

import subprocess

MAGIC = 0xFD2FB528


class Damaged(Exception):
    """The bytes are not what they should be; the text says what and where."""


def number(data, at, size):
    """A little-endian number."""
    if at + size > len(data):
        raise Damaged(f"the initrd ends within a zstd frame, at byte {len(data)}")
    return int.from_bytes(data[at : at + size], "little")


def frame_end(data, at):
    """Where the zstd frame that begins at `at` ends (RFC 8878, section 3.1.1)."""
    if number(data, at, 4) != MAGIC:
        raise Damaged(f"the initrd has no zstd frame at byte {at}")
    descriptor = number(data, at + 4, 1)
    single, checksum, dictionary = descriptor >> 5 & 1, descriptor >> 2 & 1, (0, 1, 2, 4)[descriptor & 3]
    content = (single, 2, 4, 8)[descriptor >> 6]
    at += 5 + (not single) + dictionary + content
    while True:
        header = number(data, at, 3)
        last, kind, size = header & 1, header >> 1 & 3, header >> 3
        if kind == 3:
            raise Damaged(f"the initrd has a damaged zstd frame, at byte {at}")
        at += 3 + (1 if kind == 1 else size)
        if last:
            break
    at += 4 * checksum
    if at > len(data):
        raise Damaged(f"the initrd ends within a zstd frame, at byte {len(data)}")
    return at


def frames(data):
    """The frames of an initrd, each still compressed."""
    found, at = [], 0
    while at < len(data):
        end = frame_end(data, at)
        found.append(data[at:end])
        at = end
    return found


def unpacked(frame):
    """A frame's content, whose checksum zstd compares if it has one."""
    done = subprocess.run(["zstd", "-dcq", "--long=27"], input=frame, capture_output=True, check=False)
    if done.returncode:
        raise Damaged(f"the initrd cannot be unpacked: {done.stderr.decode(errors='replace').strip()}")
    return done.stdout


def entries(plain):
    """(path, mode, content) of everything in one archive."""
    at = 0
    while True:
        header = plain[at : at + 110]
        if len(header) < 110 or header[:6] != b"070701":
            raise Damaged(f"the initrd is not a cpio archive at byte {at}")
        mode, size, name_size = (int(header[6 + 8 * n : 14 + 8 * n], 16) for n in (1, 6, 11))
        name = plain[at + 110 : at + 109 + name_size].decode()
        start = -(-(at + 110 + name_size) // 4) * 4
        if name == "TRAILER!!!":
            return
        yield name.removeprefix("./"), mode, plain[start : start + size]
        at = -(-(start + size) // 4) * 4


def files(frame):
    """{path: content} of the ordinary files of one frame."""
    return {path: content for path, mode, content in entries(unpacked(frame)) if mode & 0o170000 == 0o100000}
