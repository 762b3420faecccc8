"""choose.py NAME=VALUE..: prints the description of a driver whose files were taken (sources/parts.py), or refuses it.

version, modules      what `facts` has; modules is whole, prebuilt or, from an archive, the same by its content
modules_file          the archive of the modules, beside the description; and modules_sha256
tree, edits           the modules' tree, which is only read, and the folder with the edits by name
header                the modules' nvrm_registry.h, or seen.h; empty if there is none for a prebuilt resource manager
patches               yes: there is a patch series for exactly this version
gpus                  device ids of the GPUs that the image is for; families: names, `all`, or empty
without_p2p           yes: no registry keys for peer-to-peer, and no edits for it
taken, from           files with lines SHA256 PATH of what was taken, and of what it was unpacked from

Without `families` the image is for the families of `gpus`, or else for those of source.toml and blackwell.
"""

import functools
import os
import re
import sys
import tomllib

import halspec
from describe import Refused, all_families, fail, known, load, peer_to_peer, quoted, registry_of, right_keys
from edit import Tree, edited
from registry import Unknown

HERE = os.path.dirname(os.path.abspath(__file__))
TEMPLATE = os.path.join(HERE, "..", "source.toml")
SEEN = os.path.join(HERE, "seen.toml")
# The patch level of the edits by name
LEVEL = "3"


def say(text):
    print(f"firstlight: {text}", file=sys.stderr)


def in_family(family, device):
    ranges = (devices.split("-") for devices in family["devices"])
    return any(int(ends[0], 16) <= device <= int(ends[-1], 16) for ends in ranges)


def of_gpus(families, gpus):
    """The families of these GPUs."""
    found = []
    for gpu in gpus:
        family = next((family for family in families if "part_of" not in family and in_family(family, int(gpu, 16))), None)
        if family is None:
            say(f"no GPU family has the device id 10de:{gpu}; --families NAME,NAME names the image's families")
        elif family not in found:
            found.append(family)
    if not found:
        fail(f"families: the GPUs 10de:{' 10de:'.join(gpus)} are in none; --families NAME,NAME names those that the image is for")
    return [family for family in families if family in found]


def supports(it, family):
    """Why the version does not support a family; None if it does."""
    try:
        right_keys(it, family)
    except Refused as why:
        return str(why)
    return None


def choose(words, plain):
    """The families of the image. Those that were named must be supported; of the others, those that are."""
    families = all_families()
    by_name = {family["name"]: family for family in families}
    asked = words["families"].replace(",", " ").split()
    if asked and asked != ["all"]:
        for name in asked:
            if name not in by_name:
                fail(f"families: '{name}' is not a family; allowed: all, {', '.join(by_name)}")
        for name in asked:
            if why := supports(plain, by_name[name]):
                fail(why)
        return [family for family in families if family["name"] in asked]
    if asked:
        wanted = [family for family in families if "part_of" not in family]
    elif words["gpus"]:
        wanted = of_gpus(families, words["gpus"].split())
    else:
        usual = [*load(TEMPLATE)["families"], "blackwell"]
        wanted = [family for family in families if family["name"] in usual]
    chosen = [family for family in wanted if not supports(plain, family)]
    for family in wanted:
        if family not in chosen:
            say(f"without {family['name']}: {supports(plain, family)}")
    return chosen or fail(f"the driver {words['version']} supports none of the families {', '.join(family['name'] for family in wanted)}")


def why_not(words, name, families):
    """Why the edits by name do not fit the tree; empty if they do."""
    try:
        edited(Tree(words["tree"]), os.path.join(words["edits"], name), LEVEL, [family["name"] for family in families])
    except (halspec.Refused, OSError, tomllib.TOMLDecodeError) as why:
        return str(why)
    return ""


@functools.cache
def prebuilt(tree):
    """The object file of a resource manager that was compiled before."""
    try:
        with open(os.path.join(tree, "kernel-open/nvidia/nv-kernel.o_binary"), "rb") as file:
            return file.read()
    except OSError as error:
        return fail(f"the modules have no prebuilt resource manager: {error.strerror}")


def misfits(words, families, patched, unfit):
    """What of the peer-to-peer changes does not fit, one line each: edits of families that need them, and registry keys."""
    version = words["version"]
    need_edits = [family["name"] for family in families if any(keys.get("patched") for keys in family.get("keys", []))]
    if need_edits and words["modules"] != "prebuilt" and not patched["patch"]:
        yield f"edits: {unfit}; without them {', '.join(need_edits)} {'has' if len(need_edits) == 1 else 'have'} no peer-to-peer"
    for family in families:
        keys = right_keys(patched, family) if not supports(patched, family) else {}
        if not keys:
            continue
        if not words["header"]:
            yield (f"registry keys of {family['name']}: {version} was not seen by us, and a prebuilt resource manager comes without "
                   f"the header that has their numbers; --modules FILE with open-gpu-kernel-modules-{version}.tar.gz, tag {version} of github.com/NVIDIA/open-gpu-kernel-modules, has it")
            continue
        try:
            registry_of(version, words["header"]).words(keys)
        except Unknown as why:
            yield f"registry keys of {family['name']}: {why}"
            continue
        for key in keys if words["modules"] == "prebuilt" else []:
            if b"\0" + key.encode() + b"\0" not in prebuilt(words["tree"]):
                yield f"registry keys of {family['name']}: the prebuilt resource manager does not know {key}"


def replaced(text, key, value):
    return re.sub(rf"^{key} = .*$", lambda _: f"{key} = {value}", text, count=1, flags=re.M)


def table(text, name, path):
    """The table `name` with the lines SHA256 PATH of a file."""
    with open(path, encoding="utf-8") as file:
        rows = [line.split("\t")[:2] for line in file.read().splitlines()]
    lines = "".join(f"{quoted(where)} = {quoted(digest)}\n" for digest, where in rows if where != "modules.tar")
    return text.replace(f"[{name}]\n", f"[{name}]\n{lines}", 1)


def description(words, families, patch):
    without = words["without_p2p"] == "yes"
    with open(TEMPLATE, encoding="utf-8") as file:
        text = file.read()
    if patch:
        patches, edits = ("", "bar1") if words["patches"] != "yes" else (words["version"], "")
    else:
        patches, edits = "", "" if why_not(words, "kernel", families) else "kernel"
    for key, value in {
        "version": quoted(words["version"]),
        "source": quoted("parts"),
        "resource_manager": quoted("prebuilt" if words["modules"] == "prebuilt" else "source"),
        "peer_to_peer": "false" if without else "true",
        "patches": quoted(f"firstlight:patches/{patches}" if patches else ""),
        "edits": quoted(f"firstlight:edits/{edits}" if edits else ""),
        "patch": quoted(patch),
        "families": "[" + ", ".join(quoted(family["name"]) for family in families) + "]",
        "nccl": quoted("wheel"),
        "modules": quoted(words["modules_file"]),
        "modules_sha256": quoted(words["modules_sha256"]),
    }.items():
        text = replaced(text, key, value)
    return table(table(text, "parts", words["taken"]), "from", words["from"])


def main(words):
    version, without = words["version"], words["without_p2p"] == "yes"
    known(version)
    with open(SEEN, "rb") as file:
        seen = tomllib.load(file)
    plain = {"version": version, "patch": "", "peer_to_peer": True}
    families = choose(words, plain)
    patch, unfit = "", ""
    if words["modules"] != "prebuilt" and not without:
        unfit = "" if words["patches"] == "yes" else why_not(words, "bar1", families)
        patch = "" if unfit else load(TEMPLATE)["patch"] if words["patches"] == "yes" else LEVEL
    patched = plain | {"patch": patch}
    if version not in seen["versions"]:
        say(f"driver {version} was not seen by us (as of {seen['date']}); looked at its modules")
    if not without:
        wrong = list(misfits(words, families, patched, unfit))
        if wrong:
            fail(f"driver {version} does not fit: {'; '.join(wrong)}; --without-p2p builds it without peer-to-peer changes")
        if unfit:
            say(f"without our edits, which no family of the image needs: {unfit}")
    if words["modules"] == "prebuilt":
        for family in families:
            lost = peer_to_peer(plain | {"peer_to_peer": not without, "resource_manager": "prebuilt"}, family)
            if lost.startswith("but no "):
                say(f"{family['name']}: {lost.removeprefix('but ')}")
    print(description(words, families, patch), end="")


if __name__ == "__main__":
    try:
        main(dict(word.split("=", 1) for word in sys.argv[1:]))
    except Refused as why:
        sys.exit(f"firstlight: error: {why}")
