"""archive.py: the files of an initrd's own archive (cpio newc, compressed with zstd), for sbom.py."""

import subprocess


def files(packed):
    """(path, content) of each ordinary file."""
    plain = subprocess.run(["zstd", "-dcq"], input=packed, stdout=subprocess.PIPE, check=True).stdout
    at = 0
    while True:
        header = plain[at : at + 110]
        if header[:6] != b"070701":
            raise SystemExit(f"sbom: the initrd is no cpio archive at byte {at}")
        mode, size, name_size = (int(header[6 + 8 * n : 14 + 8 * n], 16) for n in (1, 6, 11))
        name = plain[at + 110 : at + 109 + name_size].decode()
        start = -(-(at + 110 + name_size) // 4) * 4
        if name == "TRAILER!!!":
            return
        if mode & 0o170000 == 0o100000:
            yield name.removeprefix("./"), plain[start : start + size]
        at = -(-(start + size) // 4) * 4
