# shellcheck shell=bash
# What the scripts share: a temporary folder, pinned packages in it, and how they end.
# A script begins with `. "$(dirname "$0")/lib.sh"`. It ends with 0 where the behaviour is as described, 1 where it has changed, and
# 77 where it cannot run here.
set -euo pipefail
export LC_ALL=C TZ=UTC
work=$(mktemp -d)
trap 'rm -rf "$work"' EXIT
cd "$work"

# skip WHY: this machine cannot tell.
skip() { echo "SKIP ${0##*/}: $1" >&2; exit 77; }

# changed WHAT: the behaviour is not the one that the script describes.
changed() { echo "CHANGED ${0##*/}: $1" >&2; exit 1; }

# has TEXT WHAT: the text that was seen contains WHAT.
has() { [[ $1 == *"$2"* ]] || changed "expected to see '$2', saw: $1"; }

# lacks TEXT WHAT: the text that was seen does not contain WHAT.
lacks() { [[ $1 != *"$2"* ]] || changed "expected not to see '$2', saw: $1"; }

# is WHAT SEEN EXPECTED
is() { [ "$2" = "$3" ] || changed "$1: expected '$3', saw '$2'"; }

# needs COMMAND..: programs of the machine itself.
needs() {
    local name
    for name in "$@"; do command -v "$name" > /dev/null || skip "$name is not installed"; done
}

# debian SUITE NAME=VERSION..: the packages, and what they depend on, unpacked in $work/SUITE. They come from the archive that
# this machine's apt uses; nothing is installed. Where run-all.sh gives FINDINGS_LISTS, the archive's lists are fetched once.
debian() {
    local suite=$1 site apt=$work/apt-$1 root=$work/$1 lists=${FINDINGS_LISTS:-$work}/lists-$1
    shift
    needs apt-get dpkg-deb
    # shellcheck disable=SC2016  # apt fills these in
    site=$(apt-get indextargets --format '$(REPO_URI)' 'Component: main' 'Origin: Debian' 2> /dev/null | grep -v security | head -1)
    [ -n "$site" ] || skip "apt knows no Debian archive here; run apt-get update"
    mkdir -p "$lists/partial" "$apt/cache/archives/partial" "$root"
    printf 'deb [signed-by=/usr/share/keyrings/debian-archive-keyring.gpg] %s %s main\n' "$site" "$suite" > "$apt/list"
    cat > "$apt/conf" <<EOF
Dir::State::Lists "$lists";
Dir::Cache "$apt/cache";
Dir::Etc::SourceList "$apt/list";
Dir::Etc::SourceParts "-";
Dir::State::Status "/dev/null";
APT::Sandbox::User "";
APT::Architecture "amd64";
Debug::NoLocking "true";
EOF
    [ -e "$lists/fetched" ] || APT_CONFIG=$apt/conf apt-get -qq update > "$apt/log" 2>&1 || skip "the lists of $suite cannot be fetched"
    touch "$lists/fetched"
    APT_CONFIG=$apt/conf apt-get -qq -y --no-install-recommends --download-only install "$@" > "$apt/log" 2>&1 ||
        skip "the archive no longer has $* in $suite"
    local package
    for package in "$apt"/cache/archives/*.deb; do dpkg-deb -x "$package" "$root"; done
}

# of SUITE PROGRAM ARGUMENTS..: runs a program of `debian` with the libraries of its own suite.
of() {
    local root=$work/$1 program=$2 at found="" libraries loader
    shift 2
    for at in usr/sbin usr/bin sbin bin; do
        at=$root/$at/$program
        case $(readlink "$at" || true) in /*) at=$root$(readlink "$at") ;; esac
        [ ! -x "$at" ] || { found=$at; break; }
    done
    [ -n "$found" ] || skip "the packages have no program $program"
    loader=$(find "$root/lib" "$root/usr/lib" -name ld-linux-x86-64.so.2 -type f 2> /dev/null | head -1 || true)
    libraries=$(find "$root/lib/x86_64-linux-gnu" "$root/usr/lib/x86_64-linux-gnu" -maxdepth 1 -type d 2> /dev/null | paste -sd : || true)
    "$loader" --argv0 "$program" --library-path "$libraries" "$found" "$@"
}

# wheels REQUIREMENT..: Python packages with a version each, in $work/python, where `python` finds them.
wheels() {
    needs python3
    python3 -m pip --version > /dev/null 2>&1 || skip "python3 has no pip"
    python3 -m pip install --quiet --disable-pip-version-check --no-warn-script-location --target "$work/python" "$@" > "$work/pip" 2>&1 ||
        skip "these Python packages cannot be had: $*"
}
python() { PYTHONPATH=$work/python python3 "$@"; }

# nccl VERSION: NVIDIA's library from the wheel of nvidia-nccl-cu12, as $work/nccl-VERSION/libnccl.so.2.
nccl() {
    needs python3
    mkdir -p "nccl-$1"
    python3 -m pip download --quiet --disable-pip-version-check --no-deps --dest "$work/wheel-$1" "nvidia-nccl-cu12==$1" > "$work/pip" 2>&1 ||
        skip "the wheel of NCCL $1 cannot be had"
    python3 -c 'import sys, zipfile, glob
wheel = zipfile.ZipFile(glob.glob(sys.argv[1] + "/*.whl")[0])
with wheel.open("nvidia/nccl/lib/libnccl.so.2") as source, open(sys.argv[2], "wb") as to:
    while part := source.read(1 << 20): to.write(part)' "$work/wheel-$1" "nccl-$1/libnccl.so.2"
    rm -rf "$work/wheel-$1"
}

# node_packages NAME@VERSION..: npm packages in $work/node_modules.
node_packages() {
    needs node npm
    npm install --silent --no-audit --no-fund --ignore-scripts --prefix "$work" "$@" > "$work/npm" 2>&1 ||
        skip "these npm packages cannot be had: $*"
}

# unique_id VERSION [NAME=VALUE..]: starts that NCCL as far as it goes without a GPU (ncclGetUniqueId), with these variables and
# no other of NCCL's, and prints its log, its status, and the variables that it has set.
unique_id() {
    local version=$1
    shift
    cat > start.py << 'EOF'
import ctypes, sys
nccl, libc = ctypes.CDLL(sys.argv[1]), ctypes.CDLL(None)
nccl.ncclGetErrorString.restype = ctypes.c_char_p
status = nccl.ncclGetUniqueId(ctypes.create_string_buffer(128))
sys.stdout.flush()
print("status", nccl.ncclGetErrorString(status).decode())
environ = ctypes.POINTER(ctypes.c_char_p).in_dll(libc, "environ")
at = 0
while environ[at] is not None:
    if b"NCCL_" in environ[at]:
        print("set", repr(environ[at].decode()))
    at += 1
EOF
    # shellcheck disable=SC2046  # a list
    env $(compgen -e NCCL_ | sed 's/^/--unset=/') "$@" timeout 60 python3 start.py "$work/nccl-$version/libnccl.so.2" 2>&1 || true
}

# alone COMMANDS: runs them, with the functions of this script, with an /etc and a network of their own. That needs root.
alone() {
    [ "$(id -u)" = 0 ] || skip "it needs root, for an /etc and a network of its own"
    needs unshare ip mount
    unshare --mount --net true 2> /dev/null || skip "this machine allows no namespaces of its own"
    export work
    unshare --mount --net bash -c "set -euo pipefail
        $(declare -f)
        mkdir over; mount -t tmpfs none over; mkdir over/new over/work
        mount -t overlay none -o lowerdir=/etc,upperdir=over/new,workdir=over/work /etc
        ip link set lo up
        $1"
}

# interface NAME ADDRESS [down]: one end of a virtual cable; both ends are up, or down.
interface() {
    ip link add "$1" type veth peer name "peer-$1"
    ip address add "$2" dev "$1"
    [ "${3:-}" = down ] || { ip link set "$1" up; ip link set "peer-$1" up; }
}

# pci_dump FUNCTION..: configuration space as `lspci -xxxx` prints it. A function is BUS:SLOT.NUMBER CLASS SPEED [ACS]: the
# class as six digits, the speed of its link as a number (5 is 32 GT/s, 6 is 64 GT/s), and in ACS the control word and the
# egress vector of an ACS capability. All are PCI Express functions; class 060400 is a root port.
pci_dump() {
    needs python3
    python3 - "$@" << 'EOF'
import struct, sys
for function in sys.argv[1:]:
    place, kind, speed, *acs = function.split()
    space = bytearray(4096)
    bridge = kind == "060400"
    struct.pack_into("<HHHH", space, 0, 0x8086 if bridge else 0x10DE, 0x7D0A if bridge else 0x2684, 7, 0x10)
    space[9:12] = bytes.fromhex(kind)[::-1]
    space[14], space[0x34] = int(bridge), 0x40
    speed = int(speed)
    struct.pack_into("<BBH", space, 0x40, 0x10, 0, 2 | (0x40 if bridge else 0))
    struct.pack_into("<I", space, 0x4C, speed | 16 << 4)
    struct.pack_into("<H", space, 0x52, speed | 16 << 4)
    struct.pack_into("<I", space, 0x6C, ((1 << speed) - 1) << 1)
    struct.pack_into("<H", space, 0x70, speed)
    if acs:
        control, vector = (int(word, 16) for word in acs)
        struct.pack_into("<IHHI", space, 0x100, 0x1000D, 8 << 8 | 0x3F, control, vector)
    else:
        struct.pack_into("<I", space, 0x100, 0x20001)
    print(place, "a function")
    for at in range(0, 4096, 16):
        print(f"{at:02x}:", space[at : at + 16].hex(" "))
    print()
EOF
}

# modules NAME..: empty kernel modules with their index, below lib/modules/6.1, made with depmod of Debian 13.
modules() {
    needs cc
    debian trixie kmod=34.2-2
    debian bookworm kmod=30+20221128-1
    local name
    mkdir -p lib/modules/6.1/kernel configuration
    printf 'const char about[] __attribute__((section(".modinfo"), used)) = "license=GPL";\n' | cc -x c -c - -o module.o
    for name in "$@"; do cp module.o "lib/modules/6.1/kernel/$name.ko"; done
    touch lib/modules/6.1/modules.{order,builtin,builtin.modinfo}
    of trixie depmod --basedir "$PWD" 6.1
}

# loads MODULE [MODPROBE-OPTION..]: what modprobe of both versions would pass to it, by version.
loads() {
    local module=$1 suite seen
    shift
    [ $# -gt 0 ] || set -- --config configuration
    for suite in bookworm trixie; do
        seen=$(of "$suite" modprobe "$@" --dirname "$PWD" --set-version 6.1 --show-depends "$module" 2>&1)
        echo "$suite: $(sed "s#insmod .*/$module.ko *##; s/ *\$//" <<< "$seen")"
    done
}

# qemu_ports DEVICE..: starts QEMU of Debian 13 with these devices and stops it before its first instruction; prints for each
# PCI Express function its vendor and device, whether it has an ACS capability, and its link: LnkCap and LnkSta as
# SPEED/WIDTH, with 1 for 2.5 GT/s and 4 for 16 GT/s.
qemu_ports() {
    needs python3
    debian trixie qemu-system-x86=1:10.0.13+ds-0+deb13u1
    local words=(-L trixie/usr/share/qemu -L trixie/usr/share/seabios -machine q35 -accel tcg -S -nodefaults -display none -qmp unix:qmp,server=on,wait=off) device
    for device in "$@"; do words+=(-device "$device"); done
    cat > ports.py << 'EOF'
import socket
import sys

CONFIGURATION = 0xB0000000


def ask(line):
    print(line, flush=True)
    for answer in sys.stdin:
        if answer.startswith("OK"):
            return answer.split()[1:]
        if answer.startswith(("FAIL", "ERR")):
            break
    sys.exit("QEMU does not answer")


def read(place, at):
    return int(ask(f"readl {CONFIGURATION + place + at:#x}")[0], 16)


def extended(place):
    at = 0x100
    while at:
        value = read(place, at)
        yield value & 0xFFFF
        at = value >> 20


def scan(bus):
    global last
    for slot in range(32):
        place = bus << 20 | slot << 15
        name = read(place, 0)
        if name & 0xFFFF == 0xFFFF:
            continue
        at, express = read(place, 0x34) & 0xFC, None
        while at:
            value = read(place, at)
            express = at if value & 0xFF == 0x10 else express
            at = value >> 8 & 0xFC
        if express:
            able, now = read(place, express + 0xC), read(place, express + 0x10) >> 16
            acs = "ACS" if 0xD in extended(place) else "no-ACS"
            print(f"{name & 0xFFFF:04x}:{name >> 16:04x} {acs} {able & 15}/x{able >> 4 & 63} {now & 15}/x{now >> 4 & 63}", file=sys.stderr)
        if read(place, 0xC) >> 16 & 0x7F == 1:
            last += 1
            ask(f"writel {CONFIGURATION + place + 0x18:#x} {bus | last << 8 | 0xFF << 16:#x}")
            scan(last)


last = 0
ask("outl 0xcf8 0x80000060")
ask(f"outl 0xcfc {CONFIGURATION | 1:#x}")
scan(0)
with socket.socket(socket.AF_UNIX) as control:
    control.connect("qmp")
    control.sendall(b'{"execute":"qmp_capabilities"}{"execute":"quit"}')
    while control.recv(4096):
        pass
EOF
    mkfifo questions
    of trixie qemu-system-x86_64 "${words[@]}" -qtest stdio -qtest-log /dev/null < questions 2> said | timeout 60 python3 ports.py > questions 2> ports || true
    [ -s ports ] || skip "QEMU does not start here: $(head -1 said)"
    cat ports
}

# boot_offers SUITE LINE..: starts that dnsmasq with these lines of configuration on a network of its own (within `alone`), and
# asks it as three PXE clients: a BIOS, an x86-64 UEFI, and iPXE under UEFI. Prints for each the boot file that it is offered.
boot_offers() {
    local suite=$1 server
    shift
    printf '%s\n' "$@" port=0 no-ping interface=server bind-interfaces > "$PWD/dnsmasq.conf"
    of "$suite" dnsmasq --keep-in-foreground --user=root --conf-file="$PWD/dnsmasq.conf" --pid-file= \
        --dhcp-leasefile="$PWD/leases" --log-facility="$PWD/dnsmasq.log" &
    server=$!
    cat > client.py << 'EOF'
import socket, struct, time

PARTS = {"BIOS": (0, b""), "UEFI": (7, b""), "iPXE": (7, b"\x4d\x04iPXE\xaf\x03\xb1\x01\x00")}


def discover(number, architecture, more):
    vendor = b"PXEClient:Arch:%05d:UNDI:003016" % architecture
    options = b"\x35\x01\x01\x3c" + bytes([len(vendor)]) + vendor + b"\x5d\x02" + struct.pack(">H", architecture)
    options += b"\x5e\x03\x01\x03\x10\x61\x11\0" + bytes(16) + more + b"\x37\x04\x01\x03\x42\x43\xff"
    message = struct.pack(">BBBBIHH", 1, 1, 6, 0, number, 0, 0x8000) + bytes(16)
    message += bytes([2, 0, 0, 0, 0, number]) + bytes(202) + b"\x63\x82\x53\x63" + options
    message = struct.pack(">HHHH", 68, 67, 8 + len(message), 0) + message
    head = struct.pack(">BBHHHBBH4s4s", 0x45, 0, 20 + len(message), 1, 0, 64, 17, 0, bytes(4), b"\xff" * 4)
    total = sum(struct.unpack(">10H", head))
    total = (total & 0xFFFF) + (total >> 16)
    return b"\xff" * 6 + bytes([2, 0, 0, 0, 0, number]) + b"\x08\0" + head[:10] + struct.pack(">H", ~total & 0xFFFF) + head[12:] + message


def offered(number, architecture, more):
    """The boot file of the first answer, from the option or the header; None without an answer."""
    client = socket.socket(socket.AF_PACKET, socket.SOCK_RAW, socket.htons(0x800))
    client.bind(("peer-server", 0))
    client.settimeout(0.5)
    until = time.time() + 3
    client.send(discover(number, architecture, more))
    while time.time() < until:
        try:
            packet = client.recv(2000)
        except TimeoutError:
            continue
        message = packet[42:]
        if packet[23] != 17 or packet[36:38] != b"\0\x44" or message[4:8] != struct.pack(">I", number):
            continue
        file, at = message[108:236].split(b"\0")[0], 240
        while message[at] != 255:
            if message[at] == 67:
                file = message[at + 2 : at + 2 + message[at + 1]].rstrip(b"\0")
            at += 2 + message[at + 1] if message[at] else 1
        return file.decode() or "no file"
    return None


time.sleep(2)
for number, (name, (architecture, more)) in enumerate(PARTS.items(), 1):
    print(f"{name}: {offered(number, architecture, more) or 'no answer'}")
EOF
    python3 client.py
    kill "$server" $(pgrep -P "$server") 2> /dev/null || true
    wait "$server" 2> /dev/null || true
}
