//! Attacks on process 1: it boots in namespaces under every fault that its tests know, hostile validators and drivers among them.

use crate::table::Counts;
use std::process::Command;

/// All boots of `./run faults`, each with every policy that its fault can meet.
pub(crate) fn boots() -> Counts {
    let mut counts = Counts::default();
    let words = [
        "test",
        "--quiet",
        "--locked",
        "--package",
        "firstlight-init",
        "--test",
        "process_one",
        "--",
        "faults::",
    ];
    let output = match Command::new("cargo")
        .args(words)
        .env("FIRSTLIGHT_FAULTS", "")
        .output()
    {
        Ok(output) => output,
        Err(e) => {
            counts.check(false, || format!("cargo: {e}"));
            return counts;
        }
    };
    let text = String::from_utf8_lossy(&output.stdout) + String::from_utf8_lossy(&output.stderr);
    match text.lines().find_map(held) {
        Some((held, all)) => {
            counts.runs = all;
            counts.wrong = all.saturating_sub(held);
            let first = text.lines().find(|line| line.starts_with("== "));
            counts
                .notes
                .extend(first.map(|line| format!("wrong: {line}")));
        }
        None => counts.check(false, || {
            "no count of boots; as root, ./run faults shows why".to_owned()
        }),
    }
    counts
}

/// The counts of `faults     611 of 611 held, 62 s`, which may follow other text on its line.
fn held(line: &str) -> Option<(u64, u64)> {
    let (_, rest) = line.split_once("faults     ")?;
    let mut words = rest.split_whitespace();
    let held = words.next()?.parse().ok()?;
    let all = words.nth(1)?.parse().ok()?;
    (words.next()? == "held,").then_some((held, all))
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_line_is_found_behind_the_dots_of_the_tests() {
        assert_eq!(held("..faults     609 of 611 held, 62 s"), Some((609, 611)));
        assert_eq!(
            held("test faults::every_boot_under_a_fault_holds ... ok"),
            None
        );
    }
}
