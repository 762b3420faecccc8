"""describe.py shell FILE: the driver's description as assignments for a shell script.
describe.py keys FILE HEADER: the registry keys of each family, by the tree's nvrm_registry.h.
describe.py look VERSION HEADER: the same for all families, with and without our patches, or why they are refused.
describe.py drives FILE|none: which GPU families an image with it drives, and which not, with the reason.
describe.py families [all]: the families that can be chosen without being named, or all.
describe.py image FILE HEADER KEY=VALUE..: the driver.toml that travels in the driver image.

An unknown or missing key is an error: a description that is only partly understood would build
something other than what it describes.
"""

import os
import re
import shlex
import sys
import tomllib

from registry import Registry, Unknown
from version import number

SCHEMA = "firstlight.driver-source/4"
FAMILIES = os.path.join(os.path.dirname(os.path.abspath(__file__)), "families.toml")
DWORDS = "NVreg_RegistryDwords"
TOP = {"schema", "version", "source", "resource_manager", "peer_to_peer", "patches", "edits", "patch", "families", "nccl", "files", "parts", "from",
       "include", "parameters", "registry"}
FILES = {"modules", "modules_sha256", "run", "run_sha256", "fabric_manager", "fabric_manager_sha256", "fabric_topologies"}
INCLUDE = {"ptxjitcompiler"}
FAMILY = {"name", "boards", "devices", "compute", "gsp"}
# The newest GPUs that libnccl2 2.29.7 of the archive has code for. prune.py checks the library, but only after minutes.
ARCHIVE_NCCL = 9.0
# The first driver that runs programs of CUDA 13 (CUDA 13 release notes, table of drivers)
CUDA_13 = [580]


class Refused(Exception):
    """A description that is refused; the text says why, in one line."""


def fail(why):
    raise Refused(why)


def same_keys(table, wanted, where):
    """Refuses unknown and missing keys."""
    for key in sorted(set(table) ^ wanted):
        fail(f"{'unknown' if key in table else 'missing'} key {where}{key}")


def is_hash(text):
    return text == "" or re.fullmatch(r"[0-9a-f]{64}", text)


def load(path):
    try:
        with open(path, "rb") as file:
            return tomllib.load(file)
    except (OSError, tomllib.TOMLDecodeError) as error:
        fail(error)


def known(version):
    """A version in a form that can be compared."""
    return number(version) or fail(f"version '{version}' is not a version")


def check_family(family):
    """Refuses a mistake in families.toml."""
    where = f"families.toml: family {family.get('name')}"
    for key in sorted(set(family) ^ FAMILY):
        if key not in ("keys", "part_of"):
            fail(f"{where}: {'unknown' if key in family else 'missing'} key {key}")
    for devices in family["devices"]:
        if not re.fullmatch(r"[0-9a-f]{4}(-[0-9a-f]{4})?", devices):
            fail(f"{where}: '{devices}' is not a range of device ids")
    for capability in family["compute"]:
        if not re.fullmatch(r"[0-9]+\.[0-9]", capability):
            fail(f"{where}: '{capability}' is not a compute capability")
    for keys in family.get("keys", []):
        for key in set(keys) - {"before", "patched"} ^ {"from", "registry"}:
            fail(f"{where}: {'unknown' if key in keys else 'missing'} key keys.{key}")


def all_families():
    families = load(FAMILIES)["family"]
    for family in families:
        check_family(family)
        if "part_of" in family and family["part_of"] not in {other["name"] for other in families if "part_of" not in other}:
            fail(f"families.toml: family {family['name']}: part_of names no other family: {family['part_of']}")
    return families


def chosen(it):
    """The families that the description names."""
    families = all_families()
    by_name = {family["name"]: family for family in families}
    for name in it["families"]:
        if name not in by_name:
            fail(f"families: '{name}' is not a family; allowed: {', '.join(by_name)}")
        right_keys(it, by_name[name])
    return [family for family in families if family["name"] in it["families"]]


def ids(devices):
    """The device ids of ranges."""
    ends = [(int(end[0], 16), int(end[-1], 16)) for end in (text.split("-") for text in devices)]
    return {number for first, last in ends for number in range(first, last + 1)}


def ranges(numbers):
    """Device ids as ranges."""
    starts = [number for number in sorted(numbers) if number - 1 not in numbers]
    ends = [number for number in sorted(numbers) if number + 1 not in numbers]
    return [f"{first:04x}" if first == last else f"{first:04x}-{last:04x}" for first, last in zip(starts, ends)]


def devices(family, others):
    """The device ids of a family among others: a part of it that is among them has its own."""
    parts = [part for part in others if part.get("part_of") == family["name"]]
    return ranges(ids(family["devices"]) - ids([text for part in parts for text in part["devices"]])) if parts else family["devices"]


def in_range(version, keys):
    """Whether a version is in the range of a family's keys."""
    return known(keys["from"]) <= version and ("before" not in keys or version < known(keys["before"]))


def right_keys(it, family):
    """The registry keys of a family for the description's version, by name."""
    served = [keys for keys in family.get("keys", []) if it["patch"] or not keys.get("patched")]
    if not served:
        return {}
    version = known(it["version"])
    for keys in served:
        if in_range(version, keys):
            return keys["registry"] if it["peer_to_peer"] else {}
    served = " or ".join(f"{keys['from']} and newer" + (f" before {keys['before']}" if "before" in keys else "") for keys in served)
    return fail(f"families: {family['name']} needs a driver of version {served}; this is {it['version']}")


def read(path):
    it = load(path)
    if "family" in it:
        fail("family: the families are in image/driver/description/families.toml; name those that the image is for: families = [\"ada\"]")
    same_keys(it, TOP, "")
    same_keys(it["files"], FILES, "files.")
    same_keys(it["include"], INCLUDE, "include.")
    if it["schema"] != SCHEMA:
        fail(f"schema is '{it['schema']}', not '{SCHEMA}'")
    if it["source"] not in ("debian", "files", "parts", "none"):
        fail(f"source is '{it['source']}', not debian, files, parts or none")
    if it["resource_manager"] not in ("source", "prebuilt"):
        fail(f"resource_manager is '{it['resource_manager']}', not source or prebuilt")
    if not isinstance(it["peer_to_peer"], bool):
        fail(f"peer_to_peer is '{it['peer_to_peer']}', not true or false")
    for table in ("parts", "from"):
        for path, digest in it[table].items():
            if not re.fullmatch(r"(?!\.)[\w.+~:%@-]+(/(?!\.)[\w.+~:%@-]+)*", path):
                fail(f"{table}: '{path}' is not a path in this file's folder")
            if not digest or not is_hash(digest):
                fail(f"{table}.{path} is not a SHA256")
    if (it["source"] == "parts") != bool(it["parts"]):
        fail("parts: source = \"parts\" needs files in it, and no other source has any")
    if it["patch"] and (it["resource_manager"] == "prebuilt" or not it["peer_to_peer"]):
        fail("patch: a prebuilt resource manager cannot be changed, and peer_to_peer = false changes nothing; patch = \"\" says so")
    known(it["version"])
    if it["nccl"] not in ("debian", "wheel"):
        fail(f"nccl is '{it['nccl']}', not debian or wheel")
    if not it["families"]:
        fail("families is empty; name the families that the image is for")
    if it["patches"] and not it["patch"]:
        fail("patch is empty; modules with patches or edits must name their level")
    for key in FILES:
        if key.endswith("_sha256") and not is_hash(it["files"][key]):
            fail(f"files.{key} is not a SHA256")
    newer = [family["name"] for family in chosen(it) if max(map(float, family["compute"])) > ARCHIVE_NCCL]
    if it["nccl"] == "debian" and newer:
        fail(f"nccl: the archive's NCCL has no code for {', '.join(newer)}; nccl = \"wheel\" has it")
    return it


def registry_of(version, header):
    try:
        with open(header, encoding="utf-8", errors="replace") as file:
            return Registry(file.read())
    except OSError as error:
        return fail(f"the tree {version} has no {os.path.basename(header)}: {error.strerror}")


def words(registry, whose, version, wanted):
    try:
        return registry.words(wanted)
    except Unknown as why:
        return fail(f"{whose}: {version}: {why}")


def words_of(registry, it, family):
    return words(registry, f"families.toml: family {family['name']}", it["version"], right_keys(it, family))


def resolved(it, header):
    """The module parameters of all GPUs, and of each family, with the registry keys as numbers."""
    registry = registry_of(it["version"], header)
    everywhere = {module: dict(values) for module, values in it["parameters"].items()}
    nvidia = everywhere.setdefault("nvidia", {})
    try:
        registry.check_words(nvidia.get(DWORDS, ""))
    except Unknown as why:
        fail(f"parameters.nvidia.{DWORDS}: {it['version']}: {why}; keys whose values have names belong in [registry]")
    if it["registry"]:
        raw = nvidia.get(DWORDS, "").strip("; ")
        nvidia[DWORDS] = ";".join(filter(None, [raw, words(registry, "registry", it["version"], it["registry"])]))
    return everywhere, [(family, words_of(registry, it, family)) for family in chosen(it)]


def look(version, header):
    known(version)
    registry = registry_of(version, header)
    for what, patch in (("patched", "1"), ("as it is", "")):
        for family in all_families():
            try:
                said = words_of(registry, {"version": version, "patch": patch, "peer_to_peer": True}, family) or "no keys"
            except Refused as why:
                said = f"refused: {why}"
            print(f"{what}  {family['name']}: {said}")


def shell(it):
    words = {key: it[key] for key in ("version", "source", "resource_manager", "patches", "edits", "patch")}
    words["parts"] = " ".join(f"{digest}:{path}" for path, digest in sorted(it["parts"].items()))
    words["from"] = " ".join(f"{digest}:{path}" for path, digest in sorted(it["from"].items()))
    words |= {f"files_{key}": it["files"][key] for key in FILES}
    families = chosen(it)
    words["families"] = " ".join(family["name"] for family in families)
    words["gsp"] = " ".join(sorted({file for family in families for file in family["gsp"]}))
    words["compute"] = " ".join(sorted({capability for family in families for capability in family["compute"]}, key=float))
    words["nccl"] = "debian" if it["nccl"] == "debian" else "cu13" if known(it["version"]) >= CUDA_13 else "cu12"
    words["ptxjitcompiler"] = "yes" if it["include"]["ptxjitcompiler"] else "no"
    for key, value in words.items():
        print(f"driver_{key}={shlex.quote(value)}")


def quoted(text):
    return '"' + text.replace("\\", "\\\\").replace('"', '\\"') + '"'


def parameters(prefix, table):
    for module, values in table.items():
        print(f"[{prefix}.{module}]")
        for name, value in values.items():
            print(f"{name} = {quoted(value)}")


def image(it, header, built):
    everywhere, families = resolved(it, header)
    print('schema = "firstlight.driver-image/1"')
    for key in ("version", "source", "patch"):
        print(f"{key} = {quoted(it[key])}")
    for key, value in (word.split("=", 1) for word in built):
        print(f"{key} = {quoted(value)}")
    print()
    parameters("parameters", everywhere)
    for family, dwords in families:
        print("\n[[family]]")
        print(f"name = {quoted(family['name'])}")
        print(f"devices = [{', '.join(map(quoted, devices(family, [other for other, _ in families])))}]")
        if dwords:
            parameters("family.parameters", {"nvidia": {DWORDS: dwords}})


def has_changes(version):
    """Whether there are edits by name or patches for a version."""
    driver = os.path.join(os.path.dirname(FAMILIES), "..")
    return known(version) >= known(load(os.path.join(driver, "edits/bar1/edits.toml"))["from"]) or os.path.isdir(os.path.join(driver, "patches", version))


def peer_to_peer(it, family):
    """What becomes of a family's peer-to-peer: NVIDIA's own, by registry keys, or lost, and why."""
    with_keys = [keys for keys in family.get("keys", []) if keys["registry"]]
    if not with_keys:
        return "peer-to-peer where NVIDIA's driver has it"
    if right_keys(it, family):
        return "peer-to-peer through BAR1 (expected, unproven on a board)"
    if not it["peer_to_peer"]:
        return "but no peer-to-peer: built with --without-p2p"
    if not has_changes(it["version"]):
        return f"but no peer-to-peer: we have no changes for {it['version']}; 580 and newer have them"
    if it["resource_manager"] == "prebuilt":
        return (f"but no peer-to-peer: the packages' resource manager is prebuilt; --modules FILE with open-gpu-kernel-modules-{it['version']}.tar.gz, "
                f"tag {it['version']} of github.com/NVIDIA/open-gpu-kernel-modules, brings its source")
    return "but no peer-to-peer: the modules are built without our changes"


def drives(path):
    """One line for each family: whether the image drives it, or why not and which command helps."""
    if path == "none":
        print("firstlight: this image has no GPU driver; ./run image --driver installed takes the one that this machine runs")
        return
    it = read(path)
    named = [family["name"] for family in chosen(it)]
    print(f"firstlight: GPUs that this image drives, with driver {it['version']}:")
    for family in all_families():
        said = f"yes, {peer_to_peer(it, family)}" if family["name"] in named else absent(it, family)
        print(f"  {family['name']} ({family['boards']}): {said}")


def absent(it, family):
    """Why a family is not in the image, and what brings it in."""
    ranges = family.get("keys", [])
    where = f"as {family['part_of']}; peer-to-peer through BAR1 (expected, unproven on a board) " if "part_of" in family else "no: "
    if ranges and not any(in_range(known(it["version"]), keys) for keys in ranges):
        first = min((keys["from"] for keys in ranges), key=known)
        return f"{where}needs {first} or newer: ./run image --driver installed, or --driver FOLDER with such a driver"
    if it["nccl"] == "debian" and max(map(float, family["compute"])) > ARCHIVE_NCCL:
        return f"{where}needs another NCCL than the archive's: ./run image --driver installed"
    add = f"--families {','.join([*it['families'], family['name']])}" if it["source"] == "parts" else "families in the driver's description"
    return f"{where}only where it is named: {add}" if "part_of" in family else f"no: not chosen: {add}"


def keys(it, header):
    everywhere, families = resolved(it, header)
    print(f"all: {everywhere['nvidia'].get(DWORDS) or 'no keys'}")
    for family, dwords in families:
        print(f"{family['name']}: {dwords or 'no keys'}")


def main(what, path="", *rest):
    if what == "look":
        look(path, *rest)
    elif what == "families":
        print("\n".join(family["name"] for family in all_families() if path == "all" or "part_of" not in family))
    elif what == "shell":
        shell(read(path))
    elif what == "drives":
        drives(path)
    elif what == "keys":
        keys(read(path), *rest)
    else:
        image(read(path), rest[0], rest[1:])


if __name__ == "__main__":
    try:
        main(*sys.argv[1:])
    except Refused as why:
        sys.exit(": ".join(["firstlight: error", *sys.argv[2:3], str(why)]))
