//! The package: installed, run and removed in minimal Debian folders, under systemd, and on an old glibc.

use super::{debian, firstlight, sh, shell, simulated};
use harness::{Checkout, workspace};
use std::collections::BTreeSet;
use std::fs;
use std::os::unix::fs::symlink;
use std::path::{Path, PathBuf};
use std::process::Output;

/// The newest glibc that the package may need.
const GLIBC: (u32, u32) = (2, 28);

/// The one file in the folder of packages with this ending.
fn package_file(ending: &str) -> PathBuf {
    let all = fs::read_dir(workspace().join("target/package/out")).unwrap();
    let mut found = all
        .map(|e| e.unwrap().path())
        .filter(|p| p.to_string_lossy().ends_with(ending));
    let file = found
        .next()
        .unwrap_or_else(|| panic!("there is no {ending}; ./run package"));
    assert!(found.next().is_none());
    file
}

/// The newest glibc version among the symbols that a program needs.
fn glibc(program: &Path) -> (u32, u32) {
    let symbols = sh(Path::new("/"), &format!("objdump -T {}", program.display()));
    let versions = symbols.split("GLIBC_").skip(1).filter_map(|rest| {
        let mut numbers = rest.split(|c: char| !c.is_ascii_digit());
        Some((numbers.next()?.parse().ok()?, numbers.next()?.parse().ok()?))
    });
    versions
        .max()
        .unwrap_or_else(|| panic!("{} needs no glibc", program.display()))
}

#[test]
fn the_programs_need_no_newer_glibc_than_the_package_says() {
    assert!(glibc(&firstlight()) <= GLIBC);
    // Cross-check of the search: a program linked to this host's glibc needs a newer one.
    let dir = tempfile::tempdir().unwrap();
    sh(
        dir.path(),
        "echo 'int main(void) { return 0; }' > b.c; gcc -o b b.c",
    );
    assert!(
        glibc(&dir.path().join("b")) > GLIBC,
        "this host's glibc is as old as the package's"
    );
    let depends = sh(
        Path::new("/"),
        &format!(
            "dpkg-deb -f {} Depends",
            package_file("_amd64.deb").display()
        ),
    );
    assert_eq!(
        depends.trim(),
        format!("libc6 (>= {}.{})", GLIBC.0, GLIBC.1)
    );
}

/// Every file and link below a folder, except dpkg's records, logs and caches.
fn files(tree: &Path) -> Vec<String> {
    let all = sh(tree, "find . -xdev | LC_ALL=C sort");
    let own = ["./var/lib/dpkg/", "./var/log/", "./var/cache/"];
    all.lines()
        .filter(|f| !own.iter().any(|o| f.starts_with(o)))
        .map(str::to_owned)
        .collect()
}

#[test]
fn the_deb_is_installed_run_and_removed_on_an_old_debian_and_no_file_is_left() {
    let tree = debian(true);
    let at = tree.path();
    let before = files(at);
    fs::copy(package_file("_amd64.deb"), at.join("tmp/f.deb")).unwrap();
    let inside = |script: &str| shell(at, &format!("chroot . /bin/sh -euc '{script}'"));
    let run = |script: &str| sh(at, &format!("chroot . /bin/sh -euc '{script}'"));
    run("dpkg -i /tmp/f.deb; rm /tmp/f.deb");
    let new: Vec<_> = files(at)
        .into_iter()
        .filter(|f| !before.contains(f))
        .collect();
    for file in [
        "./usr/bin/firstlight",
        "./usr/bin/firstlight-collect",
        "./etc/firstlight/config.toml",
        "./usr/share/man/man1/firstlight.1.gz",
        "./usr/share/bash-completion/completions/firstlight",
        "./usr/share/zsh/vendor-completions/_firstlight",
        "./usr/share/fish/vendor_completions.d/firstlight.fish",
        "./usr/share/doc/firstlight/copyright",
        "./usr/lib/systemd/system/firstlight.service",
        "./usr/lib/systemd/system/firstlight-fabric.service",
        "./usr/lib/systemd/system/firstlight-setup.service",
        "./usr/lib/systemd/system/firstlight-metrics.service",
        "./usr/lib/systemd/system/firstlight-metrics.timer",
    ] {
        assert!(
            new.iter().any(|f| f == file),
            "{file} is not installed: {new:#?}"
        );
    }
    assert_eq!(
        run("firstlight --version").trim(),
        format!("firstlight {}", env!("CARGO_PKG_VERSION"))
    );
    assert!(run("firstlight-collect --help").contains("--read-token-file"));
    assert!(run("zcat /usr/share/man/man1/firstlight.1.gz").contains(".TH firstlight 1"));
    let copyright = run("cat /usr/share/doc/firstlight/copyright");
    assert!(
        copyright.contains("License: MIT or Apache-2.0") && copyright.contains(" clap 4."),
        "{copyright}"
    );
    run("bash -n /usr/share/bash-completion/completions/firstlight");
    // No GPU and no /sys: no verdict can be reached, and the report says so.
    let validate = "mount -t proc proc proc; \
        exec chroot . firstlight --config /etc/firstlight/config.toml validate --quiet --json /report.json";
    let output = shell(at, &format!("unshare --mount bash -euc '{validate}'"));
    let last = String::from_utf8_lossy(&output.stdout).into_owned();
    assert_eq!(output.status.code(), Some(2), "{output:?}");
    assert!(last.starts_with("FIRSTLIGHT verdict=ERROR "), "{last}");
    assert!(
        fs::read_to_string(at.join("report.json"))
            .unwrap()
            .contains("\"verdict\": \"ERROR\"")
    );
    fs::remove_file(at.join("report.json")).unwrap();
    // The user's settings are kept when the package is removed, and deleted when it is purged.
    run(
        "echo >> /etc/firstlight/config.toml; dpkg -r firstlight; test -e /etc/firstlight/config.toml",
    );
    assert!(!inside("firstlight --version").status.success());
    run("dpkg -P firstlight");
    assert_eq!(files(at), before);
}

#[test]
fn the_tarball_has_the_same_files_and_runs_on_an_old_glibc() {
    let tree = debian(true);
    let at = tree.path();
    sh(
        at,
        &format!(
            "tar -xf {} -C opt && mv opt/firstlight-* opt/f",
            package_file("-x86_64.tar.xz").display()
        ),
    );
    sh(
        at,
        &format!(
            "mkdir deb && dpkg-deb -x {} deb",
            package_file("_amd64.deb").display()
        ),
    );
    sh(at, "diff -r deb opt/f");
    let version = sh(at, "chroot . ldd --version");
    let list = sh(at, "chroot . /opt/f/usr/bin/firstlight list");
    assert!(list.contains("p2p-integrity"), "{list}");
    let loaded = sh(at, "chroot . ldd /opt/f/usr/bin/firstlight");
    assert!(
        loaded.contains("libc.so.6") && !loaded.contains("not found"),
        "{loaded}"
    );
    println!("ran on {}", version.lines().next().unwrap_or_default());
}

/// What `rpm` says of a package, by its words.
fn rpm(words: &str, file: &Path) -> String {
    sh(Path::new("/"), &format!("rpm {words} {}", file.display()))
}

#[test]
fn the_rpm_has_the_same_files_and_keeps_the_user_s_settings() {
    let file = package_file(".x86_64.rpm");
    let dir = tempfile::tempdir().unwrap();
    let at = dir.path();
    sh(
        at,
        &format!(
            "mkdir deb rpm; dpkg-deb -x {} deb",
            package_file("_amd64.deb").display()
        ),
    );
    sh(
        at,
        &format!(
            "cd rpm && rpm2cpio {} | cpio --quiet -idm && cd .. && diff -r deb rpm",
            file.display()
        ),
    );
    rpm("--checksig --nosignature", &file);
    assert_eq!(
        rpm("-qp --configfiles", &file).trim(),
        "/etc/firstlight/config.toml"
    );
    assert_eq!(
        rpm("-qp --qf '%{VERSION} %{ARCH} %{LICENSE}'", &file),
        concat!(env!("CARGO_PKG_VERSION"), " x86_64 MIT OR Apache-2.0")
    );
    let requires = rpm("-qp --requires", &file);
    let own = requires
        .lines()
        .map(str::trim)
        .filter(|line| !line.starts_with("rpmlib(") && !line.starts_with("config("));
    let glibc = format!("glibc >= {}.{}", GLIBC.0, GLIBC.1);
    assert_eq!(
        own.collect::<BTreeSet<_>>(),
        BTreeSet::from(["/bin/sh", &glibc])
    );
    // The scripts are scripts, not the path of one.
    let scripts = rpm("-qp --scripts", &file);
    assert_eq!(
        scripts.matches("systemctl daemon-reload").count(),
        2,
        "{scripts}"
    );
    assert!(
        scripts.contains("disable --now firstlight.service") && !scripts.contains("image/package"),
        "{scripts}"
    );

    // Installed and removed in a folder that is no running system.
    let tree = debian(true);
    let at = tree.path();
    // rpm leaves empty folders, because a file's folder is not a part of this package.
    let own = |at: &Path| {
        sh(
            at,
            "find . -xdev ! -type d ! -path \"./var/lib/rpm/*\" | LC_ALL=C sort",
        )
    };
    let before = own(at);
    // Debian's rpm has its database in the home directory otherwise.
    let call = |words: &str| {
        sh(
            at,
            &format!("rpm --root $PWD --dbpath /var/lib/rpm --nodeps {words}"),
        )
    };
    fs::copy(&file, at.join("tmp/f.rpm")).unwrap();
    call("-i tmp/f.rpm");
    assert_eq!(
        sh(at, "chroot . firstlight --version").trim(),
        concat!("firstlight ", env!("CARGO_PKG_VERSION"))
    );
    sh(at, "echo >> etc/firstlight/config.toml; rm tmp/f.rpm");
    call("-e firstlight");
    assert!(
        !at.join("usr/bin/firstlight").exists()
            && at.join("etc/firstlight/config.toml.rpmsave").exists()
    );
    sh(at, "rm -r etc/firstlight");
    assert_eq!(own(at), before);
}

/// The C library of arm64 in a folder, from the archive by which the arm64 image is built.
fn arm64_library(at: &Path) {
    let script = "set -o pipefail; source image/lib/common.sh; image/fetch.sh image-arm64/libc6 image-arm64/libgcc-s1
        locked image-arm64 | while read -r name version arch _; do
            case $name in libc6 | libgcc-s1) dpkg-deb -x \"$(deb_path \"$name\" \"$version\" \"$arch\")\" \"$TO\" ;; esac
        done";
    sh(workspace(), &format!("TO={}; {script}", at.display()));
}

/// Runs a program of arm64 in the folder `tar` as its root. The kernel starts QEMU for it and for its children, in a namespace of
/// this command alone: the host's own list of such programs is not changed. The magic numbers are those of ELF for aarch64.
const EMULATED: &str = r#"
mkdir -p formats tar/proc tar/dev tar/tmp tar/opt
[ -e tar/lib ] || ln -s usr/lib tar/lib
mount -t binfmt_misc none formats
magic="\\x7fELF\\x02\\x01\\x01$(printf "\\\\x00%.0s" 1 2 3 4 5 6 7 8 9)\\x02\\x00\\xb7\\x00"
mask="\\xff\\xff\\xff\\xff\\xff\\xff\\xff\\x00\\xff\\xff\\xff\\xff\\xff\\xff\\xff\\xff\\xfe\\xff\\xff\\xff"
echo ":aarch64:M::$magic:$mask:$(command -v qemu-aarch64-static):F" > formats/register
mount --rbind /proc tar/proc; mount --rbind /dev tar/dev
mkdir -p tar$WORKSPACE; mount --bind $WORKSPACE tar$WORKSPACE
program=$1; shift
exec chroot tar /usr/bin/$program "$@"
"#;

/// The output of a program of arm64 in the folder `tar` of `at`.
fn emulated(at: &Path, words: &str) -> Output {
    let workspace = workspace().display().to_string();
    shell(
        at,
        &format!(
            "WORKSPACE={workspace} CARGO=/usr/bin/cargo unshare --user --map-root-user --mount --fork bash -euc '{EMULATED}' emulated {words}"
        ),
    )
}

/// The same program for another architecture. What it does to GPUs of that architecture is not shown by this.
#[test]
fn the_package_of_arm64_has_the_same_files_and_runs_under_emulation() {
    sh(workspace(), "image/package/build.sh --arch arm64 2>&1");
    let dir = tempfile::tempdir().unwrap();
    let at = dir.path();
    let [deb, rpm_file, tar] = ["_arm64.deb", ".aarch64.rpm", "-aarch64.tar.xz"].map(package_file);
    sh(at, "mkdir deb rpm tar other");
    sh(
        at,
        &format!(
            "dpkg-deb -x {} deb; tar -xf {} -C tar --strip-components=1; diff -r deb tar",
            deb.display(),
            tar.display()
        ),
    );
    sh(
        at,
        &format!(
            "cd rpm; rpm2cpio {} | cpio --quiet -idm; cd ..; diff -r deb rpm",
            rpm_file.display()
        ),
    );
    assert_eq!(rpm("-qp --qf '%{ARCH}'", &rpm_file), "aarch64");
    assert_eq!(
        sh(at, &format!("dpkg-deb -f {} Architecture", deb.display())).trim(),
        "arm64"
    );
    // All but the programs is as in the package of x86-64; the licences are those of other crates.
    sh(
        at,
        &format!("dpkg-deb -x {} other", package_file("_amd64.deb").display()),
    );
    sh(
        at,
        "for tree in deb other; do rm -r $tree/usr/share/doc; done; diff -r --exclude='firstlight*' deb/usr/bin other/usr/bin; diff -r deb/etc other/etc; diff -r deb/usr/lib other/usr/lib; diff -r deb/usr/share other/usr/share",
    );
    assert!(glibc(&at.join("deb/usr/bin/firstlight")) <= GLIBC);

    arm64_library(&at.join("tar"));
    simulated("healthy", &at.join("tar/sim"), "/sim");
    let run = |words: &str| emulated(at, words);
    let version = run("firstlight --version");
    let expected = concat!("firstlight ", env!("CARGO_PKG_VERSION"));
    assert_eq!(
        String::from_utf8_lossy(&version.stdout).trim(),
        expected,
        "{version:?}"
    );
    assert!(String::from_utf8_lossy(&run("firstlight list").stdout).contains("p2p-integrity"));
    assert!(
        String::from_utf8_lossy(&run("firstlight-collect --help").stdout)
            .contains("--read-token-file")
    );
    // With its worker processes: the fabric of a modelled machine passes, and a machine of which nothing can be read does not.
    let fabric = run("firstlight --root /sim/root validate --scope fabric --level quick --quiet");
    assert!(
        String::from_utf8_lossy(&fabric.stdout).starts_with("FIRSTLIGHT verdict=PASS "),
        "{fabric:?}"
    );
    let none = run("firstlight --root /opt validate --level quick --quiet");
    assert_eq!(none.status.code(), Some(2), "{none:?}");
    let line = String::from_utf8_lossy(&none.stdout).into_owned();
    assert!(
        line.starts_with("FIRSTLIGHT verdict=ERROR ") && line.contains("codes=FABRIC-UNREADABLE"),
        "{line}"
    );
}

/// Programs and simulated GPUs for arm64, cross-compiled: `./run simulate` of such a machine, but for its compiler.
#[test]
fn programs_of_arm64_judge_simulated_gpus_under_emulation() {
    let dir = tempfile::tempdir().unwrap();
    let at = dir.path();
    sh(at, "mkdir -p tar/usr/bin");
    arm64_library(&at.join("tar"));
    let zig = sh(
        workspace(),
        "source image/lib/common.sh; read -r _ version _ < <(locked package); echo $CACHE/zig-$version/ziglang/zig",
    );
    let cc = at.join("cc");
    let words = "words=(); for word in \"$@\"; do case $word in --target=*) ;; *) words+=(\"$word\") ;; esac; done";
    let compiler = format!(
        "exec {} cc -target aarch64-linux-gnu.{}.{}",
        zig.trim(),
        GLIBC.0,
        GLIBC.1
    );
    fs::write(
        &cc,
        format!("#!/usr/bin/env bash\n{words}\n{compiler} \"${{words[@]}}\"\n"),
    )
    .unwrap();
    let (cc, target) = (cc.display(), workspace().join("target/package/simulated"));
    sh(
        workspace(),
        &format!(
            "chmod +x {cc}
            export CC_aarch64_unknown_linux_gnu={cc} AR_aarch64_unknown_linux_gnu=ar ZIG_LOCAL_CACHE_DIR={zig_cache}
            export CARGO_TARGET_AARCH64_UNKNOWN_LINUX_GNU_LINKER={cc} ZIG_GLOBAL_CACHE_DIR={zig_cache}
            cargo build --locked --quiet --target aarch64-unknown-linux-gnu --target-dir {target} --lib --bin firstlight --bin simulate \
                -p firstlight -p firstlight-tests -p simgpu-cuda -p simgpu-nvml -p simgpu-nccl -p simgpu-verbs
            cd {target}/aarch64-unknown-linux-gnu/debug
            cp firstlight simulate libsimgpu_*.so {at}/tar/usr/bin
            cd {at}; echo 'int main(void) {{ return 0; }}' > true.c; {cc} -o tar/usr/bin/cargo true.c",
            zig_cache = target.join("zig").display(),
            target = target.display(),
            at = at.display(),
        ),
    );
    for (scenario, status) in [("healthy", 0), ("flip", 1)] {
        let output = emulated(at, &format!("simulate {scenario} quick"));
        let text = String::from_utf8_lossy(&output.stdout).into_owned();
        assert_eq!(output.status.code(), Some(status), "{output:?}");
        assert!(
            text.contains("8 x Simulated NVIDIA GeForce RTX 4090"),
            "{text}"
        );
    }
}

/// Takes minutes, because it builds everything again.
#[test]
fn another_checkout_makes_the_same_bytes() {
    let checkout = Checkout::new(&[]).unwrap();
    fs::create_dir(checkout.path("target")).unwrap();
    symlink(
        workspace().join("target/tools"),
        checkout.path("target/tools"),
    )
    .unwrap();
    sh(checkout.top(), "umask 077; image/package/build.sh 2>&1");
    // Those of arm64 are there only if they were built.
    let sums = |at: &Path| {
        sh(
            &at.join("target/package/out"),
            "sha256sum -- *_amd64.deb *.x86_64.rpm *-x86_64.tar.xz",
        )
    };
    assert_eq!(sums(checkout.top()), sums(workspace()));
}

/// The script that checks the units inside; it prints one result per line.
const PROBE: &str = "
prom=/var/lib/prometheus/node-exporter/firstlight.prom
systemd-analyze verify --man=no firstlight.service firstlight-fabric.service firstlight-setup.service firstlight-metrics.service firstlight-metrics.timer workload.service; echo \"verify $?\"
echo \"after installation: $(systemctl is-enabled firstlight.service firstlight-metrics.timer | xargs) $(systemctl is-active firstlight)\"
for scenario in healthy in-use zeros; do
    cp /sim/$scenario/config.toml /etc/firstlight/config.toml
    rm -f /worked
    systemctl stop workload firstlight
    systemctl start workload
    echo \"$scenario: workload $? $(systemctl is-active firstlight) $(cat /worked)\"
    systemctl start firstlight-metrics
    echo \"$scenario: metrics $? $(grep '^firstlight_verdict.* 1$' $prom)\"
done
rm /run/firstlight/report.json
systemctl start firstlight-metrics
echo \"no report: metrics $? $(ls $prom)\"
systemctl enable --now firstlight.service firstlight-metrics.timer
echo \"timer: $(systemctl is-active firstlight-metrics.timer)\"
dpkg -P firstlight; echo \"purge $?\"
find /etc/systemd /usr/lib/systemd /etc/firstlight /var/lib/systemd -name '*firstlight*'
";

const WORKLOAD: &str = "[Unit]
Requires=firstlight.service
After=firstlight.service
[Service]
Type=oneshot
RemainAfterExit=yes
EnvironmentFile=-/run/firstlight/env
ExecStart=/bin/sh -c 'echo $FIRSTLIGHT_VERDICT > /worked'
";

/// Powers off the container whether the probe succeeds or fails.
const PROBE_UNIT: &str = "[Unit]
SuccessAction=poweroff-force
FailureAction=poweroff-force
After=multi-user.target
[Service]
Type=oneshot
TimeoutStartSec=5min
ExecStart=/bin/sh -c 'sh /probe > /answers 2> /log'
";

#[test]
fn under_systemd_a_workload_starts_only_after_a_good_verdict() {
    let tree = debian(false);
    let at = tree.path();
    fs::copy(package_file("_amd64.deb"), at.join("tmp/f.deb")).unwrap();
    sh(
        at,
        "chroot . dpkg -i /tmp/f.deb; mkdir -p var/lib/prometheus/node-exporter",
    );
    for scenario in ["healthy", "in-use", "zeros"] {
        let folder = format!("sim/{scenario}");
        simulated(scenario, &at.join(&folder), &format!("/{folder}"));
    }
    fs::write(at.join("probe"), PROBE).unwrap();
    fs::write(at.join("etc/systemd/system/workload.service"), WORKLOAD).unwrap();
    fs::write(at.join("etc/systemd/system/probe.service"), PROBE_UNIT).unwrap();
    let boot = "timeout 300 systemd-nspawn --quiet --register=no --keep-unit -D . --boot systemd.unit=probe.service \
        < /dev/null > console 2>&1 || true; cat answers";
    let answers = sh(at, boot);
    let log = fs::read_to_string(at.join("log")).unwrap();
    let wanted = "verify 0
after installation: disabled disabled inactive
healthy: workload 0 active PASS
healthy: metrics 0 firstlight_verdict{verdict=\"PASS\"} 1
in-use: workload 0 active DEGRADED
in-use: metrics 0 firstlight_verdict{verdict=\"DEGRADED\"} 1
zeros: workload 1 failed 
zeros: metrics 0 firstlight_verdict{verdict=\"FAIL\"} 1
no report: metrics 1 
timer: active
";
    assert!(answers.starts_with(wanted), "{answers}\n{log}");
    // dpkg's own lines, then the result, and no remaining file after it.
    assert!(answers.ends_with("purge 0\n"), "{answers}\n{log}");
}
