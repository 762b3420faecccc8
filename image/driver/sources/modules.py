"""The source of NVIDIA's kernel modules as distributions install it: where it may be, which flavour and version it is, and
packing it into one archive that is the same for the same files.

Folder                                   who installs it                      what it holds
/usr/src/nvidia-VERSION                  Arch (file list of nvidia-open-dkms) the whole tree of open-gpu-kernel-modules
/usr/src/nvidia-VERSION                  Ubuntu, NVIDIA for Ubuntu            kernel-open of NVIDIA's installer
/usr/src/nvidia-open-VERSION             NVIDIA for Fedora and RHEL           the same; in src/ the whole tree, from
                                         (dkms-open-nvidia.spec)              nvidia-kmod-source
/usr/src/nvidia-current-open-VERSION     Debian (nvidia-open-kernel-dkms)     kernel-open
/usr/src/nvidia-open-kernel.tar.xz       Debian (nvidia-open-kernel-source)   kernel-open, in modules/nvidia-open-kernel
/usr/share/nvidia-kmod-VERSION/*.tar.xz  RPM Fusion                           kernel and kernel-open of the installer
                                         (xorg-x11-drv-nvidia.spec)
/usr/src/kernel-modules/nvidia-VERSION-FLAVOUR  NVIDIA for SUSE (kmp-filelist)  kernel-open

kernel-open alone has the resource manager as one object file that NVIDIA or Debian compiled (nvidia/nv-kernel.o_binary):
modules can be linked with it, and cannot be changed there.
"""

import io
import lzma
import os
import re
import tarfile
import tempfile
import zlib

from elf import X86_64, Elf, NotElf
from root import LIMIT, Refused, Root, size_text

FOLDERS = ["usr/src/nvidia-*[0-9]", "usr/src/nvidia-*[0-9]/src", "usr/src/kernel-modules/nvidia-*", "kernel-open"]
ARCHIVES = ["usr/share/nvidia-kmod-*/nvidia-kmod-*.tar.xz", "usr/src/nvidia-open-kernel.tar.xz"]
# The folder of the open flavour in an archive
INSIDE = ["kernel-open", "modules/nvidia-open-kernel"]
OBJECT = "nvidia/nv-kernel.o_binary"
# What a build leaves in a tree: objects of another compiler would be mistaken for ours.
BUILT = re.compile(r"\.(o|ko|cmd|mod|mod\.c|o_binary)$|^(Module\.symvers|modules\.order|_out|conftest|\.git|\.tmp_versions)$|^\.")
VERSION = r"[0-9]+(?:\.[0-9]+)+"


class Source:
    """One source that was found: `where` for people, `folder` in `root`, `whole` if the resource manager's source is in it."""

    def __init__(self, root, folder, where):
        self.root, self.folder, self.where = root, folder, where
        kernel = f"{folder}/kernel-open".lstrip("/")
        self.kernel = kernel if root.is_folder(kernel) else folder
        self.whole = root.is_folder(f"{folder}/src/nvidia") and self.kernel == kernel
        makefile = root.text(f"{folder}/version.mk") + "\n" + root.text(f"{self.kernel}/Kbuild")
        found = re.search(rf"^NVIDIA_VERSION *= *({VERSION})", makefile, re.M) or re.search(rf'NV_VERSION_STRING=\\"({VERSION})\\"', makefile)
        self.version = found[1] if found else ""
        # the file that names the licence until 515, and since
        code = root.text(f"{self.kernel}/nvidia/nv.c") + root.text(f"{self.kernel}/nvidia/nv-frontend.c")
        found = re.search(r'MODULE_LICENSE\("([^"]*)"\)', code)
        self.licence = found[1] if found else ""

    @property
    def closed(self):
        return self.licence == "NVIDIA"

    def check(self):
        """Refuses a source of which no module can be built."""
        if not self.licence:
            raise Refused(f"{self.where} is not the source of NVIDIA's modules: no file in its nvidia/ names a licence")
        for needed in ("Makefile", "nvidia/nvidia-sources.Kbuild", "nvidia-uvm/nvidia-uvm-sources.Kbuild"):
            if not self.root.exists(f"{self.kernel}/{needed}"):
                raise Refused(f"{self.where} is not complete: it has no {needed}")
        if self.whole:
            return
        try:
            machine = Elf(self.root.read(f"{self.kernel}/{OBJECT}")).machine
        except NotElf as why:
            raise Refused(f"{self.where}: {OBJECT} {why}") from why
        if machine != X86_64:
            raise Refused(f"{self.where}: {OBJECT} is for another processor than x86-64")

    def files(self):
        """(path in the archive, path in the root) of all that is packed, in order."""
        tops = [("", self.folder)] if self.whole else [("kernel-open", self.kernel)]
        if self.whole and self.root.resolve(self.kernel)[:-1] != self.root.resolve(self.folder):
            # a link to the folder around this one
            tops.append(("kernel-open", self.kernel))
        for top, folder in tops:
            yield from self.below(top, folder, len(tops) > 1 and top == "")

    def below(self, name, folder, without_kernel, around=()):
        real = self.root.resolve(folder)
        if real in around:
            raise Refused(f"{folder} is a link to a folder that it is in")
        for entry in self.root.names(folder):
            path, inside = f"{folder}/{entry}".lstrip("/"), f"{name}/{entry}".lstrip("/")
            if (BUILT.search(entry) and not (inside == f"kernel-open/{OBJECT}" and not self.whole)) or (without_kernel and entry == "kernel-open"):
                continue
            if name == "kernel-open" and entry == "src":
                continue
            if self.root.is_folder(path):
                yield from self.below(inside, path, False, (*around, real))
            else:
                yield inside, path

    def pack(self, time):
        """The tree as a tar archive: the same files give the same bytes."""
        out = io.BytesIO()
        with tarfile.open(fileobj=out, mode="w", format=tarfile.GNU_FORMAT) as tar:
            content = {inside: (lambda path=path: self.root.read(path)) for inside, path in self.files()}
            if not self.whole:
                content["version.mk"] = lambda: f"NVIDIA_VERSION = {self.version}\n".encode()
            size = 0
            content.setdefault("COPYING", lambda: self.root.read(f"{self.kernel}/nvidia/nv.c").split(b"*/")[0] + b"*/\n")
            for inside in sorted(content):
                data = content[inside]()
                size += len(data)
                if size > LIMIT:
                    raise Refused(f"{self.where} is larger than {size_text(LIMIT)}: it is not only the source of NVIDIA's modules")
                entry = tarfile.TarInfo(f"open-gpu-kernel-modules-{self.version}/{inside}")
                entry.size, entry.mtime = len(data), time
                # configuration scripts are run
                entry.mode = 0o755 if inside.endswith((".sh", ".pl", ".py")) or data[:2] == b"#!" else 0o644
                tar.addfile(entry, io.BytesIO(data))
        return out.getvalue()


def unpack(root, path, to):
    """The open flavour's part of an archive, unpacked into a folder; None if there is none in it."""
    try:
        size = 0
        with tarfile.open(fileobj=io.BytesIO(root.read(path)), mode="r:*") as tar:
            for entry in tar:
                size += entry.size
                if size > LIMIT:
                    raise Refused(f"{path} unpacks to more than {size_text(LIMIT)}")
                name = os.path.normpath(entry.name)
                top = next((top for top in INSIDE if name.startswith(f"{top}/")), None)
                if top is None or not entry.isfile() or ".." in name.split("/"):
                    continue
                target = os.path.join(to, os.path.relpath(name, top))
                os.makedirs(os.path.dirname(target), exist_ok=True)
                with open(target, "wb") as file:
                    file.write(tar.extractfile(entry).read())
    except (tarfile.TarError, lzma.LZMAError, zlib.error, EOFError, OSError, ValueError) as error:
        raise Refused(f"{path} is cut off or damaged: it cannot be unpacked") from error
    return Source(Root(to), "", path) if os.listdir(to) else None


def sources(root, work):
    """All sources below a root, and why others cannot be read. Archives are unpacked below the folder `work`."""
    found, broken = [], []

    def attempt(make):
        try:
            if made := make():
                found.append(made)
        except Refused as why:
            broken.append(str(why))

    def folder_source(folder):
        if root.is_folder(folder) and (root.exists(f"{folder}/nvidia") or root.exists(f"{folder}/kernel-open")):
            return Source(root, folder, folder)
        return None

    for pattern in FOLDERS:
        for folder in root.match(pattern):
            attempt(lambda folder=folder: folder_source(folder))
    for pattern in ARCHIVES:
        for path in root.match(pattern):
            attempt(lambda path=path: unpack(root, path, tempfile.mkdtemp(dir=work)))
    return found, broken
