//! docs/deploy/slurm.md with Slurm's own daemons on one host. The script is the page's; only its paths are adapted to the test.

use super::{BackgroundProcess, example, firstlight, laid_out, sh, shell, simulated, wait};
use harness::simgpu::Scenario;
use std::fs;
use std::net::TcpListener;
use std::os::unix::fs::PermissionsExt;
use std::path::{Path, PathBuf};
use std::process::{Command, Stdio};
use tempfile::TempDir;

/// A Slurm cluster on this host; its daemons end when it is dropped.
struct Cluster {
    _daemons: Vec<BackgroundProcess>,
    dir: TempDir,
}

/// A port that nothing listens on.
fn port() -> u16 {
    TcpListener::bind("127.0.0.1:0")
        .unwrap()
        .local_addr()
        .unwrap()
        .port()
}

fn daemon(dir: &Path, program: &str, words: &[&str]) -> BackgroundProcess {
    let log = fs::File::create(dir.join(format!("{program}.out"))).unwrap();
    let mut command = Command::new(format!("/usr/sbin/{program}"));
    command
        .args(words)
        .env("SLURM_CONF", dir.join("slurm.conf"))
        .stdin(Stdio::null());
    BackgroundProcess::start(command.stdout(log.try_clone().unwrap()).stderr(log))
}

/// Writes Slurm's settings for nodes on this host, with additional lines, and munge's key.
fn configure(at: &Path, nodes: &[&str], lines: &str) {
    for folder in ["state", "spool"] {
        fs::create_dir(at.join(folder)).unwrap();
    }
    let host = sh(at, "hostname -s");
    let node = |name: &&str| {
        format!(
            "NodeName={name} NodeHostname={} NodeAddr=127.0.0.1 Port={} CPUs=1\n",
            host.trim(),
            port()
        )
    };
    let nodes: String = nodes.iter().map(node).collect();
    let (here, munge) = (at.display(), at.join("munge.socket"));
    fs::write(
        at.join("slurm.conf"),
        format!(
            "ClusterName=test\nSlurmctldHost=localhost\nSlurmctldPort={}\nSlurmUser=root\nSlurmdUser=root\n\
             AuthType=auth/munge\nAuthInfo=socket={}\nCredType=cred/munge\n\
             StateSaveLocation={here}/state\nSlurmdSpoolDir={here}/spool/%n\n\
             SlurmctldPidFile={here}/ctld.pid\nSlurmdPidFile={here}/%n.pid\nSlurmctldLogFile={here}/ctld.log\nSlurmdLogFile={here}/%n.log\n\
             ProctrackType=proctrack/linuxproc\nTaskPlugin=task/none\nJobAcctGatherType=jobacct_gather/none\nMpiDefault=none\n\
             SelectType=select/cons_tres\nReturnToService=1\n{lines}\n{nodes}\
             PartitionName=all Nodes=ALL Default=YES OverSubscribe=EXCLUSIVE State=UP\n",
            port(),
            munge.display(),
        ),
    )
    .unwrap();
    fs::write(at.join("cgroup.conf"), "CgroupPlugin=cgroup/v1\n").unwrap();
    sh(
        at,
        "head -c 128 /dev/urandom > munge.key; chmod 400 munge.key",
    );
}

/// Starts munge's daemon, the controller and the daemon of each node.
fn daemons(at: &Path, nodes: &[&str]) -> Vec<BackgroundProcess> {
    let option = |name: &str, file: &str| format!("--{name}={}", at.join(file).display());
    let munge = [
        "--foreground".to_owned(),
        "--force".to_owned(),
        option("key-file", "munge.key"),
        option("socket", "munge.socket"),
        option("pid-file", "munge.pid"),
        option("log-file", "munge.log"),
        option("seed-file", "munge.seed"),
    ];
    let munge: Vec<_> = munge.iter().map(String::as_str).collect();
    let first = [
        daemon(at, "munged", &munge),
        daemon(at, "slurmctld", &["-D", "-i"]),
    ];
    first
        .into_iter()
        .chain(
            nodes
                .iter()
                .map(|node| daemon(at, "slurmd", &["-D", "-N", node])),
        )
        .collect()
}

impl Cluster {
    /// One node, with the page's lines of slurm.conf but a shorter interval; `prolog` and `health` select which lines are used.
    fn start(prolog: bool, health: bool, scenario: &str) -> Self {
        let dir = tempfile::Builder::new()
            .prefix("fl")
            .tempdir_in("/tmp")
            .unwrap();
        let at = dir.path();
        fs::set_permissions(at, fs::Permissions::from_mode(0o755)).unwrap();
        let script = at.join("firstlight.sh");
        let text = example("slurm.md", "/etc/slurm/firstlight.sh");
        let (ours, config) = (
            firstlight().display().to_string(),
            at.join("config.toml").display().to_string(),
        );
        for word in [
            "$(firstlight next-step",
            " firstlight --config",
            "/etc/firstlight/config.toml",
            "/run/firstlight",
        ] {
            assert!(text.contains(word), "{word}");
        }
        let text = text.replace(" firstlight --config", &format!(" {ours} --config"));
        let text = text.replace("$(firstlight next-step", &format!("$({ours} next-step"));
        let text = text
            .replace("/etc/firstlight/config.toml", &config)
            .replace("/run/firstlight", &format!("{}/run", at.display()));
        // slurmd does not pass SLURM_CONF on to the program.
        let text = text.replacen(
            "set -u\n",
            &format!("set -u\nexport SLURM_CONF={}/slurm.conf\n", at.display()),
            1,
        );
        fs::write(&script, text).unwrap();
        fs::set_permissions(&script, fs::Permissions::from_mode(0o755)).unwrap();

        let lines: Vec<_> = example("slurm.md", "slurm.conf")
            .lines()
            .map(str::to_owned)
            .collect();
        let wanted = |line: &&String| match line.split('=').next().unwrap_or_default() {
            key if key.starts_with("Prolog") => prolog,
            key => health && key.starts_with("HealthCheck"),
        };
        let lines: Vec<_> = lines.iter().filter(wanted).map(String::as_str).collect();
        let lines = lines
            .join("\n")
            .replace("/etc/slurm/firstlight.sh", &script.display().to_string());
        let lines = lines.replace("HealthCheckInterval=600", "HealthCheckInterval=3");
        fs::create_dir(at.join("run")).unwrap();
        configure(at, &["node7"], &lines);
        let mut cluster = Self {
            _daemons: Vec::new(),
            dir,
        };
        cluster.switch_to(scenario);
        cluster._daemons = daemons(cluster.at(), &["node7"]);
        cluster.wait_for("a node that is up", |node| {
            !node.contains("UNKNOWN") && !node.contains("NOT_RESPONDING") && node.contains("State=")
        });
        cluster
    }

    fn at(&self) -> &Path {
        self.dir.path()
    }

    /// Replaces the node's simulated GPUs by those of this scenario.
    fn switch_to(&self, scenario: &str) {
        let folder = self.at().join(scenario);
        let config = if folder.exists() {
            folder.join("config.toml")
        } else {
            simulated(scenario, &folder, &folder.display().to_string())
        };
        let new = self.at().join("config.new");
        fs::copy(config, &new).unwrap();
        fs::rename(new, self.at().join("config.toml")).unwrap();
    }

    fn slurm(&self, words: &str) -> std::process::Output {
        shell(
            self.at(),
            &format!("export SLURM_CONF=$PWD/slurm.conf; {words}"),
        )
    }

    /// State and reason of the node.
    fn node(&self) -> String {
        let output = self.slurm("scontrol show node --oneliner node7");
        let all = String::from_utf8_lossy(&output.stdout).into_owned();
        let reason = all.split(" Reason=").nth(1).unwrap_or_default().to_owned();
        let state = all
            .split(" State=")
            .nth(1)
            .and_then(|rest| rest.split(' ').next())
            .unwrap_or_default();
        if state.is_empty() {
            String::new()
        } else {
            format!("State={state} Reason={reason}")
        }
    }

    #[track_caller]
    fn wait_for(&self, what: &str, holds: impl Fn(&str) -> bool) -> String {
        wait(
            &format!("{what}; logs in {:?}: {}", self.at(), self.node()),
            || Some(self.node()).filter(|node| holds(node)),
        )
    }

    /// Waits until the health check has run twice.
    fn next_check(&self) {
        let report: PathBuf = self.at().join("run/slurm.json");
        for _ in 0..2 {
            let before = fs::metadata(&report).and_then(|m| m.modified()).ok();
            wait("a health check", || {
                (fs::metadata(&report).and_then(|m| m.modified()).ok() != before).then_some(())
            });
        }
    }
}

fn idle(node: &str) -> bool {
    node.starts_with("State=IDLE ")
}

fn drained_by_us(node: &str) -> bool {
    node.contains("DRAIN")
        && node.contains(
            "Reason=firstlight: FIRSTLIGHT verdict=FAIL failed=p2p-integrity codes=P2P-WRONG-DATA",
        )
        && node.contains("; next: drain 0000:01:00.0 0000:05:00.0")
}

#[test]
fn the_health_check_drains_with_the_verdict_and_resumes_only_what_it_drained() {
    let cluster = Cluster::start(false, true, "healthy");
    cluster.next_check();
    cluster.wait_for("an idle node", idle);
    let job = cluster.slurm("srun -N1 echo ran");
    assert_eq!(String::from_utf8_lossy(&job.stdout), "ran\n", "{job:?}");

    cluster.switch_to("zeros");
    cluster.wait_for("a drain", drained_by_us);
    cluster.switch_to("healthy");
    let resumed = cluster.wait_for("a node that is resumed", idle);
    assert!(resumed.ends_with("Reason="), "the reason stays: {resumed}");

    let output = cluster.slurm("scontrol update nodename=node7 state=drain reason='bad fan'");
    assert!(output.status.success(), "{output:?}");
    cluster.next_check();
    let kept = |node: &str| node.contains("DRAIN") && node.contains("Reason=bad fan");
    assert!(kept(&cluster.node()), "{}", cluster.node());
    // A fault does not replace the administrator's reason either.
    cluster.switch_to("zeros");
    cluster.next_check();
    assert!(kept(&cluster.node()), "{}", cluster.node());
}

#[test]
fn a_hanging_gpu_and_refused_settings_drain_the_node() {
    let cluster = Cluster::start(false, true, "healthy");
    cluster.next_check();
    cluster.wait_for("an idle node", idle);
    cluster.switch_to("hang-kernel");
    cluster.wait_for("a drain", |node| {
        node.contains("DRAIN") && node.contains("codes=P2P-HANG")
    });
    cluster.switch_to("healthy");
    cluster.wait_for("a node that is resumed", idle);
    fs::write(
        cluster.at().join("config.toml"),
        "[validate]\nlevle = \"quick\"\n",
    )
    .unwrap();
    cluster.wait_for("a drain", |node| {
        // The step of an earlier report is not taken for this run's.
        node.contains("DRAIN")
            && node.contains("Reason=firstlight: no verdict, exit status 64")
            && !node.contains("next:")
    });
}

#[test]
fn a_prolog_with_a_bad_verdict_drains_the_node_and_the_job_does_not_start() {
    let cluster = Cluster::start(true, false, "healthy");
    cluster.wait_for("an idle node", idle);
    let job = cluster.slurm("srun -N1 echo ran");
    assert_eq!(String::from_utf8_lossy(&job.stdout), "ran\n", "{job:?}");
    cluster.switch_to("zeros");
    let job = cluster.slurm("timeout 30 srun -N1 echo ran");
    assert!(!job.status.success() && job.stdout.is_empty(), "{job:?}");
    cluster.wait_for("a drain", drained_by_us);
}

/// A cluster of four nodes on two leaf switches, on this host.
fn four() -> Cluster {
    let dir = tempfile::Builder::new()
        .prefix("fl")
        .tempdir_in("/tmp")
        .unwrap();
    let nodes = ["node1", "node2", "node3", "node4"];
    configure(dir.path(), &nodes, "TopologyPlugin=topology/tree");
    let tree = "SwitchName=east Nodes=node[1-2]\nSwitchName=west Nodes=node[3-4]\nSwitchName=core Switches=east,west\n";
    fs::write(dir.path().join("topology.conf"), tree).unwrap();
    let daemons = daemons(dir.path(), &nodes);
    let cluster = Cluster {
        _daemons: daemons,
        dir,
    };
    wait("four idle nodes", || {
        let output = cluster.slurm("sinfo --noheader --Node --format=%T");
        (String::from_utf8_lossy(&output.stdout)
            .matches("idle")
            .count()
            == 4)
            .then_some(())
    });
    cluster
}

/// Each task is a node with its own GPU. Slurm provides rank and size, and the switch of each node.
#[test]
fn srun_starts_the_rounds_of_pairs_and_the_slow_node_is_named() {
    let cluster = four();
    let slow = "[[fault]]\nkind = \"nccl-slow\"\ngpu = 2\nrate = 0.3\n";
    for (name, fault, status, has) in [
        (
            "healthy",
            "",
            0,
            "nodes-pairs 6 pairs on 1 rails and 2 leaf switches",
        ),
        (
            "slow",
            slow,
            1,
            "NODES-BAD node Simulated.node3 node Simulated.node3: 3 of 3 measurements are bad",
        ),
    ] {
        let text = format!("on = \"epyc-8x4090\"\n{fault}");
        let scenario = Scenario::of(text.parse().unwrap()).unwrap().gpus(4);
        let folder = cluster.at().join(name);
        let config = laid_out(&scenario, &folder, &folder.display().to_string());
        let task = format!(
            "NCCL_HOSTID=$SLURMD_NODENAME exec {} --config {} nodes --gpus $SLURM_PROCID --rendezvous 127.0.0.1:{}",
            firstlight().display(),
            config.display(),
            port()
        );
        let job = cluster.slurm(&format!(
            "timeout 300 srun --nodes 4 --ntasks-per-node 1 bash -c '{task}'"
        ));
        let text = String::from_utf8_lossy(&job.stdout)
            .split_whitespace()
            .collect::<Vec<_>>()
            .join(" ");
        assert!(text.contains(has), "{has}: {job:?}");
        // srun ends with the highest status of the tasks, which all end with that of the node that leads.
        assert_eq!(job.status.code(), Some(status), "{job:?}");
        assert_eq!(text.matches("FIRSTLIGHT verdict=").count(), 4, "{text}");
    }
}
