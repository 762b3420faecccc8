//! Compiles NVIDIA's public module source through the paths of `--driver`, and boots the modules in QEMU with GPUs that answer
//! as real boards do (`driver-bind`): from a machine that has the whole source (as Arch), and from one that has kernel-open
//! and a prebuilt resource manager (as Ubuntu), which is compiled here first, as NVIDIA does it. Libraries, programs and
//! firmware of the two machines are made up.
//!
//! With `--archives` it also makes the driver's archive for an image, without and with peer-to-peer: from these two machines, from
//! those of Debian and Fedora, and from a folder of packages.
//!
//!     driver-paths [--archives] GIT [VERSION..]
//!
//! GIT is the git directory of a clone of NVIDIA's open-gpu-kernel-modules. Exits with 1 if a path fails.

use harness::driver_host::{Host, Layout};
use harness::workspace;
use std::error::Error;
use std::path::{Path, PathBuf};
use std::process::{Command, ExitCode};
use std::{env, fs};

/// What is tried if no version is named.
const VERSIONS: [&str; 2] = ["590.48.01", "595.45.04"];

type Outcome<T> = Result<T, Box<dyn Error>>;

fn main() -> ExitCode {
    let mut words: Vec<_> = env::args().skip(1).collect();
    let archives = words.first().is_some_and(|word| word == "--archives");
    if archives {
        words.remove(0);
    }
    if words.len() == 1 {
        words.extend(VERSIONS.map(str::to_owned));
    }
    let [git, versions @ ..] = &words[..] else {
        eprintln!("usage: driver-paths [--archives] GIT [VERSION..]");
        return ExitCode::from(64);
    };
    for version in versions {
        if let Err(why) = both(Path::new(git), version, archives) {
            eprintln!("driver-paths: {version}: {why}");
            return ExitCode::FAILURE;
        }
    }
    ExitCode::SUCCESS
}

fn both(git: &Path, version: &str, archives: bool) -> Outcome<()> {
    eprintln!("driver-paths: {version}: the whole source");
    let whole = Host::new(Layout::Arch, version);
    let tree = whole.path("root").join(Layout::Arch.source(version));
    unpack(git, version, &tree)?;
    try_driver(&whole)?;

    eprintln!("driver-paths: {version}: a prebuilt resource manager");
    let prebuilt = Host::new(Layout::Ubuntu, version);
    let at = prebuilt.path("root").join(Layout::Ubuntu.source(version));
    fs::remove_dir_all(&at)?;
    let object = resource_manager(&tree)?;
    run(Command::new("cp")
        .arg("-r")
        .arg(tree.join("kernel-open"))
        .arg(&at))?;
    fs::copy(object, at.join("nvidia/nv-kernel.o_binary"))?;
    try_driver(&prebuilt)?;
    if archives {
        each_archive(&whole, &prebuilt)
    } else {
        Ok(())
    }
}

/// Makes the archive of each machine's driver.
fn each_archive(whole: &Host, prebuilt: &Host) -> Outcome<()> {
    let version = &whole.version;
    let open = prebuilt.path("root").join(Layout::Ubuntu.source(version));
    let debian = Host::new(Layout::Debian, version);
    let at = debian.path("root").join(Layout::Debian.source(version));
    fs::remove_dir_all(&at)?;
    run(Command::new("cp").arg("-r").arg(&open).arg(&at))?;
    let fedora = Host::new(Layout::Fedora, version);
    let at = fedora.path("root").join(Layout::Fedora.source(version));
    let inside = format!(
        "s,^{},kernel-open,",
        open.file_name().ok_or("no name")?.display()
    );
    let mut pack = Command::new("tar");
    pack.arg("-C")
        .arg(open.parent().ok_or("no folder")?)
        .args(["--transform", &inside, "-cJf"])
        .arg(&at);
    run(pack
        .arg(open.file_name().ok_or("no name")?)
        .env("XZ_OPT", "-0"))?;
    let folder = prebuilt.path("packages");
    fs::create_dir(&folder)?;
    prebuilt.packages(&folder, "");
    let folder = folder.to_string_lossy();
    for host in [&debian, &fedora, prebuilt, whole] {
        archive(host, &["installed"])?;
    }
    archive(prebuilt, &[&folder])?;
    archive(prebuilt, &["installed", "--without-p2p"])?;
    archive(whole, &["installed", "--without-p2p"])
}

/// Makes the driver's archive that these words mean on a machine.
fn archive(host: &Host, words: &[&str]) -> Outcome<()> {
    eprintln!(
        "driver-paths: {}: archive: {:?} {}",
        host.version,
        host.layout,
        words.join(" ")
    );
    let mut kernel = Command::new(workspace().join("kernel-config/build.sh"));
    let kernel = harness::error::output(&mut kernel)?;
    let mut build = Command::new(workspace().join("image/driver/build.sh"));
    run(build
        .arg(kernel.trim())
        .env("FIRSTLIGHT_DRIVER", choose(host, words)?))
}

/// Puts the version's tree in the place of the made-up source.
fn unpack(git: &Path, version: &str, to: &Path) -> Outcome<()> {
    fs::remove_dir_all(to)?;
    fs::create_dir(to)?;
    let archive = to.with_extension("tar");
    run(Command::new("git")
        .arg(format!("--git-dir={}", git.display()))
        .args(["archive", "-o"])
        .arg(&archive)
        .arg(version))?;
    run(Command::new("tar")
        .arg("-C")
        .arg(to)
        .arg("-xf")
        .arg(&archive))?;
    fs::remove_file(archive)?;
    Ok(())
}

/// Compiles the resource manager in a tree, as the installer's object is made.
fn resource_manager(tree: &Path) -> Outcome<PathBuf> {
    let mut make = Command::new(workspace().join("image/in-tools.sh"));
    make.args(["compiler", "--bind"])
        .arg(format!("{}:/build/tree", tree.display()));
    let jobs = format!("-j{}", std::thread::available_parallelism()?);
    run(make
        .args(["make", "--silent", "-C", "tree/src/nvidia", &jobs])
        .stdout(std::process::Stdio::null()))?;
    Ok(tree.join("src/nvidia/_out/Linux_x86_64/nv-kernel.o"))
}

/// Chooses the machine's driver, builds its modules and boots them.
fn try_driver(host: &Host) -> Outcome<()> {
    run(Command::new(workspace().join("image/driver/bind.sh")).arg(choose(host, &["installed"])?))
}

/// The description of the driver that these words mean on a machine.
fn choose(host: &Host, words: &[&str]) -> Outcome<String> {
    let choose = Command::new(workspace().join("image/driver/choose.sh"))
        .args(words)
        .args(["--families", "ampere,ada,blackwell"])
        .env("FIRSTLIGHT_HOST", host.path("root"))
        .stderr(std::process::Stdio::inherit())
        .output()?;
    if !choose.status.success() {
        return Err("the driver is refused".into());
    }
    Ok(String::from_utf8(choose.stdout)?.trim().to_owned())
}

fn run(command: &mut Command) -> Outcome<()> {
    let status = command
        .status()
        .map_err(|why| format!("{command:?}: {why}"))?;
    if status.success() {
        Ok(())
    } else {
        Err(format!("{command:?}: {status}").into())
    }
}
