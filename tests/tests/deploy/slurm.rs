//! docs/deploy/slurm.md with Slurm's own daemons on one host. The script is the page's; only its paths are those of the test.

use super::{Running, example, firstlight, sh, shell, simulated, wait};
use std::fs;
use std::net::TcpListener;
use std::os::unix::fs::PermissionsExt;
use std::path::{Path, PathBuf};
use std::process::{Command, Stdio};
use tempfile::TempDir;

/// A cluster of one node; its daemons end with it.
struct Cluster {
    _daemons: Vec<Running>,
    dir: TempDir,
}

/// A port that nothing listens on.
fn port() -> u16 {
    TcpListener::bind("127.0.0.1:0").unwrap().local_addr().unwrap().port()
}

fn daemon(dir: &Path, program: &str, words: &[&str]) -> Running {
    let log = fs::File::create(dir.join(format!("{program}.out"))).unwrap();
    let mut command = Command::new(format!("/usr/sbin/{program}"));
    command.args(words).env("SLURM_CONF", dir.join("slurm.conf")).stdin(Stdio::null());
    Running::start(command.stdout(log.try_clone().unwrap()).stderr(log))
}

impl Cluster {
    /// With the page's lines of slurm.conf, but for the interval; `prolog` and `health` say which of the two are in force.
    fn start(prolog: bool, health: bool, scenario: &str) -> Self {
        let dir = tempfile::Builder::new().prefix("fl").tempdir_in("/tmp").unwrap();
        let at = dir.path();
        fs::set_permissions(at, fs::Permissions::from_mode(0o755)).unwrap();
        let script = at.join("firstlight.sh");
        let text = example("slurm.md", "/etc/slurm/firstlight.sh");
        let (ours, config) =
            (firstlight().display().to_string(), at.join("config.toml").display().to_string());
        for word in [" firstlight --config", "/etc/firstlight/config.toml", "/run/firstlight"] {
            assert!(text.contains(word), "{word}");
        }
        let text = text.replace(" firstlight --config", &format!(" {ours} --config"));
        let text = text
            .replace("/etc/firstlight/config.toml", &config)
            .replace("/run/firstlight", &format!("{}/run", at.display()));
        // slurmd gives the program no environment but its own.
        let text =
            text.replacen("set -u\n", &format!("set -u\nexport SLURM_CONF={}/slurm.conf\n", at.display()), 1);
        fs::write(&script, text).unwrap();
        fs::set_permissions(&script, fs::Permissions::from_mode(0o755)).unwrap();

        let lines: Vec<_> = example("slurm.md", "slurm.conf").lines().map(str::to_owned).collect();
        let wanted = |line: &&String| match line.split('=').next().unwrap_or_default() {
            key if key.starts_with("Prolog") => prolog,
            key => health && key.starts_with("HealthCheck"),
        };
        let lines: Vec<_> = lines.iter().filter(wanted).map(String::as_str).collect();
        let lines = lines.join("\n").replace("/etc/slurm/firstlight.sh", &script.display().to_string());
        let lines = lines.replace("HealthCheckInterval=600", "HealthCheckInterval=3");
        for folder in ["state", "spool", "run"] {
            fs::create_dir(at.join(folder)).unwrap();
        }
        let (here, munge) = (at.display(), at.join("munge.socket"));
        fs::write(
            at.join("slurm.conf"),
            format!(
                "ClusterName=test\nSlurmctldHost=localhost\nSlurmctldPort={}\nSlurmUser=root\nSlurmdUser=root\n\
                 AuthType=auth/munge\nAuthInfo=socket={}\nCredType=cred/munge\n\
                 StateSaveLocation={here}/state\nSlurmdSpoolDir={here}/spool\n\
                 SlurmctldPidFile={here}/ctld.pid\nSlurmdPidFile={here}/d.pid\nSlurmctldLogFile={here}/ctld.log\nSlurmdLogFile={here}/d.log\n\
                 ProctrackType=proctrack/linuxproc\nTaskPlugin=task/none\nJobAcctGatherType=jobacct_gather/none\nMpiDefault=none\n\
                 SelectType=select/cons_tres\nReturnToService=1\n{lines}\n\
                 NodeName=node7 NodeHostname={} NodeAddr=127.0.0.1 Port={} CPUs=1\n\
                 PartitionName=all Nodes=ALL Default=YES OverSubscribe=EXCLUSIVE State=UP\n",
                port(),
                munge.display(),
                sh(at, "hostname -s").trim(),
                port(),
            ),
        )
        .unwrap();
        fs::write(at.join("cgroup.conf"), "CgroupPlugin=cgroup/v1\n").unwrap();
        let key = at.join("munge.key");
        sh(at, "head -c 128 /dev/urandom > munge.key; chmod 400 munge.key");
        let mut cluster = Self { _daemons: Vec::new(), dir };
        cluster.give(scenario);
        let at = cluster.dir.path();
        let option = |name: &str, file: &Path| format!("--{name}={}", file.display());
        let words = [
            "--foreground".to_owned(),
            "--force".to_owned(),
            option("key-file", &key),
            option("socket", &munge),
            option("pid-file", &at.join("munge.pid")),
            option("log-file", &at.join("munge.log")),
            option("seed-file", &at.join("munge.seed")),
        ];
        let words: Vec<_> = words.iter().map(String::as_str).collect();
        let daemons = vec![
            daemon(at, "munged", &words),
            daemon(at, "slurmctld", &["-D", "-i"]),
            daemon(at, "slurmd", &["-D", "-N", "node7"]),
        ];
        cluster._daemons = daemons;
        cluster.wait_for("a node that is up", |node| {
            !node.contains("UNKNOWN") && !node.contains("NOT_RESPONDING") && node.contains("State=")
        });
        cluster
    }

    fn at(&self) -> &Path {
        self.dir.path()
    }

    /// Other GPUs from now on.
    fn give(&self, scenario: &str) {
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
        shell(self.at(), &format!("export SLURM_CONF=$PWD/slurm.conf; {words}"))
    }

    /// State and reason of the node.
    fn node(&self) -> String {
        let output = self.slurm("scontrol show node --oneliner node7");
        let all = String::from_utf8_lossy(&output.stdout).into_owned();
        let reason = all.split(" Reason=").nth(1).unwrap_or_default().to_owned();
        let state = all.split(" State=").nth(1).and_then(|rest| rest.split(' ').next()).unwrap_or_default();
        if state.is_empty() { String::new() } else { format!("State={state} Reason={reason}") }
    }

    #[track_caller]
    fn wait_for(&self, what: &str, holds: impl Fn(&str) -> bool) -> String {
        wait(&format!("{what}; logs in {:?}: {}", self.at(), self.node()), || {
            Some(self.node()).filter(|node| holds(node))
        })
    }

    /// True after the health check has run twice from now on.
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
        && node
            .contains("Reason=firstlight: FIRSTLIGHT verdict=FAIL failed=p2p-integrity codes=P2P-WRONG-DATA")
}

#[test]
fn the_health_check_drains_with_the_verdict_and_resumes_only_what_it_drained() {
    let cluster = Cluster::start(false, true, "healthy");
    cluster.next_check();
    cluster.wait_for("an idle node", idle);
    let job = cluster.slurm("srun -N1 echo ran");
    assert_eq!(String::from_utf8_lossy(&job.stdout), "ran\n", "{job:?}");

    cluster.give("zeros");
    cluster.wait_for("a drain", drained_by_us);
    cluster.give("healthy");
    let resumed = cluster.wait_for("a node that is resumed", idle);
    assert!(resumed.ends_with("Reason="), "the reason stays: {resumed}");

    let output = cluster.slurm("scontrol update nodename=node7 state=drain reason='bad fan'");
    assert!(output.status.success(), "{output:?}");
    cluster.next_check();
    let kept = |node: &str| node.contains("DRAIN") && node.contains("Reason=bad fan");
    assert!(kept(&cluster.node()), "{}", cluster.node());
    // Nor does a fault take the administrator's reason away.
    cluster.give("zeros");
    cluster.next_check();
    assert!(kept(&cluster.node()), "{}", cluster.node());
}

#[test]
fn a_gpu_that_hangs_and_settings_that_are_refused_drain() {
    let cluster = Cluster::start(false, true, "healthy");
    cluster.next_check();
    cluster.wait_for("an idle node", idle);
    cluster.give("hang-kernel");
    cluster.wait_for("a drain", |node| node.contains("DRAIN") && node.contains("codes=P2P-HANG"));
    cluster.give("healthy");
    cluster.wait_for("a node that is resumed", idle);
    fs::write(cluster.at().join("config.toml"), "[validate]\nlevle = \"quick\"\n").unwrap();
    cluster.wait_for("a drain", |node| {
        node.contains("DRAIN") && node.contains("Reason=firstlight: no verdict, exit status 64")
    });
}

#[test]
fn a_prolog_with_a_bad_verdict_drains_and_the_job_does_not_start() {
    let cluster = Cluster::start(true, false, "healthy");
    cluster.wait_for("an idle node", idle);
    let job = cluster.slurm("srun -N1 echo ran");
    assert_eq!(String::from_utf8_lossy(&job.stdout), "ran\n", "{job:?}");
    cluster.give("zeros");
    let job = cluster.slurm("timeout 30 srun -N1 echo ran");
    assert!(!job.status.success() && job.stdout.is_empty(), "{job:?}");
    cluster.wait_for("a drain", drained_by_us);
}
