use super::*;
use serde_json::json;

#[test]
fn a_report_has_every_key_of_its_schema() {
    let mut report = Report::new(true);
    report.image = Some(Image {
        version: "555.58.02".into(),
        source: "debian".into(),
        patch: "1".into(),
        kernel: "6.12".into(),
        nccl: "2.29.7".into(),
    });
    report.modules.push(Module {
        name: "nvidia".into(),
        file: "/m/nvidia.ko".into(),
        version: Some("555.58.02".into()),
        vermagic: None,
        patch: None,
        srcversion: None,
        parameters: "A=1".into(),
        outcome: Outcome::NotTried,
        errno: Some(19),
        error: Some("ENODEV".into()),
    });
    report.parameters.push(Parameter {
        module: "nvidia".into(),
        name: "A".into(),
        wanted: "1".into(),
        found: None,
    });
    report.nodes.push(Node { path: "/dev/nvidiactl".into(), major: 195, minor: 255 });
    let finding = Finding::fail(Code::DriverNoGpu, "nvidia", "m".into()).shown_by(vec!["kernel: x".into()]);
    report.findings.push(finding.as_severe_as(Severity::Info));
    let value = serde_json::to_value(&report).unwrap();
    assert_eq!(
        value,
        json!({
            "schema": "firstlight.driver/1", "load": true,
            "image": { "version": "555.58.02", "source": "debian", "patch": "1", "kernel": "6.12", "nccl": "2.29.7" },
            "gpus": [], "families": [], "nvswitches": [],
            "modules": [ { "name": "nvidia", "file": "/m/nvidia.ko", "version": "555.58.02", "vermagic": null, "patch": null,
                "srcversion": null, "parameters": "A=1", "outcome": "not-tried", "errno": 19, "error": "ENODEV" } ],
            "parameters": [ { "module": "nvidia", "name": "A", "wanted": "1", "found": null } ],
            "nodes": [ { "path": "/dev/nvidiactl", "major": 195, "minor": 255 } ], "held": [],
            "findings": [ { "code": "DRIVER-NO-GPU", "severity": "info", "subject": "nvidia", "message": "m", "evidence": ["kernel: x"] } ],
            "seconds": 0.0
        })
    );
    assert_eq!(serde_json::from_value::<Report>(value).unwrap(), report);
}

#[test]
fn codes_are_written_as_the_validator_spells_them() {
    let names =
        [Code::GpuNoGsp, Code::GspMissing, Code::NvswitchNoManager, Code::PatchMissing].map(Code::name);
    assert_eq!(names, ["GPU-NO-GSP", "GSP-MISSING", "NVSWITCH-NO-MANAGER", "PATCH-MISSING"]);
}
