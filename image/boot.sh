#!/usr/bin/env bash
# boot.sh [SCENARIO] [--pt] [KERNEL-WORD..]: boots the built image in QEMU on a machine of root ports
# and switches, shows the console live, and exits with the verdict's code: 0 PASS, 1 FAIL,
# 2 ERROR or no verdict, 3 DEGRADED. KVM is used if a guest really starts with it.
# SCENARIO is one of tests/simgpu/scenarios, by default `healthy`: simulated GPUs and the modelled
# machine that they are in, as files appended to the initrd. `none` boots without GPUs, `list` lists the scenarios.
set -euo pipefail
source "$(dirname "$0")/lib/common.sh"
out=$REPO/target/image/out
deadline=600   # seconds, against a guest that hangs; under emulation a boot takes ten

scenario=healthy
case ${1:-} in
    '' | -* | firstlight.*) ;;
    *) scenario=$1; shift ;;
esac
scenarios=$REPO/tests/simgpu/scenarios
# A scenario is a table [NAME]; the comment above it describes it.
names=$(grep -ho '^\[[a-z0-9-]*\]$' "$scenarios"/*.toml | tr -d '[]' | sort)
about() { awk -v "header=[$1]" '/^# / { text = text substr($0, 3) "\n"; next } $0 == header { printf "%s", text; exit } { text = "" }' "$scenarios"/*.toml; }
if [ "$scenario" = list ]; then
    for name in $names; do printf '%-20s %s\n' "$name" "$(about "$name" | head -1)"; done
    exit 0
fi
[ "$scenario" = none ] || grep -qx -- "$scenario" <<< "$names" ||
    die "there is no scenario '$scenario'" "none, list, or one of: $(echo $names)"
kernel=$out/firstlight.vmlinuz
[ "${1:-}" != --pt ] || { kernel=$out/firstlight-pt.vmlinuz; shift; }
[ -e "$kernel" ] || die "there is no image in $out" "just image"

# /dev/kvm may exist and be writable although guests do not run. Tried once per host boot and kernel.
kvm_works() {
    [ -w /dev/kvm ] || return 1
    local known; known=$CACHE/kvm-$(hash_of /proc/sys/kernel/random/boot_id "$kernel")
    if [ ! -e "$known" ]; then
        say "trying KVM (once; up to 10 s)"
        if timeout 10 qemu-system-x86_64 -accel kvm -machine q35 -cpu host -m 256 -display none -nodefaults -no-reboot \
            -serial stdio -kernel "$kernel" -append "console=ttyS0 panic=-1" < /dev/null 2> /dev/null | grep -q 'Kernel panic'
        then echo yes > "$known"; else echo no > "$known"; fi
    fi
    [ "$(cat "$known")" = yes ]
}
late=
if kvm_works; then accel=(-accel kvm -cpu host); else
    # QEMU 7.2 sometimes emulates cmpxchg16b wrongly: about one boot in four failed because of it. And with two processors
    # emulated at the same time, one may execute an instruction that the other is just patching (Oops: int3).
    accel=(-accel tcg,thread=single -cpu max,-cx16)
    # On a busy host the timer interrupt that the kernel checks for may come late, and the kernel would give up.
    late=no_timer_check
fi

# Two root ports; behind one of them a switch with two downstream ports, a NIC behind one and an RNG behind the other.
machine=(
    -machine q35 -smp 2 -m 2048 -nodefaults -display none -no-reboot
    -device pcie-root-port,id=rp1,chassis=1,slot=1 -device pcie-root-port,id=rp2,chassis=2,slot=2
    -device x3130-upstream,id=up,bus=rp1
    -device xio3130-downstream,id=dn1,bus=up,chassis=3,slot=1 -device xio3130-downstream,id=dn2,bus=up,chassis=4,slot=2
    -netdev user,id=net,restrict=on -device virtio-net-pci,netdev=net,bus=dn1,romfile=
    -device virtio-rng-pci,bus=dn2
)
initrd=$out/firstlight.initrd words=
if [ "$scenario" = none ]; then words=firstlight.expect.gpus=0; else
    say "laying out simulated GPUs: scenario $scenario"
    about "$scenario" | sed 's/^/firstlight: /' >&2
    simulated=$REPO/target/image/simulated
    # As tests/simulate.sh builds. The program calls cargo too, for which the date of common.sh would compile half of all crates again.
    (cd "$REPO" && tests/check.sh with cargo build --locked --quiet --lib --bin simgpu --test driver >&2)
    "$REPO/tests/check.sh" with "${CARGO_TARGET_DIR:-$REPO/target}/debug/simgpu" "$scenario" "$simulated.cpio" >&2
    # The kernel accepts an uncompressed archive only at an offset that is a multiple of four.
    { cat "$initrd"; head -c $(((4 - $(stat -c %s "$initrd") % 4) % 4)) /dev/zero; cat "$simulated.cpio"; } > "$simulated.initrd"
    initrd=$simulated.initrd
    # After a fault the machine shows it and powers off; words given on the command line win.
    words='firstlight.policy.on_fail=poweroff firstlight.policy.on_error=poweroff'
fi
log=$REPO/target/image/boot.log
say "booting $(basename "$kernel"): qemu ${accel[*]}, console also in ${log#"$REPO/"}"
timeout --foreground "$deadline" qemu-system-x86_64 "${accel[@]}" "${machine[@]}" -monitor none \
    -chardev stdio,id=console,logfile="$log",signal=off -serial chardev:console \
    -kernel "$kernel" -initrd "$initrd" \
    -append "$(cat "$out/firstlight.cmdline") $late $words $*" <&0 &
guest=$!
trap 'kill "$guest" 2> /dev/null || true' EXIT
wait "$guest" || say "QEMU ended with status $? (124: the guest hung for $deadline s)"

exit_by_verdict "$log"
