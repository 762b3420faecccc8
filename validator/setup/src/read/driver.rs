//! NVIDIA's driver: what is loaded, what is installed, what modprobe is told about it, and where its source is.

use crate::options::Options;
use crate::state::{Driver, Gpu, Loaded, Source};
use crate::step::paths;
use crate::{SetupError, SetupResult};
use machine::host::nvidia::{module, params, version};
use machine::host::{cmdline, modules};
use machine::root::Root;
use std::path::Path;

/// The header with the registry keys, in the whole source.
const HEADER: &str = "src/nvidia/interface/nvrm_registry.h";
/// Folders of modprobe's configuration.
const MODPROBE: &[&str] = &[
    "etc/modprobe.d",
    "run/modprobe.d",
    "usr/local/lib/modprobe.d",
    "usr/lib/modprobe.d",
];

pub(super) fn read(
    root: &Root,
    release: &str,
    gpus: &[Gpu],
    options: &Options,
) -> SetupResult<Driver> {
    let loaded = module::read(root).map_err(SetupError)?;
    let loaded = match loaded {
        Some(found) => {
            let all = params::read(root).map_err(SetupError)?;
            let keys = gpus.iter().map(|gpu| gpu.bdf.to_string());
            Some(Loaded {
                version: found.version,
                open: found.open,
                patch: params::of_module(root, "nvidia", paths::PARAMETER).map_err(SetupError)?,
                keys: keys
                    .map(|bdf| (bdf.clone(), params::registry_keys(&all, &bdf)))
                    .collect(),
            })
        }
        None => None,
    };
    let version = loaded.as_ref().map(|loaded| loaded.version.as_str());
    let (source, partial) = source(root, version, options)?;
    let header = source
        .as_ref()
        .and_then(|source| Root::new(&source.at).text(HEADER).ok());
    let foreign =
        modules::loaded(root, modules::FOREIGN).map_err(|e| SetupError::at("sys/module", &e))?;
    Ok(Driver {
        foreign: foreign.into_iter().map(str::to_owned).collect(),
        files: files(root, release),
        dkms: in_dkms(root),
        modprobe: decisions(root)?,
        loaded,
        source,
        partial,
        header,
    })
}

/// The files of NVIDIA's module in the kernel's own list.
fn files(root: &Root, release: &str) -> Vec<String> {
    let folder = format!("lib/modules/{release}");
    let list = root
        .text(format!("{folder}/modules.dep"))
        .unwrap_or_default();
    let listed = list
        .lines()
        .filter_map(|line| Some(line.split_once(':')?.0));
    let is_it = |file: &&str| {
        let name = file
            .rsplit('/')
            .next()
            .and_then(|name| name.split_once(".ko"))
            .map(|(name, _)| name);
        name.is_some_and(|name| {
            name == "nvidia" || name == "nvidia-current" || name == "nvidia-current-open"
        })
    };
    listed
        .filter(is_it)
        .map(|file| format!("/{folder}/{file}"))
        .collect()
}

/// Names in a folder; none if it cannot be read.
fn names(root: &Root, folder: &str) -> Vec<String> {
    root.names(folder)
        .unwrap_or_default()
        .into_iter()
        .filter_map(|name| name.into_string().ok())
        .collect()
}

/// The versions of NVIDIA's modules in DKMS.
fn in_dkms(root: &Root) -> Vec<(String, String)> {
    let folder = "var/lib/dkms";
    let mut found = Vec::new();
    // nvidia-fs is GPUDirect Storage.
    let driver = |name: &String| name.starts_with("nvidia") && name != "nvidia-fs";
    for name in names(root, folder).into_iter().filter(driver) {
        let versions = names(root, &format!("{folder}/{name}")).into_iter();
        found.extend(
            versions
                .filter(|v| version::is_version(v))
                .map(|version| (name.clone(), version)),
        );
    }
    found
}

/// The lines that set registry keys, or that give the module's name to a command or to another module.
fn decisions(root: &Root) -> SetupResult<Vec<(String, String)>> {
    let mut found = Vec::new();
    for folder in MODPROBE {
        for name in names(root, folder)
            .into_iter()
            .filter(|name| name.ends_with(".conf"))
        {
            let path = format!("{folder}/{name}");
            if path == paths::MODPROBE {
                continue;
            }
            let text = root.read(&path).map_err(|e| SetupError::at(&path, &e))?;
            let text = String::from_utf8_lossy(&text).into_owned();
            let lines = text.lines().map(str::trim).filter(|line| decides(line));
            found.extend(lines.map(|line| (format!("/{path}"), line.to_owned())));
        }
    }
    // modprobe reads the whole line, also what is behind `--`.
    let line = cmdline::read(root).unwrap_or_default();
    let words = line
        .split_whitespace()
        .filter(|word| word.starts_with("nvidia.NVreg_RegistryDwords"));
    found.extend(words.map(|word| ("/proc/cmdline".to_owned(), word.to_owned())));
    Ok(found)
}

fn decides(line: &str) -> bool {
    let mut words = line.split_whitespace();
    match (words.next(), words.next()) {
        (Some("options"), Some(name)) => {
            name.starts_with("nvidia") && line.contains("NVreg_RegistryDwords")
        }
        (Some("install" | "alias"), Some("nvidia")) => true,
        _ => false,
    }
}

/// The whole source of this version, and the folders that hold a part of it.
fn source(
    root: &Root,
    version: Option<&str>,
    options: &Options,
) -> SetupResult<(Option<Source>, Vec<String>)> {
    if let Some(folder) = &options.modules {
        let found = whole(folder, &folder.display().to_string());
        let found = found.ok_or_else(|| {
            SetupError(format!(
                "--modules {}: is not the whole source of NVIDIA's open modules: it needs version.mk, kernel-open and src/nvidia",
                folder.display()
            ))
        })?;
        return match version {
            Some(version) if version != found.version => Err(SetupError(format!(
                "--modules {}: it is {}, and the loaded driver is {version}",
                folder.display(),
                found.version
            ))),
            _ => Ok((Some(found), Vec::new())),
        };
    }
    let installed = names(root, "usr/src")
        .into_iter()
        .filter(|name| name.starts_with("nvidia-"));
    let folders = installed.map(|name| format!("usr/src/{name}"));
    let (mut source, mut partial) = (None, Vec::new());
    for folder in folders {
        let found = [format!("{folder}/src"), folder.clone()]
            .iter()
            .find_map(|folder| {
                let at = root.place(folder).ok()?;
                whole(&at, &format!("/{folder}"))
            });
        match found {
            Some(found) if Some(found.version.as_str()) == version => source = Some(found),
            Some(_) => {}
            None => partial.push(format!("/{folder}")),
        }
    }
    Ok((source, partial))
}

/// The whole source in a folder.
fn whole(at: &Path, shown: &str) -> Option<Source> {
    let root = Root::new(at);
    let has = |path: &str| root.exists(path).unwrap_or(false);
    let makefile = root.text("version.mk").ok()?;
    let version = makefile.lines().find_map(|line| {
        line.strip_prefix("NVIDIA_VERSION")?
            .trim()
            .strip_prefix('=')
    });
    let version = version
        .map(str::trim)
        .filter(|version| version::is_version(version))?
        .to_owned();
    (has("kernel-open/Makefile") && has(HEADER)).then(|| Source {
        shown: shown.to_owned(),
        at: at.to_owned(),
        version,
    })
}
