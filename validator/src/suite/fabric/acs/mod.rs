//! Whether any port on a GPU path redirects peer traffic to the root complex. The ports are read twice with a
//! pause in between, to catch a port whose redirection something switches on again.

mod fabric_pass;

use crate::suite::context::unreadable;
use crate::suite::{FILE_DEADLINE, Group, Test, TestContext};
use fabric::acs::{self, AcsPolicy};
use fabric::journal::Entry;
use fabric::pass_through::{self, KeptAcs};
use fabric::plan::lockdown;
use fabric::turn::Turns;
use machine::host::platform;
use machine::pcie::model::{Bdf, Device, Fabric};
use machine::pcie::routing::REDIRECT;
use outcome::Judgement;
use outcome::finding::{Code, Finding, Reason, Severity, Subject};
use outcome::test;
use outcome::text::count;
use report::Level;
use std::collections::BTreeSet;
use std::thread::sleep;
use std::time::Duration;

pub(in crate::suite) const TEST: Test = Test {
    about: &test::ACS,
    title: "ACS on GPU paths",
    proves: "every port between GPUs, and between GPUs and NICs that exchange data with them, lets peer traffic pass directly",
    level: Level::Quick,
    deadline: FILE_DEADLINE,
    mandatory: true,
    group: Group::Host,
    run,
};

/// Long enough for a driver or management firmware that reacts at once, short enough for a boot.
const PAUSE: Duration = Duration::from_millis(20);

fn run(context: &TestContext) -> Result<Judgement, Box<Finding>> {
    let fabric = context.fabric()?;
    let policy = context.config.fabric.acs;
    let ports = judged_ports(fabric, policy);
    if ports.is_empty() && acs::unread(fabric).is_empty() {
        let why = context.host.peers.none.filter(|_| !fabric.gpus.is_empty());
        return Ok(Judgement::not_applicable(
            why.map_or_else(|| no_ports(fabric), |why| why.to_string()),
        ));
    }
    sleep(PAUSE);
    let mut again =
        fabric::read(&context.root).map_err(|e| unreadable("sys/bus/pci/devices", &e))?;
    platform::demand(&mut again, &context.config.expect.demanded(&fabric.gpus));
    let (journal, findings) = fabric_pass::read(&context.root);
    Ok(judge(policy, fabric, &again, &journal).with(findings))
}

fn no_ports(fabric: &Fabric) -> String {
    let ports: Vec<_> = fabric
        .devices
        .iter()
        .filter_map(|d| d.acs.as_ref())
        .collect();
    let redirecting = ports.iter().filter(|a| a.ctrl & REDIRECT != 0).count();
    let functions = match ports.len() {
        0 => "no function has ACS".to_owned(),
        n => format!(
            "{} with ACS, {redirecting} redirecting",
            count(n, "function")
        ),
    };
    format!("no port on a GPU path; {functions}")
}

/// Ports at which GPU paths turn; with `all` also every other function with ACS.
fn judged_ports(fabric: &Fabric, policy: AcsPolicy) -> BTreeSet<Bdf> {
    let mut ports = Turns::of(fabric).ports();
    if policy == AcsPolicy::All {
        ports.extend(
            fabric
                .devices
                .iter()
                .filter(|d| d.acs.is_some())
                .map(|d| d.bdf),
        );
    }
    ports
}

fn judge(policy: AcsPolicy, first: &Fabric, again: &Fabric, journal: &[Entry]) -> Judgement {
    let ports = judged_ports(first, policy);
    let turns = [Turns::of(first), Turns::of(again)];
    let found = ports
        .iter()
        .filter_map(|p| port(*p, [first, again], &turns));
    let now: Vec<_> = found
        .map(|f| fabric_pass::with_write_result(f, journal))
        .collect();
    let unread = acs::unread(first);
    // A port with a finding above is not reported a second time.
    let wrong: Vec<_> = now.iter().map(|f| f.subject.clone()).collect();
    let findings =
        |f: &&Finding| f.is(Code::AcsQuirk) && ports.iter().any(|p| Subject::from(p) == f.subject);
    let quirks = first
        .findings
        .iter()
        .filter(findings)
        .filter(|f| !wrong.contains(&f.subject))
        .cloned();
    let clean = ports.len() - now.iter().filter(|f| f.severity > Severity::Info).count();
    let place = if policy == AcsPolicy::All {
        "ports"
    } else {
        "ports on GPU paths"
    };
    let summary = match unread.first() {
        Some(port) => port.message.to_string(),
        None => format!("{clean} of {} {place}: redirect off", ports.len()),
    };
    // ACS that is kept on purpose already has a finding; the tests that measure decide whether it is harmful.
    let most = if policy == AcsPolicy::Off {
        Severity::Warn
    } else {
        Severity::Error
    };
    // If ports redirect, lockdown prevents clearing them and must be fixed first.
    let redirects = now
        .iter()
        .any(|f| f.is(Code::AcsRedirect) && f.severity > Severity::Info);
    let locked = (redirects && policy != AcsPolicy::Off)
        .then(|| lockdown(again))
        .flatten();
    let kept = pass_through::functions_keeping_acs(again);
    let now = now.into_iter().map(|f| with_skip_reason(f, &kept));
    let lowered = now.chain(unread).map(|f| Finding {
        severity: f.severity.min(most),
        ..f
    });
    Judgement::of(
        summary,
        locked.into_iter().chain(lowered).chain(quirks).collect(),
    )
}

/// A port's present fault; if the port was right a moment ago, the finding that it changed.
fn port(bdf: Bdf, [first, again]: [&Fabric; 2], turns: &[Turns; 2]) -> Option<Finding> {
    let Some(now) = device(again, bdf) else {
        let message = format!("{bdf} was present and is gone a moment later");
        return Some(Code::FabricUnreadable.finding(Severity::Error, bdf, message));
    };
    let before = device(first, bdf)?;
    let [was, is] = turns;
    match (acs::judge_port(was, before), acs::judge_port(is, now)) {
        (was, None) => was,
        (None, Some(found)) if found.is(Code::AcsRedirect) => Some(reverted(before, now)),
        (_, found) => found,
    }
}

/// For a port that the fabric pass skips, the finding names the reason and a remedy other than running the pass.
fn with_skip_reason(found: Finding, kept: &KeptAcs) -> Finding {
    let own = kept
        .iter()
        .find(|(port, _)| Subject::from(*port) == found.subject);
    match own {
        Some((_, (device, why)))
            if found.is(Code::AcsRedirect) && found.severity > Severity::Info =>
        {
            found.because(Reason::LeftByPass(*device, why.into()))
        }
        _ => found,
    }
}

fn device(fabric: &Fabric, bdf: Bdf) -> Option<&Device> {
    fabric.devices.iter().find(|d| d.bdf == bdf)
}

fn reverted(before: &Device, now: &Device) -> Finding {
    let control = |d: &Device| d.acs.as_ref().map_or(0, |a| a.ctrl);
    let (was, is) = (control(before), control(now));
    let message = format!(
        "{}: ACS control was {was:#06x} and reads {is:#06x} a moment later",
        now.bdf
    );
    Code::AcsReverted
        .finding(Severity::Fail, now.bdf, message)
        .values(is, was, None)
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::suite::shared::fixture;
    use outcome::Outcome;

    fn with_control(ctrl: u16) -> Fabric {
        let mut fabric = fixture::machine(2);
        fixture::device(&mut fabric, fixture::port(1))
            .acs
            .as_mut()
            .unwrap()
            .ctrl = ctrl;
        fabric
    }

    fn say(policy: AcsPolicy, first: u16, again: u16) -> Judgement {
        judge(policy, &with_control(first), &with_control(again), &[])
    }

    #[test]
    fn clear_ports_pass_and_one_that_redirects_fails() {
        assert_eq!(
            say(AcsPolicy::Path, 0, 0),
            Judgement::of("2 of 2 ports on GPU paths: redirect off", vec![])
        );
        let said = say(AcsPolicy::Path, 0x1d, 0x1d);
        assert!(said.outcome() == Outcome::Fail && said.findings[0].is(Code::AcsRedirect));
        assert_eq!(said.summary, "1 of 2 ports on GPU paths: redirect off");
    }

    #[test]
    fn a_failure_of_the_pass_is_reported_for_its_port_only() {
        let stuck = |n| fabric_pass::entry(fixture::port(n), Some(0x1d), Some("ACS-STUCK"));
        let with = |journal: &[Entry]| {
            let fabric = with_control(0x1d);
            judge(AcsPolicy::Path, &fabric, &fabric, journal)
        };
        let (said, other) = (with(&[stuck(1)]), with(&[stuck(0)]));
        assert!(
            said.findings.len() == 1 && said.findings[0].is(Code::AcsStuck),
            "{said:?}"
        );
        assert!(
            other.findings.len() == 1 && other.findings[0].is(Code::AcsRedirect),
            "{other:?}"
        );
        assert_eq!(
            (said.outcome(), said.summary),
            (Outcome::Fail, other.summary)
        );
        let clear = with_control(0);
        assert_eq!(
            judge(AcsPolicy::Path, &clear, &clear, &[stuck(1)]).findings,
            [],
            "it is clear now"
        );
    }

    #[test]
    fn a_port_that_a_locked_down_kernel_keeps_on_names_the_lockdown_first() {
        let mut fabric = with_control(0x1d);
        fabric.lockdown = Some("integrity".into());
        let said = judge(AcsPolicy::Path, &fabric, &fabric, &[]);
        assert!(
            said.outcome() == Outcome::Fail && said.findings[0].is(Code::Lockdown),
            "{said:?}"
        );
        assert!(
            said.findings[0].message.contains("(integrity)")
                && said.findings[1].is(Code::AcsRedirect)
        );
        // Where nothing has to be cleared, lockdown does not matter.
        let mut clear = with_control(0);
        clear.lockdown = Some("integrity".into());
        assert_eq!(judge(AcsPolicy::Path, &clear, &clear, &[]).findings, []);
        assert_eq!(
            judge(AcsPolicy::Off, &fabric, &fabric, &[]).findings.len(),
            1
        );
    }

    #[test]
    fn checking_bits_are_not_redirection() {
        assert_eq!(say(AcsPolicy::Path, 0x53, 0x53).outcome(), Outcome::Pass);
    }

    #[test]
    fn a_port_that_comes_back_on_is_caught() {
        let said = say(AcsPolicy::Path, 0, 0x1d);
        assert!(said.outcome() == Outcome::Fail && said.findings[0].is(Code::AcsReverted));
        assert_eq!(
            said.findings[0].message,
            "0000:02:01.0: ACS control was 0x0000 and reads 0x001d a moment later"
        );
    }

    #[test]
    fn a_port_that_was_wrong_still_fails_if_the_second_read_is_clear() {
        assert_eq!(say(AcsPolicy::Path, 0x1d, 0).outcome(), Outcome::Fail);
    }

    #[test]
    fn ports_off_the_paths_matter_only_when_all_are_requested() {
        let mut fabric = with_control(0);
        let root_port = fabric.devices[0].bdf;
        fixture::device(&mut fabric, root_port)
            .acs
            .as_mut()
            .unwrap()
            .ctrl = 0x1d;
        assert_eq!(
            judge(AcsPolicy::Path, &fabric, &fabric, &[]).outcome(),
            Outcome::Pass
        );
        let said = judge(AcsPolicy::All, &fabric, &fabric, &[]);
        assert_eq!(
            (said.outcome(), said.summary.as_str()),
            (Outcome::Fail, "2 of 3 ports: redirect off")
        );
    }

    #[test]
    fn acs_kept_on_purpose_is_reported() {
        assert_eq!(say(AcsPolicy::Off, 0x1d, 0x1d).outcome(), Outcome::Warn);
    }

    #[test]
    fn a_harmful_chipset_port_is_reported_once_and_is_only_information_where_acs_is_kept() {
        let mut fabric = with_control(0x1d);
        fixture::device(&mut fabric, fixture::port(1))
            .acs
            .as_mut()
            .unwrap()
            .quirk = true;
        fabric.findings = fabric::judge::all(&fabric);
        for (policy, outcome) in [
            (AcsPolicy::Path, Outcome::Fail),
            (AcsPolicy::Off, Outcome::Warn),
        ] {
            let said = judge(policy, &fabric, &fabric, &[]);
            assert_eq!(
                (said.outcome(), said.findings.len()),
                (outcome, 1),
                "{said:?}"
            );
            assert!(said.findings[0].is(Code::AcsQuirk));
        }
    }

    #[test]
    fn a_port_that_cannot_be_read_is_never_a_pass() {
        let mut blind = with_control(0);
        let port = fixture::device(&mut blind, fixture::port(0));
        (port.acs, port.config.bytes) = (None, 256);
        assert!(judge(AcsPolicy::Path, &blind, &blind, &[]).findings[0].is(Code::NoEcam));
        let mut gone = with_control(0);
        gone.devices.retain(|d| d.bdf != fixture::port(0));
        assert_eq!(
            judge(AcsPolicy::Path, &with_control(0), &gone, &[]).outcome(),
            Outcome::Error
        );
    }

    #[test]
    fn a_port_that_was_never_read_is_not_a_pass_either() {
        let mut fabric = with_control(0);
        fabric.devices.retain(|d| d.bdf != fixture::port(0));
        let said = judge(AcsPolicy::Path, &fabric, &fabric, &[]);
        assert!(
            said.outcome() == Outcome::Error && said.summary.contains("0000:02:00.0"),
            "{said:?}"
        );
    }

    #[test]
    fn without_gpus_no_port_is_covered_unless_all_are_requested() {
        let fabric = fixture::machine(0);
        assert!(judged_ports(&fabric, AcsPolicy::Path).is_empty());
        assert_eq!(judged_ports(&fabric, AcsPolicy::All).len(), 1);
        assert_eq!(
            no_ports(&fabric),
            "no port on a GPU path; 1 function with ACS, 0 redirecting"
        );
    }
}
