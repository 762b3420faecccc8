#!/usr/bin/env python3
"""compile.py [--check]: compiles the GPU kernels beside it into images/, without a GPU and without CUDA.

NVRTC, NVIDIA's compiler as a library, comes from the Python package index through pip, pinned by version
and SHA256, and is kept in firstlight's cache; nothing is installed. Every image is compiled twice and must
be the same bytes. With --check each is compiled once and nothing is written: the images and manifest.toml must
equal the result.
"""

import ctypes
import glob
import hashlib
import os
import re
import subprocess
import sys
import tempfile
import zipfile

HERE = os.path.dirname(os.path.abspath(__file__))
IMAGES = os.path.join(HERE, "images")
UNIT = "firstlight.cu"

PACKAGE = "nvidia-cuda-nvrtc-cu12"
# NVRTC VERSION: SHA256 OF THE WHEEL, MEGABYTES. 12.4 is the version of the oldest driver that we support (550);
# it does not know Blackwell, whose drivers support 12.8 and newer.
TOOLKITS = {
    "12.4.127": ("a178759ebb095827bd30ef56598ec182b85547f1508941a3d560eb7ea1fbf338", 25),
    "12.9.86": ("210cf05005a447e29214e9ce50851e83fc5f4358df8b453155d5e1918094dcb4", 90),
}
# ARCHITECTURE, NVRTC VERSION. A cubin runs on GPUs of the same major version and the same or a newer minor version;
# the PTX is for every other GPU, where the driver compiles it.
TARGETS = [
    ("sm_75", "12.4.127"),
    ("sm_80", "12.4.127"),
    ("sm_86", "12.4.127"),
    ("sm_89", "12.4.127"),
    ("sm_90", "12.4.127"),
    ("sm_100", "12.9.86"),
    ("sm_120", "12.9.86"),
    ("compute_75", "12.4.127"),
]


class Refused(Exception):
    """Ends the program with one line."""


def say(text):
    print(text, flush=True)


def sha256(content):
    return hashlib.sha256(content).hexdigest()


def read(path):
    try:
        with open(path, "rb") as file:
            return file.read()
    except OSError as error:
        raise Refused(f"{os.path.relpath(path)}: {error.strerror}") from None


def options(architecture):
    return [f"--gpu-architecture={architecture}", "--std=c++17"]


def image_name(architecture):
    return f"firstlight.{architecture}.{'ptx' if architecture.startswith('compute') else 'cubin'}"


# --- the compiler ---

def cache():
    """The folder where firstlight keeps downloaded compilers, as in image/lib/common.sh."""
    base = os.environ.get("XDG_CACHE_HOME") or os.path.expanduser("~/.cache")
    return os.path.join(os.environ.get("FIRSTLIGHT_CACHE") or os.path.join(base, "firstlight"), "nvrtc")


def download(version, into):
    """Downloads the wheel and returns its path in `into`. pip reports an error if the file has another hash."""
    digest, megabytes = TOOLKITS[version]
    wanted = os.path.join(into, "requirements.txt")
    with open(wanted, "w", encoding="ascii") as file:
        file.write(f"{PACKAGE}=={version} --hash=sha256:{digest}\n")
    say(f"kernels: downloading {PACKAGE} {version} ({megabytes} MB, once)")
    pip = [sys.executable, "-m", "pip", "--disable-pip-version-check", "--quiet", "download"]
    pip += ["--no-deps", "--only-binary=:all:", "--require-hashes", "--requirement", wanted, "--dest", into]
    ended = subprocess.run(pip, stdout=subprocess.PIPE, stderr=subprocess.STDOUT, text=True, check=False)
    wheels = glob.glob(os.path.join(into, "*.whl"))
    if ended.returncode != 0 or len(wheels) != 1:
        lines = [line.strip() for line in ended.stdout.splitlines() if line.strip()]
        errors = [line for line in lines if line.startswith("ERROR")] or lines
        raise Refused(f"pip could not get {PACKAGE} {version}: {' / '.join(errors) or 'it said nothing'}")
    if sha256(read(wheels[0])) != digest:
        raise Refused(f"{PACKAGE} {version}: the wheel is not the one that is pinned")
    return wheels[0]


def toolkit(version):
    """The folder with NVRTC's two libraries; its name is the wheel's hash."""
    folder = os.path.join(cache(), TOOLKITS[version][0])
    if os.path.isdir(folder):
        return folder
    os.makedirs(cache(), exist_ok=True)
    with tempfile.TemporaryDirectory(dir=cache()) as work:
        libraries = os.path.join(work, "lib")
        os.mkdir(libraries)
        with zipfile.ZipFile(download(version, work)) as wheel:
            for member in wheel.namelist():
                if re.fullmatch(r"nvidia/cuda_nvrtc/lib/libnvrtc(-builtins)?\.so\.[0-9.]+", member):
                    with open(os.path.join(libraries, os.path.basename(member)), "wb") as file:
                        file.write(wheel.read(member))
        # The rename is atomic: a folder of that name is always complete.
        try:
            os.rename(libraries, folder)
        except OSError:
            if not os.path.isdir(folder):
                raise
    return folder


class Compiler:
    """One version of NVRTC. It finds its builtins library in its own folder, through the run path it was linked with."""

    def __init__(self, version):
        path = os.path.join(toolkit(version), "libnvrtc.so.12")
        try:
            self.library = ctypes.CDLL(path)
        except OSError as error:
            raise Refused(f"NVRTC {version} does not load: {error}; remove {os.path.dirname(path)}") from None
        self.library.nvrtcGetErrorString.restype = ctypes.c_char_p
        major, minor = ctypes.c_int(), ctypes.c_int()
        self.call("nvrtcVersion", ctypes.byref(major), ctypes.byref(minor))
        if not version.startswith(f"{major.value}.{minor.value}."):
            raise Refused(f"NVRTC {version} says that it is {major.value}.{minor.value}")

    def call(self, name, *arguments):
        code = getattr(self.library, name)(*arguments)
        if code != 0:
            raise Refused(f"{name}: {self.library.nvrtcGetErrorString(code).decode()}")

    def text(self, program, size_of, get):
        """A log or an image from NVRTC: queries its size, then its bytes."""
        size = ctypes.c_size_t()
        self.call(size_of, program, ctypes.byref(size))
        buffer = ctypes.create_string_buffer(size.value)
        self.call(get, program, buffer)
        return buffer.raw

    def compile(self, sources, architecture):
        """(image, log). Includes are given by name: no folder is searched, and no path can end up in the image."""
        program = ctypes.c_void_p()
        names = [name for name in sources if name != UNIT]
        array = ctypes.c_char_p * len(names)
        contents = array(*[sources[name] for name in names])
        self.call("nvrtcCreateProgram", ctypes.byref(program), sources[UNIT], UNIT.encode(), len(names), contents,
                  array(*[name.encode() for name in names]))
        words = options(architecture) + ["--ptxas-options=--verbose"]
        try:
            self.call("nvrtcCompileProgram", program, len(words), (ctypes.c_char_p * len(words))(*[w.encode() for w in words]))
        except Refused as failed:
            log = self.text(program, "nvrtcGetProgramLogSize", "nvrtcGetProgramLog").rstrip(b"\0").decode()
            raise Refused(f"{architecture}: {failed}\n{log.strip()}") from None
        log = self.text(program, "nvrtcGetProgramLogSize", "nvrtcGetProgramLog").rstrip(b"\0").decode()
        kind = "PTX" if architecture.startswith("compute") else "CUBIN"
        image = self.text(program, f"nvrtcGet{kind}Size", f"nvrtcGet{kind}")
        self.call("nvrtcDestroyProgram", ctypes.byref(program))
        return (image.rstrip(b"\0") if kind == "PTX" else image), log


# --- the images ---

def resources(log):
    """{kernel: (registers, spilled bytes)}, from ptxas's report."""
    found = {}
    parts = re.split(r"Compiling entry function '(\w+)'", log)
    for kernel, text in zip(parts[1::2], parts[2::2]):
        registers = re.search(r"Used (\d+) registers", text)
        spills = re.search(r"(\d+) bytes spill stores, (\d+) bytes spill loads", text)
        if registers and spills:
            found[kernel] = (int(registers[1]), int(spills[1]) + int(spills[2]))
    return found


def inspect(architecture, image, log, kernels):
    """Rejects an image that must not be checked in. Returns the resources of its kernels; empty for PTX."""
    # A warning is an error; ptxas's report is not a warning.
    for line in log.splitlines():
        if "warning" in line.lower():
            raise Refused(f"{architecture}: {line.strip()}")
    for place in (HERE, os.getcwd(), cache(), tempfile.gettempdir() + "/"):
        if place.encode() in image:
            raise Refused(f"{architecture}: the image names {place}")
    if architecture.startswith("compute"):
        return {}
    used = resources(log)
    if set(used) != kernels:
        raise Refused(f"{architecture}: ptxas reports {sorted(used)}, the sources have {sorted(kernels)}")
    for kernel, (_, spilled) in used.items():
        if spilled:
            raise Refused(f"{architecture}: {kernel} spills {spilled} bytes of registers into memory")
    return used


def kernels_of(sources):
    """Every kernel that the sources define."""
    names = re.findall(rb"__global__ void (?:__launch_bounds__\(\w+\) )?(\w+)\(", b"\n".join(sources.values()))
    return {name.decode() for name in names}


def compile_all(sources, times):
    """{file name: bytes} of every image, compiled so many times, and the resources by architecture."""
    compilers, images, used = {}, {}, {}
    for architecture, version in TARGETS:
        compiler = compilers.setdefault(version, None) or Compiler(version)
        compilers[version] = compiler
        image, log = compiler.compile(sources, architecture)
        if any(compiler.compile(sources, architecture)[0] != image for _ in range(1, times)):
            raise Refused(f"{architecture}: compiled {times} times, and the images differ")
        used[architecture] = inspect(architecture, image, log, kernels_of(sources))
        images[image_name(architecture)] = image
        say(f"kernels: {image_name(architecture):28} {len(image):7} bytes   NVRTC {version}")
    return images, used


def manifest(sources, images):
    lines = ["# Made by `just kernels`; not edited by hand. What the images were compiled from, and how.", ""]
    lines += ["[sources]"] + [f'"{name}" = "{sha256(sources[name])}"' for name in sorted(sources)]
    for architecture, version in TARGETS:
        name = image_name(architecture)
        words = ", ".join(f'"{word}"' for word in options(architecture))
        lines += ["", "[[image]]", f'file = "{name}"', f'architecture = "{architecture}"', f'nvrtc = "{version}"',
                  f"options = [{words}]", f"bytes = {len(images[name])}", f'sha256 = "{sha256(images[name])}"']
    return ("\n".join(lines) + "\n").encode()


def table(used):
    """Prints the registers of each kernel (none spills: inspect rejects that)."""
    columns = [architecture for architecture, kernels in used.items() if kernels]
    say(f"\nregisters per thread   {''.join(f'{c:>8}' for c in columns)}")
    for kernel in sorted(used[columns[0]]):
        say(f"  {kernel:20} {''.join(f'{used[c][kernel][0]:>8}' for c in columns)}")


def checked_in():
    """{file name: bytes} of the checked-in files, without an editor's hidden files."""
    names = os.listdir(IMAGES) if os.path.isdir(IMAGES) else []
    return {name: read(os.path.join(IMAGES, name)) for name in names if not name.startswith(".")}


def compare(made):
    """Raises an error that names every file that is missing, differs or should not be there."""
    found = checked_in()
    faults = [f"{name} is missing" for name in made if name not in found]
    faults += [f"{name} differs from what the sources give" for name in made if name in found and found[name] != made[name]]
    faults += [f"{name} is no image" for name in found if name not in made]
    if faults:
        raise Refused(f"{'; '.join(sorted(faults))}: run `just kernels`")


def write(made):
    os.makedirs(IMAGES, exist_ok=True)
    for name in set(checked_in()) - set(made):
        os.remove(os.path.join(IMAGES, name))
        say(f"kernels: removed {name}")
    for name, content in made.items():
        path = os.path.join(IMAGES, name)
        with open(path + ".new", "wb") as file:
            file.write(content)
        os.replace(path + ".new", path)


def main(words):
    if words not in ([], ["--check"]):
        raise Refused(f"'{' '.join(words)}': the only word is --check")
    paths = glob.glob(os.path.join(glob.escape(HERE), "*.cu")) + glob.glob(os.path.join(glob.escape(HERE), "*.cuh"))
    sources = {os.path.basename(path): read(path) for path in sorted(paths)}
    if UNIT not in sources:
        raise Refused(f"{UNIT} is missing")
    images, used = compile_all(sources, 1 if words else 2)
    made = dict(images, **{"manifest.toml": manifest(sources, images)})
    table(used)
    if words:
        compare(made)
        say("\nkernels: the images are what their sources give")
    else:
        write(made)
        say(f"\nkernels: {sum(map(len, images.values()))} bytes in {len(images)} images")


if __name__ == "__main__":
    try:
        main(sys.argv[1:])
    except Refused as why:
        sys.exit(f"firstlight: error: {why}")
