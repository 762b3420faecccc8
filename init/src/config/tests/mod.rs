//! Layers become one configuration, or every error in them.

mod layers;

use super::types::{
    CardSelector, DeviceSpec, NetworkMode, OnExit, Screen, WatchdogMode, WorkloadMode,
};
use super::*;
use cmdline::words;

fn file(source: LayerSource, path: &str, text: &str) -> ConfigFile {
    ConfigFile {
        source,
        path: path.into(),
        text: text.into(),
    }
}

fn built(text: &str, line: &str) -> Result<Config, InvalidConfig> {
    build(
        &[file(
            LayerSource::Image,
            "/etc/firstlight/config.toml",
            text,
        )],
        &words(line),
    )
}

fn errors(text: &str, line: &str) -> Vec<String> {
    built(text, line)
        .unwrap_err()
        .errors
        .iter()
        .map(ToString::to_string)
        .collect()
}

#[test]
fn an_empty_file_gives_the_documented_defaults() {
    let c = built("", "").unwrap();
    assert_eq!(c.driver.load, None);
    assert_eq!(c.driver.modules, ["nvidia", "nvidia-uvm"]);
    assert_eq!(c.driver.timeout_s.as_secs(), 300);
    assert_eq!(
        (&c.network.connection, c.network.hostname.as_str()),
        (&NetworkMode::None, "firstlight")
    );
    assert_eq!(
        (c.policy.on_pass, c.policy.on_degraded),
        (Action::Workload, Action::Workload)
    );
    assert_eq!(
        (c.policy.on_fail, c.policy.on_error),
        (Action::Hold, Action::Hold)
    );
    assert_eq!(
        (&c.workload.handover, c.workload.on_exit),
        (&WorkloadMode::None, OnExit::PowerOff)
    );
    assert_eq!(
        c.report.partition,
        Some(DeviceSpec::Label("FIRSTLIGHT".into()))
    );
    assert!(!c.report.any_disk && !c.report.required);
    assert_eq!(c.report.keep, 20);
    assert_eq!(c.console.screen, Screen::Auto);
    assert_eq!(
        (c.watchdog.mode, c.watchdog.timeout_s.as_secs()),
        (WatchdogMode::Auto, 60)
    );
    assert!(!c.workload.watchdog);
    assert_eq!(c.validator.timeout.as_secs(), 900);
    assert_eq!(c.validator.files, ["/etc/firstlight/config.toml"]);
}

#[test]
fn modules_are_locked_by_default_only_for_exec() {
    let exec = "[workload]\nmode = \"exec\"\nexec = [\"/bin/x\"]\n";
    assert!(built(exec, "").unwrap().workload.lock_modules);
    assert!(!built(exec, "").unwrap().workload.user_namespaces);
    assert!(
        built(exec, "firstlight.workload.user_namespaces=true")
            .unwrap()
            .workload
            .user_namespaces
    );
    assert!(
        !built(exec, "firstlight.workload.lock_modules=false")
            .unwrap()
            .workload
            .lock_modules
    );
    let switch = "[workload]\nmode = \"switch-root\"\nroot = \"LABEL=R\"\n";
    assert!(!built(switch, "").unwrap().workload.lock_modules);
    assert!(built(switch, "").unwrap().workload.user_namespaces);
}

#[test]
fn a_mode_without_what_it_needs_is_refused() {
    for (text, key) in [
        ("[workload]\nmode = \"exec\"\n", "workload.exec"),
        ("[workload]\nmode = \"switch-root\"\n", "workload.root"),
        (
            "[workload]\nmode = \"exec\"\nexec = [\"bin/x\"]\n",
            "workload.exec",
        ),
        (
            "[workload]\nmode = \"switch-root\"\nroot = \"http://h/r.squashfs\"\n",
            "workload.root",
        ),
        ("[network]\nmode = \"static\"\n", "network.address"),
        (
            "[network]\nmode = \"static\"\naddress = \"10.0.0.2\"\n",
            "network.address",
        ),
        (
            "[network]\nmode = \"static\"\naddress = \"10.0.0.2/8\"\ngateway = \"fd00::1\"\n",
            "network.gateway",
        ),
        ("[report]\nurl = \"h/reports\"\n", "report.url"),
        (
            "[report]\nurl = \"http://h/\"\n[network]\nmode = \"none\"\n",
            "network.mode",
        ),
        (
            "[network]\nmode = \"none\"\ntime = [\"10.0.0.1\"]\n",
            "network.mode",
        ),
        ("[network]\ntime = [\"ntp://h\"]\n", "network.time"),
        ("[network]\ndns = [\"ns1\"]\n", "network.dns"),
        ("[network]\nca = \"ca.pem\"\n", "network.ca"),
        ("[network]\ninterface = \"a:b\"\n", "network.interface"),
        (
            "[network]\nmode = \"link-local\"\nports = [\"a:b\"]\n",
            "network.ports",
        ),
        (
            "[network]\nmode = \"dhcp\"\nports = [\"eth1\"]\n",
            "network.ports",
        ),
        ("[network]\nports = [\"eth1\"]\n", "network.ports"),
        (
            "[network]\nmode = \"link-local\"\ninterface = \"eth1\"\n",
            "network.interface",
        ),
        (
            "[network]\nmode = \"link-local\"\naddress = \"10.0.0.2/8\"\n",
            "network.address",
        ),
        (
            "[network]\nmode = \"link-local\"\ngateway = \"10.0.0.1\"\n",
            "network.gateway",
        ),
        (
            "[network]\nmode = \"link-local\"\ntime = [\"h\", \"dhcp\"]\n",
            "network.time",
        ),
        (
            "[network]\nmode = \"link-local\"\ntimeout_s = 2\n",
            "network.timeout_s",
        ),
        (
            "[network]\nmode = \"none\"\nsoft_roce = true\n",
            "network.mode",
        ),
        ("[report]\npartition = \"sda1\"\n", "report.partition"),
        ("[console]\nserial = [\"tty S0\"]\n", "console.serial"),
        ("[driver]\nmodules = [\"../evil\"]\n", "driver.modules"),
        ("[watchdog]\nmode = \"on\"\n", "watchdog.mode"),
        ("[watchdog]\ntimeout_s = 9\n", "watchdog.timeout_s"),
        ("[watchdog]\ntimeout_s = 601\n", "watchdog.timeout_s"),
        (
            "[watchdog]\nmode = \"off\"\n[workload]\nwatchdog = true\n",
            "workload.watchdog",
        ),
    ] {
        let lines = errors(text, "");
        assert!(
            lines[0].contains(&format!(": {key}: read ")),
            "{text}: {lines:?}"
        );
    }
}

#[test]
fn all_errors_are_reported_not_only_the_first() {
    assert_eq!(
        errors("[report]\nkeep = 0\nkep = 1\n", "firstlight.x.y=1").len(),
        3
    );
}

#[test]
fn after_an_error_the_valid_layers_policy_counts() {
    let reboot = "[policy]\non_error = \"reboot\"\n";
    assert_eq!(
        built(reboot, "firstlight.report.keep=0")
            .unwrap_err()
            .on_error,
        Action::Reboot
    );
}

#[test]
fn after_an_error_in_the_policy_itself_the_machine_holds() {
    let reboot = "[policy]\non_error = \"reboot\"\n";
    assert_eq!(
        built(reboot, "firstlight.policy.on_pass=go")
            .unwrap_err()
            .on_error,
        Action::Hold
    );
}

#[test]
fn a_broken_configuration_never_starts_the_workload() {
    let text = "[policy]\non_error = \"workload\"\n";
    assert_eq!(
        built(text, "firstlight.report.keep=0")
            .unwrap_err()
            .on_error,
        Action::Hold
    );
}

const SHELL: &str = "[policy]\non_error = \"shell\"\n";
const ALLOWED: &str = "[policy]\nallow_shell = true\n";

#[test]
fn a_shell_needs_an_image_that_allows_it_and_is_otherwise_one_line_and_hold() {
    let refused = built(SHELL, "").unwrap_err();
    assert_eq!(refused.on_error, Action::Hold);
    let [line] = &refused.errors[..] else {
        panic!("{:?}", refused.errors)
    };
    assert_eq!(
        line.to_string(),
        "/etc/firstlight/config.toml: policy.on_error: read \"shell\"; allowed: workload, \
         workload-without-p2p, hold, reboot, poweroff; shell where a file of the image has \
         policy.allow_shell = true"
    );
    for source in [LayerSource::Partition, LayerSource::Server] {
        let both = format!("{ALLOWED}on_error = \"shell\"\n");
        let refused = build(&[file(source, "f", &both)], &[]).unwrap_err();
        assert_eq!(
            (refused.errors.len(), refused.on_error),
            (2, Action::Hold),
            "{source:?}"
        );
        let image = file(LayerSource::Image, "i", ALLOWED);
        let config = build(&[image, file(source, "f", SHELL)], &[]).unwrap();
        assert_eq!(config.policy.on_error, Action::Shell, "{source:?}");
    }
    let word = "firstlight.policy.on_pass=shell";
    assert_eq!(built(ALLOWED, word).unwrap().policy.on_pass, Action::Shell);
    assert_eq!(built("", word).unwrap_err().errors.len(), 1);
    assert_eq!(
        built("", &format!("{word} firstlight.policy.allow_shell=true"))
            .unwrap_err()
            .errors
            .len(),
        2
    );
}

#[test]
fn an_error_elsewhere_never_opens_a_shell_that_the_image_does_not_allow() {
    let error = || {
        vec![ConfigError::Unreadable {
            place: "p".into(),
            why: "w".into(),
        }]
    };
    let files = [
        file(LayerSource::Image, "i", ""),
        file(LayerSource::Partition, "d", SHELL),
    ];
    assert_eq!(refuse(&files, &[], error()).on_error, Action::Hold);
    let files = [
        file(LayerSource::Image, "i", ALLOWED),
        file(LayerSource::Partition, "d", SHELL),
    ];
    assert_eq!(refuse(&files, &[], error()).on_error, Action::Shell);
}

#[test]
fn a_file_without_a_valid_signature_holds_whatever_the_other_layers_want() {
    let reboot = [file(
        LayerSource::Image,
        "i",
        "[policy]\non_error = \"reboot\"\n",
    )];
    let error = ConfigError::Signature {
        place: "p".into(),
        why: "w".into(),
    };
    assert_eq!(refuse(&reboot, &[], vec![error]).on_error, Action::Hold);
    assert!(errors("[config]\nkey = \"RW\"\n", "")[0].contains("allowed: a minisign public key"));
}

/// What each kind of layer sets, and what is in force.
#[test]
fn a_server_overrides_a_disk_unless_the_image_or_the_server_wants_it_otherwise() {
    let keep = |n: u8| format!("[report]\nkeep = {n}\n");
    let disk_first = "[config]\ndisk_overrides_server = true\n";
    for (image, server, word, want, order) in [
        ("", "", "", 3, "ids"),
        (disk_first, "", "", 2, "isd"),
        ("", disk_first, "", 2, "isd"),
        (
            disk_first,
            "[config]\ndisk_overrides_server = false\n",
            "",
            3,
            "ids",
        ),
        (disk_first, "", "firstlight.report.keep=4", 4, "isd"),
    ] {
        let files = [
            file(LayerSource::Image, "i", &format!("{image}{}", keep(1))),
            file(LayerSource::Partition, "d", &keep(2)),
            file(LayerSource::Server, "s", &format!("{server}{}", keep(3))),
        ];
        let config = build(&files, &words(word)).unwrap();
        assert_eq!(
            (config.report.keep, config.validator.files.concat().as_str()),
            (want, order),
            "{image}"
        );
        assert_eq!(
            config.overridden.len(),
            usize::from(order == "ids"),
            "{:?}",
            config.overridden
        );
    }
    let files = [
        file(LayerSource::Image, "i", ""),
        file(LayerSource::Partition, "d", disk_first),
    ];
    assert_eq!(build(&files, &[]).unwrap_err().on_error, Action::Hold);
}

#[test]
fn only_the_image_and_a_kernel_word_name_any_disk() {
    let named = "[report]\npartition = \"LABEL=X\"\n";
    for (source, any_disk) in [
        (LayerSource::Image, true),
        (LayerSource::Partition, false),
        (LayerSource::Server, false),
    ] {
        let report = build(&[file(source, "f", named)], &[]).unwrap().report;
        assert_eq!(
            (report.any_disk, report.required),
            (any_disk, true),
            "{source:?}"
        );
    }
    let report = built("", "firstlight.report.partition=/dev/vda")
        .unwrap()
        .report;
    assert!(report.any_disk && report.required);
    let report = built("", "firstlight.report.required=true").unwrap().report;
    assert!(
        !report.any_disk
            && report.required
            && report.partition == Some(DeviceSpec::default_partition())
    );
}

#[test]
fn an_empty_partition_means_none_and_no_error() {
    let c = built("[report]\npartition = \"\"\n", "").unwrap();
    assert_eq!(c.report.partition, None);
}

#[test]
fn what_needs_a_network_gets_one_unless_a_layer_says_how() {
    let url = "[report]\nurl = \"http://h/\"\n";
    assert_eq!(
        built(url, "").unwrap().network.connection,
        NetworkMode::Dhcp
    );
    let root = format!("root = \"http://h/r#sha256={}\"\n", "0".repeat(64));
    let root = |mode: &str| format!("[workload]\nmode = \"{mode}\"\nexec = [\"/x\"]\n{root}");
    assert_eq!(
        built(&root("switch-root"), "").unwrap().network.connection,
        NetworkMode::Dhcp
    );
    assert_eq!(
        built(&root("exec"), "").unwrap().network.connection,
        NetworkMode::None
    );
    assert_eq!(
        built("", "firstlight.network.time=dhcp,h")
            .unwrap()
            .network
            .connection,
        NetworkMode::Dhcp
    );
    let fixed = format!("{url}[network]\nmode = \"static\"\naddress = \"10.0.0.2/8\"\n");
    assert!(matches!(
        built(&fixed, "").unwrap().network.connection,
        NetworkMode::Static { .. }
    ));
    let word = format!("firstlight.config=http://h/x#sha256={}", "0".repeat(64));
    let config = built("", &word).unwrap();
    assert_eq!(
        (config.network.connection, config.remote.unwrap().url),
        (NetworkMode::Dhcp, "http://h/x".to_owned())
    );
    let lines = errors("", "firstlight.config=http://h/x");
    assert!(
        lines[0].starts_with("kernel word firstlight.config: config: read http://h/x; allowed: ")
    );
}

#[test]
fn the_card_is_the_one_that_is_named_else_the_one_booted_from_else_any() {
    let (bootif, mac) = ("BOOTIF=01-52-54-00-12-34-57", |text| {
        super::mac::Mac::parse(text).unwrap()
    });
    let card = |text: &str, line: &str| built(text, line).unwrap().network.interface;
    assert_eq!(card("", ""), CardSelector::Any);
    assert_eq!(card("", "BOOTIF=floppy"), CardSelector::Any);
    assert_eq!(
        card("", bootif),
        CardSelector::BootedFrom(mac("52:54:00:12:34:57"))
    );
    assert_eq!(
        card("[network]\ninterface = \"eth1\"\n", bootif),
        CardSelector::Name("eth1".into())
    );
    let named = "[network]\ninterface = \"52:54:00:12:34:56\"\n";
    assert_eq!(
        card(named, bootif),
        CardSelector::Mac(mac("52:54:00:12:34:56"))
    );
}

#[test]
fn ports_are_named_or_all_and_rdma_is_started_where_several_machines_need_it() {
    let network = |text: &str, line: &str| built(text, line).unwrap().network;
    let mode = "firstlight.network.mode=link-local";
    assert_eq!(network("", mode).connection, NetworkMode::LinkLocal(vec![]));
    let named = network(
        "",
        &format!("{mode} firstlight.network.ports=eth1,52:54:00:12:34:56"),
    );
    let mac = super::mac::Mac::parse("525400123456").unwrap();
    let ports = vec![CardSelector::Name("eth1".into()), CardSelector::Mac(mac)];
    assert_eq!(named.connection, NetworkMode::LinkLocal(ports));
    let url = "[report]\nurl = \"http://169.254.7.9/\"\n[network]\ntime = [\"169.254.7.9\"]\ninterface = \"\"\n";
    assert_eq!(
        network(url, mode).connection,
        NetworkMode::LinkLocal(vec![])
    );
    let rdma = |text: &str, line: &str| {
        let network = network(text, line);
        (network.rdma, network.soft_roce)
    };
    assert_eq!(rdma("", mode), (true, false));
    assert_eq!(rdma("", "firstlight.network.mode=dhcp"), (false, false));
    assert_eq!(
        rdma("[network]\nmode = \"dhcp\"\nsoft_roce = true\n", ""),
        (true, true)
    );
    assert_eq!(rdma("[nodes]\nsize = 2\n", ""), (true, false));
    assert_eq!(rdma("[nodes]\n", ""), (false, false));
    assert_eq!(rdma("", "firstlight.nodes.size=2"), (true, false));
    assert_eq!(
        built("[network]\nsoft_roce = true\n", "")
            .unwrap()
            .network
            .connection,
        NetworkMode::Dhcp
    );
    assert_eq!(
        network("[network]\ntimeout_s = 3\n", mode)
            .timeout_s
            .as_secs(),
        3
    );
    assert_eq!(
        network("[network]\ntimeout_s = 2\n", "")
            .timeout_s
            .as_secs(),
        2
    );
    assert_eq!(
        errors("[network]\ntimeout_s = 2\n", mode),
        [
            "/etc/firstlight/config.toml: network.timeout_s: read 2; allowed: 3 to 86400 seconds, because network.mode is \
          link-local: probing an address takes 2 of them"
        ]
    );
    assert_eq!(
        errors(
            "[network]\nmode = \"link-local\"\naddress = \"10.0.0.2/8\"\n",
            ""
        ),
        [
            "/etc/firstlight/config.toml: network.address: read \"10.0.0.2/8\"; allowed: \"\", because network.mode is \
          link-local: network.ports names the ports"
        ]
    );
}

#[test]
fn the_word_that_clears_a_mark_has_one_value() {
    assert!(!built("", "").unwrap().clear_reset);
    assert!(built("", "firstlight.reset=clear").unwrap().clear_reset);
    let line = "kernel word firstlight.reset: reset: read yes; allowed: clear";
    assert_eq!(errors("", "firstlight.reset=yes"), [line]);
}

#[test]
fn the_kernels_hostname_counts_when_the_key_is_absent() {
    assert_eq!(
        built("", "hostname=node7").unwrap().network.hostname,
        "node7"
    );
    let c = built("[network]\nhostname = \"a\"\n", "hostname=node7").unwrap();
    assert_eq!(c.network.hostname, "a");
}
