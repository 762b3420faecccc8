//! Whether device addresses are physical addresses. All sources must agree: the IOMMU class, groups and their
//! types, devices in a group. What firmware and kernel report is additional evidence.

use crate::config::{IommuPolicy, Level};
use crate::suite::context::unreadable;
use crate::suite::{FILE_DEADLINE, Group, Test, TestContext};
use machine::host::iommu::{DmaGroups, dma_groups};
use machine::host::iommu::{Iommu, IommuMode};
use machine::root::Root;
use outcome::finding::{Code, Finding, Reason, Severity, Subject};
use outcome::platform::{Environment, Host};
use outcome::test;
use outcome::{Judgement, Outcome};
use std::collections::BTreeSet;

pub(in crate::suite) const TEST: Test = Test {
    about: &test::IOMMU,
    title: "IOMMU",
    proves: "no IOMMU translates device addresses, so that GPUs reach each other by physical address",
    level: Level::Quick,
    deadline: FILE_DEADLINE,
    mandatory: true,
    group: Group::Host,
    run,
};

fn run(context: &TestContext) -> Result<Judgement, Box<Finding>> {
    let fabric = context.fabric()?;
    let groups =
        dma_groups(&context.root).map_err(|e| unreadable("sys/kernel/iommu_groups", &e))?;
    let log = context.log_evidence(STATES);
    let doubts: Vec<_> = fabric
        .findings
        .iter()
        .filter(|f| f.is(Code::IommuUnknown))
        .cloned()
        .collect();
    let explicit = context.config.fabric.iommu;
    Ok(
        match Requirement::of(explicit, context.identity.is_own(), &context.host) {
            Ok(requirement) => {
                let judgement = judge(&requirement, &fabric.iommu, doubts, &groups, log);
                if owned_by_xen(&context.root, context.host.environment) {
                    of_xen(judgement)
                } else {
                    judgement
                }
            }
            Err(why) => nothing_demanded(why, &groups),
        },
    )
}

/// Whether this is the privileged domain of Xen. Its guests have the same view of the IOMMU as those of other hypervisors.
fn owned_by_xen(root: &Root, environment: Environment) -> bool {
    let text = |path: &str| root.text(path).unwrap_or_default();
    let xen = || {
        text("proc/xen/capabilities").contains("control_d") || text("sys/hypervisor/type") == "xen"
    };
    !matches!(environment, Environment::Guest(_)) && xen()
}

/// Linux as the privileged domain of Xen sees no IOMMU, because Xen programs it. What it does see is judged as ever.
fn of_xen(judgement: Judgement) -> Judgement {
    if judgement.outcome() != Outcome::Pass {
        return judgement;
    }
    let message =
        "Xen runs below this kernel and owns the IOMMU: whether it translates is not visible here";
    let finding = Code::IommuUnknown.finding(Severity::Warn, Subject::Machine, message);
    Judgement::by(
        finding
            .because(Reason::XenOwnsIommu)
            .seen(format!("Linux: {}", judgement.summary)),
    )
}

/// Lines of the kernel that show a state. `DMAR: IOMMU enabled` shows only that a kernel word was read: it is written even if
/// another word then leaves the IOMMU off.
const STATES: &[&str] = &[
    "DMAR: Intel(R) Virtualization Technology for Directed I/O",
    "DMAR-IR:",
    "AMD-Vi:",
    "iommu: Default domain type",
];

/// Not applicable, with the state in the summary. Translation is no finding here: it is harmless, or even needed.
fn nothing_demanded(why: &str, groups: &DmaGroups) -> Judgement {
    let translating = groups
        .types
        .iter()
        .filter(|(_, kind)| kind != "identity")
        .count();
    Judgement::not_applicable(match translating {
        0 => why.to_owned(),
        some => format!("{some} of {} groups translate; {why}", groups.types.len()),
    })
}

/// Why translation is right on a machine with Grace.
const OWN_LINK: &str =
    "the processor reaches these GPUs over its own link, which needs the IOMMU to translate";

/// The requirement on the IOMMU.
#[derive(Debug)]
struct Requirement {
    policy: IommuPolicy,
    /// The functions whose addresses must not be translated; `None`: all.
    functions: Option<BTreeSet<String>>,
}

impl Requirement {
    /// From the configuration. Without one, no function that exchanges data with another directly may be translated;
    /// firstlight's own kernel must have no IOMMU in use, unless the machine needs one.
    ///
    /// # Errors
    /// Why nothing is demanded.
    fn of(
        explicit: Option<IommuPolicy>,
        own_kernel: bool,
        host: &Host,
    ) -> Result<Self, &'static str> {
        let all = |policy| {
            Ok(Self {
                policy,
                functions: None,
            })
        };
        let own_link = host.gpus.iter().any(|gpu| gpu.own_link);
        let needed = host.processors.need_iommu() || host.gpus.iter().any(|gpu| gpu.integrated);
        match (explicit, host.peers.none) {
            (Some(policy), _) => all(policy),
            (None, _) if own_link => Err(OWN_LINK),
            (None, _) if own_kernel && !needed => all(IommuPolicy::Off),
            (None, Some(why)) => Err(why.text()),
            (None, None) => {
                let both = host.peers.pairs.iter().flat_map(|(a, b)| [a, b]);
                Ok(Self {
                    policy: IommuPolicy::Pt,
                    functions: Some(both.map(ToString::to_string).collect()),
                })
            }
        }
    }

    /// Groups that may translate because none of the functions is in one of them.
    fn exempt_groups(&self, groups: &DmaGroups) -> BTreeSet<String> {
        let Some(functions) = &self.functions else {
            return BTreeSet::new();
        };
        let known = |function: &String| groups.members.iter().any(|(member, _)| member == function);
        // An unknown group of a function may be any group; with no group known, none is exempt.
        if functions.is_empty() || !functions.iter().all(known) {
            return BTreeSet::new();
        }
        let theirs = groups
            .members
            .iter()
            .filter(|(member, _)| functions.contains(member));
        let theirs: BTreeSet<_> = theirs.map(|(_, group)| group).collect();
        groups
            .types
            .iter()
            .map(|(group, _)| group)
            .filter(|g| !theirs.contains(g))
            .cloned()
            .collect()
    }
}

/// `doubts` are sources that could not be read or contradict each other.
fn judge(
    requirement: &Requirement,
    iommu: &Iommu,
    doubts: Vec<Finding>,
    groups: &DmaGroups,
    log: Vec<String>,
) -> Judgement {
    let (policy, exempt) = (requirement.policy, requirement.exempt_groups(groups));
    let translates = |(_, kind): &&(String, String)| kind != "identity";
    let (harmless, translating): (Vec<_>, Vec<_>) = groups
        .types
        .iter()
        .filter(translates)
        .partition(|(group, _)| exempt.contains(group));
    let finding = if let Some((group, kind)) = translating.first() {
        // A choice that is left to the firmware already has a finding; the tests that measure decide whether it is harmful.
        let severity = if policy == IommuPolicy::Firmware {
            Severity::Warn
        } else {
            Severity::Fail
        };
        let message = format!(
            "{} of {} IOMMU groups translate (group {group} is {kind}), expected 0",
            translating.len(),
            groups.types.len()
        );
        Code::IommuTranslating
            .finding(severity, Subject::Machine, message)
            .values(translating.len(), 0, Some("groups"))
    } else if policy == IommuPolicy::Off && in_use(iommu, groups) {
        let message = format!(
            "an IOMMU is in use: {} classes, {} groups, {} devices in groups, expected 0 of each",
            iommu.classes.len(),
            iommu.groups,
            groups.members.len()
        );
        Code::IommuNotOff
            .finding(Severity::Fail, Subject::Machine, message)
            .values("in use", "off", None)
    } else if iommu.mode == IommuMode::Unknown || iommu.groups != groups.types.len() {
        let message = "the sources about the IOMMU contradict each other or cannot be read";
        Code::IommuUnknown.finding(Severity::Error, Subject::Machine, message)
    } else {
        return Judgement::of(summary(iommu, groups, harmless.len()), doubts);
    };
    let doubts = doubts.into_iter().map(|d| d.message.to_string()).collect();
    Judgement::by(
        finding
            .seen_all(evidence(iommu, groups))
            .seen_all(doubts)
            .seen_all(log),
    )
}

fn in_use(iommu: &Iommu, groups: &DmaGroups) -> bool {
    !iommu.classes.is_empty()
        || iommu.groups > 0
        || !groups.types.is_empty()
        || !groups.members.is_empty()
}

fn summary(iommu: &Iommu, groups: &DmaGroups, harmless: usize) -> String {
    let firmware = match &iommu.firmware_tables[..] {
        [] => String::new(),
        tables => format!(" (firmware offers {})", tables.join(", ")),
    };
    match (iommu.classes.len(), groups.types.len()) {
        (0, 0) => format!("off: no IOMMU class, no groups{firmware}"),
        (classes, 0) => format!("no groups, {classes} IOMMU classes{firmware}"),
        (_, groups) if harmless == 0 => format!("{groups} groups, all identity{firmware}"),
        (_, groups) => format!(
            "{groups} groups: {harmless} translate, none of a GPU or network card that exchanges data directly; the others identity{firmware}"
        ),
    }
}

fn evidence(iommu: &Iommu, groups: &DmaGroups) -> Vec<String> {
    let list = |names: &[String]| match names {
        [] => "none".to_owned(),
        names => names.iter().take(8).cloned().collect::<Vec<_>>().join(" "),
    };
    let members: Vec<_> = groups
        .members
        .iter()
        .map(|(function, _)| function.clone())
        .collect();
    let types: Vec<_> = groups
        .types
        .iter()
        .map(|(group, kind)| format!("{group}:{kind}"))
        .collect();
    vec![
        format!("/sys/class/iommu: {}", list(&iommu.classes)),
        format!("/sys/kernel/iommu_groups/*/type: {}", list(&types)),
        format!("/sys/bus/pci/devices/*/iommu_group: {}", list(&members)),
        format!("ACPI tables: {}", list(&iommu.firmware_tables)),
    ]
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::suite::shared::fixture;
    use machine::host::{identity, platform};
    use machine::root::Root;
    use std::collections::BTreeMap;

    fn iommu(mode: IommuMode, classes: &[&str], groups: usize) -> Iommu {
        let classes = classes.iter().map(|c| (*c).to_owned()).collect();
        Iommu {
            mode,
            classes,
            groups,
            firmware_tables: vec!["DMAR".into()],
        }
    }

    fn groups(types: &[&str], members: &[&str]) -> DmaGroups {
        DmaGroups {
            types: (0..)
                .zip(types)
                .map(|(i, t): (i32, _)| (i.to_string(), (*t).to_owned()))
                .collect(),
            members: members
                .iter()
                .map(|m| ((*m).to_owned(), "0".to_owned()))
                .collect(),
        }
    }

    const fn all(policy: IommuPolicy) -> Requirement {
        Requirement {
            policy,
            functions: None,
        }
    }

    fn off() -> Iommu {
        iommu(IommuMode::Off, &[], 0)
    }

    #[test]
    fn no_source_shows_an_iommu_means_off() {
        let said = judge(
            &all(IommuPolicy::Off),
            &off(),
            vec![],
            &groups(&[], &[]),
            vec![],
        );
        assert_eq!((said.outcome(), said.findings.len()), (Outcome::Pass, 0));
        assert_eq!(
            said.summary,
            "off: no IOMMU class, no groups (firmware offers DMAR)"
        );
    }

    #[test]
    fn each_single_source_is_enough_to_fail() {
        let gpu = "0000:41:00.0";
        for (class, dma) in [
            (iommu(IommuMode::Off, &["dmar0"], 0), groups(&[], &[])),
            (
                iommu(IommuMode::Identity, &[], 1),
                groups(&["identity"], &[]),
            ),
            (off(), groups(&[], &[gpu])),
        ] {
            let said = judge(
                &all(IommuPolicy::Off),
                &class,
                vec![],
                &dma,
                vec!["kmsg: AMD-Vi: x".into()],
            );
            assert_eq!(said.outcome(), Outcome::Fail);
            assert!(said.findings[0].is(Code::IommuNotOff));
            assert_eq!(said.findings[0].evidence.len(), 5);
        }
    }

    #[test]
    fn the_line_about_a_kernel_word_is_no_evidence() {
        let shown = |text: &str| STATES.iter().any(|words| text.contains(words));
        assert!(!shown("DMAR: IOMMU enabled") && shown("AMD-Vi: Interrupt remapping enabled"));
        assert!(shown(
            "DMAR: Intel(R) Virtualization Technology for Directed I/O"
        ));
    }

    #[test]
    fn one_translating_group_among_many_fails_off_and_pt() {
        let class = iommu(IommuMode::Translated, &["dmar0"], 3);
        let dma = groups(&["identity", "DMA-FQ", "identity"], &[]);
        for policy in [IommuPolicy::Off, IommuPolicy::Pt] {
            let said = judge(&all(policy), &class, vec![], &dma, vec![]);
            assert!(said.outcome() == Outcome::Fail && said.findings[0].is(Code::IommuTranslating));
            assert_eq!(
                said.summary,
                "1 of 3 IOMMU groups translate (group 1 is DMA-FQ), expected 0"
            );
        }
        assert_eq!(
            judge(&all(IommuPolicy::Firmware), &class, vec![], &dma, vec![]).outcome(),
            Outcome::Warn
        );
    }

    #[test]
    fn identity_everywhere_is_pass_through() {
        let class = iommu(IommuMode::Identity, &["ivhd0"], 2);
        let said = judge(
            &all(IommuPolicy::Pt),
            &class,
            vec![],
            &groups(&["identity"; 2], &[]),
            vec![],
        );
        assert_eq!(said.outcome(), Outcome::Pass);
        assert_eq!(
            said.summary,
            "2 groups, all identity (firmware offers DMAR)"
        );
        assert_eq!(
            judge(
                &all(IommuPolicy::Pt),
                &off(),
                vec![],
                &groups(&[], &[]),
                vec![]
            )
            .outcome(),
            Outcome::Pass
        );
    }

    #[test]
    fn groups_that_were_counted_but_not_read_are_an_error() {
        let class = iommu(IommuMode::Identity, &[], 2);
        let said = judge(
            &all(IommuPolicy::Pt),
            &class,
            vec![],
            &groups(&["identity"], &[]),
            vec![],
        );
        assert_eq!(said.outcome(), Outcome::Error);
    }

    #[test]
    fn an_unreadable_source_is_an_error_not_off() {
        let doubt = Code::IommuUnknown.finding(
            Severity::Error,
            Subject::Machine,
            "/sys/class/iommu: denied",
        );
        let said = judge(
            &all(IommuPolicy::Off),
            &off(),
            vec![doubt],
            &groups(&[], &[]),
            vec![],
        );
        assert_eq!(said.outcome(), Outcome::Error);
        let unknown = iommu(IommuMode::Unknown, &[], 0);
        assert_eq!(
            judge(
                &all(IommuPolicy::Off),
                &unknown,
                vec![],
                &groups(&[], &[]),
                vec![]
            )
            .outcome(),
            Outcome::Error
        );
    }

    /// The host of so many GPUs of one device id.
    fn host(gpus: u8, device: &str) -> Host {
        let mut fabric = fixture::machine(gpus);
        for gpu in fabric.gpus.clone() {
            fixture::device(&mut fabric, gpu).device = device.to_owned();
        }
        let root = Root::new("/nowhere");
        platform::read(
            &root,
            Some(&fabric),
            &identity::read(&root),
            &BTreeMap::new(),
            &BTreeMap::new(),
        )
    }

    const GEFORCE: &str = "0x2684";

    fn policy(
        explicit: Option<IommuPolicy>,
        own_kernel: bool,
        host: &Host,
    ) -> Result<IommuPolicy, &'static str> {
        Requirement::of(explicit, own_kernel, host).map(|requirement| requirement.policy)
    }

    #[test]
    fn without_peers_nothing_is_demanded_and_translation_is_no_finding() {
        let why = policy(None, false, &host(1, GEFORCE)).unwrap_err();
        assert_eq!(
            why,
            "one GPU, and no network card that exchanges data with it"
        );
        let said = nothing_demanded(why, &groups(&["DMA-FQ", "identity", "DMA"], &[]));
        assert_eq!(
            (said.outcome(), &said.findings[..]),
            (Outcome::NotApplicable, &[][..])
        );
        assert_eq!(said.summary, format!("2 of 3 groups translate; {why}"));
        for quiet in [groups(&[], &[]), groups(&["identity"], &[])] {
            let said = nothing_demanded(why, &quiet);
            assert_eq!(
                (said.outcome(), said.summary.as_str()),
                (Outcome::NotApplicable, why)
            );
        }
    }

    #[test]
    fn below_xen_an_iommu_that_is_off_is_unknown_and_what_is_visible_is_judged() {
        let pass = judge(
            &all(IommuPolicy::Pt),
            &off(),
            vec![],
            &groups(&[], &[]),
            vec![],
        );
        let said = of_xen(pass);
        assert!(
            said.outcome() == Outcome::Warn && said.findings[0].is(Code::IommuUnknown),
            "{said:?}"
        );
        assert!(
            said.findings[0]
                .shown_remedy()
                .contains("dom0-iommu=passthrough"),
            "{said:?}"
        );
        let class = iommu(IommuMode::Translated, &["dmar0"], 1);
        let fails = judge(
            &all(IommuPolicy::Pt),
            &class,
            vec![],
            &groups(&["DMA"], &[]),
            vec![],
        );
        assert_eq!(of_xen(fails.clone()), fails);
    }

    #[test]
    fn two_gpus_must_not_be_translated_and_a_configuration_demands_its_own() {
        let requirement = Requirement::of(None, false, &host(2, GEFORCE)).unwrap();
        assert_eq!(
            (
                requirement.policy,
                requirement.functions.map(|all| all.len())
            ),
            (IommuPolicy::Pt, Some(2))
        );
        assert_eq!(
            policy(Some(IommuPolicy::Off), false, &host(1, GEFORCE)),
            Ok(IommuPolicy::Off)
        );
    }

    #[test]
    fn our_own_kernel_has_no_iommu_unless_the_machine_needs_one() {
        assert_eq!(policy(None, true, &host(2, GEFORCE)), Ok(IommuPolicy::Off));
        assert_eq!(policy(None, true, &host(0, GEFORCE)), Ok(IommuPolicy::Off));
        let mut many = host(2, GEFORCE);
        many.processors.present = Some(512);
        assert_eq!(policy(None, true, &many), Ok(IommuPolicy::Pt));
        assert!(
            policy(None, true, &host(1, "0x2e12")).is_err(),
            "an integrated GPU"
        );
    }

    #[test]
    fn grace_needs_translation() {
        for own_kernel in [false, true] {
            assert_eq!(policy(None, own_kernel, &host(2, "0x2342")), Err(OWN_LINK));
        }
    }

    /// Group 0 is the GPU's, group 1 a USB controller's.
    #[test]
    fn on_another_kernel_only_the_groups_of_gpus_and_cards_must_not_translate() {
        let (gpu, usb) = ("0000:41:00.0", "0000:05:00.0");
        let member = |function: &str, group: &str| (function.to_owned(), group.to_owned());
        let functions = Some(BTreeSet::from([gpu.to_owned()]));
        let requirement = Requirement {
            policy: IommuPolicy::Pt,
            functions,
        };
        let said = |types: &[&str], gpus_group: &str| {
            let members = vec![member(gpu, gpus_group), member(usb, "1")];
            let groups = DmaGroups {
                members,
                ..groups(types, &[])
            };
            judge(
                &requirement,
                &iommu(IommuMode::Translated, &["dmar0"], 2),
                vec![],
                &groups,
                vec![],
            )
        };
        let fine = said(&["identity", "DMA-FQ"], "0");
        assert_eq!(fine.outcome(), Outcome::Pass);
        assert!(
            fine.summary
                .starts_with("2 groups: 1 translate, none of a GPU"),
            "{}",
            fine.summary
        );
        assert_eq!(said(&["DMA-FQ", "identity"], "0").outcome(), Outcome::Fail);
        assert_eq!(said(&["identity", "DMA-FQ"], "1").outcome(), Outcome::Fail);
        // A function whose group is unknown may be in the one that translates.
        let unknown = DmaGroups {
            members: vec![],
            ..groups(&["identity", "DMA-FQ"], &[])
        };
        let class = iommu(IommuMode::Translated, &["dmar0"], 2);
        assert_eq!(
            judge(&requirement, &class, vec![], &unknown, vec![]).outcome(),
            Outcome::Fail
        );
    }
}
