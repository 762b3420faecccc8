"""describe.py shell FILE: the driver's description as assignments for a shell script.
describe.py image FILE KEY=VALUE..: the driver.toml that travels in the driver image.

A key that nobody reads, or a missing one, is an error: a description that is half understood would
build something else than it says.
"""

import re
import shlex
import sys
import tomllib

TOP = {"schema", "version", "source", "patches", "patch", "files", "include", "parameters", "family"}
FILES = {"modules", "modules_sha256", "run", "run_sha256", "fabric_manager", "fabric_manager_sha256", "fabric_topologies"}
INCLUDE = {"gsp", "ptxjitcompiler", "nccl"}


def fail(why):
    sys.exit(f"firstlight: error: {sys.argv[2]}: {why}")


def same_keys(table, wanted, where):
    """Refuses unknown and missing keys."""
    for key in sorted(set(table) ^ wanted):
        fail(f"{'unknown' if key in table else 'missing'} key {where}{key}")


def is_hash(text):
    return text == "" or re.fullmatch(r"[0-9a-f]{64}", text)


def check_family(family):
    for key in set(family) - {"name", "devices", "parameters"}:
        fail(f"unknown key family.{key}")
    for devices in family["devices"]:
        if not re.fullmatch(r"[0-9a-f]{4}(-[0-9a-f]{4})?", devices):
            fail(f"family {family['name']}: '{devices}' is no range of device ids")


def read(path):
    try:
        with open(path, "rb") as file:
            it = tomllib.load(file)
    except (OSError, tomllib.TOMLDecodeError) as error:
        fail(error)
    same_keys(it, TOP, "")
    same_keys(it["files"], FILES, "files.")
    same_keys(it["include"], INCLUDE, "include.")
    if it["schema"] != "firstlight.driver-source/1":
        fail(f"schema is '{it['schema']}', not 'firstlight.driver-source/1'")
    if it["source"] not in ("debian", "files", "none"):
        fail(f"source is '{it['source']}', not debian, files or none")
    if not re.fullmatch(r"[0-9]+(\.[0-9]+)+", it["version"]):
        fail(f"version '{it['version']}' is no version")
    for key in FILES:
        if key.endswith("_sha256") and not is_hash(it["files"][key]):
            fail(f"files.{key} is no SHA256")
    for family in it["family"]:
        check_family(family)
    return it


def shell(it):
    words = {key: it[key] for key in ("version", "source", "patches", "patch")}
    words |= {f"files_{key}": it["files"][key] for key in FILES}
    words["gsp"] = " ".join(it["include"]["gsp"])
    words["ptxjitcompiler"] = "yes" if it["include"]["ptxjitcompiler"] else "no"
    words["nccl_keep"] = ",".join(str(arch) for arch in it["include"]["nccl"])
    for key, value in words.items():
        print(f"driver_{key}={shlex.quote(value)}")


def quoted(text):
    return '"' + text.replace("\\", "\\\\").replace('"', '\\"') + '"'


def parameters(prefix, table):
    for module, values in table.items():
        print(f"[{prefix}.{module}]")
        for name, value in values.items():
            print(f"{name} = {quoted(value)}")


def image(it, built):
    print('schema = "firstlight.driver-image/1"')
    for key in ("version", "source", "patch"):
        print(f"{key} = {quoted(it[key])}")
    for key, value in (word.split("=", 1) for word in built):
        print(f"{key} = {quoted(value)}")
    print()
    parameters("parameters", it["parameters"])
    for family in it["family"]:
        print("\n[[family]]")
        print(f"name = {quoted(family['name'])}")
        print(f"devices = [{', '.join(quoted(d) for d in family['devices'])}]")
        parameters("family.parameters", family.get("parameters", {}))


if __name__ == "__main__":
    if sys.argv[1] == "shell":
        shell(read(sys.argv[2]))
    else:
        image(read(sys.argv[2]), sys.argv[3:])
