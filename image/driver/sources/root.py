"""A folder whose files are read as if it were /: links are followed inside it, and a link that leads out of it is refused.
Every file is read once, completely; one that changes meanwhile is refused.
"""

import fnmatch
import gzip
import io
import lzma
import os
import stat
import subprocess
import tempfile
import zlib

PACKED = {".xz": "xz", ".zst": "zstd", ".gz": "gzip"}
# No file of NVIDIA's driver is nearly as large. A sparse or packed file can have any size.
LIMIT = 1 << 30


def size_text(size):
    return f"{size >> 30} GiB"


def all_of(file, path):
    """What a file or pipe holds, up to the limit."""
    data = bytearray()
    while block := file.read(1 << 20):
        data += block
        if len(data) > LIMIT:
            raise Refused(f"{path} is larger than {size_text(LIMIT)}: it is no part of a driver")
    return bytes(data)


class Refused(Exception):
    """Something that cannot be taken; the text says what, where and why, in one line."""


class Root:
    """A folder as /; the real / is one too."""

    def __init__(self, folder):
        self.folder = os.path.realpath(folder)

    def at(self, parts):
        return os.path.join(self.folder, *parts)

    def resolve(self, path):
        """The parts of a path after following all links; None if it is not there."""
        waiting, done, links = path.split("/"), [], 0
        while waiting:
            part = waiting.pop(0)
            if part in ("", "."):
                continue
            if part == "..":
                if not done and self.folder != "/":
                    raise Refused(f"{path} is a link out of {self.folder}")
                del done[-1:]
                continue
            try:
                mode = os.lstat(self.at([*done, part])).st_mode
                target = os.readlink(self.at([*done, part])) if stat.S_ISLNK(mode) else None
            except (FileNotFoundError, NotADirectoryError):
                return None
            except OSError as error:
                raise Refused(f"{path} cannot be read: {error.strerror}") from error
            if target is None:
                done.append(part)
                continue
            links += 1
            if links > 40:
                raise Refused(f"{path} is a circle of links")
            if target.startswith("/"):
                done = []
            waiting = target.split("/") + waiting
        return done

    def exists(self, path):
        return self.resolve(path) is not None

    def is_folder(self, path):
        parts = self.resolve(path)
        return parts is not None and os.path.isdir(self.at(parts))

    def names(self, path):
        """The names in a folder; none if it is not there."""
        parts = self.resolve(path)
        if parts is None or not os.path.isdir(self.at(parts)):
            return []
        try:
            return sorted(os.listdir(self.at(parts)))
        except OSError as error:
            raise Refused(f"{path or '.'} cannot be read: {error.strerror}") from error

    def match(self, pattern):
        """The paths that match a pattern of shell wildcards, in order."""
        found = [""]
        for part in pattern.split("/"):
            if any(mark in part for mark in "*?["):
                found = [f"{path}/{name}".lstrip("/") for path in found for name in self.names(path) if fnmatch.fnmatchcase(name, part)]
            else:
                found = [f"{path}/{part}".lstrip("/") for path in found]
        return [path for path in found if self.resolve(path) is not None]

    def link(self, path):
        """The name that a link leads to in the end; None if there is nothing."""
        parts = self.resolve(path)
        return parts[-1] if parts else None

    def read(self, path):
        """A file's content."""
        parts = self.resolve(path)
        if parts is None:
            raise Refused(f"{path} is not there")
        real = self.at(parts)
        try:
            # a pipe in the file's place must not be opened
            if not stat.S_ISREG(os.stat(real).st_mode):
                raise Refused(f"{path} is not an ordinary file")
            with open(os.open(real, os.O_RDONLY | os.O_NOFOLLOW | os.O_NONBLOCK), "rb") as file:
                before = os.fstat(file.fileno())
                if before.st_size > LIMIT:
                    raise Refused(f"{path} has {before.st_size} bytes, more than {size_text(LIMIT)}: it is no part of a driver")
                data = all_of(file, path)
                after = os.fstat(file.fileno())
        except OSError as error:
            raise Refused(f"{path} cannot be read: {error.strerror}") from error
        unchanged = (before.st_size, before.st_mtime_ns) == (after.st_size, after.st_mtime_ns) and len(data) == after.st_size
        # files of /proc and /sys have other sizes than contents
        if not unchanged and not path.startswith(("proc/", "sys/")):
            raise Refused(f"{path} changed while it was read")
        return data

    def text(self, path):
        """A file's content as text, without the end of its last line; empty if there is no such file."""
        return self.read(path).decode(errors="replace").strip() if self.exists(path) else ""

    def unpacked(self, path):
        """A file's content, unpacked if its name says that it is packed."""
        data, kind = self.read(path), PACKED.get(os.path.splitext(path)[1])
        try:
            if kind in ("xz", "gzip"):
                with (lzma if kind == "xz" else gzip).open(io.BytesIO(data)) as file:
                    return all_of(file, path)
            if kind == "zstd":
                return unpacked_zstd(data, path)
        except (lzma.LZMAError, zlib.error, gzip.BadGzipFile, EOFError) as error:
            raise Refused(f"{path} is cut off or damaged: it cannot be unpacked") from error
        return data


def unpacked_zstd(data, path):
    with tempfile.TemporaryFile() as packed:
        packed.write(data)
        packed.seek(0)
        try:
            child = subprocess.Popen(["zstd", "-dcq"], stdin=packed, stdout=subprocess.PIPE, stderr=subprocess.DEVNULL)
        except OSError as error:
            raise Refused(f"{path} needs the program zstd: {error.strerror}") from error
        with child:
            try:
                plain = all_of(child.stdout, path)
            finally:
                child.stdout.close()
        if child.returncode:
            raise Refused(f"{path} is cut off or damaged: it cannot be unpacked")
        return plain
