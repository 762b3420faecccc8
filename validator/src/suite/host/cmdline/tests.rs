//! Lines of kernels, firstlight's own and others.

use super::*;
use outcome::Outcome;

const BUILT_IN: &str = "iommu=off,soft intel_iommu=off amd_iommu=off \
    pci=config_acs=0000000@pci:0:0 pcie_aspm.policy=performance console=ttyS0";

#[test]
fn the_built_in_line_passes_and_each_missing_parameter_does_not() {
    assert_eq!(
        judge(IommuPolicy::Off, BUILT_IN),
        Judgement::of("6 of 6 required parameters", vec![])
    );
    for word in [
        "intel_iommu=off",
        "amd_iommu=off",
        "config_acs=0000000@pci:0:0",
        "off,",
    ] {
        let said = judge(IommuPolicy::Off, &BUILT_IN.replacen(word, "", 1));
        assert_eq!(said.outcome(), Outcome::Fail, "{word}");
    }
    for word in [",soft", "pcie_aspm.policy=performance"] {
        let said = judge(IommuPolicy::Off, &BUILT_IN.replace(word, ""));
        assert_eq!(said.outcome(), Outcome::Warn, "{word}");
    }
}

#[test]
fn missing_parameters_are_reported_together() {
    let said = judge(IommuPolicy::Off, "quiet iommu=off");
    assert_eq!(
        said.summary,
        "1 of 6 required parameters; iommu=soft is missing"
    );
    assert_eq!(said.findings.len(), 2);
    let message = "the kernel command line lacks intel_iommu=off amd_iommu=off pci=config_acs=0000000@pci:0:0";
    assert_eq!(said.findings[0].message, message);
    assert_eq!(
        said.findings[0].evidence,
        ["/proc/cmdline: quiet iommu=off"]
    );
}

#[test]
fn a_later_rival_is_reported_and_judged_by_its_effect() {
    let line = format!("{BUILT_IN} iommu=on intel_iommu=on pci=config_acs=1111111@pci:0:0");
    let said = judge(IommuPolicy::Off, &line);
    assert_eq!(said.outcome(), Outcome::Pass);
    let messages: Vec<_> = said.findings.iter().map(|f| f.message.as_str()).collect();
    let acs = "pci=config_acs=0000000@pci:0:0 is followed by pci=config_acs=1111111@pci:0:0";
    assert_eq!(
        messages,
        ["intel_iommu=off is followed by intel_iommu=on", acs]
    );
    assert_eq!(
        judge(IommuPolicy::Off, &format!("intel_iommu=on {BUILT_IN}")).findings,
        []
    );
    // Nothing revokes these two.
    for word in [
        "iommu=on",
        "iommu=force",
        "iommu=pt",
        "amd_iommu=on",
        "amd_iommu=force_enable",
    ] {
        assert_eq!(
            judge(IommuPolicy::Off, &format!("{BUILT_IN} {word}")).findings,
            [],
            "{word}"
        );
    }
}

/// `iommu=pt`, `iommu=nopt` and `iommu.passthrough=` are one setting.
#[test]
fn the_last_word_about_pass_through_wins_across_keys() {
    let others = "pci=config_acs=0000000@pci:0:0 pcie_aspm.policy=performance";
    let said = |words: &str| {
        let findings = judge(IommuPolicy::Pt, &format!("{others} {words}")).findings;
        findings.into_iter().map(|f| f.message).collect::<Vec<_>>()
    };
    for (words, message) in [
        (
            "iommu=pt iommu.passthrough=0",
            "iommu=pt is followed by iommu.passthrough=0",
        ),
        (
            "iommu=pt iommu.passthrough=off",
            "iommu=pt is followed by iommu.passthrough=off",
        ),
        (
            "iommu=pt iommu.passthrough=N",
            "iommu=pt is followed by iommu.passthrough=N",
        ),
        (
            "iommu.passthrough=1 iommu=nopt",
            "iommu.passthrough=1 is followed by iommu=nopt",
        ),
        ("iommu=pt,nopt", "iommu=pt is followed by iommu=pt,nopt"),
        (
            "iommu=pt iommu=off",
            "iommu=pt has no force beside iommu=off",
        ),
        (
            "iommu=off iommu=pt",
            "iommu=pt has no force beside iommu=off",
        ),
    ] {
        assert_eq!(said(words), [message], "{words}");
    }
    for good in [
        "iommu=nopt iommu=pt",
        "iommu.passthrough=0 iommu=pt",
        "iommu=pt iommu.passthrough=0 iommu.passthrough=y",
        "iommu=pt iommu.passthrough=0 iommu=pt",
        "iommu=nopt,pt",
        "iommu.passthrough=on",
    ] {
        assert_eq!(said(good), Vec::<String>::new(), "{good}");
    }
}

#[test]
fn pass_through_needs_its_own_parameters() {
    let line = "iommu=pt pci=config_acs=0000000@pci:0:0 pcie_aspm.policy=performance";
    assert_eq!(judge(IommuPolicy::Pt, line).outcome(), Outcome::Pass);
    assert_eq!(judge(IommuPolicy::Pt, BUILT_IN).outcome(), Outcome::Fail);
    let arm64 = line.replace("iommu=pt", "iommu.passthrough=1");
    assert_eq!(
        judge(IommuPolicy::Pt, &arm64),
        Judgement::of("3 of 3 required parameters", vec![]),
        "{arm64}"
    );
    assert_eq!(
        judge(IommuPolicy::Pt, &arm64.replace("=1", "=0")).summary,
        "2 of 3 required parameters; iommu=pt is missing"
    );
    let later = judge(IommuPolicy::Pt, &format!("{arm64} iommu.passthrough=0"));
    assert_eq!(
        later.findings[0].message,
        "iommu.passthrough=1 is followed by iommu.passthrough=0"
    );
}

#[test]
fn another_kernels_parameters_are_counted_and_not_judged() {
    let said = judge_foreign_kernel(IommuPolicy::Off, "quiet iommu=pt amd_iommu=on");
    assert_eq!((said.outcome(), said.findings.len()), (Outcome::Pass, 0));
    assert_eq!(
        said.unchecked,
        [Code::CmdlineMissing, Code::CmdlineOverridden]
    );
    assert_eq!(
        said.summary,
        "0 of 6 of firstlight's own words; the tests iommu and acs judge their effect"
    );
    assert_eq!(
        judge_foreign_kernel(IommuPolicy::Off, BUILT_IN).findings,
        []
    );
}

#[test]
fn the_firmwares_choice_requires_nothing() {
    assert_eq!(
        judge(IommuPolicy::Firmware, "").outcome(),
        Outcome::NotApplicable
    );
    assert_eq!(
        judge_foreign_kernel(IommuPolicy::Firmware, "").outcome(),
        Outcome::NotApplicable
    );
}
