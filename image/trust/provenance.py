"""provenance.py image OUT LOCK RECIPE NAME=VALUE..|media OUT MEDIA: writes how the files in a folder were built, as an
in-toto statement with SLSA's provenance (v1), and SHA256SUMS of the folder. Runs in the tools tree.

RECIPE has lines SHA256 PATH of the project's own files; the NAME=VALUE words are the choices of the build and the versions
of tools that are not in the lock. Nothing about the building machine is in it. The media's statement is the image's with
other subjects.
"""

import hashlib
import json
import os
import sys
from concurrent.futures import ThreadPoolExecutor
from urllib.parse import quote

STATEMENT = "firstlight.provenance.json"
SUMS = "SHA256SUMS"
# The tools that make the outputs, by their names in the lock.
TOOLS = {"mkosi": "mkosi", "gcc-14": "gcc", "binutils": "ld", "systemd-ukify": "ukify", "systemd-repart": "systemd-repart"}


def sha256(path):
    with open(path, "rb") as file:
        return hashlib.file_digest(file, "sha256").hexdigest()


def hashes(folder):
    """{path: SHA256} of every file that is neither hidden nor made here. A file with two names is read once."""
    found = {}
    for at, _, names in os.walk(folder):
        for name in names:
            path = os.path.relpath(os.path.join(at, name), folder)
            if not name.startswith(".") and path not in (STATEMENT, SUMS):
                found[path] = os.stat(os.path.join(folder, path)).st_ino
    with ThreadPoolExecutor(2) as side_by_side:
        once = {inode: side_by_side.submit(sha256, f"{folder}/{path}") for path, inode in found.items()}
        return {path: once[inode].result() for path, inode in sorted(found.items())}


def locked(line):
    """A line of inputs.lock as a dependency."""
    use, name, version, arch, _, digest = line.split()
    of = f"{quote(name, safe='')}@{quote(version, safe='')}"
    purl = f"pkg:pypi/{of}" if arch == "wheel" else f"pkg:deb/debian/{of}?arch={arch}"
    return {"name": f"{use}: {name} {version} {arch}", "uri": purl, "digest": {"sha256": digest}}


def built(lock, recipe, words):
    with open(lock, encoding="utf-8") as file:
        inputs = [line for line in file if not line.startswith("#")]
    with open(recipe, encoding="utf-8") as file:
        own = [line.rstrip("\n").split("  ", 1) for line in file]
    tools = {TOOLS[line.split()[1]]: line.split()[2] for line in inputs if line.split()[1] in TOOLS}
    chosen = dict(word.split("=", 1) for word in words)
    if "rustc" in chosen:
        tools["rustc"] = chosen.pop("rustc")
    image_id = chosen.pop("image_id")
    return {
        "buildDefinition": {
            "buildType": "urn:firstlight:build:1",
            "externalParameters": chosen,
            "internalParameters": {"SOURCE_DATE_EPOCH": os.environ["SOURCE_DATE_EPOCH"], "image_id": image_id},
            "resolvedDependencies": [locked(line) for line in inputs]
            + [{"name": path, "digest": {"sha256": digest}} for digest, path in own],
        },
        "runDetails": {"builder": {"id": "urn:firstlight:recipe", "version": dict(sorted(tools.items()))}},
    }


def put(path, text):
    """Writes a file atomically: a concurrent reader sees the whole file or none."""
    new = os.path.join(os.path.dirname(path), f".new-{os.path.basename(path)}")
    with open(new, "w", encoding="utf-8") as file:
        file.write(text)
    os.replace(new, path)


def write(folder, predicate):
    found = hashes(folder)
    statement = {
        "_type": "https://in-toto.io/Statement/v1",
        "subject": [{"name": path, "digest": {"sha256": digest}} for path, digest in found.items()],
        "predicateType": "https://slsa.dev/provenance/v1",
        "predicate": predicate,
    }
    text = json.dumps(statement, indent=1) + "\n"
    put(f"{folder}/{STATEMENT}", text)
    found[STATEMENT] = hashlib.sha256(text.encode()).hexdigest()
    put(f"{folder}/{SUMS}", "".join(f"{digest}  {path}\n" for path, digest in sorted(found.items())))


def main():
    what, out, *rest = sys.argv[1:]
    if what == "image":
        lock, recipe, *words = rest
        write(out, built(lock, recipe, words))
    else:
        with open(f"{out}/{STATEMENT}", encoding="utf-8") as file:
            write(rest[0], json.load(file)["predicate"])


if __name__ == "__main__":
    main()
