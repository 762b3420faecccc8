//! docs/deploy/kubernetes.md, pipelines.md and provisioning.md: their files against the schemas of the programs that read
//! them, their shell lines on reports of simulated GPUs, the Redfish script against an emulated management controller, and
//! the MAAS script on simulated GPUs.

use super::{BackgroundProcess, example, firstlight, python, sh, shell, simulated, wait, wheels};
use harness::workspace;
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
    let config = simulated(
        scenario,
        &at.join("sim"),
        &at.join("sim").display().to_string(),
    );
    let call = format!(
        "#!/bin/sh\nexec {} --config {} \"$@\"\n",
        firstlight().display(),
        config.display()
    );
    fs::create_dir(at.join("bin")).unwrap();
    for (name, text) in [
        ("firstlight", call.as_str()),
        ("sudo", "#!/bin/sh\nexec \"$@\"\n"),
    ] {
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
    let script =
        "import json, sys, yaml; json.dump(list(yaml.safe_load_all(open('in.yaml'))), sys.stdout)";
    serde_json::from_str(&python(at, &format!("-c \"{script}\""))).unwrap()
}

/// Checks each document of a file against the schema of its kind in the newest Kubernetes that the package knows. Its own
/// command passes a kind without a schema; here that is a failure.
fn follows_schema(at: &Path, file: &str) -> Output {
    let script = "import sys, yaml; from kubernetes_validate import utils; all = list(yaml.safe_load_all(open(sys.argv[1]))); \
        assert all and all[0]; [utils.validate(one, utils.latest_version(), True) for one in all]";
    shell(
        at,
        &format!(
            "PYTHONPATH={} python3 -c '{script}' {file}",
            wheels().display()
        ),
    )
}

#[test]
fn kubernetes_accepts_the_manifests_and_refuses_a_broken_one() {
    let dir = tempfile::tempdir().unwrap();
    let at = dir.path();
    for file in ["firstlight.yaml", "firstlight-operator.yaml", "pod.yaml"] {
        fs::write(at.join(file), example("kubernetes.md", file)).unwrap();
        let checked = follows_schema(at, file);
        assert!(checked.status.success(), "{file}: {checked:?}");
    }
    for (was, is) in [
        ("defaultMode: 0755", "defaultMode: \"0755\""),
        ("hostNetwork: true", "hostNetwrk: true"),
        ("kind: DaemonSet", "kind: DemonSet"),
        ("apiVersion: apps/v1", "apiVersion: apps/v2"),
    ] {
        let text = example("kubernetes.md", "firstlight-operator.yaml");
        assert!(text.contains(was), "{was}");
        fs::write(at.join("broken.yaml"), text.replace(was, is)).unwrap();
        let broken = follows_schema(at, "broken.yaml");
        assert!(!broken.status.success(), "{is}: {broken:?}");
    }
    // The operator's form replaces the DaemonSet of the other, and uses its settings.
    let named = |file: &str, kind: &str| {
        let all = yaml(at, &example("kubernetes.md", file));
        all.into_iter().find(|one| one["kind"] == kind).unwrap()
    };
    let (on_node, in_operator) = (
        named("firstlight.yaml", "DaemonSet"),
        named("firstlight-operator.yaml", "DaemonSet"),
    );
    assert_eq!(
        (&on_node["metadata"], &on_node["spec"]["selector"]),
        (&in_operator["metadata"], &in_operator["spec"]["selector"])
    );
    // That package has no schema for the controller's rule: check the required fields, and that both name the same condition.
    let rule = &yaml(at, &example("kubernetes.md", "firstlight-rule.yaml"))[0];
    let all = yaml(at, &example("kubernetes.md", "firstlight.yaml"));
    let plugin: Value =
        serde_json::from_str(all[1]["data"]["firstlight.json"].as_str().unwrap()).unwrap();
    assert_eq!(
        rule["spec"]["conditions"][0]["type"],
        plugin["conditions"][0]["type"]
    );
    assert_eq!(
        plugin["rules"][0]["condition"],
        plugin["conditions"][0]["type"]
    );
    assert_eq!(plugin["pluginConfig"]["max_output_length"], 80);
    assert_eq!(rule["spec"]["conditions"][0]["requiredStatus"], "False");
    assert!(
        rule["spec"]["taint"]["effect"].is_string() && rule["spec"]["nodeSelector"].is_object()
    );
}

#[test]
fn the_kubernetes_check_summarizes_the_report_in_80_characters() {
    let wrong = "verdict=FAIL failed=p2p-integrity codes=P2P-WRONG-DATA";
    for (scenario, words, status, line, label) in [
        ("healthy", "", 0, "verdict=PASS", "PASS"),
        (
            "in-use",
            "",
            0,
            "verdict=DEGRADED warned=cuda codes=GPU-IN-USE",
            "DEGRADED",
        ),
        ("zeros", "", 1, wrong, "FAIL"),
        (
            "healthy",
            "--only p2p-integrity",
            1,
            "scope is only:p2p-integrity, not machine; verdict=PASS",
            "PASS",
        ),
        ("", "", 1, "no report: the GPU test has not ended", "NONE"),
        ("damaged", "", 1, "the report cannot be read", "NONE"),
        (
            "other driver",
            "",
            1,
            "driver 1.2.3 is loaded, tested was 555.58.02",
            "NONE",
        ),
        (
            "tainted",
            "",
            0,
            "tainted as devices: 0000:01:00.0 0000:05:00.0",
            "FAIL",
        ),
        ("tainted before", "", 1, wrong, "FAIL"),
    ] {
        let known = match scenario {
            "" | "damaged" | "other driver" => "healthy",
            "tainted" | "tainted before" => "zeros",
            other => other,
        };
        let dir = commands(known);
        let at = dir.path();
        fs::create_dir(at.join("features")).unwrap();
        if scenario == "damaged" {
            fs::write(
                at.join("report.json"),
                "{\"schema\": \"firstlight.report/1\", ",
            )
            .unwrap();
        } else if !scenario.is_empty() {
            lines(
                at,
                &format!("firstlight validate --quiet {words} --json report.json"),
            );
        }
        let all = yaml(at, &example("kubernetes.md", "firstlight.yaml"));
        let check = all[1]["data"]["check.sh"].as_str().unwrap();
        let check = check.replace("/usr/bin/firstlight", &firstlight().display().to_string());
        let check = check.replace("/run/firstlight/report.json", "report.json");
        let check = check
            .replace("/run/firstlight/tainted", "tainted")
            .replace("/sys/module/nvidia/version", "loaded");
        let loaded = if scenario == "other driver" {
            "1.2.3\n"
        } else {
            "555.58.02\n"
        };
        if scenario != "damaged" {
            fs::write(at.join("loaded"), loaded).unwrap();
        }
        if scenario.starts_with("tainted") {
            let step = "drain 0000:01:00.0 0000:05:00.0\n";
            fs::write(
                at.join("tainted"),
                if scenario == "tainted" {
                    step
                } else {
                    "drain 0000:01:00.0\n"
                },
            )
            .unwrap();
        }
        let check = check.replace(
            "/etc/kubernetes/node-feature-discovery/features.d",
            "features",
        );
        fs::write(at.join("check.sh"), check).unwrap();
        let began = Instant::now();
        let output = lines(at, "sh check.sh");
        // The plugin's timeout, as the page sets it.
        assert!(began.elapsed() < Duration::from_secs(5));
        let text = String::from_utf8_lossy(&output.stdout);
        assert_eq!(text.trim_end(), line, "{scenario}: {output:?}");
        assert!(
            text.trim_end().len() <= 80 && output.status.code() == Some(status),
            "{output:?}"
        );
        let labels = fs::read_to_string(at.join("features/firstlight")).unwrap();
        let mut labels = labels.lines();
        assert!(labels.next().unwrap().starts_with("# +expiry-time=20"));
        assert_eq!(
            labels.next().unwrap(),
            format!("firstlight.verdict={label}")
        );
        assert_eq!(
            labels.next(),
            (label != "NONE").then_some("firstlight.gpus=2")
        );
        let step = if label == "FAIL" {
            "firstlight.next-step=drain"
        } else {
            "firstlight.next-step=none"
        };
        assert_eq!(labels.next(), (label != "NONE").then_some(step));
    }
}

/// A `kubectl` that answers `get` from files, and stores what is applied and which rule is deleted.
const KUBECTL: &str = "#!/bin/sh
case $1:$2 in
    get:resourceslices) cat slices.json ;;
    get:devicetaintrules) cat rules ;;
    apply:--server-side) { cat; echo ---; } >> applied.yaml ;;
    delete:devicetaintrule) echo $3 >> deleted ;;
    *) exit 1 ;;
esac
";

/// A script of the operator's form, with the paths of this folder.
fn script_of_operator(at: &Path, name: &str) {
    let all = yaml(at, &example("kubernetes.md", "firstlight-operator.yaml"));
    let script = all[0]["data"][name].as_str().unwrap();
    let script = script
        .replace("/run/firstlight/", "")
        .replace("/sys/module/nvidia/version", "loaded");
    fs::write(at.join(name), script).unwrap();
}

#[test]
fn the_operator_s_form_tests_once_for_each_boot_and_driver() {
    for (scenario, verdict) in [("healthy", "PASS"), ("zeros", "FAIL")] {
        let dir = commands(scenario);
        let at = dir.path();
        script_of_operator(at, "test.sh");
        let test = || lines(at, "sh test.sh");
        let seen = || {
            fs::metadata(at.join("report.json"))
                .and_then(|file| file.modified())
                .ok()
        };
        // Before the driver is loaded it does not begin, and leaves no report.
        assert!(!test().status.success() && seen().is_none());
        fs::write(at.join("loaded"), "555.58.02\n").unwrap();
        // Whatever the verdict, the report is the result.
        assert!(test().status.success());
        let report: Value =
            serde_json::from_slice(&fs::read(at.join("report.json")).unwrap()).unwrap();
        assert_eq!(report["verdict"], verdict);
        let first = seen();
        assert!(test().status.success());
        assert_eq!(seen(), first, "it was tested again");
        fs::write(at.join("loaded"), "580.95.05\n").unwrap();
        assert!(test().status.success());
        assert!(seen() != first, "another driver was not tested");
    }
}

#[test]
fn gpus_that_the_causes_name_become_taints_of_devices_and_nothing_else_does() {
    let device = |name: &str, bus: &str| serde_json::json!({ "name": name, "attributes": { "resource.kubernetes.io/pciBusID": { "string": bus }, "minor": { "int": 0 } } });
    let slices = |devices: &[Value]| serde_json::json!({ "items": [{ "spec": { "driver": "gpu.nvidia.com", "pool": { "name": "node7" }, "devices": devices } }] });
    let both = slices(&[
        device("gpu-0", "0000:01:00.0"),
        device("gpu-1", "0000:05:00.0"),
        device("gpu-2", "0000:41:00.0"),
    ]);
    let one = slices(&[device("gpu-0", "0000:01:00.0")]);
    let stale = "firstlight-node7-gpu-0 firstlight-node7-gpu-9";
    for (scenario, devices, rules, tainted, deleted) in [
        ("zeros", &both, "", &["gpu-0", "gpu-1"][..], ""),
        (
            "zeros",
            &both,
            stale,
            &["gpu-0", "gpu-1"],
            "firstlight-node7-gpu-9\n",
        ),
        // One of the GPUs is no device: the node stays tainted, and no device is.
        (
            "zeros",
            &one,
            stale,
            &[],
            "firstlight-node7-gpu-0\nfirstlight-node7-gpu-9\n",
        ),
        (
            "healthy",
            &both,
            stale,
            &[],
            "firstlight-node7-gpu-0\nfirstlight-node7-gpu-9\n",
        ),
    ] {
        let dir = commands(scenario);
        let at = dir.path();
        let kubectl = at.join("bin/kubectl");
        fs::write(&kubectl, KUBECTL).unwrap();
        fs::set_permissions(&kubectl, fs::Permissions::from_mode(0o755)).unwrap();
        fs::write(at.join("slices.json"), devices.to_string()).unwrap();
        fs::write(at.join("rules"), rules).unwrap();
        fs::write(at.join("tainted"), "of an earlier report\n").unwrap();
        lines(at, "firstlight validate --quiet --json report.json");
        script_of_operator(at, "taint.sh");
        let output = lines(at, "NODE_NAME=node7 sh taint.sh");
        assert!(output.status.success(), "{output:?}");
        let applied = fs::read_to_string(at.join("applied.yaml")).unwrap_or_default();
        let rules: Vec<_> = yaml(at, &applied)
            .into_iter()
            .filter(|rule| !rule.is_null())
            .collect();
        let named: Vec<_> = rules
            .iter()
            .map(|rule| rule["spec"]["deviceSelector"]["device"].as_str().unwrap())
            .collect();
        assert_eq!(named, tainted, "{scenario}");
        for rule in &rules {
            assert_eq!(
                (
                    &rule["spec"]["taint"]["value"],
                    &rule["spec"]["deviceSelector"]["pool"]
                ),
                (&"drain".into(), &"node7".into())
            );
            fs::write(at.join("rule.yaml"), rule.to_string()).unwrap();
            let checked = follows_schema(at, "rule.yaml");
            assert!(checked.status.success(), "{checked:?}");
            fs::write(
                at.join("rule.yaml"),
                rule.to_string().replace("\"effect\"", "\"efect\""),
            )
            .unwrap();
            assert!(!follows_schema(at, "rule.yaml").status.success());
        }
        assert_eq!(
            fs::read_to_string(at.join("deleted")).unwrap_or_default(),
            deleted,
            "{scenario}"
        );
        let marked = fs::read_to_string(at.join("tainted")).ok();
        assert_eq!(marked.is_some(), !tainted.is_empty(), "{marked:?}");
        // Without an answer of the cluster nothing is marked as tainted.
        fs::remove_file(at.join("slices.json")).unwrap();
        fs::remove_file(at.join("tainted")).ok();
        assert_eq!(
            lines(at, "NODE_NAME=node7 sh taint.sh").status.success(),
            scenario == "healthy"
        );
        assert!(!at.join("tainted").exists());
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
        let script: Vec<_> = job["script"]
            .as_array()
            .unwrap()
            .iter()
            .map(|line| line.as_str().unwrap())
            .collect();
        // GitLab's shell ends at the first line that fails.
        let output = lines(at, &format!("set -eo pipefail\n{}", script.join("\n")));
        assert_eq!(output.status.code(), Some(status), "{scenario}: {output:?}");
        assert_eq!(job["allow_failure"]["exit_codes"], serde_json::json!([3]));
        let kept = &job["artifacts"];
        let mut files: Vec<_> = kept["paths"]
            .as_array()
            .unwrap()
            .iter()
            .map(|f| f.as_str().unwrap().to_owned())
            .collect();
        files.push(kept["reports"]["junit"].as_str().unwrap().to_owned());
        check_and_remove(at, &files);

        let blocks: Vec<_> = jenkins.split("'''").skip(1).step_by(2).collect();
        let [test, render] = blocks[..] else {
            panic!("{jenkins}")
        };
        assert_eq!(lines(at, test).status.code(), Some(status));
        assert!(lines(at, render).status.success());
        let archived = jenkins
            .split("archiveArtifacts '")
            .nth(1)
            .unwrap()
            .split('\'')
            .next()
            .unwrap();
        check_and_remove(
            at,
            &archived.split(", ").map(str::to_owned).collect::<Vec<_>>(),
        );
    }
}

/// Checks that the files exist and are complete, and removes them for the next job.
fn check_and_remove(at: &Path, files: &[String]) {
    assert!(
        files.len() == 3 && files.iter().any(|file| file == "junit.xml"),
        "{files:?}"
    );
    python(
        at,
        "-c \"import xml.dom.minidom as m; m.parse('junit.xml')\"",
    );
    assert!(
        fs::read_to_string(at.join("report.html"))
            .unwrap()
            .contains("</html>")
    );
    for file in files {
        fs::remove_file(at.join(file)).unwrap_or_else(|e| panic!("{file}: {e}"));
    }
}

#[test]
fn gitlab_s_schema_accepts_the_pipeline_and_refuses_a_broken_one() {
    let dir = tempfile::tempdir().unwrap();
    let at = dir.path();
    fs::write(at.join("ci.yml"), example("pipelines.md", ".gitlab-ci.yml")).unwrap();
    let check =
        "-m check_jsonschema --builtin-schema vendor.gitlab-ci --data-transform gitlab-ci ci.yml";
    python(at, check);
    sh(
        at,
        "sed -i 's/exit_codes: \\[3\\]/exit_codes: three/' ci.yml",
    );
    let broken = shell(
        at,
        &format!("PYTHONPATH={} python3 {check}", super::wheels().display()),
    );
    assert!(!broken.status.success(), "{broken:?}");
}

/// The words of a file that come after `./run `: the recipes that it calls.
fn recipes(text: &str) -> Vec<&str> {
    let calls = text
        .lines()
        .map(str::trim_start)
        .filter(|line| !line.starts_with('#'))
        .flat_map(|line| line.split("./run ").skip(1));
    calls
        .map(|rest| rest.split([' ', '"']).next().unwrap())
        .collect()
}

#[test]
fn the_pipelines_that_build_the_image_follow_their_schemas_and_call_recipes_that_exist() {
    let dir = tempfile::tempdir().unwrap();
    let at = dir.path();
    let known = fs::read_to_string(workspace().join("Justfile")).unwrap();
    let exists = |recipe: &str| {
        known
            .lines()
            .any(|line| line.starts_with(recipe) && line[recipe.len()..].starts_with([' ', ':']))
    };
    assert!(exists("media") && exists("sign") && !exists("medium"));
    for (file, schema, was, is) in [
        (
            ".gitlab-ci.yml",
            "vendor.gitlab-ci --data-transform gitlab-ci",
            "resource_group: network-boot",
            "resource_group: [network-boot]",
        ),
        (
            ".github/workflows/image.yml",
            "vendor.github-workflows",
            "runs-on: [self-hosted",
            "run-on: [self-hosted",
        ),
    ] {
        let text = example("image-pipeline.md", file);
        let called = recipes(&text);
        assert!(
            called.contains(&"media") && called.contains(&"sign"),
            "{called:?}"
        );
        assert!(called.iter().all(|recipe| exists(recipe)), "{called:?}");
        let check = |text: &str| {
            fs::write(at.join("ci.yml"), text).unwrap();
            let check = format!("-m check_jsonschema --builtin-schema {schema} ci.yml");
            shell(
                at,
                &format!("PYTHONPATH={} python3 {check}", wheels().display()),
            )
        };
        let checked = check(&text);
        assert!(checked.status.success(), "{file}: {checked:?}");
        assert!(text.contains(was), "{was}");
        assert!(
            !check(&text.replace(was, is)).status.success(),
            "{file}: {is}"
        );
    }
    // What they check and copy is what the scripts make.
    let sign = fs::read_to_string(workspace().join("image/trust/sign.sh")).unwrap();
    assert!(
        sign.contains("SHA256SUMS\"") && sign.contains("/pxe"),
        "sign.sh makes other files"
    );
    let page = fs::read_to_string(workspace().join("docs/deploy/image-pipeline.md")).unwrap();
    assert!(
        page.contains("--folder target/image/signed/pxe")
            && page.contains("target/image/signed/pxe/ ")
    );
}

fn port() -> u16 {
    TcpListener::bind("127.0.0.1:0")
        .unwrap()
        .local_addr()
        .unwrap()
        .port()
}

#[test]
fn a_machine_boots_our_iso_once_from_virtual_media_and_ejects_it() {
    let dir = tempfile::tempdir().unwrap();
    let at = dir.path();
    let (bmc, http) = (port(), port());
    fs::write(
        at.join("redfish-boot.py"),
        example("provisioning.md", "redfish-boot.py"),
    )
    .unwrap();
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
        command
            .args(words)
            .env("PYTHONPATH", wheels())
            .current_dir(at)
            .stdin(Stdio::null());
        BackgroundProcess::start(command.stdout(log.try_clone().unwrap()).stderr(log))
    };
    let _emulator = background(
        &[
            "-c",
            "from sushy_tools.emulator.main import main; main()",
            "--fake",
            "--config",
            "emulator.conf",
        ],
        "emulator.log",
    );
    let _server = background(
        &[
            "-m",
            "http.server",
            "--directory",
            "www",
            "--bind",
            "127.0.0.1",
            &http.to_string(),
        ],
        "http.log",
    );
    let base = format!("http://127.0.0.1:{bmc}");
    let ask = |path: &str| {
        let output = shell(at, &format!("curl -sf {base}{path}"));
        serde_json::from_slice::<serde_json::Value>(&output.stdout).ok()
    };
    let systems = wait("the emulator", || ask("/redfish/v1/Systems"));
    let system = systems["Members"][0]["@odata.id"]
        .as_str()
        .unwrap()
        .to_owned();
    wait("the web server", || {
        shell(
            at,
            &format!("curl -sf -o /dev/null http://127.0.0.1:{http}/"),
        )
        .status
        .success()
        .then_some(())
    });

    let iso = format!("http://127.0.0.1:{http}/firstlight.iso");
    let name = system.rsplit('/').next().unwrap();
    let printed = python(at, &format!("redfish-boot.py {base} {iso} {name}"));
    assert!(printed.contains("boots http://127.0.0.1"), "{printed}");
    // The machine needs some time to power on.
    let machine = wait("power", || {
        ask(&system).filter(|machine| machine["PowerState"] == "On")
    });
    assert_eq!(
        machine["Boot"]["BootSourceOverrideTarget"], "Cd",
        "{machine}"
    );
    let drive = || ask(&format!("{system}/VirtualMedia/Cd")).unwrap();
    assert_eq!(
        (&drive()["Inserted"], &drive()["Image"]),
        (&true.into(), &iso.clone().into())
    );
    python(at, &format!("redfish-boot.py {base} --eject {name}"));
    assert_eq!(drive()["Inserted"], false);
    // An ISO that the controller cannot read is an error.
    let gone = shell(
        at,
        &format!(
            "PYTHONPATH={} python3 redfish-boot.py {base} {iso}.gone {name}",
            wheels().display()
        ),
    );
    assert!(!gone.status.success(), "{gone:?}");
}

#[test]
fn the_script_for_maas_gives_each_verdict_its_status() {
    for (scenario, status, word) in [
        ("healthy", 0, "passed"),
        ("in-use", 0, "degraded"),
        ("zeros", 1, "failed"),
    ] {
        let dir = commands(scenario);
        let at = dir.path();
        let script = example("provisioning.md", "firstlight-maas.sh");
        fs::write(at.join("maas.sh"), &script).unwrap();
        let run = "RESULT_PATH=result OUTPUT_COMBINED_PATH=out bash maas.sh --level=quick";
        let output = lines(at, run);
        assert_eq!(output.status.code(), Some(status), "{output:?}");
        assert_eq!(
            yaml(at, &fs::read_to_string(at.join("result")).unwrap())[0]["status"],
            word
        );
        assert!(at.join("out.report.json").exists());
        // The metadata that MAAS reads is YAML between two markers.
        let header = script
            .split("script metadata ---\n")
            .nth(1)
            .unwrap()
            .split("# --- End")
            .next()
            .unwrap();
        let header: String = header
            .lines()
            .map(|line| format!("{}\n", line.strip_prefix("# ").unwrap()))
            .collect();
        let header = &yaml(at, &header)[0];
        assert_eq!(
            (&header["name"], &header["script_type"]),
            (&"firstlight".into(), &"testing".into())
        );
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
    fs::write(
        at.join("script.sh"),
        all[1]["data"]["check.sh"].as_str().unwrap(),
    )
    .unwrap();
    sh(at, "shellcheck -S warning script.sh");
    let operator = yaml(at, &example("kubernetes.md", "firstlight-operator.yaml"));
    for script in ["test.sh", "taint.sh"] {
        fs::write(
            at.join("script.sh"),
            operator[0]["data"][script].as_str().unwrap(),
        )
        .unwrap();
        sh(at, "shellcheck -S warning script.sh");
    }
    fs::write(at.join("script.sh"), "#!/bin/sh\nif [ $a = b ] then fi\n").unwrap();
    assert!(
        !shell(at, "shellcheck -S warning script.sh")
            .status
            .success()
    );
}
