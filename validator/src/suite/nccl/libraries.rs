//! The NCCL library that was tested, and the others of the machine: a framework that brings its own NCCL is not proven by the
//! test of another.

use crate::nccl::ranks::Ranks;
use crate::nccl::version_text;
use crate::suite::TestContext;
use machine::host::nvidia::library::Library;
use machine::host::nvidia::nccl;
use outcome::finding::{Code, Finding};
use outcome::table::{LibraryRow, Table, YesNo};

/// The loaded file, if the kernel tells it, and the version that NCCL reports.
pub(super) type LoadedLibrary = (Option<String>, String);

/// What the ranks of an arm have loaded.
pub(super) fn loaded(ranks: &Ranks) -> LoadedLibrary {
    (
        ranks.library().map(str::to_owned),
        version_text(ranks.version()),
    )
}

/// The libraries.
#[derive(Debug, Clone, PartialEq, Eq)]
pub(super) struct NcclLibraries {
    /// The one that was tested.
    tested: LoadedLibrary,
    /// Whether the configuration names it.
    chosen: bool,
    /// Files other than the loaded one.
    others: Vec<Library>,
}

impl NcclLibraries {
    /// The tested one and those of this machine; a recorded machine has no others. Looks for them in the file system.
    pub(super) fn of(context: &TestContext, tested: LoadedLibrary) -> Self {
        let file = tested.0.as_deref();
        let asked = &context.config.validate;
        let live = context.root.is_live();
        let others = file
            .filter(|_| live)
            .map(|file| nccl::others(&context.root, &asked.library_path, file));
        let others = others.unwrap_or_default();
        Self {
            tested,
            chosen: asked.nccl.is_some(),
            others,
        }
    }

    /// `; NCCL 2.28.9 of /opt/venv/../libnccl.so.2; not tested, and tried by --nccl FILE: 2.22.3 /usr/lib64/libnccl.so.2`; empty
    /// where the loader's is the only one.
    pub(super) fn summary(&self) -> String {
        if !self.chosen && self.others.is_empty() {
            return String::new();
        }
        let (file, version) = &self.tested;
        let file = file
            .as_deref()
            .map_or(String::new(), |file| format!(" of {file}"));
        let name = |library: &Library| {
            format!(
                "{} {}",
                library.version.as_deref().unwrap_or("NCCL"),
                library.path
            )
        };
        let others: Vec<_> = self.others.iter().map(name).collect();
        let more = if others.is_empty() {
            String::new()
        } else {
            format!("; not tested, --nccl FILE does: {}", others.join(", "))
        };
        format!("; tested NCCL {version}{file}{more}")
    }

    /// One row each.
    pub(super) fn table(&self) -> Table {
        let (library, version) = self.tested.clone();
        let tested = LibraryRow {
            library,
            version: Some(version),
            tested: YesNo(true),
        };
        let row = |Library { path, version }: &Library| LibraryRow {
            library: Some(path.clone()),
            version: version.clone(),
            tested: YesNo(false),
        };
        Table::Libraries(
            std::iter::once(tested)
                .chain(self.others.iter().map(row))
                .collect(),
        )
    }
}

/// A finding about a library that cannot be loaded also names those that could be tried.
pub(super) fn with_candidates(context: &TestContext, finding: Box<Finding>) -> Box<Finding> {
    if !finding.is(Code::NcclMissing) || !context.root.is_live() {
        return finding;
    }
    let found = nccl::all(&context.root, &context.config.validate.library_path);
    let line = |library: Library| {
        let version = library
            .version
            .map_or(String::new(), |version| format!(" ({version})"));
        format!("found: {}{version}: --nccl {}", library.path, library.path)
    };
    Box::new(finding.seen_all(found.into_iter().map(line).collect()))
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_tested_library_and_the_others_are_named_where_there_is_a_choice() {
        let mut libraries = NcclLibraries {
            tested: (
                Some("/usr/lib64/libnccl.so.2.22.3".to_owned()),
                "2.22.3".to_owned(),
            ),
            chosen: false,
            others: Vec::new(),
        };
        assert_eq!(libraries.summary(), "");
        libraries.others = vec![Library {
            path: "/opt/v/libnccl.so.2".to_owned(),
            version: Some("2.28.9".to_owned()),
        }];
        assert_eq!(
            libraries.summary(),
            "; tested NCCL 2.22.3 of /usr/lib64/libnccl.so.2.22.3; not tested, --nccl FILE does: 2.28.9 /opt/v/libnccl.so.2"
        );
        assert_eq!(
            libraries.table().json()["rows"][1],
            serde_json::json!(["/opt/v/libnccl.so.2", "2.28.9", "no"])
        );
        libraries = NcclLibraries {
            tested: (None, "2.28.9".to_owned()),
            chosen: true,
            others: Vec::new(),
        };
        assert_eq!(libraries.summary(), "; tested NCCL 2.28.9");
    }
}
