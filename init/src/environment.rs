//! The workload's variables: `firstlight env` prints them, init checks them and writes them where
//! programs look.

/// NAME=value
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Variable {
    /// Letters, digits and `_`.
    pub name: String,
    /// Anything on one line.
    pub value: String,
}

/// Reads NAME=value lines.
///
/// # Errors
/// A line that says which line is none.
pub fn parse(lines: &[String]) -> Result<Vec<Variable>, String> {
    let is_name = |name: &str| {
        let plain = name.bytes().all(|b| b.is_ascii_alphanumeric() || b == b'_');
        plain && name.bytes().next().is_some_and(|b| !b.is_ascii_digit())
    };
    let lines = lines.iter().filter(|line| !line.trim().is_empty());
    lines
        .map(|line| match line.split_once('=') {
            Some((name, value)) if is_name(name) => {
                Ok(Variable { name: name.to_owned(), value: value.to_owned() })
            }
            _ => Err(format!("firstlight env: read {line:?}, allowed: NAME=value")),
        })
        .collect()
}

/// The variables as lines.
#[must_use]
pub fn lines(variables: &[Variable]) -> String {
    variables.iter().map(|v| format!("{}={}\n", v.name, v.value)).collect()
}

/// An nccl.conf with the `NCCL_` variables among these, besides what it had of others.
#[must_use]
pub fn nccl_conf(old: &str, variables: &[Variable]) -> String {
    let ours: Vec<_> = variables.iter().filter(|v| v.name.starts_with("NCCL_")).cloned().collect();
    let is_ours = |line: &&str| {
        let name = line.split_once('=').map_or("", |(name, _)| name.trim());
        ours.iter().any(|v| v.name == name)
    };
    let kept: String = old.lines().filter(|line| !is_ours(line)).map(|line| format!("{line}\n")).collect();
    kept + &lines(&ours)
}

#[cfg(test)]
mod tests {
    use super::*;

    fn variables(lines: &[&str]) -> Result<Vec<Variable>, String> {
        parse(&lines.iter().map(|l| (*l).to_owned()).collect::<Vec<_>>())
    }

    #[test]
    fn lines_that_are_no_variables_are_refused() {
        assert_eq!(variables(&["A=1", "", "B_2=x=y"]).unwrap().len(), 2);
        for bad in ["A", "=1", "1A=1", "A B=1", "export A=1"] {
            assert!(variables(&[bad]).is_err(), "{bad}");
        }
    }

    #[test]
    fn nccl_conf_gets_ours_and_keeps_others() {
        let ours = variables(&["NCCL_P2P_DISABLE=1", "PATH=/x"]).unwrap();
        let text = nccl_conf("# site\nNCCL_P2P_DISABLE=0\nNCCL_DEBUG=INFO\n", &ours);
        assert_eq!(text, "# site\nNCCL_DEBUG=INFO\nNCCL_P2P_DISABLE=1\n");
    }
}
