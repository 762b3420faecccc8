//! Several nodes: processes of the shipped program on this host, which meet over loopback. Each has its own GPUs of one
//! simulated machine and its own NCCL_HOSTID. Here is what their tests share.

mod cable;
mod cards;
mod faults;
mod healthy;

use harness::simgpu::{Scenario, with_prepared};
use std::fs;
use std::io::{BufRead, BufReader};
use std::net::{Ipv4Addr, TcpListener};
use std::path::Path;
use std::process::{Child, Command, Output, Stdio};
use std::sync::mpsc;
use std::thread::{self, sleep};
use std::time::{Duration, Instant};

const TOKEN: &str = "a token of the simulation";

/// A scenario of four GPUs, with additional keys.
pub(super) fn four_gpus(more: &str) -> Scenario {
    let text = format!("on = \"epyc-8x4090\"\n{more}");
    Scenario::of(text.parse().unwrap()).unwrap().gpus(4)
}

/// Writes an RDMA card with one ACTIVE port, as the kernel shows it in sysfs.
pub(super) fn write_card(dir: &Path, name: &str) {
    let port = dir.join(format!("root/sys/class/infiniband/{name}/ports/1"));
    for folder in ["gids", "counters", "hw_counters"] {
        fs::create_dir_all(port.join(folder)).unwrap();
    }
    let counters = [
        "port_xmit_data",
        "port_rcv_data",
        "symbol_error",
        "link_downed",
    ]
    .map(|c| format!("counters/{c}"));
    for counter in counters
        .into_iter()
        .chain(["hw_counters/out_of_sequence".to_owned()])
    {
        fs::write(port.join(counter), "7\n").unwrap();
    }
    for (name, text) in [
        ("state", "4: ACTIVE"),
        ("phys_state", "5: LinkUp"),
        ("link_layer", "InfiniBand"),
        ("rate", "400 Gb/sec (4X NDR)"),
    ] {
        fs::write(port.join(name), format!("{text}\n")).unwrap();
    }
}

/// A port that is free now.
fn free_port() -> u16 {
    TcpListener::bind((Ipv4Addr::LOCALHOST, 0))
        .unwrap()
        .local_addr()
        .unwrap()
        .port()
}

/// The nodes of one run, which meet on one port.
pub(super) struct NodeGroup<'c> {
    /// The program with its options for the simulated machine, without a command.
    pub(super) base: &'c Command,
    pub(super) dir: &'c Path,
    port: u16,
    size: usize,
    timeout: u32,
}

/// A node that has ended: its exit status, standard output and standard error.
pub(super) struct NodeResult {
    pub(super) status: i32,
    pub(super) text: String,
    pub(super) log: String,
}

impl<'c> NodeGroup<'c> {
    fn new(base: &'c Command, dir: &'c Path, size: usize) -> Self {
        fs::write(dir.join("token"), TOKEN).unwrap();
        fs::write(dir.join("other"), "another token, as long").unwrap();
        Self {
            base,
            dir,
            port: free_port(),
            size,
            timeout: 120,
        }
    }

    /// The command line of a node, not yet started; `words` come before the options.
    pub(super) fn node(&self, base: &Command, name: &str, words: &[&str], token: &str) -> Command {
        let mut command = Command::new(base.get_program());
        command
            .args(base.get_args())
            .args(words)
            .env_clear()
            .env("NCCL_HOSTID", name);
        command
            .arg("--token-file")
            .arg(self.dir.join(token))
            .args(["--size", &self.size.to_string()]);
        command.args(["--rendezvous", &format!("127.0.0.1:{}", self.port)]);
        command.args(["--meeting-timeout", &self.timeout.to_string()]);
        command
            .stdin(Stdio::null())
            .stdout(Stdio::piped())
            .stderr(Stdio::piped());
        command
    }

    fn start(&self, name: &str, gpus: &str) -> Child {
        self.node(self.base, name, &["nodes", "--gpus", gpus], "token")
            .spawn()
            .unwrap()
    }

    /// Starts the node that leads, and waits until it listens.
    pub(super) fn lead(&self, mut command: Command) -> Child {
        let child = command.spawn().unwrap();
        let due = Instant::now() + Duration::from_secs(20);
        let listens = |table: String| {
            let own = format!("0100007F:{:04X} 00000000:0000 0A", self.port);
            table.contains(&own)
        };
        while !listens(fs::read_to_string("/proc/net/tcp").unwrap()) {
            assert!(Instant::now() < due, "it does not listen");
            sleep(Duration::from_millis(10));
        }
        child
    }

    fn start_leader(&self, gpus: &str) -> Child {
        self.lead(self.node(
            self.base,
            "a",
            &["nodes", "--gpus", gpus, "--json", &self.json()],
            "token",
        ))
    }

    pub(super) fn json(&self) -> String {
        self.dir.join("nodes.json").display().to_string()
    }

    pub(super) fn report(&self) -> serde_json::Value {
        serde_json::from_slice(&fs::read(self.json()).unwrap()).unwrap()
    }
}

pub(super) fn wait_for_node(child: Child) -> NodeResult {
    let Output {
        status,
        stdout,
        stderr,
    } = child.wait_with_output().unwrap();
    let text = |bytes: &[u8]| String::from_utf8_lossy(bytes).into_owned();
    NodeResult {
        status: status.code().unwrap_or(-1),
        text: text(&stdout),
        log: text(&stderr),
    }
}

impl NodeResult {
    #[track_caller]
    pub(super) fn assert_ended(&self, status: i32, has: &[&str]) {
        assert_eq!(self.status, status, "{}\n{}", self.text, self.log);
        // Long texts are wrapped.
        let text = self.text.split_whitespace().collect::<Vec<_>>().join(" ");
        for part in has {
            assert!(text.contains(part), "{part}:\n{}\n{}", self.text, self.log);
        }
    }
}

pub(super) fn with_nodes(scenario: &Scenario, size: usize, then: impl FnOnce(&NodeGroup<'_>)) {
    with_prepared(scenario, &[], |base, dir| {
        then(&NodeGroup::new(&base, dir, size));
        Ok(())
    })
    .unwrap();
}

/// Runs two nodes with two GPUs each; `then` receives the results of both.
fn two_nodes(scenario: &Scenario, then: impl FnOnce(&NodeGroup<'_>, &NodeResult, &NodeResult)) {
    with_nodes(scenario, 2, |group| {
        let leader = group.start_leader("0,1");
        let member = group.start("b", "2,3");
        let (leader, member) = (wait_for_node(leader), wait_for_node(member));
        then(group, &leader, &member);
    });
}

/// The time from `since` until a node has met the others, taken at the first line that reports it, and the node's result;
/// `sender` sends a message at that time.
fn wait_for_meeting(
    mut node: Child,
    since: Instant,
    sender: &mpsc::Sender<()>,
) -> thread::JoinHandle<(Option<Duration>, NodeResult)> {
    let (out, sender) = (node.stdout.take().unwrap(), sender.clone());
    thread::spawn(move || {
        let (mut when, mut text) = (None, String::new());
        for line in BufReader::new(out).lines() {
            let line = line.unwrap();
            if when.is_none() && (line.contains("node 2 of 2") || line.contains("nodes-meeting")) {
                when = Some(since.elapsed());
                let _not_awaited = sender.send(());
            }
            text += &(line + "\n");
        }
        (
            when,
            NodeResult {
                text,
                ..wait_for_node(node)
            },
        )
    })
}
