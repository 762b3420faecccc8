#!/usr/bin/env python3
"""compare.py NAME FIRST SECOND ..: compares the folders of two builds, pair by pair, and prints the differences.

Every regular file below either folder must be below both, with the same bytes and the same executable bit;
links must have the same target. Prints one line for each file that is the same, with the start of its
SHA256 and its size, then the differences: which file, the offset of its first different byte, and for the list of
the image's files which of them differ. Exit status: 0 the same, 1 not the same, 2 nothing to compare.
"""

import hashlib
import os
import sys

BLOCK = 1 << 20


def found(folder):
    """Paths of files and links, relative to a folder. Names that begin with a dot are notes of the build: skipped."""
    for base, folders, names in os.walk(folder):
        links = [name for name in folders if os.path.islink(os.path.join(base, name))]
        for name in names + links:
            if not name.startswith("."):
                yield os.path.relpath(os.path.join(base, name), folder)


def first_difference(one, other):
    """Offset of the first byte that differs, or None; a file that ends earlier differs at its end."""
    with open(one, "rb") as left, open(other, "rb") as right:
        at = 0
        while True:
            a, b = left.read(BLOCK), right.read(BLOCK)
            if a != b:
                return at + next((i for i, (x, y) in enumerate(zip(a, b)) if x != y), min(len(a), len(b)))
            if not a:
                return None
            at += len(a)


def listed(path):
    """A list of files (SHA256 or link, path, package) by path."""
    with open(path, encoding="utf-8") as file:
        return {fields[1]: fields for fields in (line.rstrip("\n").split("\t") for line in file) if len(fields) > 1}


def of_lists(one, other):
    """Which files of two lists are not the same."""
    a, b = listed(one), listed(other)
    for path in sorted(a.keys() | b.keys()):
        if path not in b:
            yield f"{path} only in the first"
        elif path not in a:
            yield f"{path} only in the second"
        elif a[path] != b[path]:
            yield f"{path}: {a[path][0][:16]} ({a[path][2]}), {b[path][0][:16]} ({b[path][2]})"


def difference(one, other):
    """The message about one path in both builds, or None if they are the same."""
    for path, which in (one, "second"), (other, "first"):
        if not os.path.lexists(path):
            return f"only in the {which}"
    if os.path.islink(one) or os.path.islink(other):
        targets = [os.readlink(path) if os.path.islink(path) else "no link" for path in (one, other)]
        return None if targets[0] == targets[1] else f"links to {targets[0]}, to {targets[1]}"
    at = first_difference(one, other)
    if at is not None:
        sizes = [os.path.getsize(path) for path in (one, other)]
        return f"first different byte at {at}; sizes {sizes[0]}, {sizes[1]}"
    modes = [bool(os.stat(path).st_mode & 0o100) for path in (one, other)]
    return None if modes[0] == modes[1] else f"executable: {modes[0]}, {modes[1]}"


def summary(path):
    if os.path.islink(path):
        return f"-> {os.readlink(path)}"
    with open(path, "rb") as file:
        return f"{hashlib.file_digest(file, 'sha256').hexdigest()[:16]} {os.path.getsize(path)}"


def compare(name, first, second):
    """Prints for every file below two folders whether it is the same; returns how many are, and how many are not."""
    paths = sorted(set(found(first)) | set(found(second)))
    differing = 0
    for path in paths:
        one, other = os.path.join(first, path), os.path.join(second, path)
        said = difference(one, other)
        if said is None:
            print(f"same     {summary(one):<27} {name}/{path}")
            continue
        differing += 1
        print(f"DIFFERS  {name}/{path}: {said}")
        if os.path.basename(path) == "firstlight.files" and said.startswith("first"):
            for line in of_lists(one, other):
                print(f"         {line}")
    return len(paths) - differing, differing


def main():
    words = sys.argv[1:]
    if not words or len(words) % 3:
        sys.exit("usage: compare.py NAME FIRST SECOND ..")
    same = differing = 0
    for at in range(0, len(words), 3):
        alike, other = compare(*words[at : at + 3])
        if alike + other == 0:
            print(f"firstlight: error: {words[at]}: there is nothing to compare", file=sys.stderr)
            return 2
        same, differing = same + alike, differing + other
    print(f"{same} of {same + differing} files are the same")
    return 1 if differing else 0


if __name__ == "__main__":
    sys.exit(main())
