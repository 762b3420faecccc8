"""unpack.py ROOT FILE.deb..: unpacks packages into the new folder ROOT as dpkg would, without their owners and scripts. All
packages are examined first: nothing is written if one of them does not fit the others, or if a path or link of one leads out.

No link is followed while files are written: where each file belongs is computed from the lists of all packages.
"""

import os
import stat
import subprocess
import sys
import tarfile
import tempfile

from root import LIMIT, Refused, size_text

# Both paths are one folder in all distributions that have NVIDIA's open modules.
MERGED = ("bin", "lib", "lib64", "sbin")
# No text: a link may lead to any.
FOLDER, FILE = object(), object()


class Tree:
    """What the packages put where, before anything is written."""

    def __init__(self):
        # path: (FOLDER or FILE or the target of a link, the package)
        self.entries = {(): (FOLDER, "")}
        for name in MERGED:
            self.entries[("usr",)] = self.entries["usr", name] = (FOLDER, "")
            self.entries[(name,)] = (f"usr/{name}", "")

    def parts(self, path, package):
        found = [part for part in path.split("/") if part not in ("", ".")]
        if path.startswith("/") or ".." in found:
            raise Refused(f"{package}: {path} leads out of the package")
        return found

    def folder(self, parts, path, package):
        """The folder with these parts after following the packages' links; folders that are missing are added."""
        done, waiting, links = (), list(parts), 0
        while waiting:
            part = waiting.pop(0)
            if part in ("", "."):
                continue
            if part == "..":
                if not done:
                    raise Refused(f"{package}: {path} would be written through a link that leads out of the package")
                done = done[:-1]
                continue
            kind, owner = self.entries.setdefault((*done, part), (FOLDER, package))
            if kind == FOLDER:
                done = (*done, part)
                continue
            if kind == FILE:
                raise Refused(f"{package} does not fit the other packages in the folder: {path} is below a file of {owner}")
            if kind.startswith("/"):
                raise Refused(f"{package}: {path} would be written through the link {'/'.join((*done, part))} to {kind}, which leads out of the package")
            links += 1
            if links > 40:
                raise Refused(f"{package}: {path} is below a circle of links")
            waiting = kind.split("/") + waiting
        return done

    def add(self, entry, package):
        """Where an entry of a package belongs; None if it is there already."""
        parts = self.parts(entry.name, package)
        if not parts:
            return None
        if not (entry.isreg() or entry.isdir() or entry.issym() or entry.islnk()):
            raise Refused(f"{package}: {entry.name} is a device or a pipe")
        if entry.size > LIMIT:
            raise Refused(f"{package}: {entry.name} has {entry.size} bytes, more than {size_text(LIMIT)}")
        at = (*self.folder(parts[:-1], entry.name, package), parts[-1])
        there = self.entries.get(at)
        if entry.isdir():
            if there and there[0] == FOLDER:
                return None
            if there and there[0] != FILE:
                # a link to a folder stays, as dpkg has it
                self.folder(parts, entry.name, package)
                return None
        if there and entry.issym() and there[0] == entry.linkname:
            return None
        if there:
            raise Refused(f"{package} does not fit the other packages in the folder: {'/'.join(at)} is in {there[1] or 'every Debian system'} too")
        if entry.issym() and not entry.linkname.startswith("/"):
            self.inside(at, entry, package)
        self.entries[at] = (FOLDER if entry.isdir() else entry.linkname if entry.issym() else FILE, package)
        return at

    def inside(self, at, entry, package):
        """Refuses a link that climbs out by its own text."""
        depth = len(at) - 1
        for part in entry.linkname.split("/"):
            depth += -1 if part == ".." else part not in ("", ".")
            if depth < 0:
                raise Refused(f"{package}: the link {entry.name} to {entry.linkname} leads out of the package")

    def source(self, entry, package):
        """The file that a hard link names: one of the same package."""
        parts = self.parts(entry.linkname, package)
        at = (*self.folder(parts[:-1], entry.linkname, package), *parts[-1:])
        if self.entries.get(at) != (FILE, package):
            raise Refused(f"{package}: {entry.name} is a link to {entry.linkname}, which is no file of this package")
        return at


def opened(path, work):
    """A package's name for people, and its files as a tar archive."""
    file = os.path.basename(path)
    about = subprocess.run(["dpkg-deb", "-f", path, "Package", "Version", "Architecture"], capture_output=True, check=False)
    if about.returncode:
        raise Refused(f"{file} is not a .deb file, or is cut off")
    fields = dict(line.split(": ", 1) for line in about.stdout.decode(errors="replace").splitlines() if ": " in line)
    if fields.get("Architecture") not in ("amd64", "all"):
        raise Refused(f"{file} is for {fields.get('Architecture', 'an unknown processor')}, the image is for amd64")
    to = os.path.join(work, f"{file}.tar")
    with open(to, "wb") as out:
        # read up to the limit: a small package can unpack to any size
        with subprocess.Popen(["dpkg-deb", "--fsys-tarfile", path], stdout=subprocess.PIPE, stderr=subprocess.PIPE) as child:
            size = 0
            while data := child.stdout.read(1 << 20):
                size += len(data)
                if size > 4 * LIMIT:
                    child.kill()
                    raise Refused(f"{file} unpacks to more than {size_text(4 * LIMIT)}")
                out.write(data)
            said = child.stderr.read().decode(errors="replace").strip().splitlines()
    if child.returncode:
        raise Refused(f"{file} is cut off or damaged" + (f" ({said[-1]})" if said else ""))
    return f"{file} ({fields.get('Package', '')} {fields.get('Version', '')})", to


def unpack(root, files):
    with tempfile.TemporaryDirectory(dir=os.path.dirname(os.path.realpath(root))) as work:
        tree, plans = Tree(), []
        for path in files:
            package, archive = opened(path, work)
            try:
                with tarfile.open(archive, "r:") as tar:
                    plan = [(entry, at, tree.source(entry, package) if entry.islnk() else None)
                            for entry in tar if (at := tree.add(entry, package)) is not None]
            except (tarfile.TarError, EOFError) as error:
                raise Refused(f"{os.path.basename(path)} is cut off or damaged: {error}") from error
            plans.append((archive, plan))
        links = []
        for name in MERGED:
            os.makedirs(os.path.join(root, "usr", name), exist_ok=True)
            os.symlink(f"usr/{name}", os.path.join(root, name))
        for archive, plan in plans:
            with tarfile.open(archive, "r:") as tar:
                for entry, at, source in plan:
                    to = os.path.join(root, *at)
                    os.makedirs(to if entry.isdir() else os.path.dirname(to), exist_ok=True)
                    if entry.issym():
                        links.append((entry.linkname, to))
                    elif source:
                        os.link(os.path.join(root, *source), to)
                    elif entry.isreg():
                        with open(to, "xb") as out, tar.extractfile(entry) as data:
                            while block := data.read(1 << 20):
                                out.write(block)
                        os.chmod(to, stat.S_IMODE(entry.mode) & 0o755 | 0o600)
        # last: no file can be written through one
        for target, to in links:
            os.symlink(target, to)


if __name__ == "__main__":
    try:
        unpack(sys.argv[1], sys.argv[2:])
    except (Refused, OSError, MemoryError, ValueError) as why:
        sys.exit(f"firstlight: error: {why or type(why).__name__}".replace("\n", " "))
