//! What the Resizable BAR pass said about each GPU, from the fabric pass's journal: why BAR1 is as
//! small as it is, or that the pass made it large.

use super::Way;
use crate::finding::{Code, Finding, Severity};
use crate::host::modules::absent_is_none;
use crate::outcome::{Judgement, Outcome};
use crate::pcie::model::Device;
use crate::root::Root;
use serde::Deserialize;

/// Where `firstlight fabric fix` keeps its journal.
const JOURNAL: &str = "run/firstlight/fabric.json";

/// Of the journal only this counts here; a pass that touched no BAR says nothing.
#[derive(Deserialize)]
struct Said {
    #[serde(default)]
    findings: Vec<Finding>,
}

/// The pass's findings about BARs. No journal, no pass.
pub(super) fn read(root: &Root) -> Vec<Finding> {
    let said = absent_is_none(root.read(JOURNAL)).map_err(|e| e.to_string());
    let said = said.and_then(|bytes| {
        bytes.map(|b| serde_json::from_slice::<Said>(&b)).transpose().map_err(|e| e.to_string())
    });
    match said {
        Ok(said) => {
            let findings = said.into_iter().flat_map(|said| said.findings);
            findings.filter(|f| f.code.starts_with("REBAR-")).collect()
        }
        Err(why) => {
            let message = format!("what the fabric pass did is not known: /{JOURNAL}: {why}");
            vec![Code::SysUnreadable.finding(Severity::Warn, "machine", message)]
        }
    }
}

/// The judgement with what the pass said. Where peers do not go through BAR1 its size is no fault;
/// a GPU whose registers the pass could not repair is one everywhere.
pub(super) fn explained(said: Judgement, told: Vec<Finding>, gpus: &[(&Device, Way)]) -> Judgement {
    let native =
        |f: &Finding| gpus.iter().any(|(gpu, way)| *way == Way::Native && gpu.bdf.to_string() == f.subject);
    let weighed = told.into_iter().map(|mut finding| {
        if native(&finding) && finding.code != "REBAR-BROKEN" {
            finding.severity = Severity::Info;
        }
        finding
    });
    let more: Vec<_> = weighed.collect();
    let worst = more.iter().rev().filter(|f| f.severity > Severity::Info).max_by_key(|f| f.severity);
    let summary = worst.filter(|_| said.outcome() == Outcome::Pass).map(|f| f.message.clone());
    let mut said = said.with(more);
    said.summary = summary.unwrap_or(said.summary);
    said
}

#[cfg(test)]
mod tests {
    use super::super::super::fixture;
    use super::*;
    use crate::host::nvidia::fixture::machine;
    use serde_json::json;

    fn told(code: &str, severity: &str) -> Vec<Finding> {
        let finding = json!({ "code": code, "severity": severity, "subject": "0000:10:00.0", "message": "said",
            "measured": null, "expected": null, "unit": null, "evidence": [], "cause": "c", "remedy": "r" });
        let foreign = json!({ "code": "ACS-STUCK", "severity": "fail", "subject": "x", "message": "said",
            "measured": null, "expected": null, "unit": null, "evidence": [], "cause": "c", "remedy": "r" });
        let journal =
            json!({ "schema": "firstlight.journal/1", "entries": [], "findings": [finding, foreign] });
        read(&Root::new(machine(&[(JOURNAL, &journal.to_string())]).path()))
    }

    fn after(told: Vec<Finding>, way: Way) -> Judgement {
        let fabric = fixture::machine(1);
        let gpus: Vec<_> =
            fabric.devices.iter().filter(|d| fabric.gpus.contains(&d.bdf)).map(|d| (d, way)).collect();
        explained(Judgement::of("1 GPUs: 32 GiB", vec![]), told, &gpus)
    }

    #[test]
    fn what_the_pass_said_stands_beside_what_is_measured() {
        let said = after(told("REBAR-RESIZED", "info"), Way::Bar1);
        assert_eq!(
            (said.outcome(), said.findings.len(), said.summary.as_str()),
            (Outcome::Pass, 1, "1 GPUs: 32 GiB")
        );
        let said = after(told("REBAR-NO-ROOM", "fail"), Way::Bar1);
        assert_eq!((said.outcome(), said.summary.as_str()), (Outcome::Fail, "said"));
    }

    #[test]
    fn where_peers_go_another_way_only_a_broken_gpu_counts() {
        assert_eq!(after(told("REBAR-NO-ROOM", "fail"), Way::Native).outcome(), Outcome::Pass);
        assert_eq!(after(told("REBAR-BROKEN", "error"), Way::Native).outcome(), Outcome::Error);
    }

    #[test]
    fn no_journal_or_one_without_bars_says_nothing_and_a_damaged_one_warns() {
        assert_eq!(read(&Root::new(machine(&[]).path())), vec![]);
        assert_eq!(read(&Root::new(machine(&[(JOURNAL, "{\"entries\":[]}")]).path())), vec![]);
        let [finding] = &read(&Root::new(machine(&[(JOURNAL, "{")]).path()))[..] else { panic!("one") };
        assert!(finding.is(Code::SysUnreadable) && finding.severity == Severity::Warn);
    }
}
