//! Whether the links of GPUs, and of NICs that exchange data with them, are as wide and as fast as they can
//! be. Width is visible at once; speed only under load, because idle GPUs lower it, so speed is reported and
//! not judged here.

use crate::suite::{FILE_DEADLINE, Group, Test};
use machine::host::bandwidth;
use machine::host::bandwidth::LimitedBandwidth;
use machine::pcie::model::{Bdf, Device, Fabric};
use machine::pcie::nic;
use machine::pcie::tree::Tree;
use outcome::Judgement;
use outcome::finding::{Code, Finding, Severity};
use outcome::test;
use outcome::text::count;
use report::Level;

pub(in crate::suite) const TEST: Test = Test {
    about: &test::LINKS,
    title: "PCIe links",
    proves: "the links of GPUs, NICs and the switches between them use all lanes that both ends offer",
    level: Level::Quick,
    deadline: FILE_DEADLINE,
    mandatory: false,
    group: Group::Host,
    run: |context| {
        let fabric = context.fabric()?;
        // An unreadable log is reported by the test `xid`.
        let limited = bandwidth::limited(context.log.as_deref().unwrap_or_default());
        Ok(judge(fabric, &limited))
    },
};

/// The kernel found fewer lanes when it found the GPU than both ends of the link offer, and than there are now. Fewer now is a
/// finding of the fabric, and a port that offers no more is no fault.
fn was_narrow(fabric: &Fabric, seen: &LimitedBandwidth) -> Option<Finding> {
    let tree = Tree::of(fabric);
    let gpu = fabric
        .gpus
        .iter()
        .find(|gpu| **gpu == seen.device)
        .and_then(|gpu| tree.get(*gpu))?;
    // Two neighbours of this chain are the ends of a link.
    let chain: Vec<_> = std::iter::once(gpu).chain(tree.above(gpu.bdf)).collect();
    let (ends, _) = chain.as_chunks::<2>();
    let [lower, upper] = ends
        .iter()
        .find(|ends| ends.iter().any(|end| end.bdf == seen.at))?;
    let (lower, upper) = (lower.link.as_ref()?, upper.link.as_ref()?);
    let offered = lower.max_width.min(upper.max_width);
    if seen.width >= offered || lower.width <= seen.width {
        return None;
    }
    let Device { bdf, .. } = gpu;
    let message = format!(
        "{bdf}: when the kernel found it, the link at {} used {} lanes; both ends offer {offered}, and {} are used now",
        seen.at, seen.width, lower.width
    );
    let finding = Code::LinkNarrow
        .finding(Severity::Warn, seen.at, message)
        .values(seen.width, offered, Some("lanes"));
    Some(finding.seen(format!("kmsg: {}", seen.line)))
}

fn judge(fabric: &Fabric, limited: &[LimitedBandwidth]) -> Judgement {
    if fabric.gpus.is_empty() {
        return Judgement::not_applicable("no NVIDIA GPU");
    }
    // The test `fabric` reports a device that does not respond.
    let of = |wanted: &[Bdf]| -> Vec<&Device> {
        fabric
            .devices
            .iter()
            .filter(|d| wanted.contains(&d.bdf) && !d.config.gone)
            .collect()
    };
    let (gpus, nics) = (of(&fabric.gpus), of(&nic::exchanging(fabric)));
    let found = fabric.findings.iter().filter(|f| is_of_link(f.code));
    if gpus.is_empty() {
        return Judgement::not_applicable(
            "no GPU answers, see the test fabric: nothing is known about its link",
        );
    }
    if !gpus.iter().any(|d| d.link.is_some()) {
        // Virtual machines show GPUs without a link.
        return Judgement::not_applicable(
            "neither sysfs nor the registers show the link of any GPU",
        );
    }
    let findings = found
        .cloned()
        .chain(gpus.iter().filter(|d| d.link.is_none()).map(|d| unknown(d)));
    let findings: Vec<_> = findings
        .chain(limited.iter().filter_map(|seen| was_narrow(fabric, seen)))
        .collect();
    let narrow: Vec<_> = findings.iter().filter(|f| f.is(Code::LinkNarrow)).collect();
    let all = format!(
        "links of {} and {}",
        count(gpus.len(), "GPU"),
        count(nics.iter().filter(|d| d.link.is_some()).count(), "NIC")
    );
    let summary = match findings.iter().max_by_key(|f| f.severity) {
        Some(worst) if worst.severity > Severity::Info => worst.message.to_string(),
        Some(_) if !narrow.is_empty() => match &narrow[..] {
            [one] => format!("{all} use all lanes of their ports: {}", one.message),
            more => format!(
                "{all} use all lanes of their ports; {} ports have fewer than the device",
                more.len()
            ),
        },
        Some(other) => other.message.to_string(),
        None => format!("{all} at full width"),
    };
    let unchecked: &[Code] = if gpus.len() < fabric.gpus.len() {
        &[Code::LinkNarrow]
    } else {
        &[]
    };
    Judgement::of(summary, findings).without_checking(unchecked)
}

/// Whether a code is about links at rest.
pub(super) const fn is_of_link(code: Code) -> bool {
    matches!(
        code,
        Code::LinkNarrow | Code::LinkSlow | Code::LinkDisagrees | Code::LinkContradicted
    )
}

/// The finding for a GPU without a readable link: another GPU's link is readable, so this one's should be too.
fn unknown(gpu: &Device) -> Finding {
    let message = format!(
        "neither sysfs nor the registers show the link of {}",
        gpu.bdf
    );
    Code::PciUnreadable.finding(Severity::Error, gpu.bdf, message)
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::suite::shared::fixture;
    use fabric::judge;
    use outcome::Outcome;

    fn with_link(gts: f64, width: u32) -> Judgement {
        let mut fabric = fixture::machine(2);
        let gpu = fabric.gpus[0];
        let link = fixture::device(&mut fabric, gpu).link.as_mut().unwrap();
        (link.gts, link.width) = (gts, width);
        fabric.findings = judge::all(&fabric);
        super::judge(&fabric, &[])
    }

    #[test]
    fn full_links_pass_and_a_narrow_one_warns() {
        assert_eq!(
            with_link(16.0, 16).summary,
            "links of 2 GPUs and 0 NICs at full width"
        );
        let said = with_link(16.0, 8);
        assert_eq!(said.outcome(), Outcome::Warn);
        assert!(said.summary.contains("0000:10:00.0"), "{}", said.summary);
    }

    #[test]
    fn a_port_with_fewer_lanes_than_its_card_passes_and_says_so() {
        let mut fabric = fixture::machine(2);
        let gpu = fabric.gpus[0];
        fixture::device(&mut fabric, gpu)
            .link
            .as_mut()
            .unwrap()
            .width = 8;
        for (offered, outcome) in [(8, Outcome::Pass), (16, Outcome::Warn)] {
            fixture::device(&mut fabric, fixture::port(0))
                .link
                .as_mut()
                .unwrap()
                .max_width = offered;
            fabric.findings = judge::all(&fabric);
            let said = super::judge(&fabric, &[]);
            assert_eq!(
                (said.outcome(), said.findings.len()),
                (outcome, 1),
                "{said:?}"
            );
            let port =
                format!(": {gpu} uses all 8 lanes that its port offers; the device itself has 16");
            assert_eq!(
                said.summary.ends_with(&port),
                offered == 8,
                "{}",
                said.summary
            );
        }
    }

    #[test]
    fn an_idle_gpu_at_its_slowest_speed_is_reported_and_passes() {
        let said = with_link(2.5, 16);
        assert_eq!((said.outcome(), said.findings.len()), (Outcome::Pass, 1));
    }

    #[test]
    fn an_unknown_link_is_not_a_pass() {
        let mut fabric = fixture::machine(2);
        let (first, second) = (fabric.gpus[0], fabric.gpus[1]);
        fixture::device(&mut fabric, first).link = None;
        let said = super::judge(&fabric, &[]);
        assert!(
            said.outcome() == Outcome::Error && said.summary.contains("0000:10:00.0"),
            "{said:?}"
        );
        fixture::device(&mut fabric, second).link = None;
        assert_eq!(super::judge(&fabric, &[]).outcome(), Outcome::NotApplicable);
    }

    #[test]
    fn a_gpu_that_does_not_answer_has_no_link_to_judge() {
        let mut fabric = fixture::machine(2);
        let gpus = fabric.gpus.clone();
        fixture::device(&mut fabric, gpus[0]).config.gone = true;
        let said = super::judge(&fabric, &[]);
        assert_eq!(
            (said.outcome(), &said.unchecked[..]),
            (Outcome::Pass, &[Code::LinkNarrow][..])
        );
        fixture::device(&mut fabric, gpus[1]).config.gone = true;
        assert_eq!(super::judge(&fabric, &[]).outcome(), Outcome::NotApplicable);
    }

    #[test]
    fn a_link_that_was_narrow_when_the_kernel_found_it_and_is_not_now_warns() {
        let mut fabric = fixture::machine(2);
        let gpu = fabric.gpus[0];
        let seen = |width| LimitedBandwidth {
            device: gpu,
            at: fixture::port(0),
            width,
            line: "kmsg".to_owned(),
        };
        let said = super::judge(&fabric, &[seen(8)]);
        assert_eq!(
            (said.outcome(), said.findings.len()),
            (Outcome::Warn, 1),
            "{said:?}"
        );
        assert!(
            said.summary
                .contains("used 8 lanes; both ends offer 16, and 16 are used now"),
            "{}",
            said.summary
        );
        // The slot has no more, or the link is narrow now.
        fixture::device(&mut fabric, fixture::port(0))
            .link
            .as_mut()
            .unwrap()
            .max_width = 8;
        assert_eq!(super::judge(&fabric, &[seen(8)]).outcome(), Outcome::Pass);
        fixture::device(&mut fabric, fixture::port(0))
            .link
            .as_mut()
            .unwrap()
            .max_width = 16;
        fixture::device(&mut fabric, gpu)
            .link
            .as_mut()
            .unwrap()
            .width = 8;
        assert_eq!(super::judge(&fabric, &[seen(8)]).findings, []);
        // A link that was slow at rest has all its lanes.
        assert_eq!(
            super::judge(&fixture::machine(2), &[seen(16)]).outcome(),
            Outcome::Pass
        );
    }

    #[test]
    fn without_a_gpu_there_is_no_link_to_judge() {
        assert_eq!(
            super::judge(&fixture::machine(0), &[]).outcome(),
            Outcome::NotApplicable
        );
    }
}
