//! A driver is added to a finished image: is a UKI that is cut and assembled again the same bytes, with a driver the shipped
//! one's, and is everything that does not fit refused with one line, with nothing half-written? Building a driver for a
//! kernel's file takes minutes, and is tested by `./run handout-tests`.

use harness::{Image, workspace};
use std::fs;
use std::os::unix::fs::symlink;
use std::path::{Path, PathBuf};
use std::process::{Command, Output};
use std::sync::LazyLock;
use tempfile::TempDir;

/// Runs a script of the repository.
fn script(name: &str) -> Command {
    Command::new(workspace().join("image").join(name))
}

#[track_caller]
fn done(command: &mut Command) -> String {
    let output = command.output().unwrap();
    assert!(
        output.status.success(),
        "{command:?}: {}",
        String::from_utf8_lossy(&output.stderr)
    );
    String::from_utf8(output.stdout).unwrap().trim().to_owned()
}

/// What `image/build.sh` made the shipped image of, besides the driver.
fn parts() -> PathBuf {
    Image::shipped().folder().join("../parts")
}

/// Assembles an image from parts in a new folder.
fn assemble(parts: &Path, to: &Path, driver: &str) -> PathBuf {
    fs::create_dir(to).unwrap();
    done(script("assemble.sh").arg(parts).arg(to).arg(driver));
    to.join("firstlight.efi")
}

/// The folder of an image without a driver, of the shipped kernel and programs, with its kernel's file.
static DRIVERLESS: LazyLock<TempDir> = LazyLock::new(|| {
    let dir = tempfile::tempdir_in(workspace().join("target")).unwrap();
    assemble(&parts(), &dir.path().join("out"), "");
    fs::copy(
        kernel_file(Image::shipped().folder()),
        dir.path().join("out/firstlight-kernel-1.tar"),
    )
    .unwrap();
    dir
});

fn driverless() -> PathBuf {
    DRIVERLESS.path().join("out")
}

/// The kernel's file in a folder.
fn kernel_file(folder: &Path) -> PathBuf {
    let names = fs::read_dir(folder)
        .unwrap()
        .map(|entry| entry.unwrap().path());
    let found: Vec<_> = names
        .filter(|path| path.to_string_lossy().contains("/firstlight-kernel-"))
        .collect();
    let [file] = &found[..] else {
        panic!("{found:?}")
    };
    file.clone()
}

#[test]
fn an_image_with_a_driver_is_the_one_without_and_the_drivers_archive() {
    let image = Image::shipped();
    let dir = tempfile::tempdir_in(workspace().join("target")).unwrap();
    let cut = dir.path().join("cut");
    let uki = driverless().join("firstlight.efi");
    let bind = |from: &Path, to: &str| format!("{}:/build/{to}", from.display());
    fs::create_dir(&cut).unwrap();
    let media = workspace().join("image/media");
    let mut command = script("in-tools.sh");
    command.args([
        "tools",
        "--bind",
        &bind(&media, "media"),
        "--bind",
        &bind(&uki, "a.efi"),
        "--bind",
        &bind(&cut, "cut"),
    ]);
    done(command.args(["python3", "-B", "media/parts.py", "a.efi", "cut"]));
    done(Command::new("diff").arg("-r").args([&cut, &parts()]));

    let again = assemble(&cut, &dir.path().join("again"), "");
    assert!(
        fs::read(again).unwrap() == fs::read(&uki).unwrap(),
        "cut and assembled again it is another UKI"
    );
    // What this image has in addition was built before, for the kernel of the full build.
    let kernel = done(&mut Command::new(
        workspace().join("kernel-config/build.sh"),
    ));
    let driver = done(script("driver/build.sh").arg(kernel));
    let with = assemble(&cut, &dir.path().join("with"), &driver);
    assert!(
        fs::read(&with).unwrap() == fs::read(image.uki().unwrap()).unwrap(),
        "with the driver it is another UKI"
    );
    for name in [
        "firstlight.initrd",
        "firstlight.files",
        "firstlight-pt.efi",
        ".image-id",
    ] {
        let [ours, theirs] = [with.with_file_name(name), image.folder().join(name)]
            .map(|path| fs::read(path).unwrap());
        assert!(ours == theirs, "{name} differs");
    }
}

#[test]
fn everything_of_the_driver_is_in_its_own_archive() {
    let dir = tempfile::tempdir().unwrap();
    let initrd = dir.path().join("initrd");
    fs::copy(parts().join("initrd"), &initrd).unwrap();
    let system = harness::archive::read_initrd(&initrd).unwrap();
    for file in &system {
        assert!(!file.path.ends_with("driver.squashfs"), "{}", file.path);
        assert!(
            !file
                .target()
                .is_some_and(|to| to.starts_with("/run/firstlight/driver")),
            "{} is a link",
            file.path
        );
    }
    let config = system
        .iter()
        .find(|file| file.path == "etc/firstlight/config.toml")
        .unwrap();
    let config: toml::Table = String::from_utf8(config.data.clone())
        .unwrap()
        .parse()
        .unwrap();
    assert!(!config.contains_key("driver"), "{config}");
    let links = fs::read_to_string(workspace().join("image/driver/links.list")).unwrap();
    let links: Vec<_> = links
        .lines()
        .filter(|l| l.starts_with('/'))
        .map(|l| l.split(' ').next().unwrap())
        .collect();
    let files = Image::shipped().files().unwrap();
    let list = Image::shipped().file_list().unwrap();
    for link in links {
        let found = files
            .iter()
            .find(|file| file.path == link.trim_start_matches('/'))
            .unwrap_or_else(|| panic!("{link}"));
        let target = found.target().unwrap();
        assert!(
            target.starts_with("/run/firstlight/driver/"),
            "{link} leads to {target}"
        );
        assert!(
            list.contains(&format!("-> {target}\t{link}\tbuilt here\n")),
            "{link} is not listed"
        );
    }
}

#[test]
fn the_kernels_file_is_small_and_names_its_kernel() {
    let file = kernel_file(Image::shipped().folder());
    let bytes = fs::metadata(&file).unwrap().len();
    assert!(bytes <= 12_000_000, "{bytes} bytes");
    let toml: toml::Table = done(
        Command::new("tar")
            .args(["-xOf"])
            .arg(&file)
            .arg("kernel.toml"),
    )
    .parse()
    .unwrap();
    for (key, kernel) in [("vmlinuz_sha256", "off"), ("vmlinuz_pt_sha256", "pt")] {
        let sum = done(Command::new("sha256sum").arg(parts().join(kernel).join("vmlinuz")));
        assert_eq!(toml[key].as_str(), sum.split(' ').next(), "{key}");
    }
    let release = fs::read_to_string(parts().join("release")).unwrap();
    assert_eq!(toml["release"].as_str(), Some(release.trim()));
    assert!(
        toml["vermagic"]
            .as_str()
            .unwrap()
            .starts_with(&format!("{} ", release.trim())),
        "{toml}"
    );
}

/// One refusal: `prepare` spoils something in a folder with a driver-less image and its kernel's file.
struct Trial(TempDir);

impl Trial {
    fn new() -> Self {
        let dir = tempfile::tempdir_in(workspace().join("target")).unwrap();
        for name in ["trees", "debs"] {
            fs::create_dir_all(dir.path().join("cache")).unwrap();
            symlink(
                harness::cache().join(name),
                dir.path().join("cache").join(name),
            )
            .unwrap();
        }
        fs::create_dir(dir.path().join("image")).unwrap();
        for name in ["firstlight.efi", "firstlight-kernel-1.tar"] {
            fs::copy(driverless().join(name), dir.path().join("image").join(name)).unwrap();
        }
        Self(dir)
    }

    fn path(&self, name: &str) -> PathBuf {
        self.0.path().join(name)
    }

    fn run(&self, words: &[&str]) -> Output {
        let mut command = script("add-driver.sh");
        command
            .args(words)
            .current_dir(self.0.path())
            .env("FIRSTLIGHT_CACHE", self.path("cache"));
        command.env_remove("FIRSTLIGHT_DRIVER").output().unwrap()
    }

    /// The command must fail with this status and one line that has these words, and leave nothing.
    #[track_caller]
    fn assert_refused(&self, words: &[&str], status: i32, says: &[&str]) {
        let output = self.run(words);
        let text = String::from_utf8_lossy(&output.stderr);
        let errors: Vec<_> = text.lines().filter(|line| line.contains("error")).collect();
        assert_eq!(
            (output.status.code(), errors.len()),
            (Some(status), 1),
            "{text}"
        );
        for word in says {
            assert!(errors[0].contains(word), "no '{word}' in: {text}");
        }
        assert!(output.stdout.is_empty(), "{output:?}");
        let mut left: Vec<_> = fs::read_dir(self.0.path())
            .unwrap()
            .map(|e| e.unwrap().file_name())
            .collect();
        left.retain(|name| name != "cache" && name != "image" && name != "there");
        assert!(left.is_empty(), "left behind: {left:?}");
        let unpacked = fs::read_dir(self.path("cache/kernel-file")).map_or(0, Iterator::count);
        assert_eq!(unpacked, 0, "the cache has {unpacked} kernels");
    }

    /// The same for the usual command.
    #[track_caller]
    fn refuses(&self, says: &[&str]) {
        self.assert_refused(&["--for", "image/firstlight.efi", "--to", "new"], 1, says);
    }

    fn change(&self, name: &str, how: impl FnOnce(&mut Vec<u8>)) {
        let mut bytes = fs::read(self.path(name)).unwrap();
        how(&mut bytes);
        fs::write(self.path(name), bytes).unwrap();
    }

    /// Unpacks the kernel's file, has the shell change it, and packs it again.
    fn change_kernel_file(&self, how: &str) {
        let pack = "mkdir there; cd there; tar -xf ../image/firstlight-kernel-1.tar";
        let again =
            "tar -cf ../image/firstlight-kernel-1.tar kernel.toml compiler.lock tree.tar.zst";
        let shell = format!("{pack}; {how}; {again}; cd ..; rm -r there");
        done(
            Command::new("sh")
                .args(["-euc", &shell])
                .current_dir(self.0.path()),
        );
    }
}

#[test]
fn an_image_to_which_no_driver_can_be_added_is_refused() {
    let trial = Trial::new();
    trial.assert_refused(
        &["--for", "image/other.efi", "--to", "new"],
        1,
        &["there is no image image/other.efi"],
    );
    trial.assert_refused(
        &["--for", "cache", "--to", "new"],
        1,
        &["there is no image cache/firstlight.efi"],
    );
    let uki = "image/firstlight.efi";
    let whole = fs::read(trial.path(uki)).unwrap();
    for (length, says) in [
        (0, "is not a UKI: it is not a PE file"),
        (50, "is not a UKI: it is not a PE file"),
        (
            200,
            "firstlight.efi is cut off: it ends within its table of sections",
        ),
        (
            whole.len() / 2,
            "firstlight.efi is cut off: its section .initrd ends at byte ",
        ),
        (
            whole.len() - 2_000_000,
            "firstlight.efi is cut off: its section .linux ends at byte ",
        ),
    ] {
        fs::write(trial.path(uki), &whole[..length]).unwrap();
        trial.refuses(&[says]);
    }
    fs::write(trial.path(uki), "#!/bin/sh\n").unwrap();
    trial.refuses(&["firstlight.efi is not a UKI"]);
    // The magic number of the system's archive is the first of zstd in the file; a bit in the middle of the archive changes.
    let archive =
        memchr::memmem::find(&whole, &fs::read(parts().join("initrd")).unwrap()[..64]).unwrap();
    fs::write(trial.path(uki), &whole).unwrap();
    trial.change(uki, |bytes| bytes[archive + 3_000_000] ^= 1);
    trial.refuses(&["firstlight.efi is damaged: the initrd "]);
    fs::copy(Image::shipped().uki().unwrap(), trial.path(uki)).unwrap();
    trial.refuses(&["firstlight.efi already has a driver: 555.58.02"]);
    let loader = fs::read(Image::shipped().pxe().unwrap().join("ipxe.efi")).unwrap();
    fs::write(trial.path(uki), loader).unwrap();
    trial.refuses(&["firstlight.efi is not a UKI: it has no section .linux"]);
}

#[test]
fn a_kernels_file_that_does_not_belong_to_the_image_is_refused() {
    let file = "image/firstlight-kernel-1.tar";
    let lacking = Trial::new();
    fs::rename(lacking.path(file), lacking.path("image/other.tar")).unwrap();
    lacking.refuses(&["has 0 files firstlight-kernel-VERSION.tar", "--kernel FILE"]);
    let named = [
        "--for",
        "image",
        "--kernel",
        "image/none.tar",
        "--to",
        "new",
    ];
    lacking.assert_refused(&named, 1, &["there is no kernel's file image/none.tar"]);
    fs::copy(lacking.path("image/other.tar"), lacking.path(file)).unwrap();
    fs::copy(
        lacking.path("image/other.tar"),
        lacking.path("image/firstlight-kernel-2.tar"),
    )
    .unwrap();
    lacking.refuses(&["has 2 files firstlight-kernel-VERSION.tar"]);

    let cut = Trial::new();
    let whole = fs::read(cut.path(file)).unwrap();
    for (length, says) in [
        (0, "is not a kernel's file, or is cut off"),
        (700, "is not a kernel's file, or is cut off"),
        (
            whole.len() / 2,
            "firstlight-kernel-1.tar is cut off, or there is no room in ",
        ),
    ] {
        fs::write(cut.path(file), &whole[..length]).unwrap();
        cut.refuses(&[says]);
    }
    fs::write(cut.path(file), &whole).unwrap();
    cut.change(file, |bytes| bytes[whole.len() / 2] ^= 1);
    cut.refuses(&[
        "firstlight-kernel-1.tar is changed or cut off: SHA256 of its tree is ",
        ", expected ",
    ]);

    for (how, says) in [
        (
            "sed -i 's/^release = \"6/release = \"7/' kernel.toml",
            "do not belong together: the image's kernel is 6.",
        ),
        (
            "sed -i 's/^vmlinuz_sha256 = .*/vmlinuz_sha256 = \"00\"/' kernel.toml",
            "do not belong together: SHA256 of the image's kernel 'off' is ",
        ),
        (
            "sed -i 's/^vmlinuz_pt_sha256 = .*/vmlinuz_pt_sha256 = \"00\"/' kernel.toml",
            "do not belong together: SHA256 of the image's kernel 'pt' is ",
        ),
        (
            "sed -i 's,/1\",/2\",' kernel.toml",
            "has the schema 'firstlight.kernel-file/2' (allowed: firstlight.kernel-file/1",
        ),
        (
            "sed -i 's/^tree_sha256 = .*/tree_sha256 = \"00\"/' kernel.toml",
            "tree_sha256 is '00', not a SHA256",
        ),
        (
            "sed -i 's/^gcc-14 14/gcc-14 15/' compiler.lock",
            "gcc-14 15.2.0-19 there, gcc-14 14.2.0-19 here",
        ),
    ] {
        let trial = Trial::new();
        trial.change_kernel_file(how);
        trial.refuses(&["firstlight-kernel-1.tar", says]);
    }
}

#[test]
fn wrong_words_and_a_folder_of_something_else_are_refused() {
    let trial = Trial::new();
    trial.assert_refused(&[], 64, &["--for is missing (driver --for IMAGE"]);
    trial.assert_refused(&["image"], 64, &["unknown word 'image'"]);
    trial.assert_refused(&["--for"], 64, &["--for needs a value"]);
    fs::create_dir(trial.path("there")).unwrap();
    let into = ["--for", "image", "--to", "there"];
    trial.assert_refused(&into, 1, &["there exists and was not made by driver --for"]);
    assert_eq!(fs::read_dir(trial.path("there")).unwrap().count(), 0);
}

#[test]
fn a_full_disk_is_an_error() {
    let dir = tempfile::tempdir().unwrap();
    let small =
        "mount -t tmpfs -o size=8m small \"$1\"; mkdir \"$1/out\"; \"$2\" \"$3\" \"$1/out\"";
    let mut command = Command::new("unshare");
    command
        .args(["--map-root-user", "--mount", "sh", "-euc", small, "sh"])
        .arg(dir.path());
    let output = command
        .arg(workspace().join("image/assemble.sh"))
        .arg(parts())
        .output()
        .unwrap();
    let text = String::from_utf8_lossy(&output.stderr);
    assert!(
        !output.status.success() && text.lines().count() == 1,
        "{text}"
    );
    assert!(
        text.contains("the image cannot be made in ") && text.contains("No space left on device"),
        "{text}"
    );
}
