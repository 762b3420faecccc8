//! Compares the driver's parts: module, libraries, GPU firmware, and the kernel that the module is built for.

use machine::host::nvidia::library::Library;
use machine::host::nvidia::module::LoadedModule;
use machine::host::nvidia::{Nvidia, ReadResult};
use outcome::finding::{Code, Finding, Severity, Subject};

/// One part: its name, its version, and where the version was read.
struct Part {
    name: &'static str,
    version: String,
    seen: String,
}

/// All faults of the parts of a loaded driver.
pub(super) fn judge(nvidia: &Nvidia, loaded: &LoadedModule, kernel: Option<&str>) -> Vec<Finding> {
    let mut findings = Vec::new();
    let mut parts = module_parts(nvidia, loaded);
    for (name, library) in [("libcuda", &nvidia.cuda), ("libnvidia-ml", &nvidia.ml)] {
        match library_part(name, library) {
            Ok(part) => parts.push(part),
            Err(finding) => findings.push(*finding),
        }
    }
    match firmware(nvidia, loaded) {
        Ok(more) => parts.extend(more),
        Err(finding) => findings.push(*finding),
    }
    findings.extend(mismatch(&parts, &loaded.version));
    findings.extend(vermagic(nvidia, kernel));
    findings
}

/// The summary when nothing is wrong.
pub(super) fn summary(nvidia: &Nvidia, loaded: &LoadedModule, kernel: Option<&str>) -> String {
    let version = &loaded.version;
    let firmware = if firmware(nvidia, loaded).is_ok_and(|f| !f.is_empty()) {
        ", GSP firmware"
    } else {
        ""
    };
    let kernel = match (built_for(nvidia), kernel) {
        (Some(_), Some(kernel)) => format!("; built for {kernel}"),
        // The kernel refuses a module that is built for another one.
        _ => "; its file is not available, but the kernel accepted it".to_owned(),
    };
    format!("{version}: module, libcuda, libnvidia-ml{firmware}{kernel}")
}

fn module_parts(nvidia: &Nvidia, loaded: &LoadedModule) -> Vec<Part> {
    let part = |name, version: &str, seen: &str| Part {
        name,
        version: version.into(),
        seen: seen.into(),
    };
    let mut parts = vec![
        part("module", &loaded.version, "/sys/module/nvidia/version"),
        part(
            "module's own version",
            &loaded.own_version,
            "/proc/driver/nvidia/version",
        ),
    ];
    if let Ok(Some(account)) = &nvidia.account {
        let version = account.image.as_ref().map(|i| i.version.as_str());
        parts.extend(version.map(|v| part("driver image", v, "/run/firstlight/driver.json")));
    }
    if let Ok(Some(file)) = &nvidia.file {
        parts.extend(
            file.version
                .as_deref()
                .map(|v| part("module's file", v, &file.path)),
        );
    }
    parts
}

fn library_part(
    name: &'static str,
    library: &ReadResult<Option<Library>>,
) -> Result<Part, Box<Finding>> {
    let missing = |why: String| {
        Box::new(Code::DriverMissing.finding(Severity::Error, Subject::part(name), why))
    };
    match library {
        Ok(Some(Library {
            path,
            version: Some(version),
        })) => Ok(Part {
            name,
            version: version.clone(),
            seen: path.clone(),
        }),
        Ok(Some(Library {
            path,
            version: None,
        })) => Err(missing(format!(
            "{path} does not lead to a file with a version in its name, so its version is unknown"
        ))),
        Ok(None) => Err(missing(format!(
            "{name} is in none of the usual folders, so its version is unknown"
        ))),
        Err(why) => Err(missing(why.clone())),
    }
}

/// The firmware that runs on the GPUs; before their first use, the firmware that the kernel would load. Only
/// NVIDIA's closed module works without firmware.
fn firmware(nvidia: &Nvidia, loaded: &LoadedModule) -> Result<Vec<Part>, Box<Finding>> {
    let gpus = nvidia.gpus.iter().flatten();
    let running = gpus.filter_map(|(gpu, recorded)| Some((gpu, recorded.firmware.clone()?)));
    let running: Vec<_> = running
        .map(|(gpu, version)| {
            let seen = format!("/proc/driver/nvidia/gpus/{gpu}/information");
            Part {
                name: "GSP firmware",
                version,
                seen,
            }
        })
        .collect();
    if !running.is_empty() {
        return Ok(running);
    }
    let error = |why: String| {
        Box::new(Code::GspMissing.finding(Severity::Error, Subject::part("nvidia"), why))
    };
    let found = nvidia.firmware.as_ref().map_err(|why| error(why.clone()))?;
    let part = |version: &String| Part {
        name: "GSP firmware",
        version: version.clone(),
        seen: format!("firmware/nvidia/{version}"),
    };
    match found
        .iter()
        .find(|version| **version == loaded.version)
        .or(found.first())
    {
        Some(version) => Ok(vec![part(version)]),
        None if !loaded.open => Ok(Vec::new()),
        None => Err(error(
            "no GPU reports its GSP firmware, and there is none in the usual folders".to_owned(),
        )),
    }
}

fn mismatch(parts: &[Part], version: &str) -> Option<Finding> {
    let others: Vec<_> = parts.iter().filter(|p| p.version != version).collect();
    let mut named: Vec<_> = others
        .iter()
        .map(|p| format!("{} {}", p.name, p.version))
        .collect();
    named.dedup();
    let first = others.first()?;
    let message = format!("the loaded module is {version}, but {}", named.join(", "));
    let finding = Code::DriverMismatch.finding(Severity::Fail, Subject::part("nvidia"), message);
    let seen = parts
        .iter()
        .map(|p| format!("{}: {} {}", p.seen, p.name, p.version))
        .take(12);
    Some(
        finding
            .values(first.version.as_str(), version, None)
            .seen_all(seen.collect()),
    )
}

/// The kernel that the module's file is built for: vermagic's first word.
fn built_for(nvidia: &Nvidia) -> Option<String> {
    let recorded = nvidia
        .account
        .as_ref()
        .ok()
        .and_then(|a| a.as_ref()?.module("nvidia")?.vermagic.clone());
    let file = || nvidia.file.as_ref().ok()?.as_ref()?.vermagic.clone();
    Some(
        recorded
            .or_else(file)?
            .split_whitespace()
            .next()?
            .to_owned(),
    )
}

fn vermagic(nvidia: &Nvidia, kernel: Option<&str>) -> Option<Finding> {
    let (built_for, kernel) = (built_for(nvidia)?, kernel?);
    (built_for != kernel).then(|| {
        let message = format!("nvidia.ko is built for {built_for}, the kernel is {kernel}");
        Code::DriverVermagic
            .finding(Severity::Fail, Subject::part("nvidia"), message)
            .values(built_for, kernel, None)
    })
}

#[cfg(test)]
mod tests {
    //! Each part of another version, missing, or for another kernel.

    use super::*;
    use machine::host::nvidia::fixture::nvidia;

    const KERNEL: Option<&str> = Some("6.12.107-firstlight");

    fn spoilt(spoil: impl Fn(&mut Nvidia)) -> Vec<Finding> {
        let mut nvidia = nvidia("555.58.02", 2);
        spoil(&mut nvidia);
        let loaded = nvidia.loaded.clone().unwrap().unwrap();
        judge(&nvidia, &loaded, KERNEL)
    }

    #[track_caller]
    fn one(findings: &[Finding], code: Code, severity: Severity) -> &Finding {
        let [finding] = findings else {
            panic!("{findings:?}")
        };
        assert!(
            finding.is(code) && finding.severity == severity,
            "{finding:?}"
        );
        finding
    }

    fn other(path: &str) -> ReadResult<Option<Library>> {
        Ok(Some(Library {
            path: path.to_owned(),
            version: Some("550.163.01".to_owned()),
        }))
    }

    #[test]
    fn one_version_everywhere_passes() {
        assert_eq!(spoilt(|_| ()), vec![]);
        let good = nvidia("555.58.02", 2);
        let said = summary(
            &good,
            good.loaded.as_ref().unwrap().as_ref().unwrap(),
            KERNEL,
        );
        assert_eq!(
            said,
            "555.58.02: module, libcuda, libnvidia-ml, GSP firmware; built for 6.12.107-firstlight"
        );
    }

    #[test]
    fn every_part_of_another_version_is_named() {
        let found = spoilt(|n| n.cuda = other("/usr/lib64/libcuda.so.1"));
        let finding = one(&found, Code::DriverMismatch, Severity::Fail);
        assert_eq!(
            finding.message,
            "the loaded module is 555.58.02, but libcuda 550.163.01"
        );
        assert!(
            finding
                .evidence
                .contains(&"/usr/lib64/libcuda.so.1: libcuda 550.163.01".to_owned())
        );
        for spoil in [
            (|n| n.ml = other("/x")) as fn(&mut Nvidia),
            |n| {
                n.gpus
                    .as_mut()
                    .unwrap()
                    .values_mut()
                    .next()
                    .unwrap()
                    .firmware = Some("550.163.01".into());
            },
            |n| n.loaded.as_mut().unwrap().as_mut().unwrap().own_version = "550.163.01".into(),
            |n| {
                let account = n.account.as_mut().unwrap().as_mut().unwrap();
                account.image.as_mut().unwrap().version = "550.163.01".into();
            },
        ] {
            let found = spoilt(spoil);
            assert!(
                one(&found, Code::DriverMismatch, Severity::Fail)
                    .message
                    .contains("550.163.01")
            );
        }
    }

    #[test]
    fn a_library_that_cannot_be_found_or_named_is_an_error() {
        for library in [
            Ok(None),
            Err("/lib: denied".to_owned()),
            Ok(Some(Library {
                path: "/l".into(),
                version: None,
            })),
        ] {
            one(
                &spoilt(|n| n.cuda = library.clone()),
                Code::DriverMissing,
                Severity::Error,
            );
        }
    }

    #[test]
    fn firmware_is_read_from_the_gpus_first_and_then_from_the_folders() {
        let unused = |n: &mut Nvidia| {
            n.gpus
                .as_mut()
                .unwrap()
                .values_mut()
                .for_each(|g| g.firmware = None);
        };
        assert_eq!(
            spoilt(|n| n.firmware = Ok(vec![])),
            vec![],
            "the GPUs report it"
        );
        assert_eq!(spoilt(unused), vec![], "the folder shows it");
        let gone = spoilt(|n| {
            unused(n);
            n.firmware = Ok(vec![]);
        });
        one(&gone, Code::GspMissing, Severity::Error);
        let closed = spoilt(|n| {
            unused(n);
            n.firmware = Ok(vec![]);
            n.loaded.as_mut().unwrap().as_mut().unwrap().open = false;
        });
        assert_eq!(closed, vec![]);
        let old = spoilt(|n| {
            unused(n);
            n.firmware = Ok(vec!["535.1.2".into()]);
        });
        assert!(
            one(&old, Code::DriverMismatch, Severity::Fail)
                .message
                .contains("GSP firmware 535.1.2")
        );
    }

    #[test]
    fn a_module_for_another_kernel_fails() {
        let nvidia = nvidia("555.58.02", 1);
        let loaded = nvidia.loaded.clone().unwrap().unwrap();
        let found = judge(&nvidia, &loaded, Some("6.1.0"));
        one(&found, Code::DriverVermagic, Severity::Fail);
        assert_eq!(judge(&nvidia, &loaded, None), vec![]);
    }
}
