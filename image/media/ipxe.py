#!/usr/bin/env python3
"""ipxe.py ENTRIES: prints the iPXE script that boots over the network: the boot entries of an image (its file
firstlight.entries) as a menu. All files that the script names are in the same folder.
"""

import sys

KERNELS = {"off": "vmlinuz", "pt": "vmlinuz-pt"}
MENU_SECONDS = 5

IPXE_HEAD = """#!ipxe
# firstlight's boot script, made from image/media/entries.toml. It needs iPXE, on BIOS or UEFI; all files that it names
# are in the same folder. It shows a menu for some seconds and then boots the entry `entry`.
#
# Settings for one node: a file node/MAC.ipxe beside this one, where MAC is that of the node's first network card,
# with dashes (node/52-54-00-12-34-56.ipxe). A node without such a file uses the settings below. It may contain:
#   #!ipxe
#   set entry quick
#   set wait 1
#   set words firstlight.expect.gpus=8 firstlight.network.mode=dhcp
set entry @default@
# how many milliseconds the menu waits for a key; 1: boots at once, 0: waits forever
set wait @seconds@000
set words
chain --autofree node/${net0/mac:hexhyp}.ipxe || echo no settings for node ${net0/mac:hexhyp}, which is fine
"""

IPXE_TAIL = """
:start
initrd initrd || goto failed
boot || goto failed

:ipxe
shell
goto menu

:unknown
echo firstlight: there is no entry ${entry}; allowed: @ids@
set entry @default@
goto wait

:failed
echo firstlight: could not be loaded
:wait
echo The machine restarts in a minute; press any key for the menu
prompt --timeout 60000 && goto menu || reboot
"""


def main():
    with open(sys.argv[1], encoding="utf-8") as file:
        entries = [line.rstrip("\n").split("\t") for line in file]
    default = entries[0][0]
    print(IPXE_HEAD.replace("@default@", default).replace("@seconds@", str(MENU_SECONDS)), end="")
    for name, *_ in entries:
        print(f"set known-{name} yes")
    print("isset ${known-${entry}} || goto unknown")
    print("\n:menu")
    print("menu firstlight on ${net0/mac}")
    for name, _, title, _ in entries:
        print(f"item {name} {name:<10}{title}")
    print("item ipxe ipxe      iPXE's own command line")
    print("choose --default ${entry} --timeout ${wait} entry || goto menu")
    print("goto ${entry}")
    for name, flavour, _, words in entries:
        print()
        print(f":{name}")
        print(f"kernel {KERNELS[flavour]} initrd=initrd {words} BOOTIF=01-${{netX/mac:hexhyp}} ${{words}} || goto failed")
        print("goto start")
    print(IPXE_TAIL.replace("@default@", default).replace("@ids@", " ".join(entry[0] for entry in entries)), end="")


if __name__ == "__main__":
    main()
