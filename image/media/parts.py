"""parts.py UKI OUT: cuts a UKI without a driver into the parts from which image/assemble.sh makes it again; runs in the tools
tree. OUT gets off/vmlinuz, pt/vmlinuz, initrd, entries, os-release, release, identity and files. Refuses, in one line, what
is not such a UKI.
"""

import json
import os
import re
import struct
import sys

import initrd

FILES = "usr/lib/firstlight/files"
IDENTITY = "etc/firstlight/image.json"


def refuse(why):
    sys.exit(f"firstlight: error: {why}")


def sections(data, name):
    """[(section, content)] of a PE file for x86-64, in their order."""
    if len(data) < 64 or data[:2] != b"MZ":
        refuse(f"{name} is not a UKI: it is not a PE file")
    (at,) = struct.unpack_from("<I", data, 60)
    if data[at : at + 4] != b"PE\0\0" or at + 24 > len(data):
        refuse(f"{name} is not a UKI: it is not a PE file")
    machine, count, _, _, _, optional, _ = struct.unpack_from("<HHIIIHH", data, at + 4)
    if machine != 0x8664:
        refuse(f"{name} is for the processor {machine:#06x}, not for x86-64 (0x8664)")
    found = []
    for n in range(count):
        where = at + 24 + optional + 40 * n
        if where + 40 > len(data):
            refuse(f"{name} is cut off: it ends within its table of sections")
        title, size, _, raw, start = struct.unpack_from("<8sIIII", data, where)
        title = title.rstrip(b"\0").decode(errors="replace")
        size = min(size, raw)
        if start + size > len(data):
            refuse(f"{name} is cut off: its section {title} ends at byte {start + size}, the file at byte {len(data)}")
        found.append((title, data[start : start + size]))
    return found


def profiles(found):
    """The UKI's profiles: [{section: content}]. Sections before the first .profile belong to the first one."""
    made = [{}]
    for title, content in found:
        if title == ".profile" and ".profile" in made[-1]:
            made.append({})
        made[-1][title] = content
    return made


def text(content):
    return content.rstrip(b"\0").decode().strip()


def entry(profile, name):
    """(id, kernel's bytes or None, title, words) of a profile."""
    about = dict(line.split("=", 1) for line in text(profile.get(".profile", b"")).splitlines() if "=" in line)
    identity, title = about.get("ID", ""), about.get("TITLE", "")
    if not re.fullmatch("[a-z][a-z0-9-]*", identity) or not title.startswith(f"{identity}: ") or ".cmdline" not in profile:
        refuse(f"{name} is not a UKI of firstlight: a profile has no boot entry")
    return identity, profile.get(".linux"), title.removeprefix(f"{identity}: "), text(profile[".cmdline"])


def driver_of(listing):
    """The version of the driver in a list of files; None if there is none."""
    found = re.search(r"/run/firstlight/driver/lib/libcuda\.so\.([0-9.]+[0-9])\t", listing)
    return found[1] if found else None


def system(data, name):
    """The files of the system in an initrd that has no driver."""
    try:
        packed = initrd.frames(data)
        if len(packed) > 1:
            last = initrd.files(packed[-1])
            version = driver_of(last.get(FILES, b"").decode(errors="replace"))
            if version:
                refuse(f"{name} already has a driver: {version}")
            refuse(f"{name} has {len(packed)} archives in its initrd, an image without a driver has 1")
        files = initrd.files(packed[0]) if packed else {}
    except initrd.Damaged as why:
        refuse(f"{name} is damaged: {why}")
    for must in (FILES, IDENTITY):
        if must not in files:
            refuse(f"{name} is not a UKI of firstlight: its initrd has no {must}")
    return files


def put(path, content):
    os.makedirs(os.path.dirname(path), exist_ok=True)
    with open(path, "wb") as file:
        file.write(content)


def main():
    path, out = sys.argv[1:]
    name = os.path.basename(path)
    with open(path, "rb") as file:
        main_profile, *others = profiles(sections(file.read(), name))
    for must in (".linux", ".initrd", ".osrel", ".uname"):
        if must not in main_profile:
            refuse(f"{name} is not a UKI: it has no section {must}")
    entries = [entry(profile, name) for profile in (main_profile, *others)]
    kernels = {own for _, own, _, _ in entries[1:] if own is not None}
    if len(kernels) != 1:
        refuse(f"{name} is not a UKI of firstlight: it has {len(kernels)} kernels besides the first, allowed: 1")
    files = system(main_profile[".initrd"], name)
    said = json.loads(files[IDENTITY])
    put(f"{out}/off/vmlinuz", entries[0][1])
    put(f"{out}/pt/vmlinuz", kernels.pop())
    put(f"{out}/initrd", main_profile[".initrd"])
    put(f"{out}/os-release", main_profile[".osrel"])
    put(f"{out}/release", text(main_profile[".uname"]).encode() + b"\n")
    put(f"{out}/files", files[FILES])
    put(f"{out}/identity", f"{said['version']} {said['image_id']}\n".encode())
    flavours = ["off", *("off" if own is None else "pt" for _, own, _, _ in entries[1:])]
    lines = ("\t".join((who, flavour, title, words)) for (who, _, title, words), flavour in zip(entries, flavours))
    put(f"{out}/entries", "".join(f"{line}\n" for line in lines).encode())


if __name__ == "__main__":
    try:
        main()
    except (OSError, ValueError, KeyError) as error:
        refuse(f"the UKI cannot be read: {error}")
