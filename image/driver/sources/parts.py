"""parts.py look KIND ROOT [OPTION..]: prints which parts of NVIDIA's driver are below ROOT, what is missing, and what does not fit.
parts.py take KIND ROOT TO [OPTION..]: checks them and copies them to the folder TO, which must be new or empty; nothing else is written.

parts.py pack FOLDER FILE: packs a folder or git checkout of NVIDIA's open modules, the same for the same files.

KIND is where the files come from: `installed`, a machine's / ; `packages`, unpacked .deb files; `installer`, an unpacked
installer of NVIDIA's. Only reads: no module is loaded or removed. Needs Python 3.8 and, for packed firmware, the program zstd.

--modules FILE    the source of the modules: the archive or folder of open-gpu-kernel-modules, in place of one below ROOT
--kernel RELEASE  the kernel whose modules are looked at (by default the running one, if ROOT has its modules)
--libraries DIR   another folder with the driver's libraries, relative to ROOT

TO gets the files as the driver's image has them (lib/, bin/, firmware/VERSION/, nvswitch/, nvlsm/, doc/), modules.tar unless
--modules is given, `taken` (SHA256, path, where it was), and `facts` (lines NAME=VALUE).
"""

import argparse
import hashlib
import os
import re
import shlex
import shutil
import subprocess
import sys
import tempfile

from elf import RISC_V, X86_64, Elf, NotElf
from modules import Source, sources
from root import Refused, Root

VERSION = r"[0-9]+(?:\.[0-9]+)+"
# The folders of libraries of Debian and Ubuntu, Debian's alternatives, Fedora and SUSE, Arch, NixOS, container hosts; "" is the
# installer
LIBRARIES = ["usr/lib/x86_64-linux-gnu", "usr/lib/x86_64-linux-gnu/nvidia/current", "usr/lib64", "usr/lib", "run/opengl-driver/lib",
             "usr/local/nvidia/lib64", "usr/local/nvidia/lib", ""]
PROGRAMS = ["usr/bin", "usr/lib/nvidia/current", "run/current-system/sw/bin", "usr/local/nvidia/bin", "opt/bin", ""]
FIRMWARE = ["usr/lib/firmware/nvidia", "lib/firmware/nvidia", "usr/lib/firmware/updates/nvidia", "lib/firmware/updates/nvidia",
            "usr/local/nvidia/firmware/nvidia"]
# Where the kernel looks for firmware first, if it was set (Documentation/driver-api/firmware/fw_search_path.rst of Linux)
FIRMWARE_PATH = "sys/module/firmware_class/parameters/path"
# NVIDIA's licence, as the packages install it
LICENCES = ["LICENSE", "usr/share/doc/libcuda1/copyright", "usr/share/doc/libnvidia-compute*/copyright", "usr/share/licenses/nvidia-utils/LICENSE",
            "usr/share/licenses/*nvidia*/LICENSE*", "usr/share/doc/*nvidia*/LICENSE*"]
# The package nvlsm of NVIDIA: /opt/nvidia/nvlsm/{sbin,lib} and /usr/share/nvidia/nvlsm, by the spec files that repackage it
NVLSM, NVLSM_LIBRARIES, NVLSM_SETTINGS = "opt/nvidia/nvlsm/sbin/nvlsm", "opt/nvidia/nvlsm/lib/*.so*", "usr/share/nvidia/nvlsm/*.conf"
# What the image has without the driver
OF_IMAGE = re.compile(r"(ld-linux-x86-64|libc|libm|libdl|librt|libpthread|libgcc_s|libstdc\+\+|libibverbs|libnl-3|libnl-route-3)\.so\.")
# The first device id of Turing: the open modules need the system processor that GPUs have since then.
TURING = 0x1E00
TIME = int(os.environ.get("SOURCE_DATE_EPOCH", "0"))


class Found:
    """The parts below a root, and what is wrong with them."""

    def __init__(self, kind, root, options, work):
        self.kind, self.root, self.options, self.work = kind, root, options, work
        self.wrong, self.notes, self.parts, self.seen = [], [], {}, {}
        self.version, self.source, self.gpus = "", None, []
        # why this machine runs the closed flavour of the modules; the packed source
        self.closed, self.modules = "", b""
        self.libraries = ([options.libraries.strip("/")] if options.libraries else []) + LIBRARIES

    def attempt(self, step, *arguments):
        """Does one step; what it refuses is one fault of the whole."""
        try:
            return step(*arguments)
        except Refused as why:
            self.wrong.append(str(why))
            return None

    def put(self, path, where):
        """A part: its path in the driver's image, and where it is below the root."""
        self.parts[path] = where
        return where

    def content(self, where):
        """A part's content, read once."""
        if where not in self.seen:
            self.seen[where] = self.root.unpacked(where)
        return self.seen[where]

    def elf(self, where, machine=X86_64):
        try:
            found = Elf(self.content(where))
        except NotElf as why:
            raise Refused(f"{where} {why}") from why
        if found.machine != machine:
            raise Refused(f"{where} is for another processor: {found.processor}, not {'x86-64' if machine == X86_64 else 'RISC-V'}")
        return found

    def first(self, folders, name):
        return next((f"{folder}/{name}".lstrip("/") for folder in folders if self.root.exists(f"{folder}/{name}")), None)

    def library(self, name, must=True):
        """Finds NAME.VERSION. Where several versions are installed, the link NAME.1 tells which one programs use."""
        versions = {}
        for folder in self.libraries:
            for file in self.root.names(folder):
                if found := re.fullmatch(re.escape(name) + rf"\.({VERSION})", file):
                    versions.setdefault(found[1], f"{folder}/{file}".lstrip("/"))
        linked = re.fullmatch(re.escape(name) + rf"\.({VERSION})", self.root.link(self.first(self.libraries, f"{name}.1") or "") or "")
        if len(versions) > 1 and linked and linked[1] in versions:
            versions = {linked[1]: versions[linked[1]]}
        if len(versions) > 1:
            raise Refused(f"{name} is there in {len(versions)} versions, {' and '.join(sorted(versions))}, and no link {name}.1 says which is used")
        if not versions and must:
            raise Refused(f"{name}.VERSION is missing: {self.package('library', name)}")
        for version, where in versions.items():
            if not self.version:
                self.version = version
            if version != self.version:
                raise Refused(f"{where} is version {version}, libcuda.so is version {self.version}")
            self.put(f"lib/{name}.{version}", where)
            self.elf(where)
            # The PTX compiler alone does not contain its version.
            if must and version.encode() not in self.content(where):
                raise Refused(f"{where} does not contain {version}, the version in its name: it is another file")

    def program(self, name, must):
        # A script of that name starts the program from elsewhere.
        found = [path for folder in (*PROGRAMS, *self.libraries) if (path := self.first([folder], name))]
        where = next((path for path in found if self.content(path).startswith(b"\x7fELF")), next(iter(found), None))
        if where is None:
            if must:
                raise Refused(f"{name} is missing: {self.package('program', name)}")
            return
        self.put(f"bin/{name}", where)
        self.elf(where)
        if self.version.encode() not in self.content(where):
            said = re.search(rb"\0([0-9]{3}\.[0-9]+(?:\.[0-9]+)?)\0", self.content(where))
            raise Refused(f"{where} is version {said[1].decode() if said else '(none found)'}, libcuda.so is version {self.version}")

    def firmware(self):
        set_path = self.root.text(FIRMWARE_PATH).strip("/") if self.kind == "installed" else ""
        places = [f"{set_path}/nvidia", *FIRMWARE] if set_path else FIRMWARE
        folders = ["firmware"] if self.kind == "installer" else [f"{folder}/{self.version}" for folder in places]
        for folder in folders:
            for file in self.root.names(folder):
                name = re.sub(r"\.(xz|zst)$", "", file)
                if re.fullmatch(r"gsp_\w+\.bin", name) and f"firmware/nvidia/{self.version}/{name}" not in self.parts:
                    self.attempt(self.one_firmware, self.put(f"firmware/nvidia/{self.version}/{name}", f"{folder}/{file}"))
        if not any(path.startswith("firmware/") for path in self.parts):
            # a folder of this version that is empty is no other version
            others = {name for folder in places for name in self.root.names(folder) if re.fullmatch(VERSION, name)} - {self.version}
            if others:
                raise Refused(f"the GPU firmware is version {' and '.join(sorted(others))}, libcuda.so is version {self.version}: "
                              f"{self.package('firmware', '')}")
            raise Refused(f"the GPU firmware nvidia/{self.version}/gsp_*.bin is missing: {self.package('firmware', '')}")

    def one_firmware(self, where):
        said = self.elf(where, RISC_V).words(".fwversion")
        if said != [self.version]:
            raise Refused(f"{where} is version {' '.join(said) or '(none found)'}, libcuda.so is version {self.version}")

    def fabric(self):
        """The fabric manager with its topologies, and the subnet manager of NVLink 5, which has a version of its own."""
        self.program("nv-fabricmanager", False)
        if "bin/nv-fabricmanager" in self.parts:
            for where in self.root.match("usr/share/nvidia/nvswitch/*"):
                self.put(f"nvswitch/{os.path.basename(where)}", where)
                self.content(where)
        if self.root.exists(NVLSM):
            needed = self.elf(self.put("bin/nvlsm", NVLSM)).needed()
            for where in self.root.match(NVLSM_LIBRARIES):
                needed += self.elf(self.put(f"nvlsm/lib/{os.path.basename(where)}", where)).needed()
            for where in self.root.match(NVLSM_SETTINGS):
                self.put(f"nvlsm/{os.path.basename(where)}", where)
                self.content(where)
            for name in needed:
                if OF_IMAGE.match(name) or f"nvlsm/lib/{name}" in self.parts:
                    continue
                where = self.first(self.libraries, name)
                if where is None:
                    raise Refused(f"{NVLSM} needs {name}, which is missing")
                self.elf(self.put(f"nvlsm/lib/{name}", where))

    def devices(self):
        """The NVIDIA GPUs of the machine, by device id."""
        for folder in self.root.match("sys/bus/pci/devices/*"):
            if self.root.text(f"{folder}/vendor") == "0x10de" and self.root.text(f"{folder}/class").startswith("0x03"):
                said = self.root.text(f"{folder}/device")
                if not re.fullmatch(r"0x[0-9a-fA-F]{4}", said):
                    raise Refused(f"{folder}/device is '{said}', not a device id as 0x2b85")
                self.gpus.append((os.path.basename(folder), int(said, 16)))
        old = [f"{address} (10de:{device:04x})" for address, device in self.gpus if device < TURING]
        if old and len(old) == len(self.gpus):
            raise Refused(f"the GPUs are older than Turing, and NVIDIA's open modules cannot run them: {', '.join(old)}")
        if old:
            self.notes.append(f"without {', '.join(old)}: older than Turing, and NVIDIA's open modules cannot run it")

    def kernel_modules(self):
        """The modules that this machine loads: flavour and version of the driver that it runs."""
        loaded = self.root.text("sys/module/nvidia/version")
        if loaded and loaded != self.version:
            raise Refused(f"the loaded module nvidia is version {loaded}, libcuda.so is version {self.version}: restart the machine, or install one of them again")
        said = self.root.text("proc/driver/nvidia/version")
        folder = next((f"{top}/{self.options.kernel or os.uname().release}" for top in ("usr/lib/modules", "lib/modules")
                       if self.root.is_folder(f"{top}/{self.options.kernel or os.uname().release}")), None)
        folders = [folder] if folder else self.root.match("usr/lib/modules/*") or self.root.match("lib/modules/*")
        licences = {}
        for where in (found for folder in folders for found in self.below(folder)):
            try:
                info = Elf(self.root.unpacked(where)).modinfo()
            except NotElf as why:
                raise Refused(f"{where} {why}") from why
            licences[where] = (info.get("license", ""), info.get("version", ""))
        closed = [where for where, (licence, _) in licences.items() if licence == "NVIDIA"]
        if (closed or ("Kernel Module" in said and "Open Kernel Module" not in said)) and not self.options.modules:
            where = f"{closed[0]}: license NVIDIA" if closed else "/proc/driver/nvidia/version does not say Open"
            version = licences[closed[0]][1] if closed else loaded
            self.closed = f"this machine runs the closed flavour of the modules {version} ({where})"
        self.prebuilt = bool(licences)

    def below(self, folder):
        """The module nvidia in a kernel's modules; Debian's have other names."""
        for name in self.root.names(folder):
            path = f"{folder}/{name}"
            if re.fullmatch(r"nvidia(-current|-current-open)?\.ko(\.(xz|zst|gz))?", name):
                yield path
            elif name not in ("build", "source") and self.root.is_folder(path) and not os.path.islink(self.root.at(self.root.resolve(folder) + [name])):
                yield from self.below(path)

    def module_source(self):
        if self.options.modules:
            return
        there, broken = sources(self.root, self.work)
        fitting = [source for source in there if source.version == self.version]
        usable = sorted((source for source in fitting if not source.closed), key=lambda source: not source.whole)
        for source in usable:
            try:
                source.check()
                # read here, so that a file that cannot be read is a fault of the whole
                self.source, self.modules = source, source.pack(TIME)
                break
            except Refused as why:
                self.source = None
                broken.append(str(why))
        if self.source:
            if self.closed:
                self.notes.append(f"{self.closed}; the image gets the open ones, built from {self.source.where}")
            return
        # one in a folder of another version says nothing about this driver
        broken = [why for why in broken if (named := re.search(rf"nvidia(?:-[a-z]+)*-({VERSION})/", why)) is None or named[1] == self.version]
        if broken and not self.closed:
            raise Refused(broken[-1])
        need = f"the image needs the open one: {self.package('closed' if self.closed else 'source', '')}"
        if fitting:
            closed = f"{fitting[0].where} is the closed flavour of the modules {self.version} (MODULE_LICENSE NVIDIA)"
            raise Refused(f"{self.closed}, {closed}, and {need}" if self.closed else f"{closed}, and {need}")
        if self.closed:
            other = f"the modules' source {there[0].where} is version {there[0].version or '(none found)'}" if there else "no source of modules is installed"
            raise Refused(f"{self.closed}, {broken[-1] if broken else other}, and {need}")
        if there:
            raise Refused(f"the modules' source {there[0].where} is version {there[0].version or '(none found)'}, "
                          f"libcuda.so is version {self.version}: {self.package('source', '')}")
        what = "the modules are prebuilt, and their source is missing" if getattr(self, "prebuilt", False) else "the modules' source is missing"
        raise Refused(f"{what}: {self.package('source', '')}")

    def licence(self):
        where = next((path for pattern in LICENCES for path in self.root.match(pattern)), None)
        if where is None:
            self.notes.append("NVIDIA's licence text is not installed: the image will not have it")
        else:
            self.content(self.put("doc/nvidia-driver.copyright", where))

    def package(self, what, name):
        """Which package brings a part on this distribution, and where else it can come from."""
        branch = self.version.split(".")[0]
        if self.kind != "installed":
            return packages_of(what, name, branch, self.version)
        about = self.root.text("etc/os-release") or self.root.text("usr/lib/os-release")
        return installed_by(distribution(about), what, name, branch, self.version, self.server(branch))

    def server(self, branch):
        """Ubuntu's variant of the packages for servers, if that is the one that is installed."""
        return "-server" if branch and self.root.exists(f"usr/share/doc/libnvidia-compute-{branch}-server") else ""

    def all(self):
        self.attempt(self.library, "libcuda.so")
        if not self.version and self.options.what == "look":
            # what else is missing for the driver that is loaded
            self.version = self.root.text("sys/module/nvidia/version")
        if not self.version:
            return self
        for name in ("libnvidia-ml.so", "libnvidia-ptxjitcompiler.so"):
            self.attempt(self.library, name, name == "libnvidia-ml.so")
        self.attempt(self.program, "nvidia-smi", True)
        self.attempt(self.firmware)
        self.attempt(self.fabric)
        if self.kind == "installed":
            self.attempt(self.devices)
            self.attempt(self.kernel_modules)
        self.attempt(self.module_source)
        self.attempt(self.licence)
        return self


def tag(version):
    return f"--modules FILE with open-gpu-kernel-modules-{version}.tar.gz, tag {version} of github.com/NVIDIA/open-gpu-kernel-modules"


def distribution(about):
    """The names of a distribution and of those it is like, by os-release, which is read as a shell would."""
    values = {}
    for line in about.splitlines():
        key, _, value = line.strip().partition("=")
        try:
            values[key] = " ".join(shlex.split(value, comments=True))
        except ValueError:
            # a quotation without an end says nothing
            continue
    return f"{values.get('ID', '')} {values.get('ID_LIKE', '')}".split()


BRANCH = "BRANCH is the first number of the driver's version, as 580"


def installed_by(ids, what, name, branch, version, server):
    """The package of a distribution that brings a part. Without a version nothing of the driver was found."""
    new = branch.isdigit() and int(branch) >= 590
    if "ubuntu" in ids:
        if not branch:
            return f"ubuntu-drivers install, or apt-get install nvidia-driver-BRANCH-open ({BRANCH})"
        named = f"{branch}{server}"
        own = " (NVIDIA's repository: nvidia-kernel-source-open)" if new else ""
        source = f"apt-get install nvidia-kernel-source-{named}-open{own}"
        switch = f"apt-get install nvidia-driver-{named}-open, which replaces it"
        parts = {"library": f"libnvidia-compute-{named}", "program": f"nvidia-utils-{named}",
                 "firmware": f"nvidia-firmware-{named}-{version} (NVIDIA's repository: nvidia-firmware)"}
        install = "apt-get install "
    elif "debian" in ids:
        source = "apt-get install nvidia-open-kernel-dkms (NVIDIA's repository: nvidia-kernel-open-dkms)"
        switch = f"{source}, which replaces it"
        parts = {"library": {"libnvidia-ml.so": "libnvidia-ml1"}.get(name, "libcuda1"), "program": "nvidia-smi", "firmware": "firmware-nvidia-gsp"}
        install = "apt-get install "
    elif "fedora" in ids or "rhel" in ids:
        source = "dnf install xorg-x11-drv-nvidia-kmodsrc (RPM Fusion) or kmod-nvidia-open-dkms (NVIDIA's repository)"
        switch = source
        own = "libnvidia-ml" if name == "libnvidia-ml.so" else "nvidia-driver-cuda-libs"
        parts = {"library": f"xorg-x11-drv-nvidia-cuda-libs (RPM Fusion) or {own} (NVIDIA's repository)",
                 "program": "xorg-x11-drv-nvidia-cuda (RPM Fusion) or nvidia-driver-cuda (NVIDIA's repository)",
                 "firmware": "xorg-x11-drv-nvidia (RPM Fusion) or nvidia-kmod-common (NVIDIA's repository)"}
        install = "dnf install "
    elif any(word.startswith(("suse", "opensuse", "sles")) for word in ids):
        source = switch = f"zypper install nvidia-open-driver-{'G07' if new else 'G06'} (NVIDIA's repository)"
        parts = {"library": f"nvidia-compute-{'G07' if new else 'G06'}", "program": f"nvidia-compute-utils-{'G07' if new else 'G06'}"}
        install = "zypper install "
    elif "arch" in ids:
        source, parts, install = "pacman -S nvidia-open-dkms", dict.fromkeys(("library", "program", "firmware"), "nvidia-utils"), "pacman -S "
        switch = f"{source}, which replaces it"
    else:
        source, parts, install = "install the source of NVIDIA's open modules, which DKMS builds", {}, ""
        switch = source
    if what in ("source", "closed"):
        return f"{switch if what == 'closed' else source}, in version {version}; or {tag(version)}"
    if what in parts:
        return install + parts[what]
    return f"install the package of NVIDIA's driver that brings /lib/firmware/nvidia/{version}" if what == "firmware" else "install NVIDIA's driver"


def packages_of(what, name, branch, version):
    """What a folder of packages, or NVIDIA's installer, lacks."""
    dash = f"-{branch}" if branch else "-BRANCH"
    branches = "(Ubuntu; NVIDIA from 590 on without the branch)" if branch else f"(Ubuntu; {BRANCH})"
    if what == "source":
        return f"it is in nvidia-open-kernel-dkms (Debian) or nvidia-kernel-source{dash}-open {branches}; or {tag(version)}"
    debian, ubuntu = {
        "library": ("libnvidia-ml1" if name == "libnvidia-ml.so" else "libcuda1", f"libnvidia-compute{dash}"),
        "program": (name, f"nvidia-utils{dash}"),
        "firmware": ("firmware-nvidia-gsp", f"nvidia-firmware{dash}-{version}"),
    }[what]
    if what == "firmware":
        branches = "(Ubuntu; NVIDIA's repository: nvidia-firmware)"
    return f"it is in {debian} (Debian) or {ubuntu} {branches}"


def take(found, to):
    """Writes all parts to the folder `to`."""
    rows = []

    def write(path, data, where, mode):
        target = os.path.join(to, path)
        os.makedirs(os.path.dirname(target), exist_ok=True)
        with open(target, "wb") as file:
            file.write(data)
        os.chmod(target, mode)
        rows.append((hashlib.sha256(data).hexdigest(), path, where))

    new = not os.path.isdir(to)
    try:
        os.makedirs(to, exist_ok=True)
        for path, where in sorted(found.parts.items()):
            write(path, found.content(where), where, 0o755 if path.startswith("bin/") else 0o644)
        if found.source:
            write("modules.tar", found.modules, found.source.where, 0o644)
        for name, lines in (("taken", ("\t".join(row) for row in rows)), ("facts", (f"{key}={value}" for key, value in facts(found).items()))):
            with open(os.path.join(to, name), "w", encoding="utf-8", errors="backslashreplace") as file:
                file.writelines(f"{line}\n" for line in lines)
    except BaseException:
        # nothing half-written stays; the folder was empty
        for name in os.listdir(to) if os.path.isdir(to) else []:
            path = os.path.join(to, name)
            if os.path.isdir(path):
                shutil.rmtree(path)
            else:
                os.remove(path)
        if new and os.path.isdir(to):
            os.rmdir(to)
        raise


def facts(found):
    return {
        "version": found.version,
        "modules": "--modules" if not found.source else "source" if found.source.whole else "prebuilt",
        "modules_from": found.source.where if found.source else "",
        "gpus": " ".join(f"{device:04x}" for _, device in found.gpus if device >= TURING),
    }


def look(found):
    """Prints the parts with their sizes, unpacked and, where zstd is there, as zstd -19 packs them."""
    packed = shutil.which("zstd")
    print(f"version   {found.version or 'unknown'}")
    for path, where in sorted(found.parts.items()):
        data = found.seen.get(where)
        size = "unreadable" if data is None else f"{len(data)} bytes"
        if data is not None and packed and found.options.sizes:
            size += f", packed {len(subprocess.run([packed, '-19', '-T0', '-q', '-c'], input=data, capture_output=True, check=True).stdout)}"
        print(f"found     {path}  ({where}, {size})")
    if found.source:
        kind = "whole tree" if found.source.whole else "kernel-open and a prebuilt resource manager"
        print(f"found     the modules' source  ({found.source.where}, {kind})")
    for address, device in found.gpus:
        print(f"gpu       {address} 10de:{device:04x}")
    for note in found.notes:
        print(f"note      {note}")
    for why in found.wrong:
        print(f"refused   {why}")
    count = len(found.wrong)
    print(f"{count} fault{'s' if count > 1 else ''}: no image can be built from it" if count else "complete")


def wrong(text):
    """Ends with a word that cannot be meant: 64, as the scripts do."""
    print(f"firstlight: error: {text}", file=sys.stderr)
    sys.exit(64)


def pack(words):
    if len(words) != 2 or any(word.startswith("--") for word in words):
        wrong("pack needs a folder and a file to write: parts.py pack FOLDER FILE")
    folder, to = words
    if not os.path.isdir(folder):
        wrong(f"pack: there is no folder {folder}")
    source = Source(Root(folder), "", folder)
    source.check()
    data = source.pack(TIME)
    with open(to, "wb") as file:
        file.write(data)


class Parser(argparse.ArgumentParser):
    def error(self, message):
        wrong(f"{message}: parts.py look KIND ROOT, parts.py take KIND ROOT TO, or parts.py --help")


def run():
    if sys.argv[1:2] == ["pack"]:
        pack(sys.argv[2:])
        return
    parser = Parser(prog="parts.py", usage=__doc__.split("\n\n", 1)[0].replace("%", "%%"))
    parser.add_argument("what", choices=("look", "take"))
    parser.add_argument("kind", choices=("installed", "packages", "installer"))
    parser.add_argument("root")
    parser.add_argument("to", nargs="?")
    for option in ("--modules", "--kernel", "--libraries"):
        parser.add_argument(option, default="")
    parser.add_argument("--sizes", action="store_true")
    options = parser.parse_args()
    if not os.path.isdir(options.root):
        wrong(f"there is no folder {options.root}")
    if options.what == "take":
        if not options.to:
            wrong("take needs a folder to write to: parts.py take KIND ROOT TO")
        if os.path.lexists(options.to) and (not os.path.isdir(options.to) or os.listdir(options.to)):
            wrong(f"{options.to} is not a new or empty folder")
    root = Root(options.root)
    if options.libraries and not root.is_folder(options.libraries):
        wrong(f"--libraries: there is no folder {options.libraries} below {options.root}")
    with tempfile.TemporaryDirectory() as work:
        found = Found(options.kind, root, options, work).all()
        if options.what == "look":
            look(found)
            sys.exit(1 if found.wrong else 0)
        if found.wrong:
            more = f" (and {len(found.wrong) - 1} more: ./run driver-look)" if len(found.wrong) > 1 else ""
            raise Refused(f"{found.wrong[0]}{more}")
        for note in found.notes:
            print(f"firstlight: {note}", file=sys.stderr)
        take(found, options.to)


def main():
    sys.stdout.reconfigure(errors="backslashreplace")
    try:
        run()
    except Refused as why:
        sys.exit(f"firstlight: error: {why}")
    except MemoryError:
        sys.exit("firstlight: error: the memory of this machine does not suffice")
    except (OSError, RecursionError, ValueError) as why:
        # what no step foresaw
        sys.exit(f"firstlight: error: {type(why).__name__}: {why}".replace("\n", " "))


if __name__ == "__main__":
    main()
