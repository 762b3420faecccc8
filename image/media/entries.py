#!/usr/bin/env python3
"""entries.py FILE table|markdown [EXTRA-ENTRY..]: the boot entries of FILE, for scripts and for people.

table     one line per entry: id, kernel, title, all kernel words, separated by tabs
markdown  the table of docs/image.md

Entries that are marked `only` are left out unless they are named. An unknown or missing key is an error: a menu
must offer exactly what the file says.
"""

import re
import sys
import tomllib

KEYS = {"id", "title", "kernel", "words", "when"}
KERNELS = ("off", "pt")
# ids that are labels of the iPXE script
TAKEN = {"menu", "start", "ipxe", "unknown", "failed", "wait"}


def fail(why):
    sys.exit(f"firstlight: error: {sys.argv[1]}: {why}")


def check(entry):
    for key in sorted((set(entry) - {"only"}) ^ KEYS):
        fail(f"entry '{entry.get('id', '?')}': {'unknown' if key in entry else 'missing'} key {key}")
    for key in KEYS:
        if not isinstance(entry[key], str) or re.search(r"[\t\n${}|`\"]", entry[key]):
            fail(f"entry '{entry['id']}': {key} must be a string without tabs, quotes, $, {{, }} and |")
    if not re.fullmatch(r"[a-z][a-z0-9-]*", entry["id"]):
        fail(f"'{entry['id']}' is not an id (a-z, 0-9, -)")
    if entry["id"] in TAKEN:
        fail(f"'{entry['id']}' is a word of the iPXE script, so it cannot be an id")
    if entry["kernel"] not in KERNELS:
        fail(f"entry '{entry['id']}': kernel is '{entry['kernel']}', allowed: {', '.join(KERNELS)}")


def read(extra):
    """The entries of this image, each with `all`: the whole command line."""
    with open(sys.argv[1], "rb") as file:
        text = tomllib.load(file)
    for key in sorted(set(text) ^ {"common", "entry"}):
        fail(f"{'unknown' if key in text else 'missing'} key {key}")
    for entry in text["entry"]:
        check(entry)
    ids = [entry["id"] for entry in text["entry"]]
    if len(set(ids)) < len(ids):
        fail("two entries have the same id")
    optional = [entry["id"] for entry in text["entry"] if entry.get("only")]
    for name in extra:
        if name not in optional:
            fail(f"'{name}' is not an optional entry; allowed: {', '.join(optional)}")
    kept = [entry for entry in text["entry"] if entry["id"] in extra or not entry.get("only")]
    if not kept or kept[0]["kernel"] != "off" or kept[0]["words"]:
        fail("the first entry is the default one and must have kernel off and no words")
    for entry in kept:
        entry["all"] = f"{text['common']} {entry['words']}".strip()
    return kept


def table(entries):
    for entry in entries:
        print(entry["id"], entry["kernel"], entry["title"], entry["all"], sep="\t")


def markdown(entries):
    print("| entry | what it does, and when to use it | its own kernel words |")
    print("|---|---|---|")
    for entry in entries:
        kernel = "the `pt` kernel; " if entry["kernel"] == "pt" else ""
        words = f"`{entry['words']}`" if entry["words"] else "none"
        only = "; only in images built for it" if entry.get("only") else ""
        print(f"| `{entry['id']}` | {entry['title']}{only}. {entry['when'][0].upper()}{entry['when'][1:]} | {kernel}{words} |")


def main():
    if len(sys.argv) < 3 or sys.argv[2] not in ("table", "markdown"):
        sys.exit("usage: entries.py FILE table|markdown [EXTRA-ENTRY..]")
    {"table": table, "markdown": markdown}[sys.argv[2]](read(sys.argv[3:]))


if __name__ == "__main__":
    main()
