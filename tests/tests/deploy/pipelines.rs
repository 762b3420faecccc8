//! docs/deploy/kubernetes.md, pipelines.md and provisioning.md: their files against the schemas of the programs that read
//! them, their shell lines on reports of simulated GPUs, the Redfish script against an emulated management controller, and
//! the MAAS script on simulated GPUs.

use super::{BackgroundProcess, example, firstlight, python, sh, shell, simulated, wait, wheels};
use serde_json::Value;
use std::fs;
use std::net::TcpListener;
use std::os::unix::fs::PermissionsExt;
use std::path::Path;
use std::process::{Command, Output, Stdio};
use std::time::{Duration, Instant};
use tempfile::TempDir;

/// A folder `bin` with `firstlight`, which judges the simulated GPUs of this scenario, and `sudo`.
pub(crate) fn commands(scenario: &str) -> TempDir {
    let dir = tempfile::tempdir().unwrap();
    let at = dir.path();
    let config = simulated(scenario, &at.join("sim"), &at.join("sim").display().to_string());
    let call = format!("#!/bin/sh\nexec {} --config {} \"$@\"\n", firstlight().display(), config.display());
    fs::create_dir(at.join("bin")).unwrap();
    for (name, text) in [("firstlight", call.as_str()), ("sudo", "#!/bin/sh\nexec \"$@\"\n")] {
        let file = at.join("bin").join(name);
        fs::write(&file, text).unwrap();
        fs::set_permissions(&file, fs::Permissions::from_mode(0o755)).unwrap();
    }
    dir
}

/// Runs shell lines in that folder with its commands.
pub(crate) fn lines(at: &Path, script: &str) -> Output {
    shell(at, &format!("PATH=$PWD/bin:$PATH; {script}"))
}

/// YAML as JSON, one value for each document.
pub(crate) fn yaml(at: &Path, text: &str) -> Vec<Value> {
    fs::write(at.join("in.yaml"), text).unwrap();
    let script = "import json, sys, yaml; json.dump(list(yaml.safe_load_all(open('in.yaml'))), sys.stdout)";
    serde_json::from_str(&python(at, &format!("-c \"{script}\""))).unwrap()
}

#[test]
fn kubernetes_accepts_the_manifests_and_refuses_a_broken_one() {
    let dir = tempfile::tempdir().unwrap();
    let at = dir.path();
    let check = "-c 'import sys; from kubernetes_validate.__main__ import main; sys.exit(main())' --strict";
    for file in ["firstlight.yaml", "pod.yaml"] {
        fs::write(at.join(file), example("kubernetes.md", file)).unwrap();
        python(at, &format!("{check} {file}"));
    }
    sh(at, "sed -i 's/defaultMode: 0755/defaultMode: \"0755\"/' firstlight.yaml");
    let broken = shell(at, &format!("PYTHONPATH={} python3 {check} firstlight.yaml", super::wheels().display()));
    assert!(!broken.status.success(), "{broken:?}");
    // That package has no schema for the controller's rule: check the required fields, and that both name the same condition.
    let rule = &yaml(at, &example("kubernetes.md", "firstlight-rule.yaml"))[0];
    let all = yaml(at, &example("kubernetes.md", "firstlight.yaml"));
    let plugin: Value = serde_json::from_str(all[1]["data"]["firstlight.json"].as_str().unwrap()).unwrap();
    assert_eq!(rule["spec"]["conditions"][0]["type"], plugin["conditions"][0]["type"]);
    assert_eq!(plugin["rules"][0]["condition"], plugin["conditions"][0]["type"]);
    assert_eq!(plugin["pluginConfig"]["max_output_length"], 80);
    assert_eq!(rule["spec"]["conditions"][0]["requiredStatus"], "False");
    assert!(rule["spec"]["taint"]["effect"].is_string() && rule["spec"]["nodeSelector"].is_object());
}

#[test]
fn the_kubernetes_check_summarizes_the_report_in_80_characters() {
    let wrong = "verdict=FAIL failed=p2p-integrity codes=P2P-WRONG-DATA";
    for (scenario, words, status, line, label) in [
        ("healthy", "", 0, "verdict=PASS", "PASS"),
        ("in-use", "", 0, "verdict=DEGRADED warned=cuda codes=GPU-IN-USE", "DEGRADED"),
        ("zeros", "", 1, wrong, "FAIL"),
        ("healthy", "--only p2p-integrity", 1, "scope is only:p2p-integrity, not machine; verdict=PASS", "PASS"),
        ("", "", 1, "no report: firstlight.service has not ended", "NONE"),
        ("damaged", "", 1, "the report cannot be read", "NONE"),
    ] {
        let known = if ["", "damaged"].contains(&scenario) { "healthy" } else { scenario };
        let dir = commands(known);
        let at = dir.path();
        fs::create_dir(at.join("features")).unwrap();
        if scenario == "damaged" {
            fs::write(at.join("report.json"), "{\"schema\": \"firstlight.report/1\", ").unwrap();
        } else if !scenario.is_empty() {
            lines(at, &format!("firstlight validate --quiet {words} --json report.json"));
        }
        let all = yaml(at, &example("kubernetes.md", "firstlight.yaml"));
        let check = all[1]["data"]["check.sh"].as_str().unwrap();
        let check = check.replace("/usr/bin/firstlight", &firstlight().display().to_string());
        let check = check.replace("/run/firstlight/report.json", "report.json");
        let check = check.replace("/etc/kubernetes/node-feature-discovery/features.d", "features");
        fs::write(at.join("check.sh"), check).unwrap();
        let began = Instant::now();
        let output = lines(at, "sh check.sh");
        // The plugin's timeout, as the page sets it.
        assert!(began.elapsed() < Duration::from_secs(5));
        let text = String::from_utf8_lossy(&output.stdout);
        assert_eq!(text.trim_end(), line, "{scenario}: {output:?}");
        assert!(text.trim_end().len() <= 80 && output.status.code() == Some(status), "{output:?}");
        let labels = fs::read_to_string(at.join("features/firstlight")).unwrap();
        let mut labels = labels.lines();
        assert!(labels.next().unwrap().starts_with("# +expiry-time=20"));
        assert_eq!(labels.next().unwrap(), format!("firstlight.verdict={label}"));
        assert_eq!(labels.next(), (label != "NONE").then_some("firstlight.gpus=2"));
    }
}

/// Scenarios, and the exit status of a job on them.
const VERDICTS: [(&str, i32); 3] = [("healthy", 0), ("in-use", 3), ("zeros", 1)];

#[test]
fn the_jobs_of_gitlab_and_jenkins_end_with_the_verdict_and_leave_the_report() {
    let gitlab = example("pipelines.md", ".gitlab-ci.yml");
    let jenkins = example("pipelines.md", "Jenkinsfile");
    for (scenario, status) in VERDICTS {
        let dir = commands(scenario);
        let at = dir.path();
        let file = yaml(at, &gitlab);
        let job = &file[0]["gpu-test"];
        let script: Vec<_> = job["script"].as_array().unwrap().iter().map(|line| line.as_str().unwrap()).collect();
        // GitLab's shell ends at the first line that fails.
        let output = lines(at, &format!("set -eo pipefail\n{}", script.join("\n")));
        assert_eq!(output.status.code(), Some(status), "{scenario}: {output:?}");
        assert_eq!(job["allow_failure"]["exit_codes"], serde_json::json!([3]));
        let kept = &job["artifacts"];
        let mut files: Vec<_> =
            kept["paths"].as_array().unwrap().iter().map(|f| f.as_str().unwrap().to_owned()).collect();
        files.push(kept["reports"]["junit"].as_str().unwrap().to_owned());
        check_and_remove(at, &files);

        let blocks: Vec<_> = jenkins.split("'''").skip(1).step_by(2).collect();
        let [test, render] = blocks[..] else { panic!("{jenkins}") };
        assert_eq!(lines(at, test).status.code(), Some(status));
        assert!(lines(at, render).status.success());
        let archived = jenkins.split("archiveArtifacts '").nth(1).unwrap().split('\'').next().unwrap();
        check_and_remove(at, &archived.split(", ").map(str::to_owned).collect::<Vec<_>>());
    }
}

/// Checks that the files exist and are complete, and removes them for the next job.
fn check_and_remove(at: &Path, files: &[String]) {
    assert!(files.len() == 3 && files.iter().any(|file| file == "junit.xml"), "{files:?}");
    python(at, "-c \"import xml.dom.minidom as m; m.parse('junit.xml')\"");
    assert!(fs::read_to_string(at.join("report.html")).unwrap().contains("</html>"));
    for file in files {
        fs::remove_file(at.join(file)).unwrap_or_else(|e| panic!("{file}: {e}"));
    }
}

#[test]
fn gitlab_s_schema_accepts_the_pipeline_and_refuses_a_broken_one() {
    let dir = tempfile::tempdir().unwrap();
    let at = dir.path();
    fs::write(at.join("ci.yml"), example("pipelines.md", ".gitlab-ci.yml")).unwrap();
    let check = "-m check_jsonschema --builtin-schema vendor.gitlab-ci --data-transform gitlab-ci ci.yml";
    python(at, check);
    sh(at, "sed -i 's/exit_codes: \\[3\\]/exit_codes: three/' ci.yml");
    let broken = shell(at, &format!("PYTHONPATH={} python3 {check}", super::wheels().display()));
    assert!(!broken.status.success(), "{broken:?}");
}

fn port() -> u16 {
    TcpListener::bind("127.0.0.1:0").unwrap().local_addr().unwrap().port()
}

#[test]
fn a_machine_boots_our_iso_once_from_virtual_media_and_ejects_it() {
    let dir = tempfile::tempdir().unwrap();
    let at = dir.path();
    let (bmc, http) = (port(), port());
    fs::write(at.join("redfish-boot.py"), example("provisioning.md", "redfish-boot.py")).unwrap();
    fs::create_dir(at.join("www")).unwrap();
    fs::write(at.join("www/firstlight.iso"), b"an image").unwrap();
    fs::write(
        at.join("emulator.conf"),
        format!(
            "SUSHY_EMULATOR_LISTEN_IP = '127.0.0.1'\nSUSHY_EMULATOR_LISTEN_PORT = {bmc}\nSUSHY_EMULATOR_STATE_DIR = '{}'\n\
             SUSHY_EMULATOR_FAKE_DRIVER = True\n",
            at.display()
        ),
    )
    .unwrap();
    let background = |words: &[&str], log: &str| {
        let log = fs::File::create(at.join(log)).unwrap();
        let mut command = Command::new("python3");
        command.args(words).env("PYTHONPATH", wheels()).current_dir(at).stdin(Stdio::null());
        BackgroundProcess::start(command.stdout(log.try_clone().unwrap()).stderr(log))
    };
    let _emulator = background(
        &["-c", "from sushy_tools.emulator.main import main; main()", "--fake", "--config", "emulator.conf"],
        "emulator.log",
    );
    let _server =
        background(&["-m", "http.server", "--directory", "www", "--bind", "127.0.0.1", &http.to_string()], "http.log");
    let base = format!("http://127.0.0.1:{bmc}");
    let ask = |path: &str| {
        let output = shell(at, &format!("curl -sf {base}{path}"));
        serde_json::from_slice::<serde_json::Value>(&output.stdout).ok()
    };
    let systems = wait("the emulator", || ask("/redfish/v1/Systems"));
    let system = systems["Members"][0]["@odata.id"].as_str().unwrap().to_owned();
    wait("the web server", || {
        shell(at, &format!("curl -sf -o /dev/null http://127.0.0.1:{http}/")).status.success().then_some(())
    });

    let iso = format!("http://127.0.0.1:{http}/firstlight.iso");
    let name = system.rsplit('/').next().unwrap();
    let printed = python(at, &format!("redfish-boot.py {base} {iso} {name}"));
    assert!(printed.contains("boots http://127.0.0.1"), "{printed}");
    // The machine needs some time to power on.
    let machine = wait("power", || ask(&system).filter(|machine| machine["PowerState"] == "On"));
    assert_eq!(machine["Boot"]["BootSourceOverrideTarget"], "Cd", "{machine}");
    let drive = || ask(&format!("{system}/VirtualMedia/Cd")).unwrap();
    assert_eq!((&drive()["Inserted"], &drive()["Image"]), (&true.into(), &iso.clone().into()));
    python(at, &format!("redfish-boot.py {base} --eject {name}"));
    assert_eq!(drive()["Inserted"], false);
    // An ISO that the controller cannot read is an error.
    let gone =
        shell(at, &format!("PYTHONPATH={} python3 redfish-boot.py {base} {iso}.gone {name}", wheels().display()));
    assert!(!gone.status.success(), "{gone:?}");
}

#[test]
fn the_script_for_maas_gives_each_verdict_its_status() {
    for (scenario, status, word) in [("healthy", 0, "passed"), ("in-use", 0, "degraded"), ("zeros", 1, "failed")] {
        let dir = commands(scenario);
        let at = dir.path();
        let script = example("provisioning.md", "firstlight-maas.sh");
        fs::write(at.join("maas.sh"), &script).unwrap();
        let run = "RESULT_PATH=result OUTPUT_COMBINED_PATH=out bash maas.sh --level=quick";
        let output = lines(at, run);
        assert_eq!(output.status.code(), Some(status), "{output:?}");
        assert_eq!(yaml(at, &fs::read_to_string(at.join("result")).unwrap())[0]["status"], word);
        assert!(at.join("out.report.json").exists());
        // The metadata that MAAS reads is YAML between two markers.
        let header = script.split("script metadata ---\n").nth(1).unwrap().split("# --- End").next().unwrap();
        let header: String = header.lines().map(|line| format!("{}\n", line.strip_prefix("# ").unwrap())).collect();
        let header = &yaml(at, &header)[0];
        assert_eq!((&header["name"], &header["script_type"]), (&"firstlight".into(), &"testing".into()));
        assert!(!lines(at, "bash maas.sh --levl=quick").status.success());
    }
}

#[test]
fn the_scripts_of_the_pages_are_clean() {
    let dir = tempfile::tempdir().unwrap();
    let at = dir.path();
    for (page, file) in [
        ("provisioning.md", "firstlight-maas.sh"),
        ("provisioning.md", "firstlight-ironic.sh"),
        ("slurm.md", "/etc/slurm/firstlight.sh"),
    ] {
        fs::write(at.join("script.sh"), example(page, file)).unwrap();
        sh(at, "shellcheck -S warning script.sh");
    }
    let all = yaml(at, &example("kubernetes.md", "firstlight.yaml"));
    fs::write(at.join("script.sh"), all[1]["data"]["check.sh"].as_str().unwrap()).unwrap();
    sh(at, "shellcheck -S warning script.sh");
    fs::write(at.join("script.sh"), "#!/bin/sh\nif [ $a = b ] then fi\n").unwrap();
    assert!(!shell(at, "shellcheck -S warning script.sh").status.success());
}
