# firstlight's recipes. `./run RECIPE` installs what a recipe needs and calls it.
set shell := ["bash", "-euo", "pipefail", "-c"]
set positional-arguments

# What builds the book of docs/.
mdbook := "0.5.4 5f68ffebcd0b9a4eb72aaacc4342bc94e1d63c01893b7c921437f6ef02443699"
# What holds the crates against deny.toml.
cargo-deny := "0.20.2 e528dfcbe739af7ce37a77d3d6df1b29dd6887b1c701d888820c0f16b864f737"
# What makes the .deb.
cargo-deb := "3.8.0 201780f7056812fe4d8078b2772c1a222c56fa924cd2aafa1aaf74ff2777e188"
# What makes the .rpm.
cargo-generate-rpm := "0.21.1 94d79151322105715a0daaf2440a42eb5fd8a7793f04e92571ed910c4bd3f632"
# What holds the examples of docs/deploy against the schemas of those who read them, and an emulated management controller.
deploy-wheels := "tests/tests/deploy/wheels.txt"

# The recipes, by group.
default:
    @just --list --unsorted

# Build the program for this machine alone, and validate this machine, as root by sudo: validate [ARGUMENTS of `firstlight validate`].
[group('use')]
[no-exit-message]
validate *words:
    @./run validate "$@"

# Build what is stale and boot the image in QEMU on simulated GPUs: boot [--arch arm64] [SCENARIO|none|list] [KERNEL-WORD..].
[group('use')]
boot *words:
    @if [ "${1:-} ${2:-}" = '--arch arm64' ]; then shift 2; image/arm64.sh image && image/arm64.sh boot "$@"; else image/build.sh && image/boot.sh "$@"; fi

# Build what is stale: kernel, binaries, image (target/image/out); --driver installed|FOLDER|FILE|none: with another GPU driver; --offline FILE: without network, from what `vendor` made; --arch arm64: target/image/arm64/out.
[group('use')]
[no-exit-message]
image *words:
    @if [ "$*" = '--arch arm64' ]; then image/arm64.sh image; elif [ $# -gt 0 ]; then image/reproduce/offline.sh image "$@"; else image/report.sh image/build.sh; fi

# Judge a scenario of simulated GPUs on this host, without image or QEMU: simulate [SCENARIO [LEVEL] [WORD..]] | list; words go to the program: --json r.json, --html r.html, p2p, nccl all_reduce.
[group('use')]
simulate *words:
    @tests/simulate.sh "$@"

# Build what is stale, and from the image the boot media: USB image, ISO and folder for the network (target/image/media); --offline FILE too.
[group('use')]
[no-exit-message]
media *words:
    @if [ $# -gt 0 ]; then image/reproduce/offline.sh media "$@"; else image/report.sh sh -c 'image/build.sh && image/media.sh'; fi

# Write the USB image to a stick, after asking, and read it back: usb DEVICE [--yes].
[group('use')]
usb *words: media
    @image/media/usb.sh "$@"

# Make the folder for network boot; with --serve INTERFACE [--proxy] also serve it to the nodes there; --folder FOLDER names another folder, such as the signed one.
[group('use')]
pxe *words: media
    @image/pxe.sh "$@"

# Sign image and media for Secure Boot with a key of your own, which is only read: sign KEY CERT [FOLDER] (target/image/signed).
[group('use')]
sign *words: media
    @image/trust/sign.sh "$@"

# Make keys for Secure Boot on machines of your own: keys FOLDER.
[group('use')]
keys *words:
    @image/trust/keys.sh "$@"

# Add a GPU driver to a finished image without one; builds neither kernel nor programs: driver --for IMAGE [--driver installed|FOLDER|FILE] [--kernel FILE] [--to FOLDER].
[group('use')]
[no-exit-message]
driver *words:
    @image/add-driver.sh "$@"

# Make the files that can be handed out, from a clean commit: release [FOLDER] [--since TAG] [--key KEY --cert CERT] (target/image/release).
[group('use')]
[no-exit-message]
release *words:
    @image/release/build.sh "$@"

# Build the documentation as a book (target/book/index.html); installs mdbook into target/tools.
[group('use')]
docs:
    @image/lib/cargo-tool.sh mdbook {{mdbook}} --no-default-features --features search
    @target/tools/bin/mdbook build docs

# Build the three binaries for this host only (target/release).
[group('use')]
binaries:
    cargo build --release --locked --bin firstlight --bin firstlight-collect --bin init

# Build the .deb, the .rpm and the tarball for ordinary hosts with glibc 2.28 and newer (target/package/out): package [--arch amd64|arm64|all]; the first time it installs cargo-deb and cargo-generate-rpm (minutes).
[group('use')]
[no-exit-message]
package *words:
    @image/lib/cargo-tool.sh cargo-deb {{cargo-deb}}
    @image/lib/cargo-tool.sh cargo-generate-rpm {{cargo-generate-rpm}}
    @image/package/build.sh "$@"

# Everything that must hold, in stages that stop at the first failure: check, simulate, image, boots.
[group('check')]
test:
    @tests/stages.sh

# Format, lints, unit tests and the rules of the house: needs cargo alone, and two minutes when all is built.
[group('check')]
check:
    @tests/check.sh

# Simulated GPUs and the program that judges them, as the tests build them.
[private]
simulated:
    tests/check.sh with cargo build --locked --lib --bin firstlight --test driver

# Two more at a time than there are cores: two of them wait for deadlines.
# Tests on simulated GPUs, without an image: every scenario, and a part of the matrix; or those whose names hold a word.
[group('check')]
simulate-tests *words: simulated
    tests/check.sh in-memory cargo test --locked --test simulate -- --test-threads="$(($(nproc) + 2))" "$@"

# Each parser of hostile input, fuzzed for some seconds.
[group('check')]
fuzz:
    tests/fuzz/short.sh

# Boots of process 1 in namespaces, each with a fault of its own: all, or those whose names hold a word (a minute or two; as root).
[group('check')]
faults word="":
    FIRSTLIGHT_FAULTS="{{word}}" tests/check.sh with cargo test --quiet --locked --package firstlight-init --test process_one -- faults::

# Faults by the hundred and healthy machines on simulated GPUs, at every level and with up to 16 GPUs: a table, false PASS and false FAIL (long; --part: minutes).
[group('check')]
matrix *words:
    tests/check.sh with cargo run --locked --bin matrix -- "$@"

# Attacks on what others can reach: receiver, publish, meeting, time, reports, process 1; counts what was lost, wrong, hung or crashed (at most 15 minutes); or those whose names hold a word.
[group('check')]
abuse *words:
    tests/check.sh with cargo build --locked --package firstlight-collect --bin firstlight-collect --package firstlight-abuse --bin abuse
    tests/check.sh with cargo test --locked --package firstlight-init --test process_one --no-run
    tests/check.sh with "${CARGO_TARGET_DIR:-target}"/debug/abuse "$@"

# The HTML page of reports of simulated GPUs, or of PAGES, in headless Chromium at 390 and 1440 pixels, light and dark; pictures in target/look-html.
[group('check')]
look-html *pages:
    tests/check.sh with cargo build --locked --lib --bin simgpu --test driver
    cargo build --release --locked --bin firstlight
    tests/look-html.py target/look-html "$@"

# Image, media, signatures and the scripts that build them, without booting; or those tests whose names hold a word.
[group('check')]
image-tests *words: media
    tests/check.sh with cargo test --locked --test image -- --test-threads=3 "$@"

# The shipped image in QEMU: faults, policies, hand-overs; or those tests whose names hold a word.
[group('check')]
boots *words: media simulated
    tests/fakepci/build.sh
    tests/check.sh with cargo test --locked --test boots -- --test-threads=16 "$@"

# The arm64 image, cross-compiled, in QEMU: one machine, an SMMU that translates, two machines that meet; or those tests whose names hold a word.
[group('check')]
test-arm64 *words:
    image/arm64.sh image
    FIRSTLIGHT_SIMULATED="$(image/arm64.sh simulated)" tests/check.sh with cargo test --locked --test arm64 -- --test-threads=2 --nocapture "$@"

# The earlier name of `image --driver FOLDER`: prints that command for driver-files VERSION DIR [FAMILY..].
[group('use')]
[no-exit-message]
driver-files *words:
    @image/driver/files.sh "$@"

# What firstlight makes of a driver, without building it: of `installed` or a FOLDER, which parts are there and which are missing; of a tree of NVIDIA's open modules, version, registry keys by family, edits, patches; with --all GIT, of every version in a git directory, as the table of docs/driver-versions.md.
[group('use')]
[no-exit-message]
driver-look *words:
    @image/driver/look.sh "$@"

# Boot a driver's modules in QEMU with GPUs that answer as four boards do, and say which it takes: driver-bind [FILE] (minutes).
[group('check')]
[no-exit-message]
driver-bind *words: media
    @image/driver/bind.sh "$@"

# Compile NVIDIA's public modules through the paths of `--driver`, and boot them as driver-bind does: driver-paths [--archives] GIT [VERSION..], with the git directory of a clone of open-gpu-kernel-modules (a quarter of an hour for each version); --archives also makes the driver's archive from each distribution's layout, from packages and without peer-to-peer (as long again).
[group('check')]
[no-exit-message]
driver-paths *words: media
    cargo build --release --locked --bin driver-paths
    target/release/driver-paths "$@"

# The package installed, run and removed in minimal Debian folders, under systemd, and built twice; or those tests whose names hold a word (minutes; as root).
[group('check')]
package-tests word="": package
    tests/check.sh with cargo test --locked --test deploy -- --test-threads=3 "package::{{word}}"

# The examples of docs/deploy with Slurm, Prometheus, Alertmanager, PostgreSQL, nginx, schemas and an emulated management controller; or those tests whose names hold a word (minutes; as root).
[group('check')]
deploy-tests word="": package
    @stamp=target/deploy/python/"$(python3 --version | tr -d ' ')-$(sha256sum < {{deploy-wheels}} | cut -c1-16)"; [ -e "$stamp" ] || { \
        echo 'deploy-tests: installing from the Python registry into target/deploy/python: {{deploy-wheels}}' >&2; \
        rm -rf target/deploy/python; \
        python3 -m pip install --quiet --disable-pip-version-check --root-user-action=ignore --no-deps --only-binary :all: --require-hashes --target target/deploy/python -r {{deploy-wheels}} && touch "$stamp"; }
    tests/check.sh with cargo test --locked --test deploy -- --skip package:: "{{word}}"
    [ -n "{{word}}" ] && [ "{{word}}" != database ] || tests/check.sh with cargo test --locked --package firstlight-collect --test collect -- on_postgres:: postgres_server::

# `firstlight setup` applied and undone in an unpacked Debian with its real DKMS, GRUB and initramfs-tools, and NVIDIA's public modules, and booted in QEMU: setup-tests GIT [VERSION [quick]], with the git directory of a clone of open-gpu-kernel-modules (as root; a quarter of an hour).
[group('check')]
[no-exit-message]
setup-tests git version="580.95.05" quick="":
    tests/check.sh with cargo build --locked --bin firstlight --bin machine
    tests/setup.sh "{{git}}" "{{version}}" "{{quick}}"

# The driver's modules, built again in another folder, must be the same bytes (minutes).
[group('check')]
driver-repeat:
    image/driver/repeat.sh

# A driver added to a finished image, against the full build's image, and two releases of the last commit, byte for byte (builds modules and, twice, programs: half an hour); or those tests whose names hold a word.
[group('check')]
handout-tests *words: media package
    tests/check.sh with cargo test --locked --test handout -- --test-threads=1 --nocapture "$@"

# Build everything again, elsewhere and at another time, and compare every byte: reproduce [--quick] [--host trixie].
[group('check')]
reproduce *words: media
    @image/reproduce/reproduce.sh "$@"

# Advisories against any of the crates, by the pinned database of RustSec; the first time it installs cargo-audit (minutes).
[group('check')]
advisories *words:
    @tests/advisories.sh "$@"

# Licences, duplicates and origins of all crates; the first time it installs cargo-deny (minutes).
[group('check')]
deny:
    @image/lib/cargo-tool.sh cargo-deny {{cargo-deny}}
    @target/tools/bin/cargo-deny --locked check bans licenses sources

# Boot times against their limits, over several runs.
[group('measure')]
bench-boot runs="5": image
    cargo run --release --locked --bin bench-boot -- {{runs}}

# A developer's loop in a fresh clone against its limits: bench-loop [check|simulate|test|kernel|nothing ..].
[group('measure')]
bench-loop *parts:
    @tests/bench-loop.sh "$@"

# How long image and media take again when nothing changed and when only Rust did, against their limits.
[group('measure')]
bench-build runs="3": media
    tests/bench-build.sh {{runs}}

# From the firmware's start to the verdict: USB and UEFI HTTP boot against the direct boot of the same run.
[group('measure')]
bench-media runs="3": media
    cargo run --release --locked --bin bench-media -- {{runs}}

# Which image layout: bytes, seconds and memory of one initrd against a small UKI with the driver beside it.
[group('measure')]
bench-layout runs="3": image
    cargo run --release --locked --bin bench-layout -- {{runs}}

# How long the receiver of reports takes to show a page with 100,000 stored reports, against its limit.
[group('measure')]
bench-collect *words:
    cargo bench --locked --package firstlight-collect --bench bench-collect -- "$@"

# A healthy pair of simulated nodes, so many times; how soon they meet, what 8 GPUs each take, and 1,024 nodes' plan and inference.
[group('measure')]
bench-nodes runs="50":
    HEALTHY_PAIRS={{runs}} tests/check.sh with cargo test --locked --test simulate -- --nocapture a_healthy_pair on_one_cable_find
    cargo test --release --locked --package firstlight --lib -- --nocapture a_thousand_nodes

# What level standard costs with 8, 16, 32 and 64 simulated GPUs, or with so many: wall, processor, memory, the links' own time (a quarter of an hour).
[group('measure')]
bench-gpus *gpus:
    cargo run --locked --bin bench-gpus -- "$@"

# The GPU tests on this machine's GPUs, and what they reached; --against DIR: the ratio to peers' saved outputs.
[group('measure')]
hardware *words: binaries
    cargo run --release --locked --bin hardware -- "$@"

# The shipped init over the shipped root on this GPU machine, whose libraries of driver and NCCL lie in LIBRARIES, folders of their own (as root).
[group('measure')]
hardware-line libraries level="standard": image
    rm -rf target/line
    cargo run --release --locked --bin unpack-image -- target/line
    tests/hardware/whole-line.sh target/line "{{libraries}}" "{{level}}"

# Faults between the validator and this machine's real driver and NCCL: each must get its verdict (gcc, 2 GPUs).
[group('measure')]
hardware-faults libraries nccl="" *faults: binaries
    tests/hardware/faults/run.sh target/release/firstlight "$@"

# NCCL's tests leave nothing behind, killed or not, and foreign settings change no arm (as root, 2 GPUs).
[group('measure')]
hardware-nccl libraries level="standard": binaries
    tests/hardware/nccl.sh target/release/firstlight "{{libraries}}" "{{level}}"

# NCCL's calls by `firstlight nccl` against a plain program that times as nccl-tests does, in turns (gcc, 2 GPUs).
[group('measure')]
bench-nccl libraries runs="5": binaries
    tests/hardware/bench-nccl/bench.py target/release/firstlight "{{libraries}}" {{runs}}

# Compile the GPU kernels into validator/kernels/images; with --check only compare (115 MB of compilers, once).
[group('maintain')]
kernels *words:
    validator/kernels/compile.py "$@"

# Take over what the kernel fragments resolve to: kernel-config/resolved.config, and arm64/resolved.config.
[group('maintain')]
kernel-resolve:
    kernel-config/resolve-here.sh
    kernel-config/arm64/build.sh --resolve

# Ask the archive for newer versions of everything that is pinned, or of some uses (driver tools ..).
[group('maintain')]
relock *uses:
    image/reproduce/relock.sh "$@"

# Collect all inputs of image and media in one archive, for builds without network: vendor [FILE].
[group('maintain')]
vendor *words:
    @image/reproduce/vendor.sh "$@"

# Remove what was built here; `clean all` also the cache of kernel, tools and downloads.
[group('maintain')]
clean what="":
    rm -rf --one-file-system target
    [ "{{what}}" != all ] || rm -rf --one-file-system "${FIRSTLIGHT_CACHE:-${XDG_CACHE_HOME:-$HOME/.cache}/firstlight}"
