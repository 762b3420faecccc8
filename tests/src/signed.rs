//! The shipped media, signed with keys made here, and variables with those keys for QEMU's firmware. Made once per test
//! run, below `target`: signed media take hundreds of megabytes.

use crate::error::{Error, Result, output, run};
use crate::image::workspace;
use std::fs;
use std::path::{Path, PathBuf};
use std::process::Command;

/// The owner of the keys, for the firmware.
const OWNER: &str = "6f1d7c52-3b0e-4d6b-9d5e-2f8a1c3e5b70";

/// Signed media and their keys.
#[derive(Debug)]
pub struct SignedMedia {
    dir: PathBuf,
}

impl SignedMedia {
    /// Signs the shipped media into a folder of `target` with this name, replacing its contents.
    ///
    /// # Errors
    /// A script's output, if the media are not built or cannot be signed.
    pub fn shipped(name: &str) -> Result<Self> {
        let dir = workspace().join("target").join(name);
        if dir.exists() {
            fs::remove_dir_all(&dir).map_err(Error::file("remove", &dir))?;
        }
        fs::create_dir_all(&dir).map_err(Error::file("create", &dir))?;
        let dir = fs::canonicalize(&dir).map_err(Error::file("find", &dir))?;
        let signed = Self { dir };
        run(Command::new(workspace().join("image/trust/keys.sh")).arg(signed.keys()))?;
        let (key, cert) = (signed.keys().join("db.key"), signed.keys().join("db.pem"));
        run(Command::new(workspace().join("image/trust/sign.sh")).args([
            key,
            cert,
            signed.folder(),
        ]))?;
        Ok(signed)
    }

    /// The keys: PK, KEK and db.
    #[must_use]
    pub fn keys(&self) -> PathBuf {
        self.dir.join("keys")
    }

    /// The output of `sign.sh`.
    #[must_use]
    pub fn folder(&self) -> PathBuf {
        self.dir.join("signed")
    }

    /// The variables of firmware that has the keys and enforces signatures, as a file in `dir`.
    ///
    /// # Errors
    /// If they cannot be made.
    pub fn variables(&self, dir: &Path) -> Result<PathBuf> {
        let bind = |from: &Path, to: &str| format!("{}:/build/{to}", from.display());
        let key = |option: &str, name: &str| {
            [
                format!("--{option}"),
                OWNER.to_owned(),
                format!("/build/keys/{name}.pem"),
            ]
        };
        let mut enrol = Command::new(workspace().join("image/in-tools.sh"));
        enrol.args([
            "testing",
            "--bind",
            &bind(Path::new(crate::boot::medium::FIRMWARE_FOLDER), "ovmf"),
        ]);
        enrol.args([
            "--bind",
            &bind(&self.keys(), "keys"),
            "--bind",
            &bind(dir, "out"),
        ]);
        enrol.args([
            "virt-fw-vars",
            "--input",
            "/build/ovmf/OVMF_VARS_4M.fd",
            "--output",
        ]);
        enrol.arg("/build/out/secure-variables");
        enrol.args(
            [
                key("set-pk", "PK"),
                key("add-kek", "KEK"),
                key("add-db", "db"),
            ]
            .as_flattened(),
        );
        enrol.arg("--sb");
        output(&mut enrol)?;
        Ok(dir.join("secure-variables"))
    }
}
