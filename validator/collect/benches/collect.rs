//! How long the receiver takes to respond with 100,000 stored reports, compared with its limit: prints each page's
//! median and slowest response time, and exits with status 1 if one takes longer. `just bench-collect [REPORTS
//! [NODES]]`.

use firstlight_collect::intake::Entry;
use firstlight_collect::store::sqlite::{open, put};
use firstlight_collect::store::{NewReport, Rules, deflated};
use outcome::Verdict;
use std::error::Error;
use std::io::{BufRead, BufReader, Read, Write};
use std::net::TcpStream;
use std::path::Path;
use std::process::{Command, ExitCode, Stdio};
use std::time::{Duration, Instant};

/// The maximum time of a response.
const LIMIT: Duration = Duration::from_millis(100);
/// How often each page is requested.
const TIMES: usize = 21;

type BenchResult<T> = Result<T, Box<dyn Error>>;

/// The report number `number` of `nodes` nodes; the node ids begin with the number's hash.
fn item(number: u32, nodes: u32) -> BenchResult<NewReport> {
    let node = number % nodes;
    let verdicts = [
        Verdict::Pass,
        Verdict::Pass,
        Verdict::Pass,
        Verdict::Degraded,
        Verdict::Fail,
        Verdict::Error,
    ];
    let at = usize::try_from(number / nodes + node)? % verdicts.len();
    let entry = Entry {
        digest: format!("{number:064x}"),
        node: format!("{node:016x}"),
        host: format!("node-{node:05}"),
        machine_id: None,
        started: Some("2026-11-20T12:00:00Z".to_owned()),
        verdict: verdicts.get(at).copied().unwrap_or(Verdict::Error),
        scope: "machine".to_owned(),
        codes: "P2P-SLOW ACS-REDIRECT".to_owned(),
        says: "the pairs of GPUs 0 and 3 are slower than their links allow".to_owned(),
        gpus: "8 x NVIDIA GeForce RTX 4090".to_owned(),
        level: "standard".to_owned(),
        pair: Some(20.0 + f64::from(number % 7) / 10.0),
        busbw: Some(20.6),
        seconds: Some(42.0),
        signed: true,
    };
    let body = format!(
        "{{\"number\":{number},\"padding\":\"{}\"}}",
        "report ".repeat(280)
    );
    Ok(NewReport {
        entry,
        received: i64::from(number) + 1_700_000_000,
        deflated: deflated(body.as_bytes())?,
    })
}

fn fill(store: &Path, reports: u32, nodes: u32) -> BenchResult<()> {
    let mut db = open(store)?;
    db.pragma_update(None, "synchronous", "OFF")?;
    let numbers: Vec<u32> = (0..reports).collect();
    for part in numbers.chunks(2000) {
        let items: Vec<_> = part
            .iter()
            .map(|number| item(*number, nodes))
            .collect::<BenchResult<_>>()?;
        put(&mut db, &items, Rules::default())?;
    }
    Ok(())
}

/// Requests a page; returns the duration and its size.
fn ask(address: &str, path: &str) -> BenchResult<(Duration, usize)> {
    let begun = Instant::now();
    let mut stream = TcpStream::connect(address)?;
    write!(
        stream,
        "GET {path} HTTP/1.1\r\nHost: x\r\nConnection: close\r\n\r\n"
    )?;
    let mut answer = Vec::new();
    stream.read_to_end(&mut answer)?;
    if !answer.starts_with(b"HTTP/1.1 200") {
        return Err(format!("{path}: {}", String::from_utf8_lossy(&answer)).into());
    }
    Ok((begun.elapsed(), answer.len()))
}

fn measure(reports: u32, nodes: u32) -> BenchResult<bool> {
    let dir = tempfile::tempdir()?;
    let begun = Instant::now();
    fill(dir.path(), reports, nodes)?;
    println!(
        "{reports} reports of {nodes} nodes stored in {:.1} s",
        begun.elapsed().as_secs_f64()
    );
    let mut server = Command::new(env!("CARGO_BIN_EXE_firstlight-collect"))
        .args(["--listen", "127.0.0.1:0", "--store"])
        .arg(dir.path())
        .stdout(Stdio::piped())
        .spawn()?;
    let mut line = String::new();
    BufReader::new(server.stdout.take().ok_or("no output")?).read_line(&mut line)?;
    let address = line
        .trim()
        .trim_start_matches("listening on http://")
        .trim_end_matches('/')
        .to_owned();
    let last = nodes.div_ceil(100);
    let pages = [
        "/".to_owned(),
        "/?verdict=FAIL".to_owned(),
        format!("/?page={last}"),
        "/reports".to_owned(),
        format!("/reports?page={}", reports.div_ceil(100)),
        format!("/node/{:016x}", 0),
    ];
    let mut held = true;
    for path in &pages {
        let (_, bytes) = ask(&address, path)?;
        let mut times = (0..TIMES)
            .map(|_| Ok(ask(&address, path)?.0))
            .collect::<BenchResult<Vec<_>>>()?;
        times.sort();
        let (median, slowest) = (
            times.get(TIMES / 2).ok_or("no time")?,
            times.last().ok_or("no time")?,
        );
        held &= *slowest <= LIMIT;
        println!(
            "{path:<24} median {:>6.1} ms, slowest {:>6.1} ms, {:.2} of the limit of {} ms, {bytes} bytes",
            median.as_secs_f64() * 1e3,
            slowest.as_secs_f64() * 1e3,
            slowest.as_secs_f64() / LIMIT.as_secs_f64(),
            LIMIT.as_millis()
        );
    }
    server.kill()?;
    server.wait()?;
    Ok(held)
}

fn main() -> BenchResult<ExitCode> {
    let mut numbers = std::env::args()
        .skip(1)
        .filter_map(|word| word.parse::<u32>().ok());
    let reports = numbers.next().unwrap_or(100_000);
    let several: Vec<u32> = match numbers.next() {
        Some(nodes) => vec![nodes],
        None => vec![1000, reports],
    };
    let mut held = true;
    for nodes in several {
        held &= measure(reports, nodes.max(1))?;
    }
    Ok(if held {
        ExitCode::SUCCESS
    } else {
        ExitCode::FAILURE
    })
}
