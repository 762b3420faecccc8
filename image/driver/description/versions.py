"""versions.py files EDITS: the files of a tree of NVIDIA's modules that `table` reads, one a line.
versions.py table TREES EDITS DATE PATCHED PAGE SEEN: examines TREES/VERSION, the files of one version each, and writes
what each version gives: the table of PAGE, between its two marks, and SEEN, the versions as data. PATCHED: versions that
have patches of ours and take them, separated by spaces.
"""

import os
import re
import sys
import tomllib

import edit
import halspec
from describe import Refused, all_families, registry_of, words_of
from edit import Tree
from version import number

REGISTRY_HEADER = "src/nvidia/interface/nvrm_registry.h"
# The function that writes page entries of peers through BAR1
ENTRIES = ("src/nvidia/src/kernel/rmapi/nv_gpu_ops.c", "_nvGpuOpsEncodeBar1P2PAddrs")
# The families whose peer-to-peer depends on the version, and the chips of those that are not in the edits; the others have
# their own in every version that knows them.
COLUMNS = {
    "ampere-geforce": ("GeForce RTX 30", ()),
    "ada": ("GeForce RTX 40", ()),
    "blackwell": ("GeForce RTX 50, RTX PRO", ("GB202", "GB203", "GB205", "GB206", "GB207")),
    "blackwell-datacenter": ("B200, B300", ("GB100", "GB102")),
}
MARKS = "<!-- versions -->", "<!-- /versions -->"


def description_of(edits):
    with open(os.path.join(edits, "edits.toml"), "rb") as file:
        return tomllib.load(file)


def files(edits):
    """The files that the edits and this script read."""
    wanted = description_of(edits)
    entries = [entry for kind in edit.KEYS for entry in wanted.get(kind, [])]
    named = [entry["list"] if "list" in entry else entry["file"] for entry in entries]
    return sorted({*named, edit.CHIPS, REGISTRY_HEADER, ENTRIES[0], "version.mk"})


def own(tree, edits, chips):
    """What the tree itself lacks of peers through BAR1 for these chips."""
    index = halspec.chips(tree.read(edit.CHIPS))
    for entry in description_of(edits)["bind"]:
        for method in entry["methods"]:
            if not set(chips) <= set(halspec.held(tree.read(entry["file"]), method, index)):
                return f"no {method}"
    return None if ENTRIES[1] in tree.read(ENTRIES[0]) else "no page entries of BAR1 peers"


def by_whom(folder, version, edits, family, patched):
    """How a family gets peer-to-peer in a version, or why it does not."""
    tree, chips = Tree(folder), COLUMNS[family["name"]][1]
    ranges = family["keys"]
    with_ours = all(keys.get("patched") for keys in ranges)
    first = min((keys["from"] for keys in ranges), key=number)
    try:
        known = halspec.chips(tree.read(edit.CHIPS))
        if missing := [chip for chip in chips if chip not in known]:
            return f"no: it does not know {'these chips' if missing == list(chips) else ', '.join(missing)}"
        if number(version) < number(first):
            return f"no: from {first} on"
        if with_ours and version not in patched and number(version) < number(description_of(edits)["from"]):
            return f"no: our changes are for {', '.join([*patched, description_of(edits)['from']])} and newer"
        keys = words_of(registry_of(version, os.path.join(folder, REGISTRY_HEADER)), {"version": version, "patch": with_ours, "peer_to_peer": True}, family)
        if not with_ours:
            lacking = own(tree, edits, chips) if keys else None
            return f"no: {lacking}" if lacking else "its own, with keys" if keys else "its own"
        if version not in patched:
            edit.edited(tree, edits, "1", [family["name"]])
        return "our patches" if version in patched else "our edits"
    except (Refused, halspec.Refused) as why:
        return f"no: {why}"


def changes(folder, edits):
    """Whether the edits fit, for all families that they name."""
    wanted = description_of(edits)
    try:
        edit.edited(Tree(folder), edits, "1", sorted({name for entry in wanted["bind"] for name in entry["chips"]}))
    except halspec.Refused as why:
        return f"for {wanted['from']} and newer" if str(why).startswith("they are for") else f"do not fit: {why}"
    return "fit"


def rows(trees, edits, patched):
    """The versions in their order, each with its cells."""
    families = {family["name"]: family for family in all_families()}
    for version in sorted(os.listdir(trees), key=number):
        folder = os.path.join(trees, version)
        found = re.search(r"^NVIDIA_VERSION *= *([0-9.]+) *$", Tree(folder).read("version.mk"), re.M)
        if not found or found[1] != version:
            raise Refused(f"the tag {version} has the tree of {found[1] if found else 'an unknown version'}")
        yield version, (*(by_whom(folder, version, edits, families[name], patched) for name in COLUMNS), changes(folder, edits))


def table(found, date):
    """The versions with the same cells in one row."""
    groups = []
    for version, cells in found:
        if not groups or groups[-1][1] != cells:
            groups.append(([], cells))
        groups[-1][0].append(version)
    heads = [f"{what} (`{name}`)" for name, (what, _) in COLUMNS.items()]
    lines = [f"{len(found)} versions, looked at on {date}:", "", "| versions | " + " | ".join([*heads, "edits by name"]) + " |",
             "|---" * (len(heads) + 2) + "|"]
    return "\n".join(lines + [f"| {', '.join(versions)} | {' | '.join(cells)} |" for versions, cells in groups])


def seen(found, date):
    """The versions as data."""
    lines = ["# The versions of NVIDIA's open modules that `./run driver-look --all` looked at; docs/driver-versions.md has the table.",
             f'date = "{date}"', "versions = ["]
    return "\n".join(lines + [f'    "{version}",' for version, _ in found] + ["]", ""])


def write(trees, edits, date, patched, page, seen_file):
    found = list(rows(trees, edits, patched.split()))
    if not found:
        raise Refused("there is no version to look at")
    with open(page, encoding="utf-8") as file:
        parts = re.split("|".join(map(re.escape, MARKS)), file.read())
    if len(parts) != 3:
        raise Refused(f"{os.path.basename(page)} does not have {' and '.join(MARKS)} once each")
    with open(page, "w", encoding="utf-8") as file:
        file.write(f"{parts[0]}{MARKS[0]}\n{table(found, date)}\n{MARKS[1]}{parts[2]}")
    with open(seen_file, "w", encoding="utf-8") as file:
        file.write(seen(found, date))


if __name__ == "__main__":
    try:
        if sys.argv[1] == "files":
            print("\n".join(files(sys.argv[2])))
        else:
            write(*sys.argv[2:])
    except (Refused, halspec.Refused, OSError) as why:
        sys.exit(f"firstlight: error: {why}")
