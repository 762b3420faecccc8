//! Do the recipes work on systems that are not Debian? The script `run` sees another /etc/os-release and only the few
//! commands that every system has; it must name what is missing, and make and enter the Debian folder. Here the folder consists
//! of one small package; `offline` builds an image in the real one.

use harness::{Checkout, cache};
use std::ffi::OsStr;
use std::fs;
use std::os::unix::fs::symlink;
use std::path::{Path, PathBuf};
use std::process::{Command, Output};

/// The commands that `run` needs before the folder exists.
const FEW: &str = "sh bash awk tar xz sha256sum flock unshare mount pivot_root umount curl head tail cut cat mktemp mv rm cp mkdir \
    df wc id uname dirname basename readlink realpath touch ln chmod env grep sed sleep date stat sort uniq tr find";

/// Makes a folder with links to these commands.
pub fn commands(folder: PathBuf, names: &str) -> PathBuf {
    fs::create_dir(&folder).unwrap();
    for name in names.split_whitespace() {
        let places =
            ["/usr/bin", "/bin", "/usr/sbin", "/sbin"].map(|place| Path::new(place).join(name));
        let place = places
            .iter()
            .find(|place| place.exists())
            .unwrap_or_else(|| panic!("no {name}"));
        symlink(place, folder.join(name)).unwrap();
    }
    folder
}

/// `run WORDS` in a checkout, on a system with this os-release and without network, where PATH has only those commands.
pub fn run_on<S: AsRef<OsStr>>(
    system: &str,
    commands: &Path,
    checkout: &Checkout,
    words: &[S],
) -> Command {
    fs::write(checkout.path("os-release"), system).unwrap();
    let mut command = checkout.script("/usr/bin/unshare");
    command.env_clear().env("HOME", "/nonexistent").args([
        "--map-root-user",
        "--mount",
        "--net",
        "/bin/sh",
        "-euc",
    ]);
    command.arg("mount --bind os-release \"$(realpath /etc/os-release)\"; PATH=$1; shift; exec ./run \"$@\"");
    command
        .arg("run")
        .arg(commands)
        .args(words)
        .env("PATH", "/usr/sbin:/usr/bin:/sbin:/bin");
    command
}

/// `run WORDS` on Fedora, with only the commands in `FEW`.
pub fn run_on_fedora<S: AsRef<OsStr>>(checkout: &Checkout, words: &[S]) -> Command {
    let few = checkout.path("few");
    let few = if few.exists() {
        few
    } else {
        commands(few, FEW)
    };
    run_on("ID=fedora\nVERSION_ID=42\n", &few, checkout, words)
}

fn sh(at: &Path, script: &str) {
    let output = Command::new("sh")
        .args(["-euc", script])
        .current_dir(at)
        .output()
        .unwrap();
    assert!(
        output.status.success(),
        "{script}: {}",
        String::from_utf8_lossy(&output.stderr)
    );
}

/// The only error line of a run that was refused.
#[track_caller]
fn refusal(output: &Output) -> String {
    let text = String::from_utf8_lossy(&output.stderr);
    let errors: Vec<_> = text
        .lines()
        .filter(|line| line.contains("error:"))
        .collect();
    assert!(!output.status.success() && errors.len() == 1, "{text}");
    errors[0].to_owned()
}

/// A checkout whose Debian folder is one package, with a Debian archive and an archive of inputs that contain it.
fn small_checkout() -> Checkout {
    let checkout =
        Checkout::new(&["run", "image/debian/", "image/lib/", "image/tools.sh"]).unwrap();
    let lock = fs::read_to_string(harness::workspace().join("image/inputs.lock")).unwrap();
    let line = lock
        .lines()
        .find(|line| line.starts_with("image busybox-static "))
        .unwrap();
    let version = line.split(' ').nth(2).unwrap().replace(':', "%3a");
    let busybox = cache().join(format!("debs/busybox-static_{version}_amd64.deb"));
    sh(
        checkout.top(),
        &format!(
            "mkdir -p tree/DEBIAN tree/etc archive/dists/trixie/main/binary-amd64 firstlight-inputs/debs
             dpkg-deb -x {} tree
             for name in sh env cat uname id dirname sed umount; do ln -s busybox tree/usr/bin/$name; done
             printf 'ID=debian\\nVERSION_ID=13\\n' > tree/etc/os-release
             printf 'Package: small\\nVersion: 1:2\\nArchitecture: all\\nMaintainer: N <n@localhost>\\nDescription: a test\\n' > tree/DEBIAN/control
             dpkg-deb --root-owner-group -Zxz --build tree archive/small.deb > /dev/null
             hash=$(sha256sum < archive/small.deb | cut -d' ' -f1)
             printf 'Package: small\\nFilename: small.deb\\nSHA256: %s\\n\\n' $hash | xz > archive/dists/trixie/main/binary-amd64/Packages.xz
             echo \"debian small 1:2 all $(stat -c %s archive/small.deb) $hash\" > image/inputs.lock
             cp archive/small.deb firstlight-inputs/debs/small_1%3a2_all.deb
             tar -cf inputs.tar firstlight-inputs",
            busybox.display()
        ),
    );
    checkout
}

fn with_archive(checkout: &Checkout, archive: &str) -> Command {
    let mut command = run_on_fedora(checkout, &["image"]);
    command
        .env("FIRSTLIGHT_CACHE", checkout.path("cache"))
        .env("FIRSTLIGHT_ARCHIVE", archive);
    command
}

#[test]
fn missing_commands_are_named_with_the_command_that_installs_them() {
    let checkout = Checkout::new(&["run"]).unwrap();
    let none = commands(checkout.path("none"), "sh id uname sed dirname");
    for (system, builds, compiles) in [
        (
            "ID=fedora\nVERSION_ID=42\n",
            "dnf install bash gawk tar xz coreutils",
            "dnf install gcc git",
        ),
        (
            "ID=ubuntu\nID_LIKE=debian\n",
            "apt-get install bash gawk tar xz-utils",
            "apt-get install gcc git",
        ),
        (
            "ID=arch\n",
            "pacman -S bash gawk tar xz coreutils",
            "pacman -S gcc git",
        ),
        (
            "ID=x\nID_LIKE=\"suse opensuse\"\n",
            "zypper install bash gawk tar xz",
            "zypper install gcc git",
        ),
        (
            "ID=void\n",
            "what 'void' calls bash gawk tar",
            "what 'void' calls gcc git",
        ),
    ] {
        for (recipe, says) in [
            ("image", builds),
            ("boot", builds),
            ("test", builds),
            ("check", compiles),
        ] {
            let line = refusal(
                &run_on(system, &none, &checkout, &[recipe])
                    .output()
                    .unwrap(),
            );
            assert!(line.contains(says), "{system} {recipe}: {line}");
        }
    }
}

/// Writes a script into the folder of commands.
fn command(folder: &Path, name: &str, script: &str) {
    let file = folder.join(name);
    fs::remove_file(&file).ok();
    fs::write(&file, format!("#!/bin/sh\n{script}\n")).unwrap();
    fs::set_permissions(&file, std::os::unix::fs::PermissionsExt::from_mode(0o755)).unwrap();
}

/// The program is a script here, which prints its words and ends as the program does with a warning.
#[test]
fn validate_builds_for_this_machine_alone_and_passes_words_and_status_on() {
    let checkout = Checkout::new(&["run"]).unwrap();
    let few = commands(checkout.path("few"), FEW);
    let validate = |words: &[&str]| {
        run_on("ID=fedora\nVERSION_ID=42\n", &few, &checkout, words)
            .output()
            .unwrap()
    };
    // Neither an archive nor a folder is needed, only the compilers.
    let line = refusal(&validate(&["validate"]));
    assert!(
        line.contains("dnf install gcc") && !line.contains("git"),
        "{line}"
    );
    command(&few, "gcc", "exit 1");
    let line = refusal(&validate(&["validate"]));
    assert!(
        line.contains("dnf install rustup, or: curl") && line.contains("sh.rustup.rs"),
        "{line}"
    );
    command(
        &few,
        "cargo",
        "mkdir -p target/host; echo \"cargo $*\" >&2
         printf '#!/bin/sh\\nfor word; do printf \"<%%s>\" \"$word\"; done\\nexit 3\\n' > target/host/firstlight; chmod +x target/host/firstlight",
    );
    for (words, passed) in [
        (&["validate"][..], "<validate>"),
        (
            &["validate", "--level", "full"],
            "<validate><--level><full>",
        ),
        (
            &[
                "validate",
                "--level",
                "full",
                "--set",
                "validate.library_path=['/a b']",
                "--config=c",
            ],
            "<--set><validate.library_path=['/a b']><--config=c><validate><--level><full>",
        ),
    ] {
        let output = validate(words);
        assert_eq!(
            String::from_utf8_lossy(&output.stdout),
            passed,
            "{output:?}"
        );
        assert_eq!(output.status.code(), Some(3));
        let text = String::from_utf8_lossy(&output.stderr);
        assert!(
            text.contains(
                "cargo build --profile host --locked --package firstlight --bin firstlight"
            ),
            "{text}"
        );
    }
    // A build that fails ends there.
    command(&few, "cargo", "exit 101");
    let output = validate(&["validate"]);
    assert!(
        output.status.code() == Some(101) && output.stdout.is_empty(),
        "{output:?}"
    );
}

#[test]
fn on_arm64_what_needs_x86_64_is_refused_by_name_and_what_compiles_there_is_not() {
    let checkout = Checkout::new(&["run"]).unwrap();
    let few = commands(checkout.path("few"), FEW);
    command(&few, "uname", "echo aarch64");
    let said = |recipe: &str| {
        refusal(
            &run_on("ID=ubuntu\nID_LIKE=debian\n", &few, &checkout, &[recipe])
                .output()
                .unwrap(),
        )
    };
    for recipe in ["boot", "image", "media", "test", "kernels"] {
        let line = said(recipe);
        assert!(
            line.contains(&format!(
                "'{recipe}' needs an x86-64 machine, and this is aarch64; here: validate"
            )),
            "{line}"
        );
    }
    for recipe in ["validate", "binaries", "simulate", "check"] {
        assert!(said(recipe).contains("apt-get install gcc"), "{recipe}");
    }
}

#[test]
fn the_folder_is_made_from_the_named_archive_and_entered() {
    let checkout = small_checkout();
    let archive = format!("[trusted=yes] file:{}", checkout.path("archive").display());
    // In the folder `run` detects Debian 13, and reports the commands that the small folder lacks.
    let output = with_archive(&checkout, &archive).output().unwrap();
    assert!(
        refusal(&output).contains("the Debian folder lacks: gcc git curl"),
        "{output:?}"
    );
    assert!(
        String::from_utf8_lossy(&output.stderr)
            .contains("'fedora 42': 'image' runs in a Debian 13 folder")
    );

    // The second time no archive is needed. The host's files are visible, its system is not, and the exit status is passed on.
    let script = "cat os-release /etc/os-release; [ ! -e /usr/bin/unshare ]; exit 3";
    let mut enter = Command::new("unshare");
    enter
        .args([
            "--map-root-user",
            "image/debian/enter.sh",
            "sh",
            "-euc",
            script,
        ])
        .current_dir(checkout.top());
    let output = enter
        .env("FIRSTLIGHT_CACHE", checkout.path("cache"))
        .output()
        .unwrap();
    assert_eq!(output.status.code(), Some(3), "{output:?}");
    assert_eq!(
        String::from_utf8_lossy(&output.stdout),
        "ID=fedora\nVERSION_ID=42\nID=debian\nVERSION_ID=13\n"
    );

    // A driver of this machine is read from its system, which is visible for that alone, and cannot be written to.
    let script = "echo $FIRSTLIGHT_HOST; [ -d /host/usr/bin ]; [ -d /host/sys/bus ]
        for folder in usr etc sys; do if busybox touch /host/$folder/new 2> /dev/null; then exit 9; fi; done
        cat /host/etc/os-release";
    let mut enter = Command::new("unshare");
    enter.args([
        "--map-root-user",
        "image/debian/enter.sh",
        "sh",
        "-euc",
        script,
        "sh",
        "--driver",
        "installed",
    ]);
    let output = enter
        .current_dir(checkout.top())
        .env("FIRSTLIGHT_CACHE", checkout.path("cache"))
        .output()
        .unwrap();
    let own = fs::read_to_string("/etc/os-release").unwrap();
    assert_eq!(
        String::from_utf8_lossy(&output.stdout),
        format!("/host\n{own}"),
        "{output:?}"
    );
}

/// NixOS has the driver behind links in /run, and a driver may also be in a folder that the Debian folder has too.
#[test]
fn what_the_words_name_is_visible_in_the_folder_wherever_it_is() {
    let checkout = small_checkout();
    let archive = format!("[trusted=yes] file:{}", checkout.path("archive").display());
    assert!(
        refusal(&with_archive(&checkout, &archive).output().unwrap())
            .contains("the Debian folder lacks")
    );
    let enter = |script: &str, words: &[&str]| {
        let host = "mount -t tmpfs none /usr/local; mount -t tmpfs none /run; mkdir -p /usr/local/driver /usr/local/store/lib
            echo description > /usr/local/driver/driver.toml; echo part > /usr/local/driver/part; echo source > /usr/local/modules.tar.gz
            echo cuda > /usr/local/store/lib/libcuda.so.1; ln -s /usr/local/store /run/opengl-driver
            exec image/debian/enter.sh \"$@\"";
        let mut enter = Command::new("unshare");
        enter
            .args([
                "--map-root-user",
                "--mount",
                "sh",
                "-euc",
                host,
                "sh",
                "sh",
                "-euc",
                script,
                "sh",
            ])
            .args(words);
        enter
            .current_dir(checkout.top())
            .env("FIRSTLIGHT_CACHE", checkout.path("cache"))
            .output()
            .unwrap()
    };
    for (words, script, says) in [
        (
            &[
                "image",
                "--driver",
                "installed",
                "--modules",
                "/usr/local/modules.tar.gz",
            ][..],
            "[ \"$(readlink /host/run/opengl-driver)\" = /usr/local/store ]; cat /host/usr/local/store/lib/libcuda.so.1 /usr/local/modules.tar.gz",
            "cuda\nsource\n",
        ),
        (
            &["image", "--driver", "/usr/local/driver"],
            "cat /usr/local/driver/part",
            "part\n",
        ),
        // after the file above, which left its name behind
        (
            &["driver-look", "/usr/local"],
            "cat /usr/local/modules.tar.gz",
            "source\n",
        ),
        (
            &["image", "--driver", "/usr/local/driver/driver.toml"],
            "cat /usr/local/driver/driver.toml /usr/local/driver/part",
            "description\npart\n",
        ),
        (
            &[
                "driver",
                "--for",
                "/usr/local/driver/x.efi",
                "--to",
                "/usr/local/driver/new",
            ],
            "cat /usr/local/driver/part; echo x > /usr/local/driver/new",
            "part\n",
        ),
    ] {
        let output = enter(script, words);
        assert!(output.status.success(), "{words:?}: {output:?}");
        assert_eq!(String::from_utf8_lossy(&output.stdout), says, "{words:?}");
    }
    let line = refusal(&enter("", &["image", "--driver", "/usr/bin"]));
    assert!(
        line.contains("--driver /usr/bin: the Debian folder has a /usr/bin of its own"),
        "{line}"
    );
}

#[test]
fn the_folder_is_made_from_an_archive_of_inputs() {
    let checkout = small_checkout();
    let build = |file: &str| {
        let mut command = run_on_fedora(&checkout, &["image", "--offline", file]);
        refusal(
            &command
                .env("FIRSTLIGHT_CACHE", checkout.path("cache"))
                .output()
                .unwrap(),
        )
    };
    assert!(
        build("os-release").contains("os-release does not have the packages of the Debian folder")
    );
    sh(
        checkout.top(),
        "cp inputs.tar changed.tar; printf x | dd of=changed.tar bs=1 seek=9000 conv=notrunc status=none",
    );
    assert!(build("changed.tar").contains("small_1%3a2_all.deb is not the locked file"));
    // in the folder `run` calls image/reproduce/offline.sh, which this checkout does not have
    let mut command = run_on_fedora(&checkout, &["image", "--offline", "inputs.tar"]);
    let output = command
        .env("FIRSTLIGHT_CACHE", checkout.path("cache"))
        .output()
        .unwrap();
    let text = String::from_utf8_lossy(&output.stderr);
    assert!(
        text.contains("unpacking the debian tree (1 packages)")
            && text.contains("image/reproduce/offline.sh: not found"),
        "{text}"
    );
}

/// A system without Debian's apt knows a Debian archive if it has a program that makes Debian systems.
#[test]
fn without_a_named_archive_the_default_of_debootstrap_or_mmdebstrap_is_used() {
    let archive = |text: &str, name: &str| {
        let checkout = small_checkout();
        let url = format!("file:{}", checkout.path("archive").display());
        let mut command = with_archive(&checkout, "");
        fs::write(checkout.path("few").join(name), text.replace("URL", &url)).unwrap();
        sh(checkout.top(), &format!("chmod +x few/{name}"));
        (
            String::from_utf8_lossy(&command.output().unwrap().stderr).into_owned(),
            url,
        )
    };
    for (name, text) in [
        (
            "debootstrap",
            "#!/bin/sh\nDEF_MIRROR=\"URL\"\nDEF_HTTPS_MIRROR=\"https:/nowhere\"\nMIRRORS=\"$DEF_MIRROR\"\n",
        ),
        (
            "mmdebstrap",
            "#!/usr/bin/perl\n    my $mirror    = 'URL';\n    my $secmirror = 'http:/nowhere';\n",
        ),
    ] {
        let (text, url) = archive(text, name);
        assert!(
            text.contains(&format!("1 packages from {url}")),
            "{name}: {text}"
        );
    }
    // A relative of Debian may have changed it to an archive without Debian 13.
    for text in [
        "#!/bin/sh\nDEF_MIRROR=\"http:/archive/ubuntu\"\n",
        "#!/bin/sh\nDEF_MIRROR=\"$1\"\n",
        "",
    ] {
        let (text, _) = archive(text, "debootstrap");
        assert!(
            text.contains("no Debian archive is named") && text.contains("install debootstrap"),
            "{text}"
        );
    }
}

#[test]
fn an_unusable_archive_is_refused() {
    let checkout = small_checkout();
    let refused = |archive: &str| refusal(&with_archive(&checkout, archive).output().unwrap());
    let line = refused("");
    assert!(
        line.contains("no Debian archive is named") && line.contains("FIRSTLIGHT_ARCHIVE=URL"),
        "{line}"
    );
    assert!(refused("yesterday").contains("FIRSTLIGHT_ARCHIVE is 'yesterday'"));
    let nowhere = refused("file:/nonexistent");
    assert!(
        nowhere.contains("file:/nonexistent has no list of Debian 13's packages"),
        "{nowhere}"
    );

    let archive = format!("file:{}", checkout.path("archive").display());
    fs::write(checkout.path("archive/small.deb"), "other").unwrap();
    assert!(refused(&archive).contains("small_1%3a2_all.deb is not the locked file"));
    sh(
        &checkout.path("archive/dists/trixie/main/binary-amd64"),
        "xz < /dev/null > Packages.xz",
    );
    let gone = refused(&archive);
    assert!(
        gone.contains("no longer in the archive") && gone.contains("small 1:2"),
        "{gone}"
    );
}
