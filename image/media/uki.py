#!/usr/bin/env python3
"""uki.py KERNEL OUT OS-RELEASE RELEASE: assembles the UKIs; runs in the tools tree.

OUT/firstlight.efi contains the default entry and, as profiles of the UKI (systemd-stub 257), every other line of
OUT/firstlight.entries: its words, and its kernel if that is a different one. The initrd is in it once.
OUT/firstlight-pt.efi is the `pt` entry alone, for firmware that boots over the network without a menu.
"""

import sys
from concurrent.futures import ThreadPoolExecutor
from subprocess import run

STUBS = "/usr/lib/systemd/boot/efi"


def ukify(output, *words, stub="linuxx64.efi.stub"):
    run(["ukify", "build", f"--stub={STUBS}/{stub}", f"--output={output}", *words], check=True)


def main():
    kernel, out, os_release, release = sys.argv[1:]
    with open(f"{out}/firstlight.entries", encoding="utf-8") as file:
        entries = [line.rstrip("\n").split("\t") for line in file]
    about = {
        name: [f"--profile=ID={name}\nTITLE={name}: {title}", f"--cmdline={words}"]
        for name, _, title, words in entries
    }
    common = [f"--uname={release}", f"--os-release=@{os_release}"]
    system = {flavour: [f"--linux={kernel}/{flavour}/vmlinuz", *common] for _, flavour, *_ in entries}
    initrd = f"--initrd={out}/firstlight.initrd"
    default, own = entries[0][:2]
    with ThreadPoolExecutor(2) as side_by_side:
        waiting = []
        for name, flavour, *_ in entries[1:]:
            # a profile without its own kernel uses the default entry's other sections
            more = system[flavour] if flavour != own else []
            words = [f"/tmp/{name}", *about[name], *more]
            waiting.append(side_by_side.submit(ukify, *words, stub="addonx64.efi.stub"))
        profiles = [f"--join-profile=/tmp/{name}" for name, *_ in entries[1:]]
        for done in waiting:
            done.result()
        whole = [f"{out}/firstlight.efi", initrd, *system[own], *about[default], *profiles]
        waiting = [side_by_side.submit(ukify, *whole)]
        for name, flavour, _, words in entries:
            if name == "pt":
                alone = [f"{out}/firstlight-pt.efi", initrd, *system[flavour], f"--cmdline={words}"]
                waiting.append(side_by_side.submit(ukify, *alone))
        for done in waiting:
            done.result()


if __name__ == "__main__":
    main()
