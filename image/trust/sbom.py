"""sbom.py image OUT LOCK CARGO-LOCK CRATES DRIVER-SUMS NAME RUSTC|added OUT LOCK BASE DRIVER-SUMS NAME: prints what the image
in OUT is made of, as SPDX 2.3 in JSON: the packages that it was extracted or built from, the crates in its two programs, and
every file with its hashes and its origin. The same image gives the same bytes. Runs in the tools tree, with image/media in
PYTHONPATH. `added` takes the crates from BASE, the list of the image to which a driver was added.

CRATES has lines PROGRAM|NAME vVERSION|LICENCE, as `rust.sh --crates` prints them; DRIVER-SUMS lines SHA1 SHA256 PATH
of the driver's squashfs and the files in it; NAME is unique to this document.
"""

import hashlib
import json
import os
import re
import sys
import tomllib
from datetime import datetime, timezone
from urllib.parse import quote

import initrd

# The licences that the packages themselves declare. Packages not listed here are NOASSERTION: most have many parts.
GCC = "GPL-3.0-or-later WITH GCC-exception-3.1"
NVIDIA = "LicenseRef-NVIDIA-Driver"
LICENCES = {
    "busybox-static": "GPL-2.0-only",
    "firmware-nvidia-gsp": NVIDIA,
    "gcc-14-base": GCC,
    "ipxe": "GPL-2.0-or-later",
    "libc6": "LGPL-2.1-or-later",
    "libc6-dev": "LGPL-2.1-or-later",
    "libcuda1": NVIDIA,
    "libgcc-14-dev": GCC,
    "libgcc-s1": GCC,
    "libibverbs1": "GPL-2.0-only OR Linux-OpenIB",
    "libnccl2": "BSD-3-Clause",
    "libnl-3-200": "LGPL-2.1-only",
    "libnl-route-3-200": "LGPL-2.1-only",
    "libnvidia-ml1": NVIDIA,
    "libnvidia-ptxjitcompiler1": NVIDIA,
    "libstdc++6": GCC,
    "linux-source-6.12": "GPL-2.0-only WITH Linux-syscall-note",
    "nvidia-driver": NVIDIA,
    "nvidia-nccl-cu12": "BSD-3-Clause",
    "nvidia-nccl-cu13": "BSD-3-Clause",
    "nvidia-open-gpu-kernel-modules": "MIT AND GPL-2.0-only",
    "nvidia-smi": NVIDIA,
    "open-gpu-kernel-modules": "MIT AND GPL-2.0-only",
    "systemd-boot-efi": "LGPL-2.1-or-later",
}
# From whom each part was obtained, which is what SPDX calls its supplier (2.3, section 7.5).
DEBIAN = "Organization: Debian"
CRATES_IO = "Organization: crates.io"
NVIDIA_ITSELF = "Organization: NVIDIA Corporation"
RUST = "Organization: The Rust Project"
OURS = "Organization: firstlight"
# Linked into process 1, which is static, and partly into the validator.
LINKED = ("libc6-dev", "libgcc-14-dev")
IMAGE = "SPDXRef-firstlight"
PROGRAMS = {"firstlight-init": "init", "firstlight": "usr/bin/firstlight"}


def reference(kind, *words):
    return "-".join(["SPDXRef", kind, *(re.sub(r"[^A-Za-z0-9.-]", "-", word) for word in words)])


def file_reference(path):
    return reference("File", hashlib.sha256(path.encode()).hexdigest()[:16])


def package(identity, name, version, supplier, licence="NOASSERTION", sha256=None, purl=None, **more):
    made = {
        "SPDXID": identity,
        "name": name,
        "versionInfo": version,
        "supplier": supplier,
        "downloadLocation": "NOASSERTION",
        "filesAnalyzed": False,
        "licenseConcluded": "NOASSERTION",
        "licenseDeclared": licence,
        "copyrightText": "NOASSERTION",
    }
    if sha256:
        made["checksums"] = [{"algorithm": "SHA256", "checksumValue": sha256}]
    if purl:
        made["externalRefs"] = [
            {"referenceCategory": "PACKAGE-MANAGER", "referenceType": "purl", "referenceLocator": purl}
        ]
    return made | more


def locked_package(use, name, version, arch, _, sha256):
    """A line of inputs.lock. Only the driver's uses take packages from outside trixie; their lines do not name the suite."""
    if arch == "wheel":
        purl = f"pkg:pypi/{name}@{quote(version, safe='')}"
        licence = LICENCES.get(name, "NOASSERTION")
        return package(reference("Package", name), name, version, NVIDIA_ITSELF, licence, sha256, purl)
    suite = "" if use.startswith("driver") else "&distro=trixie"
    purl = f"pkg:deb/debian/{quote(name, safe='')}@{quote(version, safe='')}?arch={arch}{suite}"
    licence = LICENCES.get(name, "NOASSERTION")
    return package(reference("Package", name), name, version, DEBIAN, licence, sha256, purl)


class Document:
    def __init__(self):
        self.packages, self.files, self.relationships = {}, [], []

    def add(self, made):
        self.packages[made["SPDXID"]] = made
        return made["SPDXID"]

    def relate(self, one, how, other, **more):
        made = {"spdxElementId": one, "relationshipType": how, "relatedSpdxElement": other} | more
        if made not in self.relationships:
            self.relationships.append(made)

    def file(self, path, sha1, sha256):
        identity = file_reference(path)
        checksums = [("SHA1", sha1), ("SHA256", sha256)]
        self.files.append({
            "SPDXID": identity,
            "fileName": f"./{path}",
            "checksums": [{"algorithm": name, "checksumValue": value} for name, value in checksums],
            "licenseConcluded": "NOASSERTION",
            "licenseInfoInFiles": ["NOASSERTION"],
            "copyrightText": "NOASSERTION",
        })
        self.relate(IMAGE, "CONTAINS", identity)


def both(content):
    return hashlib.sha1(content).hexdigest(), hashlib.sha256(content).hexdigest()


def read(path):
    with open(path, "rb") as file:
        return file.read()


def lines(path):
    return read(path).decode().splitlines()


def add_files(document, out, driver_sums):
    """Every ordinary file: of the system, of the driver, and the two kernels beside the initrd."""
    # In an image with a driver the last archive replaces files of the first; the one between them is in DRIVER-SUMS.
    system, *added = initrd.frames(read(f"{out}/firstlight.initrd"))
    files = initrd.files(system) | (initrd.files(added[-1]) if added else {})
    for path, content in files.items():
        document.file(path, *both(content))
    for line in lines(driver_sums):
        document.file(*reversed(line.split(" ", 2)[2:]), *line.split(" ", 2)[:2])
    for name in ("firstlight.vmlinuz", "firstlight-pt.vmlinuz"):
        document.file(name, *both(read(f"{out}/{name}")))
    document.files.sort(key=lambda file: file["fileName"])


def origin(document, locked, text):
    """The package that the third column of firstlight.files names, and whether the file was changed after unpacking."""
    name, _, version = text.partition(" ")
    entry = next((line for line in locked if line[1] == name and line[0].split("-")[0] in ("image", "driver")), None)
    if entry:
        return document.add(locked_package(*entry)), version != entry[2]
    # What is in no lock is a file of NVIDIA's driver that the user named; the version of an archive is in its name.
    version = version or (re.search(r"[0-9]+(\.[0-9]+)+", name) or [""])[0]
    licence = LICENCES.get(name, "NOASSERTION")
    return document.add(package(reference("Package", name), name, version, NVIDIA_ITSELF, licence)), True


def add_origins(document, out, locked, below=""):
    """Adds the origin of each file whose path begins with `below`."""
    kernel = locked_package(*next(line for line in locked if line[1].startswith("linux-source-")))
    for line in lines(f"{out}/firstlight.files"):
        sha256, path, text = line.split("\t")
        path = path.removeprefix("/")
        if sha256.startswith("-> ") or not path.startswith(below):
            continue
        if text != "built here":
            source, changed = origin(document, locked, text)
            how = "GENERATED_FROM" if changed else "EXPANDED_FROM_ARCHIVE"
            document.relate(file_reference(path), how, source)
        elif path.startswith("usr/lib/modules/"):
            document.relate(file_reference(path), "GENERATED_FROM", document.add(kernel))
    if not below:
        for name in ("firstlight.vmlinuz", "firstlight-pt.vmlinuz"):
            document.relate(file_reference(name), "GENERATED_FROM", document.add(kernel))


def add_packages(document, locked):
    """Adds the packages of the system, and those beside the image."""
    for line in locked:
        if line[0] == "image":
            document.add(locked_package(*line))
        if line[0] == "media":
            note = "not in the image: in the folder for the network"
            document.relate(document.add(locked_package(*line)), "OPTIONAL_COMPONENT_OF", IMAGE, comment=note)


def contain(document, identities):
    for identity in sorted(identities):
        if identity != IMAGE and not identity.endswith("-ipxe"):
            document.relate(IMAGE, "CONTAINS", identity)


def add_crates(document, cargo_lock, crates, rustc, locked):
    """Adds the parts from which the two programs are linked."""
    checksums = {
        (crate["name"], crate["version"]): crate.get("checksum")
        for crate in tomllib.loads(read(cargo_lock).decode())["package"]
    }
    linked = [(program, entry) for entry in locked if entry[0] == "compiler" and entry[1] in LINKED for program in PROGRAMS]
    for program, entry in linked:
        document.relate(file_reference(PROGRAMS[program]), "STATIC_LINK", document.add(locked_package(*entry)))
    standard = package(reference("Package", "rust-std"), "rust-std", rustc.split()[1], RUST, "MIT OR Apache-2.0", comment=rustc)
    for program, path in PROGRAMS.items():
        document.relate(file_reference(path), "STATIC_LINK", document.add(standard))
    for line in sorted(set(lines(crates))):
        program, named, licence = line.split("|")
        name, version = named.split(" ")[:2]
        version = version.removeprefix("v")
        checksum = checksums[name, version]
        # a crate without a checksum is not from a registry: it is ours
        purl = f"pkg:cargo/{name}@{quote(version, safe='')}" if checksum else None
        licence = licence.replace("/", " OR ") or "NOASSERTION"
        supplier = CRATES_IO if checksum else OURS
        made = package(reference("Crate", name, version), name, version, supplier, licence, checksum, purl)
        document.relate(file_reference(PROGRAMS[program]), "STATIC_LINK", document.add(made))


def describe_system(document, out, locked, cargo_lock, crates, rustc):
    """Everything besides the files; returns the version of firstlight."""
    add_origins(document, out, locked)
    add_packages(document, locked)
    contain(document, document.packages)
    add_crates(document, cargo_lock, crates, rustc, locked)
    return re.search(r'^version = "(.*)"', read(cargo_lock).decode().split('name = "firstlight"\n')[1], re.M)[1]


def continue_base(document, out, locked, base):
    """The same for an image to which a driver was added: what `base` says of the system, and the driver's origins."""
    packages = {made["SPDXID"]: made for made in base["packages"]}
    version = packages.pop(IMAGE)["versionInfo"]
    document.packages, document.relationships = packages, base["relationships"]
    before = set(packages)
    add_origins(document, out, locked, below="run/firstlight/driver/")
    contain(document, set(document.packages) - before)
    return version


def main():
    what, out, lock, *rest = sys.argv[1:]
    locked = [line.split() for line in lines(lock) if not line.startswith("#")]
    document = Document()
    if what == "image":
        cargo_lock, crates, driver_sums, name, rustc = rest
        version = describe_system(document, out, locked, cargo_lock, crates, rustc)
    else:
        base, driver_sums, name = rest
        version = continue_base(document, out, locked, json.loads(read(base)))
    add_files(document, out, driver_sums)
    codes = "".join(sorted(file["checksums"][0]["checksumValue"] for file in document.files))
    document.add(package(
        IMAGE, "firstlight", version, OURS,
        filesAnalyzed=True,
        packageVerificationCode={"packageVerificationCodeValue": hashlib.sha1(codes.encode()).hexdigest()},
        licenseInfoFromFiles=["NOASSERTION"],
        primaryPackagePurpose="OPERATING-SYSTEM",
        comment="image " + read(f"{out}/.image-id").decode().strip(),
    ))
    document.relate("SPDXRef-DOCUMENT", "DESCRIBES", IMAGE)
    created = datetime.fromtimestamp(int(os.environ["SOURCE_DATE_EPOCH"]), timezone.utc)
    whole = {
        "spdxVersion": "SPDX-2.3",
        "dataLicense": "CC0-1.0",
        "SPDXID": "SPDXRef-DOCUMENT",
        "name": f"firstlight-{version}",
        "documentNamespace": f"urn:firstlight:sbom:{name}",
        "creationInfo": {"created": created.strftime("%Y-%m-%dT%H:%M:%SZ"), "creators": [f"Tool: firstlight-{version}"]},
        "packages": [document.packages[identity] for identity in sorted(document.packages)],
        "files": document.files,
        "relationships": sorted(document.relationships, key=lambda made: list(made.values())),
    }
    if any(made["licenseDeclared"] == NVIDIA for made in document.packages.values()):
        text = "NVIDIA Driver License Agreement: /run/firstlight/driver/doc/nvidia-driver.copyright in the image"
        whole["hasExtractedLicensingInfos"] = [
            {"licenseId": NVIDIA, "name": "NVIDIA Driver License Agreement", "extractedText": text}
        ]
    json.dump(whole, sys.stdout, indent=1, ensure_ascii=False)
    print()


if __name__ == "__main__":
    main()
