//! The options of `firstlight nccl`, which are those of nccl-tests.

use super::runs::gpu;
use super::{Meet, Place, whole};
use crate::config::GpuName;
use crate::nccl::Sweep;
use clap::{ArgAction, Args as ClapArgs, ValueEnum};
use gpu::{Collective, DataType, RedOp};
use machine::Rank;
use std::str::FromStr;

/// `nccl`
#[derive(Debug, Clone, PartialEq, Eq, ClapArgs)]
#[command(disable_help_flag = true)]
pub struct Nccl {
    /// all_reduce, all_gather, reduce_scatter, broadcast, reduce, alltoall, sendrecv, gather or scatter; nccl-tests' names
    /// with _perf are accepted
    #[arg(value_parser = collective)]
    pub collective: Collective,
    /// Smallest size in bytes; K, M and G are 2^10, 2^20 and 2^30
    #[arg(short = 'b', long = "minbytes", value_name = "N", default_value = "32M", value_parser = bytes, allow_negative_numbers = true)]
    pub from: u64,
    /// Largest size in bytes
    #[arg(short = 'e', long = "maxbytes", value_name = "N", default_value = "32M", value_parser = bytes, allow_negative_numbers = true)]
    pub to: u64,
    /// Multiply the size by N at each step
    #[arg(short = 'f', long = "stepfactor", value_name = "N", conflicts_with = "step", value_parser = factor, allow_negative_numbers = true)]
    pub factor: Option<u64>,
    /// Add N bytes to the size at each step
    #[arg(short = 'i', long = "stepbytes", value_name = "N", default_value = "1M", value_parser = bytes, allow_negative_numbers = true)]
    pub step: u64,
    /// Timed calls for each size
    #[arg(short = 'n', long = "iters", value_name = "N", default_value_t = 20, value_parser = whole::<u32>(1, 100_000), allow_negative_numbers = true)]
    pub iterations: u32,
    /// Untimed calls before the timed ones
    #[arg(short = 'w', long = "warmup_iters", value_name = "N", default_value_t = 1, value_parser = whole::<u32>(0, 100_000), allow_negative_numbers = true)]
    pub warmups: u32,
    /// Number of GPUs; default: all
    #[arg(short = 'g', long = "ngpus", value_name = "N", value_parser = whole::<u16>(1, u64::from(u16::MAX)), allow_negative_numbers = true)]
    pub gpus: Option<u16>,
    /// Check the values (1) or not (0)
    #[arg(short = 'c', long = "check", value_name = "0|1", default_value_t = 1, value_parser = whole::<u8>(0, 1), allow_negative_numbers = true)]
    pub check: u8,
    /// Element type: float, half, bfloat16, int32, double
    #[arg(
        short = 'd',
        long = "datatype",
        value_name = "TYPE",
        default_value = "float"
    )]
    pub data: DataType,
    /// Reduction: sum, min, max, avg
    #[arg(short = 'o', long = "op", value_name = "OP", default_value = "sum")]
    pub op: RedOp,
    /// Root rank, for collectives that have a root
    #[arg(short = 'r', value_name = "RANK", default_value = "0", value_parser = rank, allow_negative_numbers = true)]
    pub root_rank: Rank,
    /// on: allow peer-to-peer; off: forbid it; strict: allow nothing else
    #[arg(long, value_name = "WHICH", default_value = "on")]
    pub p2p: P2pChoice,
    /// Use one process per GPU, as frameworks do
    #[arg(long)]
    pub processes: bool,
    /// Run over several nodes, as section [nodes] or the launcher says; a launcher of several processes implies it
    #[arg(long)]
    pub nodes: bool,
    /// How the nodes meet.
    #[command(flatten)]
    pub meet: Meet,
    /// Write the result as nccl-tests' JSON to a file; without FILE to standard output
    #[arg(short = 'J', long = "json", value_name = "FILE", num_args = 0..=1, default_missing_value = "-")]
    pub json: Option<Place>,
    /// Use only these GPUs, given by number or address
    #[arg(long = "gpus", value_name = "GPU,..", value_delimiter = ',', value_parser = gpu, conflicts_with = "gpus")]
    pub only: Vec<GpuName>,
    #[command(flatten)]
    fixed: Fixed,
    /// Print help
    #[arg(short = 'h', long, action = ArgAction::Help)]
    help: Option<bool>,
}

/// Options of nccl-tests that `firstlight nccl` accepts at their defaults only, so that command lines of nccl-tests can
/// be used unchanged.
#[derive(Debug, Clone, Default, PartialEq, Eq, ClapArgs)]
struct Fixed {
    #[arg(short = 't', long = "nthreads", hide = true, value_parser = only::<1>, allow_negative_numbers = true)]
    nthreads: Option<u64>,
    #[arg(short = 'p', long = "parallel_init", hide = true, value_parser = only::<0>, allow_negative_numbers = true)]
    parallel_init: Option<u64>,
    #[arg(short = 'm', long = "agg_iters", hide = true, value_parser = only::<1>, allow_negative_numbers = true)]
    agg_iters: Option<u64>,
    #[arg(short = 'N', long = "run_cycles", hide = true, value_parser = only::<1>, allow_negative_numbers = true)]
    run_cycles: Option<u64>,
    #[arg(short = 'R', long = "local_register", hide = true, value_parser = only::<0>, allow_negative_numbers = true)]
    local_register: Option<u64>,
    #[arg(short = 'T', long = "timeout", hide = true, value_parser = only::<0>, allow_negative_numbers = true)]
    timeout: Option<u64>,
    #[arg(short = 'G', long = "cudagraph", hide = true, value_parser = only::<0>, allow_negative_numbers = true)]
    cudagraph: Option<u64>,
    #[arg(short = 'C', long = "report_cputime", hide = true, value_parser = only::<0>, allow_negative_numbers = true)]
    report_cputime: Option<u64>,
    #[arg(short = 'S', long = "report_timestamps", hide = true, value_parser = only::<0>, allow_negative_numbers = true)]
    report_timestamps: Option<u64>,
    #[arg(short = 'a', long = "average", hide = true, value_parser = only::<1>, allow_negative_numbers = true)]
    average: Option<u64>,
    #[arg(short = 'z', long = "blocking", hide = true, value_parser = only::<0>, allow_negative_numbers = true)]
    blocking: Option<u64>,
    #[arg(short = 'y', long = "stream_null", hide = true, value_parser = only::<0>, allow_negative_numbers = true)]
    stream_null: Option<u64>,
    #[arg(short = 'u', long = "unalign", hide = true, value_parser = only::<0>, allow_negative_numbers = true)]
    unalign: Option<u64>,
    #[arg(short = 'D', long = "device_implementation", hide = true, value_parser = only::<0>, allow_negative_numbers = true)]
    device_implementation: Option<u64>,
}

/// Parses the value of such an option.
fn only<const DEFAULT: u64>(text: &str) -> Result<u64, String> {
    let value = text.parse().ok().filter(|value| *value == DEFAULT);
    value.ok_or_else(|| {
        format!("firstlight nccl has this option of nccl-tests at its default only, {DEFAULT}")
    })
}

/// The transports that NCCL may use between GPUs.
#[derive(Debug, Clone, Copy, PartialEq, Eq, ValueEnum)]
pub enum P2pChoice {
    /// Any, including peer-to-peer at any distance.
    On,
    /// Any except peer-to-peer.
    Off,
    /// Only peer-to-peer.
    Strict,
}

impl Nccl {
    /// The requested sizes and calls.
    #[must_use]
    pub fn sweep(&self) -> Sweep {
        Sweep {
            odd: false,
            collective: self.collective,
            from: self.from,
            to: self.to,
            factor: self.factor.unwrap_or(1),
            step: self.step,
            iterations: self.iterations,
            warmups: self.warmups,
            check: self.check == 1,
            data: self.data,
            op: self.op,
        }
    }
}

/// Parses a collective; nccl-tests' programs have its name with `_perf`.
fn collective(text: &str) -> Result<Collective, <Collective as FromStr>::Err> {
    text.strip_suffix("_perf").unwrap_or(text).parse()
}

/// Parses a rank; the caller checks it against the number of GPUs.
fn rank(text: &str) -> Result<Rank, String> {
    text.parse()
        .map(Rank::new)
        .map_err(|_| format!("'{text}' is not a rank; allowed are whole numbers from 0"))
}

/// Parses a factor; with 1 the sizes would never end.
fn factor(text: &str) -> Result<u64, String> {
    let factor = text.parse().ok().filter(|n| *n > 1);
    factor.ok_or_else(|| format!("'{text}' is not a factor; allowed are whole numbers from 2"))
}

/// `8`, `64K`, `128M`, `1G`
fn bytes(text: &str) -> Result<u64, String> {
    let bad = || {
        format!(
            "'{text}' is not a size; allowed are whole numbers, optionally followed by K, M or G"
        )
    };
    let (number, unit) = match text.char_indices().last() {
        Some((at, 'k' | 'K')) => (text.get(..at), 1 << 10),
        Some((at, 'm' | 'M')) => (text.get(..at), 1 << 20),
        Some((at, 'g' | 'G')) => (text.get(..at), 1 << 30),
        _ => (Some(text), 1_u64),
    };
    let number: u64 = number.and_then(|n| n.parse().ok()).ok_or_else(bad)?;
    number
        .checked_mul(unit)
        .ok_or_else(|| format!("'{text}' is more than 64 bits can count"))
}

#[cfg(test)]
mod tests {
    use super::super::{Command, NoArgs, parse};
    use super::*;
    use std::ffi::OsString;

    fn of(line: &str) -> Result<Nccl, String> {
        match parse(
            format!("firstlight nccl {line}")
                .split(' ')
                .map(OsString::from),
        ) {
            Ok(args) => match args.command {
                Command::Nccl(nccl) => Ok(*nccl),
                other => panic!("{other:?}"),
            },
            Err(NoArgs::Wrong(why)) => Err(why),
            Err(NoArgs::Asked(text) | NoArgs::Unsaid(text)) => panic!("{text}"),
        }
    }

    #[test]
    fn the_guides_command_line_is_parsed() {
        let asked = of("all_reduce -b 8 -e 128M -f 2 -g 8").unwrap();
        let sweep = asked.sweep();
        assert_eq!(sweep, Sweep::standard(Collective::AllReduce));
        assert_eq!(
            (asked.gpus, asked.p2p, asked.processes),
            (Some(8), P2pChoice::On, false)
        );
        assert_eq!(
            of("all_reduce_perf -g 8").unwrap().collective,
            Collective::AllReduce
        );
        assert_eq!(of("reduce").unwrap().sweep().sizes().unwrap(), [32 << 20]);
    }

    #[test]
    fn options_of_nccl_tests_are_accepted_at_their_defaults() {
        let asked =
            of("all_reduce -t 1 -p 0 -m 1 -N 1 -T 0 -G 0 -C 0 -S 0 -a 1 -z 0 -y 0 -u 0 -R 0 -D 0")
                .unwrap();
        assert_eq!(
            asked.sweep(),
            of("all_reduce --nthreads 1 --blocking 0").unwrap().sweep()
        );
        assert_eq!(
            of("all_reduce --gpus 0,0000:41:00.0").unwrap().only.len(),
            2
        );
        let help = parse("firstlight nccl -h".split(' ').map(OsString::from));
        assert!(matches!(help, Err(NoArgs::Asked(text)) if text.contains("--minbytes")));
    }

    #[test]
    fn errors_name_the_allowed_values() {
        for (line, parts) in [
            (
                "all_reduced",
                &["'all_reduced'", "all_reduce, all_gather"][..],
            ),
            ("all_reduce -b 8Q", &["'8Q'", "K, M or G"]),
            ("all_reduce -b 99999999999G", &["'99999999999G'"]),
            ("all_reduce -d int8", &["'int8'", "float, half"]),
            ("all_reduce -o prod", &["'prod'", "sum, min, max, avg"]),
            ("all_reduce -f 1", &["'1'", "--stepfactor"]),
            ("all_reduce -n 0", &["'0'", "--iters"]),
            ("all_reduce -c 2", &["'2'", "--check"]),
            ("all_reduce -b -8", &["'-8'", "--minbytes", "K, M or G"]),
            ("all_reduce -e -8", &["'-8'", "--maxbytes", "K, M or G"]),
            ("all_reduce -i -1", &["'-1'", "--stepbytes", "K, M or G"]),
            ("reduce -r -1", &["'-1'", "-r", "whole numbers from 0"]),
            ("all_reduce -g -1", &["-1", "--ngpus", "1 to 65535"]),
            ("all_reduce -f -2", &["'-2'", "--stepfactor", "from 2"]),
            ("all_reduce -n -1", &["-1", "--iters", "1 to 100000"]),
            ("all_reduce -t 2", &["'2'", "--nthreads", "default only, 1"]),
            (
                "all_reduce --cudagraph 1",
                &["--cudagraph", "default only, 0"],
            ),
            ("all_reduce -g 2 --gpus 0", &["--ngpus", "--gpus"]),
            ("all_reduce --gpus x", &["'x' is not a GPU"]),
            ("all_reduce --p2p some", &["'some'", "on, off, strict"]),
        ] {
            let why = of(line).unwrap_err();
            assert!(
                parts.iter().all(|p| why.contains(p)) && !why.contains('\n'),
                "{line}: {why}"
            );
        }
    }
}
