//! `nccl.conf` as NCCL 2.26 to 2.32 reads it. Each line is taken as it stands: NAME, `=` and the value, with every blank and
//! every remark, and the first line of a name is the one that counts. NCCL reads /etc/nccl.conf always; before it, the file
//! that `NCCL_CONF_FILE` names or, without that variable, .nccl.conf in the home directory (since 2.30 that of HOME, before
//! that of the account). A variable of the environment is never replaced.

use std::collections::BTreeMap;

/// The version since which a carriage return at the end of a line is dropped.
const DROPS_CARRIAGE_RETURN: (u32, u32) = (2, 30);

/// What NCCL makes of one line of the file that is neither empty nor a remark.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct ConfLine {
    /// Its number, from 1.
    pub number: usize,
    /// The line.
    pub text: String,
    /// Why it does not do what it seems to; `None` if it does.
    pub trouble: Option<String>,
}

/// Reads the file for NCCL of this version (`2.28.9+cuda13.0`).
#[must_use]
pub fn read(text: &str, version: Option<&str>) -> Vec<ConfLine> {
    let mut first = BTreeMap::new();
    let lines = (1..)
        .zip(text.split('\n'))
        .filter(|(_, line)| !line.trim().is_empty() && !line.starts_with('#'));
    let lines = lines.map(|(number, line)| {
        let trouble = trouble(line, version).or_else(|| {
            let name = line.split_once('=').map_or("", |(name, _)| name);
            let earlier = *first.entry(name.to_owned()).or_insert(number);
            (earlier != number).then(|| {
                format!("no effect: line {earlier} sets {name} already, and the first line counts")
            })
        });
        ConfLine {
            number,
            text: line.trim_end_matches('\r').to_owned(),
            trouble,
        }
    });
    lines.collect()
}

fn trouble(line: &str, version: Option<&str>) -> Option<String> {
    let Some((name, value)) = line.split_once('=') else {
        return Some("no effect: it has no `=`".to_owned());
    };
    if name.trim() != name || name.contains(char::is_whitespace) {
        return Some(format!(
            "no effect: it sets `{name}`, a name with a blank in it"
        ));
    }
    if name.to_ascii_uppercase().starts_with("NCCL_") && name != name.to_ascii_uppercase() {
        return Some("no effect: NCCL's names have capital letters".to_owned());
    }
    let value = match value.strip_suffix('\r') {
        Some(value) => match version.and_then(major_and_minor) {
            Some(version) if version >= DROPS_CARRIAGE_RETURN => value,
            _ => {
                return Some(
                    "before NCCL 2.30 the carriage return at its end belongs to the value"
                        .to_owned(),
                );
            }
        },
        None => value,
    };
    if value.contains(" #") || value.contains("\t#") {
        return Some(format!("the remark belongs to the value: `{value}`"));
    }
    if value.trim() != value {
        return Some(format!("the blanks belong to the value: `{value}`"));
    }
    let quoted = |mark| value.len() > 1 && value.starts_with(mark) && value.ends_with(mark);
    (quoted('"') || quoted('\''))
        .then(|| format!("the quotation marks belong to the value: {value}"))
}

/// 2 and 28 of `2.28.9+cuda13.0`.
fn major_and_minor(version: &str) -> Option<(u32, u32)> {
    let mut parts = version.split('.').map(|part| part.parse().ok());
    Some((parts.next()??, parts.next()??))
}

#[cfg(test)]
mod tests {
    use super::*;

    /// The trouble with each line.
    fn troubles(text: &str, version: Option<&str>) -> Vec<String> {
        read(text, version)
            .into_iter()
            .map(|line| line.trouble.unwrap_or_default())
            .collect()
    }

    #[test]
    fn a_line_without_blanks_does_what_it_seems_to() {
        assert_eq!(
            troubles(
                "# a remark = 1\n\nNCCL_DEBUG=INFO\nNCCL_A=b=c\nPLUGIN_x=1\nNCCL_EMPTY=",
                None
            ),
            [""; 4]
        );
    }

    #[test]
    fn lines_that_set_another_variable_or_none_are_told() {
        let told = |line: &str| troubles(line, None).remove(0);
        assert_eq!(
            told("NCCL_P2P_DISABLE = 1"),
            "no effect: it sets `NCCL_P2P_DISABLE `, a name with a blank in it"
        );
        assert!(told(" NCCL_P2P_DISABLE=1").starts_with("no effect: it sets ` NCCL"));
        assert!(told("export NCCL_P2P_DISABLE=1").starts_with("no effect: it sets `export NCCL"));
        assert_eq!(
            told("nccl_p2p_disable=1"),
            "no effect: NCCL's names have capital letters"
        );
        assert_eq!(told("NCCL_P2P_DISABLE"), "no effect: it has no `=`");
    }

    #[test]
    fn what_belongs_to_a_value_is_told() {
        let told = |line: &str| troubles(line, None).remove(0);
        assert_eq!(
            told("NCCL_SOCKET_IFNAME=eth0 # fast"),
            "the remark belongs to the value: `eth0 # fast`"
        );
        assert_eq!(
            told("NCCL_SOCKET_IFNAME= eth0"),
            "the blanks belong to the value: ` eth0`"
        );
        assert_eq!(
            told("NCCL_SOCKET_IFNAME=\"eth0\""),
            "the quotation marks belong to the value: \"eth0\""
        );
    }

    #[test]
    fn of_two_lines_with_one_name_the_first_counts() {
        let told = troubles("NCCL_A=1\nNCCL_B=1\nNCCL_A=2", None);
        assert_eq!(
            told,
            [
                "",
                "",
                "no effect: line 1 sets NCCL_A already, and the first line counts"
            ]
        );
        assert_eq!(
            troubles("NCCL_A = 1\nNCCL_A=2", None)[1],
            "",
            "the first line sets another variable"
        );
    }

    #[test]
    fn a_carriage_return_belongs_to_the_value_before_2_30() {
        let told = |version| troubles("NCCL_A=1\r\n", version).remove(0);
        assert_eq!(told(Some("2.30.7+cuda12.9")), "");
        for version in [Some("2.29.7"), Some("2.9.1"), None, Some("unknown")] {
            assert_eq!(
                told(version),
                "before NCCL 2.30 the carriage return at its end belongs to the value",
                "{version:?}"
            );
        }
    }
}
