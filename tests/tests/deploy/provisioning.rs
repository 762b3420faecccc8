//! docs/deploy/provisioning.md: the Redfish script against an emulated management controller, the MAAS script on simulated GPUs.

use super::pipelines::{commands, lines, yaml};
use super::{Running, example, python, sh, shell, wait, wheels};
use std::fs;
use std::net::TcpListener;
use std::process::{Command, Stdio};

fn port() -> u16 {
    TcpListener::bind("127.0.0.1:0").unwrap().local_addr().unwrap().port()
}

#[test]
fn a_machine_boots_our_iso_once_by_virtual_media_and_gives_it_back() {
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
        Running::start(command.stdout(log.try_clone().unwrap()).stderr(log))
    };
    let _emulator = background(
        &["-c", "from sushy_tools.emulator.main import main; main()", "--fake", "--config", "emulator.conf"],
        "emulator.log",
    );
    let _server = background(
        &["-m", "http.server", "--directory", "www", "--bind", "127.0.0.1", &http.to_string()],
        "http.log",
    );
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
    let said = python(at, &format!("redfish-boot.py {base} {iso} {name}"));
    assert!(said.contains("boots http://127.0.0.1"), "{said}");
    // The machine takes its time to be on.
    let machine = wait("power", || ask(&system).filter(|machine| machine["PowerState"] == "On"));
    assert_eq!(machine["Boot"]["BootSourceOverrideTarget"], "Cd", "{machine}");
    let drive = || ask(&format!("{system}/VirtualMedia/Cd")).unwrap();
    assert_eq!((&drive()["Inserted"], &drive()["Image"]), (&true.into(), &iso.clone().into()));
    python(at, &format!("redfish-boot.py {base} --eject {name}"));
    assert_eq!(drive()["Inserted"], false);
    // An ISO that the controller cannot read is an error.
    let gone = shell(
        at,
        &format!("PYTHONPATH={} python3 redfish-boot.py {base} {iso}.gone {name}", wheels().display()),
    );
    assert!(!gone.status.success(), "{gone:?}");
}

#[test]
fn the_script_for_maas_gives_each_verdict_its_status() {
    for (scenario, status, word) in
        [("healthy", 0, "passed"), ("in-use", 0, "degraded"), ("zeros", 1, "failed")]
    {
        let dir = commands(scenario);
        let at = dir.path();
        let script = example("provisioning.md", "firstlight-maas.sh");
        fs::write(at.join("maas.sh"), &script).unwrap();
        let run = "RESULT_PATH=result OUTPUT_COMBINED_PATH=out bash maas.sh --level=quick";
        let output = lines(at, run);
        assert_eq!(output.status.code(), Some(status), "{output:?}");
        assert_eq!(yaml(at, &fs::read_to_string(at.join("result")).unwrap())[0]["status"], word);
        assert!(at.join("out.report.json").exists());
        // The words that MAAS reads are YAML between two marks.
        let header = script.split("script metadata ---\n").nth(1).unwrap().split("# --- End").next().unwrap();
        let header: String =
            header.lines().map(|line| format!("{}\n", line.strip_prefix("# ").unwrap())).collect();
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
