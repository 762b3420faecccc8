"""check.py IMAGE KERNEL_MODULE RESOURCE_MANAGER: refuses a driver image whose parts do not belong together.

IMAGE is laid out like the driver image. KERNEL_MODULE is any module of the kernel that the driver is for:
it determines which vermagic and which compiler the driver's modules must have; of a resource manager that is `prebuilt`
another compiler may be in nvidia.ko as well. Prints one line for each
fault, naming both sides; the exit status is 1 if there is a fault.
"""

import glob
import os
import re
import struct
import sys
import tomllib

faults = []


def fault(text):
    faults.append(text)
    print(f"firstlight: error: {text}", file=sys.stderr)


def section(path, wanted):
    """A section's bytes of a 64-bit little-endian ELF file; None if there is no such section or the file is not ELF."""
    with open(path, "rb") as file:
        data = file.read()
    if data[:6] != b"\x7fELF\x02\x01" or len(data) < 64:
        return None
    (table,) = struct.unpack_from("<Q", data, 40)
    size, count, names = struct.unpack_from("<HHH", data, 58)
    if size < 64 or names >= count or table + size * count > len(data):
        return None
    headers = [struct.unpack_from("<IIQQQQ", data, table + size * n) for n in range(count)]
    strings = headers[names][4]
    for name, _, _, _, offset, length in headers:
        end = data.find(b"\0", strings + name)
        if data[strings + name : end] == wanted:
            return data[offset : offset + length]
    return None


def words(path, name):
    """The strings of a section that are not empty."""
    return [word.decode(errors="replace") for word in (section(path, name) or b"").split(b"\0") if word]


def modinfo(path):
    return dict(word.split("=", 1) for word in words(path, b".modinfo") if "=" in word)


def compilers(path):
    return sorted({word for word in words(path, b".comment") if word.startswith("GCC")})


def check_module(path, image, kernel_module, prebuilt):
    name = os.path.basename(path)
    info, kernel = modinfo(path), modinfo(kernel_module)
    if not info:
        return fault(f"modules/{name} is not a kernel module")
    for what, ours, theirs, whose in (
        ("version", info.get("version"), image["version"], "the driver is"),
        ("vermagic", info.get("vermagic"), kernel.get("vermagic"), "the kernel has"),
    ):
        if ours != theirs:
            fault(f"modules/{name} has {what} '{ours}', {whose} '{theirs}'")
    ours, theirs = set(compilers(path)), set(compilers(kernel_module))
    if not (ours and (theirs <= ours if prebuilt and name == "nvidia.ko" else ours <= theirs)):
        fault(f"modules/{name} was compiled by {compilers(path)}, the kernel by {compilers(kernel_module)}")
    patch = info.get("firstlight.patch", "")
    if name == "nvidia.ko" and patch != image["patch"]:
        fault(f"modules/{name} has patch level '{patch}', driver.toml says '{image['patch']}'")


def check_modules(root, image, kernel_module, prebuilt):
    found = sorted(os.path.relpath(p, root) for p in glob.glob(f"{root}/**/*.ko*", recursive=True))
    wanted = ["modules/nvidia-uvm.ko", "modules/nvidia.ko"]
    if found != wanted:
        fault(f"the modules are {found}, they must be {wanted}")
    for path in set(found) & set(wanted):
        check_module(f"{root}/{path}", image, kernel_module, prebuilt)
    kernel = modinfo(kernel_module).get("vermagic", " ").split()[0]
    if image["kernel"] != kernel:
        fault(f"driver.toml is for kernel '{image['kernel']}', the kernel is '{kernel}'")


def check_library(root, soname, version, must):
    """The file behind libNAME.so.1 must have the driver's version in its name and, if the library `must` exist, in
    its content: the PTX compiler, which may be left out, does not contain its version."""
    link = f"{root}/lib/{soname}"
    if not os.path.lexists(link):
        return fault(f"lib/{soname} is missing") if must else None
    target = os.readlink(link) if os.path.islink(link) else soname
    wanted = soname.removesuffix("1") + version
    if target != wanted:
        fault(f"lib/{soname} is {target}, the driver is {version}")
    for path in glob.glob(f"{root}/lib/{soname.removesuffix('1')}[0-9]*.*"):
        name = os.path.basename(path)
        if name != wanted:
            fault(f"lib/{name} is of another version than the driver, which is {version}")
            continue
        with open(path, "rb") as file:
            data = file.read()
        if not data.startswith(b"\x7fELF"):
            fault(f"lib/{name} is not a library")
        elif must and version.encode() not in data:
            said = re.search(rb"\x00([0-9]{3}\.[0-9]+(\.[0-9]+)?)\x00", data)
            fault(f"lib/{name} says it is {said[1].decode() if said else 'of an unknown version'}, the driver is {version}")


def check_firmware(root, version):
    folders = sorted(os.listdir(f"{root}/firmware/nvidia")) if os.path.isdir(f"{root}/firmware/nvidia") else []
    if folders != [version]:
        fault(f"the GSP firmware's folders are {folders}, the driver is {version}")
    elif not glob.glob(f"{root}/firmware/nvidia/{version}/gsp_*.bin"):
        fault(f"firmware/nvidia/{version} has no gsp_*.bin")


def check(root, kernel_module, resource_manager):
    with open(f"{root}/driver.toml", "rb") as file:
        image = tomllib.load(file)
    version = image["version"]
    check_modules(root, image, kernel_module, resource_manager == "prebuilt")
    check_library(root, "libcuda.so.1", version, True)
    check_library(root, "libnvidia-ml.so.1", version, True)
    check_library(root, "libnvidia-ptxjitcompiler.so.1", version, False)
    check_firmware(root, version)


if __name__ == "__main__":
    try:
        check(*sys.argv[1:4])
    except (OSError, KeyError, ValueError, struct.error) as error:
        fault(f"the driver image cannot be read: {error!r}")
    sys.exit(1 if faults else 0)
