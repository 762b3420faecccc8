//! The rank of this process among those that a launcher has started, from environment variables that `OpenMPI`, PMIx,
//! Slurm or torchrun set. They are tried in this order: under `mpirun` inside Slurm the processes also have Slurm's
//! variables, which describe OpenMPI's own daemon. Pure.

use crate::net::meeting::PORT;

/// A launcher.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Launcher {
    /// `mpirun`
    OpenMpi,
    /// `srun --mpi=pmix`, `prterun`
    Pmix,
    /// `srun`
    Slurm,
    /// `torchrun`, and Kubernetes jobs that set the same names
    Torchrun,
}

impl Launcher {
    /// Its name.
    #[must_use]
    pub const fn name(self) -> &'static str {
        match self {
            Self::OpenMpi => "OpenMPI",
            Self::Pmix => "PMIx",
            Self::Slurm => "Slurm",
            Self::Torchrun => "torchrun",
        }
    }
}

/// What the launcher's environment variables say about this process.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct LaunchedProcess {
    /// The launcher that has started it.
    pub by: Launcher,
    /// Its rank, from 0 on.
    pub rank: usize,
    /// The number of processes.
    pub size: usize,
    /// Its rank among the processes on this machine; `None`: unknown.
    pub local_rank: Option<usize>,
    /// The number of processes on this machine; `None`: unknown.
    pub local_size: Option<usize>,
    /// The address of the process with rank 0, `HOST:PORT`; `None`: the environment does not contain it.
    pub host: Option<String>,
    /// The launcher's name for this run, which keeps two runs apart. It is not secret.
    pub job: Option<String>,
    /// The switch that this node is connected to, if Slurm knows the topology.
    pub leaf: Option<String>,
}

/// Reads the environment with `get`; returns `None` unless a launcher has started more than one process.
///
/// # Errors
/// One line: a variable has an invalid value.
pub fn detect(get: &dyn Fn(&str) -> Option<String>) -> Result<Option<LaunchedProcess>, String> {
    let found = LAUNCHERS
        .iter()
        .find_map(|names| Some((names, get(names.rank)?, get(names.size)?)));
    let Some((names, rank, size)) = found else {
        return Ok(None);
    };
    let number = |name: &str, text: &str| {
        let bad = || format!("{name}={text}: allowed is a whole number");
        text.trim().parse::<usize>().map_err(|_| bad())
    };
    let (rank, size) = (number(names.rank, &rank)?, number(names.size, &size)?);
    if rank >= size {
        return Err(format!(
            "{}={rank} and {}={size}: the rank must be less",
            names.rank, names.size
        ));
    }
    let optional = |name: &str| get(name).map(|text| number(name, &text)).transpose();
    let local_rank = optional(names.local_rank)?;
    let local_size = match names.local_size {
        Some(name) => optional(name)?,
        None => slurm_local_size(get),
    };
    let is_one_machine = local_size == Some(size);
    let job = names
        .job
        .iter()
        .filter_map(|name| get(name))
        .collect::<Vec<_>>()
        .join(".");
    let job = Some(format!("{} {job}", names.by.name())).filter(|_| !job.is_empty());
    let (host, leaf) = (rank0_address(get, is_one_machine), leaf_switch(get));
    let place = LaunchedProcess {
        by: names.by,
        rank,
        size,
        local_rank,
        local_size,
        host,
        job,
        leaf,
    };
    Ok(Some(place).filter(|place| place.size > 1))
}

/// The names of a launcher's environment variables.
struct VariableNames {
    by: Launcher,
    rank: &'static str,
    size: &'static str,
    local_rank: &'static str,
    /// `None`: it is in Slurm's list.
    local_size: Option<&'static str>,
    job: &'static [&'static str],
}

/// Slurm's `SLURM_NTASKS` is not used: it is also set for the batch script, which is a single process.
const LAUNCHERS: [VariableNames; 4] = [
    VariableNames {
        by: Launcher::OpenMpi,
        rank: "OMPI_COMM_WORLD_RANK",
        size: "OMPI_COMM_WORLD_SIZE",
        local_rank: "OMPI_COMM_WORLD_LOCAL_RANK",
        local_size: Some("OMPI_COMM_WORLD_LOCAL_SIZE"),
        job: &["PMIX_NAMESPACE"],
    },
    // PMIx reports the size only through its server; under Slurm it is the step's.
    VariableNames {
        by: Launcher::Pmix,
        rank: "PMIX_RANK",
        size: "SLURM_STEP_NUM_TASKS",
        local_rank: "SLURM_LOCALID",
        local_size: None,
        job: &["PMIX_NAMESPACE"],
    },
    VariableNames {
        by: Launcher::Slurm,
        rank: "SLURM_PROCID",
        size: "SLURM_STEP_NUM_TASKS",
        local_rank: "SLURM_LOCALID",
        local_size: None,
        job: &["SLURM_JOB_ID", "SLURM_STEP_ID"],
    },
    VariableNames {
        by: Launcher::Torchrun,
        rank: "RANK",
        size: "WORLD_SIZE",
        local_rank: "LOCAL_RANK",
        local_size: Some("LOCAL_WORLD_SIZE"),
        job: &["TORCHELASTIC_RUN_ID"],
    },
];

/// The address of rank 0: the user's setting for NCCL, torchrun's address, the first node of Slurm's step, or this
/// machine. `MASTER_PORT` is not used, because torchrun itself uses that port.
fn rank0_address(get: &dyn Fn(&str) -> Option<String>, is_one_machine: bool) -> Option<String> {
    let filled = |name: &str| {
        get(name)
            .map(|text| text.trim().to_owned())
            .filter(|text| !text.is_empty())
    };
    let own = |host: String| format!("{host}:{PORT}");
    filled("NCCL_COMM_ID")
        .and_then(|id| Some(own(id.rsplit_once(':')?.0.to_owned())))
        .or_else(|| filled("MASTER_ADDR").map(own))
        .or_else(|| {
            filled("SLURM_STEP_NODELIST")
                .and_then(|list| first_host(&list))
                .map(own)
        })
        .or_else(|| {
            filled("SLURM_JOB_NODELIST")
                .and_then(|list| first_host(&list))
                .map(own)
        })
        .or_else(|| is_one_machine.then(|| own("127.0.0.1".to_owned())))
}

/// The last switch before the node: `leaf3` in `core.leaf3.node7`, whose pattern is `switch.switch.node`.
fn leaf_switch(get: &dyn Fn(&str) -> Option<String>) -> Option<String> {
    let (address, pattern) = (
        get("SLURM_TOPOLOGY_ADDR")?,
        get("SLURM_TOPOLOGY_ADDR_PATTERN")?,
    );
    let kinds: Vec<_> = pattern.trim().split('.').collect();
    let before = kinds
        .len()
        .checked_sub(2)
        .filter(|n| kinds.get(*n) == Some(&"switch"))?;
    address
        .trim()
        .splitn(kinds.len(), '.')
        .nth(before)
        .filter(|leaf| !leaf.is_empty())
        .map(str::to_owned)
}

/// How many processes of the step are on this node: the entry of this node in `2(x3),1`.
fn slurm_local_size(get: &dyn Fn(&str) -> Option<String>) -> Option<usize> {
    let node: usize = get("SLURM_NODEID")?.trim().parse().ok()?;
    let mut before = 0_usize;
    for entry in get("SLURM_STEP_TASKS_PER_NODE")?.trim().split(',') {
        let (tasks, nodes) = match entry.split_once("(x") {
            Some((tasks, nodes)) => (tasks, nodes.strip_suffix(')')?.parse().ok()?),
            None => (entry, 1_usize),
        };
        before = before.saturating_add(nodes);
        if node < before {
            return tasks.parse().ok();
        }
    }
    None
}

/// The first name of one of Slurm's lists: `node[03-05,9],other` begins with `node03`.
fn first_host(list: &str) -> Option<String> {
    let end = list.find([',', '[']).unwrap_or(list.len());
    let (name, rest) = list.split_at_checked(end)?;
    let Some(inside) = rest.strip_prefix('[') else {
        return Some(name.to_owned()).filter(|n| !n.is_empty());
    };
    let (inside, rest) = inside.split_once(']')?;
    let number = inside
        .split([',', '-'])
        .next()
        .filter(|n| !n.is_empty() && n.bytes().all(|b| b.is_ascii_digit()))?;
    // A name may continue after the bracket, and have another bracket.
    let more = rest.split(',').next().unwrap_or_default();
    if more.contains('[') {
        return None;
    }
    Some(format!("{name}{number}{more}"))
}

#[cfg(test)]
mod tests {
    use super::*;

    fn of(pairs: &[(&str, &str)]) -> Result<Option<LaunchedProcess>, String> {
        let get = |name: &str| {
            pairs
                .iter()
                .find(|(n, _)| *n == name)
                .map(|(_, v)| (*v).to_owned())
        };
        detect(&get)
    }

    const SLURM: [(&str, &str); 6] = [
        ("SLURM_PROCID", "1"),
        ("SLURM_STEP_NUM_TASKS", "2"),
        ("SLURM_LOCALID", "0"),
        ("SLURM_STEP_NODELIST", "node[07-08]"),
        ("SLURM_JOB_ID", "41"),
        ("SLURM_STEP_ID", "0"),
    ];

    #[test]
    fn slurm_gives_rank_size_and_the_first_node() {
        let place = of(&SLURM).unwrap().unwrap();
        assert_eq!((place.by, place.rank, place.size), (Launcher::Slurm, 1, 2));
        assert_eq!(place.host.as_deref(), Some("node07:29517"));
        assert_eq!(
            (place.local_rank, place.job.as_deref()),
            (Some(0), Some("Slurm 41.0"))
        );
        let batch = [("SLURM_PROCID", "0"), ("SLURM_NTASKS", "2")];
        assert_eq!(of(&batch), Ok(None), "the batch script is one process");
        let leaf = |address, pattern| {
            let more = [
                ("SLURM_TOPOLOGY_ADDR", address),
                ("SLURM_TOPOLOGY_ADDR_PATTERN", pattern),
            ];
            of(&[&SLURM[..], &more].concat()).unwrap().unwrap().leaf
        };
        assert_eq!(
            leaf("core.leaf3.node7.x", "switch.switch.node").as_deref(),
            Some("leaf3")
        );
        assert_eq!(
            [leaf("node7", "node"), leaf("a.node7", "block.node")],
            [None, None]
        );
    }

    #[test]
    fn under_mpirun_inside_slurm_openmpis_rank_counts() {
        let mut all = SLURM.to_vec();
        all.extend([
            ("OMPI_COMM_WORLD_RANK", "5"),
            ("OMPI_COMM_WORLD_SIZE", "8"),
            ("PMIX_RANK", "5"),
        ]);
        all.extend([
            ("OMPI_COMM_WORLD_LOCAL_RANK", "1"),
            ("OMPI_COMM_WORLD_LOCAL_SIZE", "4"),
        ]);
        let place = of(&all).unwrap().unwrap();
        assert_eq!(
            (place.by, place.rank, place.size),
            (Launcher::OpenMpi, 5, 8)
        );
        assert_eq!((place.local_rank, place.local_size), (Some(1), Some(4)));
        assert_eq!(place.host.as_deref(), Some("node07:29517"));
    }

    #[test]
    fn pmix_comes_before_slurm() {
        let mut all = SLURM.to_vec();
        all.extend([("PMIX_RANK", "0"), ("PMIX_NAMESPACE", "slurm.pmix.2.0")]);
        let place = of(&all).unwrap().unwrap();
        assert_eq!((place.by, place.rank, place.size), (Launcher::Pmix, 0, 2));
    }

    #[test]
    fn torchrun_gives_the_address_and_its_port_is_not_taken() {
        let all = [
            ("RANK", "0"),
            ("WORLD_SIZE", "2"),
            ("LOCAL_RANK", "0"),
            ("MASTER_ADDR", "10.0.0.1"),
        ];
        let place = of(&all).unwrap().unwrap();
        assert_eq!(
            (place.by, place.host.as_deref()),
            (Launcher::Torchrun, Some("10.0.0.1:29517"))
        );
        let nccl = [&all[..], &[("NCCL_COMM_ID", "[fd00::1]:29500")]].concat();
        assert_eq!(
            of(&nccl).unwrap().unwrap().host.as_deref(),
            Some("[fd00::1]:29517")
        );
    }

    #[test]
    fn mpirun_on_one_machine_meets_there_and_on_several_the_address_is_unknown() {
        let all = [("OMPI_COMM_WORLD_RANK", "0"), ("OMPI_COMM_WORLD_SIZE", "2")];
        let local = |size| [&all[..], &[("OMPI_COMM_WORLD_LOCAL_SIZE", size)]].concat();
        assert_eq!(
            of(&local("2")).unwrap().unwrap().host.as_deref(),
            Some("127.0.0.1:29517")
        );
        assert_eq!(of(&local("1")).unwrap().unwrap().host, None);
    }

    #[test]
    fn one_process_is_no_launchers_and_bad_values_are_named() {
        assert_eq!(of(&[]), Ok(None));
        assert_eq!(of(&[("RANK", "0"), ("WORLD_SIZE", "1")]), Ok(None));
        let why = of(&[("RANK", "x"), ("WORLD_SIZE", "2")]).unwrap_err();
        assert_eq!(why, "RANK=x: allowed is a whole number");
        let why = of(&[("RANK", "2"), ("WORLD_SIZE", "2")]).unwrap_err();
        assert_eq!(why, "RANK=2 and WORLD_SIZE=2: the rank must be less");
    }

    #[test]
    fn slurms_list_of_tasks_has_the_number_on_each_node() {
        let with = |node, tasks| {
            let more = [("SLURM_NODEID", node), ("SLURM_STEP_TASKS_PER_NODE", tasks)];
            of(&[&SLURM[..], &more].concat())
                .unwrap()
                .unwrap()
                .local_size
        };
        assert_eq!(
            [
                with("0", "8(x2),1"),
                with("1", "8(x2),1"),
                with("2", "8(x2),1")
            ],
            [Some(8), Some(8), Some(1)]
        );
        assert_eq!([with("3", "8(x2),1"), with("0", "x")], [None, None]);
    }

    #[test]
    fn the_first_name_of_a_list() {
        for (list, name) in [
            ("node1", Some("node1")),
            ("node1,node2", Some("node1")),
            ("node[1-3]", Some("node1")),
            ("node[003,7]", Some("node003")),
            ("rack[1-2]-gpu,b", Some("rack1-gpu")),
            ("a[1-2]b[3-4]", None),
            ("a[x]", None),
            ("", None),
        ] {
            assert_eq!(first_host(list).as_deref(), name, "{list}");
        }
    }
}
