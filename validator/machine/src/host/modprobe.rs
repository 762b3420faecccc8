//! The options of a kernel module as modprobe passes them: from its configuration, and from the kernel's command line. What is
//! read as an option is what kmod 30 and 34 make of a file, not what its author may have meant: a remark behind options is
//! passed too, and a line that ends in a backslash goes on in the next one, even if it is a remark.

use super::cmdline;
use super::modules::absent_is_none;
use super::nvidia::{ReadResult, at};
use crate::root::Root;
use std::collections::BTreeMap;

/// modprobe's folders. A file in an earlier one hides files of the same name in later ones.
const FOLDERS: [&str; 5] = [
    "etc/modprobe.d",
    "run/modprobe.d",
    "usr/local/lib/modprobe.d",
    "usr/lib/modprobe.d",
    "lib/modprobe.d",
];

/// A word that modprobe passes to a module.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Passed {
    /// The part before the first `=`, or the whole word.
    pub name: String,
    /// The part after it; `None` without a `=`.
    pub value: Option<String>,
    /// `/etc/modprobe.d/nvidia.conf line 3`, or `/proc/cmdline`.
    pub place: String,
}

/// The words that modprobe passes to `module`, in its order: of two values for a name, the later one is in force. Options of
/// an alias are left out, because modprobe adds them only where it loads the module by that alias.
///
/// # Errors
/// If a folder or a file of the configuration, or the kernel's command line, cannot be read.
pub fn passed(root: &Root, module: &str) -> ReadResult<Vec<Passed>> {
    let mut all = Vec::new();
    for path in files(root)? {
        // With its empty lines, which count; modprobe reads bytes.
        let bytes = root.read(&path).map_err(|e| at(&path, &e))?;
        for (line, options) in of_file(&String::from_utf8_lossy(&bytes), module) {
            all.extend(words(&options, &format!("/{path} line {line}")));
        }
    }
    let kernel = absent_is_none(cmdline::read(root))
        .map_err(|e| at("proc/cmdline", &e))?
        .unwrap_or_default();
    let of_kernel = cmdline::words(&kernel).into_iter().filter_map(|word| {
        let (owner, name) = word.key.split_once('.')?;
        let place = "/proc/cmdline".to_owned();
        same_module(owner, module).then(|| Passed {
            name: name.to_owned(),
            value: word.value,
            place,
        })
    });
    all.extend(of_kernel);
    Ok(all)
}

/// The files of the configuration in modprobe's order: by name, whatever their folder.
fn files(root: &Root) -> ReadResult<Vec<String>> {
    let mut files = BTreeMap::new();
    for folder in FOLDERS {
        for name in absent_is_none(root.names(folder))
            .map_err(|e| at(folder, &e))?
            .unwrap_or_default()
        {
            let Some(name) = name.to_str().filter(|name| name.ends_with(".conf")) else {
                continue;
            };
            files
                .entry(name.to_owned())
                .or_insert_with(|| format!("{folder}/{name}"));
        }
    }
    Ok(files.into_values().collect())
}

/// The options for `module` of one file, with the number of the line on which each begins.
fn of_file(text: &str, module: &str) -> Vec<(usize, String)> {
    let mut found = Vec::new();
    for (number, line) in joined(text) {
        let line = line.trim_start();
        let Some((command, rest)) = line.split_once(char::is_whitespace) else {
            continue;
        };
        let Some((name, options)) = rest.trim_start().split_once(char::is_whitespace) else {
            continue;
        };
        if command == "options" && same_module(name, module) {
            found.push((number, options.trim().to_owned()));
        }
    }
    found
}

/// The lines of a file, each joined with the next one where it ends in a backslash.
fn joined(text: &str) -> Vec<(usize, String)> {
    let (mut lines, mut begun) = (Vec::new(), None::<(usize, String)>);
    for (number, line) in (1..).zip(text.split('\n')) {
        let (first, mut whole) = begun.take().unwrap_or((number, String::new()));
        match line.strip_suffix('\\') {
            Some(part) => {
                whole.push_str(part);
                begun = Some((first, whole));
            }
            None => {
                whole.push_str(line);
                lines.push((first, whole));
            }
        }
    }
    lines.extend(begun);
    lines
}

/// The kernel splits a module's options as it splits its own command line.
fn words<'a>(options: &str, place: &'a str) -> impl Iterator<Item = Passed> + use<'a> {
    let words = cmdline::words(options).into_iter();
    words.map(move |word| Passed {
        name: word.key,
        value: word.value,
        place: place.to_owned(),
    })
}

/// `-` and `_` are the same in a module's name.
fn same_module(a: &str, b: &str) -> bool {
    a.replace('-', "_") == b.replace('-', "_")
}

#[cfg(test)]
mod tests {
    use super::super::nvidia::fixture::machine;
    use super::*;

    /// What is passed to nvidia, as words and places.
    fn of(files: &[(&str, &str)]) -> Vec<String> {
        let dir = machine(files);
        let word = |p: Passed| match p.value {
            Some(value) => format!("{}={value} {}", p.name, p.place),
            None => format!("{} {}", p.name, p.place),
        };
        passed(&Root::new(dir.path()), "nvidia")
            .unwrap()
            .into_iter()
            .map(word)
            .collect()
    }

    fn of_text(text: &str) -> Vec<String> {
        let all = of(&[("etc/modprobe.d/a.conf", text)]).into_iter();
        all.map(|word| word.split(" /").next().unwrap().to_owned())
            .collect()
    }

    #[test]
    fn a_remark_behind_options_is_passed_and_can_set_a_parameter() {
        assert_eq!(
            of_text("options nvidia NVreg_A=1 # why\n"),
            ["NVreg_A=1", "#", "why"]
        );
        assert_eq!(
            of_text("options nvidia NVreg_A=1 # was NVreg_A=0"),
            ["NVreg_A=1", "#", "was", "NVreg_A=0"]
        );
        assert_eq!(
            of_text("# options nvidia NVreg_A=1\noptions nvidia B=2"),
            ["B=2"]
        );
    }

    #[test]
    fn a_backslash_at_the_end_joins_lines_even_of_a_remark() {
        assert_eq!(of_text("options nvidia A=1 \\\n  B=2\n"), ["A=1", "B=2"]);
        assert_eq!(
            of_text("# why \\\noptions nvidia A=1\noptions nvidia B=2"),
            ["B=2"]
        );
        assert_eq!(of_text("options nvidia A=1 \\"), ["A=1"]);
    }

    #[test]
    fn other_modules_aliases_and_spellings_that_modprobe_does_not_know_are_left_out() {
        for other in [
            "options nvidia-uvm A=1",
            "options nvidia.ko A=1",
            "Options nvidia A=1",
            "options gpu A=1",
        ] {
            assert_eq!(of_text(other), [""; 0], "{other}");
        }
        let dir = machine(&[("etc/modprobe.d/a.conf", "options nvidia-uvm A=1\n")]);
        assert_eq!(
            passed(&Root::new(dir.path()), "nvidia_uvm").unwrap().len(),
            1
        );
    }

    #[test]
    fn files_come_by_name_and_the_first_folder_hides_files_of_the_same_name() {
        let files = [
            ("etc/modprobe.d/z.conf", "options nvidia A=etc\n"),
            ("usr/lib/modprobe.d/a.conf", "options nvidia A=usr\n"),
            ("etc/modprobe.d/s.conf", "options nvidia S=etc\n"),
            ("usr/lib/modprobe.d/s.conf", "options nvidia S=usr\n"),
            ("etc/modprobe.d/a.conf.bak", "options nvidia A=bak\n"),
        ];
        let z = "A=etc /etc/modprobe.d/z.conf line 1";
        assert_eq!(
            of(&files),
            [
                "A=usr /usr/lib/modprobe.d/a.conf line 1",
                "S=etc /etc/modprobe.d/s.conf line 1",
                z
            ]
        );
    }

    #[test]
    fn the_kernels_command_line_comes_last() {
        let files = [
            (
                "etc/modprobe.d/a.conf",
                "\n\noptions nvidia A=1 B=\"x y\"\n",
            ),
            ("proc/cmdline", "quiet nvidia.A=3 nvidia_uvm.C=1\n"),
        ];
        let place = "/etc/modprobe.d/a.conf line 3";
        assert_eq!(
            of(&files),
            [
                format!("A=1 {place}"),
                format!("B=x y {place}"),
                "A=3 /proc/cmdline".to_owned()
            ]
        );
        assert_eq!(of(&[]), [""; 0]);
    }
}
