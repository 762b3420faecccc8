//! The workload's variables: `firstlight env` prints them, init checks them and writes them to the files
//! that programs read. Each may have a reason, written as a comment above it.

/// Prefix of our comments in nccl.conf: a line below one was written by an earlier boot.
const MARK: &str = "# firstlight: ";
/// vLLM's variables: the folder with the file of GPU pairs that it may use, and whether it ignores that file.
const VLLM: [&str; 2] = ["VLLM_CACHE_ROOT", "VLLM_SKIP_P2P_CHECK"];
/// The folder in which that file allows no pair.
pub const VLLM_NONE: &str = "/run/firstlight/vllm/none";
/// NCCL's variable that switches peer-to-peer off.
pub const P2P_OFF: &str = "NCCL_P2P_DISABLE";

/// NAME=value
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Variable {
    /// Letters, digits and `_`.
    pub name: String,
    /// Any text on one line.
    pub value: String,
    /// The reason on one line; empty when none is given.
    pub reason: String,
}

/// Parses NAME=value lines, each with the comments above it.
///
/// # Errors
/// A line with the text that is not a variable.
pub fn parse(lines: &[String]) -> Result<Vec<Variable>, String> {
    let (mut variables, mut comments) = (Vec::new(), Vec::new());
    for line in lines.iter().filter(|line| !line.trim().is_empty()) {
        if let Some(comment) = line.strip_prefix('#') {
            comments.extend(Some(comment.trim()).filter(|comment| !comment.is_empty()));
            continue;
        }
        // A carriage return at the end belongs to the value for NCCL before 2.30, and not for later versions.
        let (name, value) = line
            .split_once('=')
            .filter(|(name, value)| is_name(name) && !value.contains('\r'))
            .ok_or_else(|| {
                format!("firstlight env: read {line:?}, allowed: NAME=value, # reason")
            })?;
        let reason = std::mem::take(&mut comments).join(" ");
        variables.push(Variable {
            name: name.to_owned(),
            value: value.to_owned(),
            reason,
        });
    }
    Ok(variables)
}

fn is_name(name: &str) -> bool {
    let plain = name.bytes().all(|b| b.is_ascii_alphanumeric() || b == b'_');
    plain && name.bytes().next().is_some_and(|b| !b.is_ascii_digit())
}

/// Switches peer-to-peer off for the workload and removes its other settings about it; `reason` is used
/// when the validator has given none.
pub fn switch_p2p_off(variables: &mut Vec<Variable>, reason: &str) {
    let given = variables
        .iter()
        .find(|v| v.name == P2P_OFF && v.value == "1" && !v.reason.is_empty());
    let reason = given.map_or(reason, |v| &v.reason).to_owned();
    variables.retain(|v| !is_about_p2p(&v.name) && !VLLM.contains(&v.name.as_str()));
    let values = VLLM.into_iter().zip([VLLM_NONE, "0"]);
    variables.extend(
        std::iter::once((P2P_OFF, "1"))
            .chain(values)
            .map(|(name, value)| Variable {
                name: name.to_owned(),
                value: value.to_owned(),
                reason: reason.clone(),
            }),
    );
}

/// Removes settings that rely on peer-to-peer; a setting that switches it off stays, and vLLM may use no pair.
pub fn trust_no_p2p(variables: &mut Vec<Variable>) {
    variables.retain(|v| v.name == P2P_OFF || !is_about_p2p(&v.name));
    let of_vllm = |v: &&mut Variable| v.name == VLLM[0];
    for variable in variables.iter_mut().filter(of_vllm) {
        VLLM_NONE.clone_into(&mut variable.value);
        "the verdict is not good, so vLLM uses peer-to-peer for no pair"
            .clone_into(&mut variable.reason);
    }
}

fn is_about_p2p(name: &str) -> bool {
    name.starts_with("NCCL_P2P_")
}

/// The variables as lines.
#[must_use]
pub fn lines(variables: &[Variable]) -> String {
    written(variables, "# ")
}

fn written<'a>(variables: impl IntoIterator<Item = &'a Variable>, mark: &str) -> String {
    let comment = |v: &Variable| match v.reason.as_str() {
        "" => String::new(),
        // Older versions of NCCL treat every line with a = as a variable.
        reason => format!("{mark}{}\n", reason.replace('=', ":")),
    };
    variables
        .into_iter()
        .map(|v| format!("{}{}={}\n", comment(v), v.name, v.value))
        .collect()
}

/// Whether there is something to write to an nccl.conf or to remove from it.
#[must_use]
pub fn concerns_nccl(old: &str, variables: &[Variable]) -> bool {
    old.lines().any(|line| line.starts_with(MARK))
        || variables.iter().any(|v| v.name.starts_with("NCCL_"))
}

/// An nccl.conf with our `NCCL_` variables and its other content. Lines that an earlier boot wrote are
/// removed, and where peer-to-peer is switched off, all other settings about it. Each name is written once: of equal names
/// NCCL takes the first, and every other reader of the environment the last.
#[must_use]
pub fn nccl_conf(old: &str, variables: &[Variable]) -> String {
    let of_nccl = variables
        .iter()
        .enumerate()
        .filter(|(_, v)| v.name.starts_with("NCCL_"));
    let last = |(at, v): &(usize, &Variable)| {
        variables
            .iter()
            .skip(at + 1)
            .all(|later| later.name != v.name)
    };
    let ours: Vec<_> = of_nccl.filter(last).map(|(_, v)| v).collect();
    let off = ours.iter().any(|v| v.name == P2P_OFF && v.value == "1");
    let goes = |line: &str| {
        let name = line.split_once('=').map_or("", |(name, _)| name.trim());
        ours.iter().any(|v| v.name == name) || (off && is_about_p2p(name))
    };
    let (mut kept, mut below_ours) = (String::new(), false);
    for line in old.split_terminator('\n') {
        let was_ours = std::mem::replace(&mut below_ours, line.starts_with(MARK));
        if !below_ours && !was_ours && !goes(line) {
            kept.push_str(line);
            kept.push('\n');
        }
    }
    kept + &written(ours, MARK)
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
        for bad in [
            "A",
            "=1",
            "1A=1",
            "A B=1",
            "A =1",
            "export A=1",
            " # x",
            "A=1\r",
        ] {
            assert!(variables(&[bad]).is_err(), "{bad}");
        }
    }

    #[test]
    fn a_comment_is_the_reason_of_the_variable_below_it() {
        let read = variables(&["# why", "# and how", "A=1", "B=2", "#"]).unwrap();
        assert_eq!(
            (read[0].reason.as_str(), read[1].reason.as_str()),
            ("why and how", "")
        );
        assert_eq!(lines(&read), "# why and how\nA=1\nB=2\n");
        assert_eq!(
            parse(&lines(&read).lines().map(str::to_owned).collect::<Vec<_>>()).unwrap(),
            read
        );
    }

    #[test]
    fn no_comment_can_be_taken_for_a_variable() {
        let read = variables(&["# NCCL_DEBUG=INFO", "NCCL_A=1"]).unwrap();
        for text in [lines(&read), nccl_conf("", &read)] {
            assert!(
                text.lines()
                    .filter(|l| l.starts_with('#'))
                    .all(|l| !l.contains('=')),
                "{text}"
            );
        }
    }

    #[test]
    fn of_two_values_nccl_conf_has_the_one_that_the_environment_has() {
        let twice = variables(&[
            "NCCL_P2P_LEVEL=SYS",
            "NCCL_DEBUG=WARN",
            "# later",
            "NCCL_P2P_LEVEL=PIX",
        ])
        .unwrap();
        assert_eq!(
            nccl_conf("", &twice),
            "NCCL_DEBUG=WARN\n# firstlight: later\nNCCL_P2P_LEVEL=PIX\n"
        );
    }

    #[test]
    fn lines_of_the_site_that_nccl_would_read_first_are_replaced() {
        let ours = variables(&["NCCL_P2P_DISABLE=1"]).unwrap();
        for site in [
            "NCCL_P2P_DISABLE=0\n",
            "NCCL_P2P_DISABLE = 0\n",
            "NCCL_P2P_DISABLE=0 # why\r\n",
        ] {
            assert_eq!(nccl_conf(site, &ours), "NCCL_P2P_DISABLE=1\n");
        }
    }

    #[test]
    fn nccl_conf_gets_ours_and_keeps_others() {
        let ours = variables(&["# not proven", "NCCL_P2P_DISABLE=0", "PATH=/x"]).unwrap();
        let text = nccl_conf(
            "# site\nNCCL_P2P_DISABLE=1\nNCCL_P2P_LEVEL=SYS\nNCCL_DEBUG=INFO\n",
            &ours,
        );
        let kept = "# site\nNCCL_P2P_LEVEL=SYS\nNCCL_DEBUG=INFO\n";
        assert_eq!(
            text,
            format!("{kept}# firstlight: not proven\nNCCL_P2P_DISABLE=0\n")
        );
    }

    #[test]
    fn lines_of_an_earlier_boot_are_replaced() {
        let first = variables(&[
            "# fast",
            "NCCL_P2P_LEVEL=SYS",
            "# off",
            "NCCL_NVLS_ENABLE=0",
        ])
        .unwrap();
        let once = nccl_conf("NCCL_SITE=1\n", &first);
        assert_eq!(nccl_conf(&once, &first), once);
        assert!(concerns_nccl(&once, &[]) && !concerns_nccl("NCCL_SITE=1\n", &[]));
        assert_eq!(nccl_conf(&once, &[]), "NCCL_SITE=1\n");
    }

    /// The settings by which vLLM uses no pair.
    fn vllm(reason: &str) -> String {
        let [root, skip] = VLLM;
        format!("# {reason}\n{root}=/run/firstlight/vllm/none\n# {reason}\n{skip}=0\n")
    }

    #[test]
    fn vllm_uses_no_pair_where_peer_to_peer_is_off_or_the_verdict_not_good() {
        let given = [
            "VLLM_CACHE_ROOT=/run/firstlight/vllm/proven",
            "VLLM_SKIP_P2P_CHECK=0",
        ];
        let mut off = variables(&given).unwrap();
        switch_p2p_off(&mut off, "x");
        assert_eq!(
            lines(&off),
            format!("# x\nNCCL_P2P_DISABLE=1\n{}", vllm("x"))
        );
        let mut bad = variables(&given).unwrap();
        trust_no_p2p(&mut bad);
        let why = "the verdict is not good, so vLLM uses peer-to-peer for no pair";
        let [root, skip] = VLLM;
        assert_eq!(
            lines(&bad),
            format!("# {why}\n{root}=/run/firstlight/vllm/none\n{skip}=0\n")
        );
    }

    #[test]
    fn where_peer_to_peer_is_off_its_level_is_removed() {
        let mut all = variables(&["NCCL_P2P_LEVEL=SYS", "NCCL_P2P_DISABLE=0", "A=1"]).unwrap();
        switch_p2p_off(&mut all, "the policy");
        assert_eq!(
            lines(&all),
            format!(
                "A=1\n# the policy\nNCCL_P2P_DISABLE=1\n{}",
                vllm("the policy")
            )
        );
        let conf = nccl_conf("NCCL_P2P_LEVEL=5\nNCCL_DEBUG=INFO\n", &all);
        assert_eq!(
            conf,
            "NCCL_DEBUG=INFO\n# firstlight: the policy\nNCCL_P2P_DISABLE=1\n"
        );
    }

    #[test]
    fn the_validators_own_reason_against_peer_to_peer_stays() {
        let mut all = variables(&["# p2p-integrity failed", "NCCL_P2P_DISABLE=1"]).unwrap();
        switch_p2p_off(&mut all, "the policy");
        let why = "p2p-integrity failed";
        assert_eq!(
            lines(&all),
            format!("# {why}\nNCCL_P2P_DISABLE=1\n{}", vllm(why))
        );
    }

    #[test]
    fn a_verdict_that_is_not_good_keeps_only_the_switch_against_peer_to_peer() {
        let mut all =
            variables(&["NCCL_P2P_LEVEL=SYS", "NCCL_P2P_DISABLE=1", "NCCL_IB_HCA=x"]).unwrap();
        trust_no_p2p(&mut all);
        assert_eq!(lines(&all), "NCCL_P2P_DISABLE=1\nNCCL_IB_HCA=x\n");
    }
}
