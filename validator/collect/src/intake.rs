//! Converts the bytes of a POST to an entry of the store, or to a refusal with its reason. Everything in a report is
//! untrusted: it is parsed as strictly as in `firstlight render`, and its texts are truncated. Pure.

use crate::refusal::{Refusal, RefusalReason};
use outcome::Verdict;
use outcome::table::{CallTable, Table};
use report::mac::digest as hash;
use report::{Report, from_json};
use serde::Deserialize;
use std::net::IpAddr;

/// The schema of init's verdict, which is sent if there is no report.
pub const VERDICT: &str = "firstlight.verdict/1";
/// Maximum length of a stored text, characters.
const LONGEST: usize = 300;
/// How many codes of causes are stored.
const CODES: usize = 20;

/// The fields of a report that the store and the pages keep in addition to its bytes.
#[derive(Debug, Clone, PartialEq)]
pub struct Entry {
    /// SHA-256 of the bytes, in hexadecimal.
    pub digest: String,
    /// The node: 16 hexadecimal digits, derived from its host name and its machine id.
    pub node: String,
    /// The host name, or the sender's address if the report has neither name nor id.
    pub host: String,
    /// The machine's id.
    pub machine_id: Option<String>,
    /// When the run began, according to the report.
    pub started: Option<String>,
    /// The verdict.
    pub verdict: Verdict,
    /// What the verdict applies to: `machine`, `fabric` or less.
    pub scope: String,
    /// The codes of the causes, the first one first.
    pub codes: String,
    /// The first cause in words.
    pub says: String,
    /// The GPUs, by model.
    pub gpus: String,
    /// The level of the run.
    pub level: String,
    /// Bandwidth of the slowest pair of GPUs, written or read, GB/s: [`Report::slowest_pair`].
    pub pair: Option<f64>,
    /// NCCL's best bus bandwidth of all_reduce, GB/s.
    pub busbw: Option<f64>,
    /// Duration of the run in seconds.
    pub seconds: Option<f64>,
    /// Whether a MAC with the configured key was verified.
    pub signed: bool,
}

/// init's verdict, sent if there is no report.
#[derive(Debug, Deserialize)]
struct VerdictFile {
    verdict: Verdict,
    cause: Option<String>,
    #[serde(default)]
    codes: Vec<String>,
    #[serde(default)]
    failed: Vec<String>,
    scope: Option<String>,
    covers: Option<String>,
    seconds: Option<f64>,
}

/// Maximum size of such a verdict, bytes: it has a few lists of short texts.
const LARGEST_VERDICT: usize = 256 << 10;

/// The schema's name, which is read first; all else is skipped.
#[derive(Debug, Deserialize)]
struct Head {
    schema: String,
}

/// What a report's MAC proves.
#[derive(Debug, Clone, PartialEq, Eq)]
pub enum Proof {
    /// Nothing: the receiver has no key.
    None,
    /// It is of a machine that has the fleet's key.
    Fleet,
    /// It is of the machine with this host name or machine id, which has a key of its own.
    Machine(String),
}

/// Parses a report or a verdict. `claimed` is the verdict in the request's header, which may be worse than the
/// report's and then replaces it; `digest` is the bytes' SHA-256, `proof` what its MAC proves, and `from` the sender's address.
///
/// # Errors
/// Why it is not stored.
pub fn entry(
    body: &[u8],
    digest: String,
    claimed: Option<&str>,
    proof: &Proof,
    from: IpAddr,
) -> Result<Entry, Refusal> {
    // If no schema is found, the report's own parser reports why.
    let is_verdict = serde_json::from_slice::<Head>(body).is_ok_and(|head| head.schema == VERDICT);
    let mut entry = if is_verdict {
        if body.len() > LARGEST_VERDICT {
            let line = format!(
                "a {VERDICT} of {} bytes, allowed: {LARGEST_VERDICT}",
                body.len()
            );
            return Err(Refusal::new(RefusalReason::Size, line));
        }
        let file = serde_json::from_slice::<VerdictFile>(body);
        of_verdict(file.map_err(|e| {
            Refusal::new(RefusalReason::Schema, format!("not a valid {VERDICT}: {e}"))
        })?)
    } else {
        use report::ReportError;
        of_report(&from_json(body).map_err(|e| {
            let why = match &e {
                ReportError::NotJson(_) => RefusalReason::Malformed,
                ReportError::Schema(_) | ReportError::Shape(_) => RefusalReason::Schema,
                ReportError::Contradiction(_) => RefusalReason::Contradiction,
            };
            Refusal::new(why, e.to_string())
        })?)
    };
    if let Some(claimed) = claimed {
        entry.verdict = counting(entry.verdict, claimed)?;
    }
    entry.digest = digest;
    entry.signed = *proof != Proof::None;
    if let Proof::Machine(name) = proof {
        check_machine(&mut entry, name)?;
    }
    if entry.host.is_empty() {
        entry.host = if entry.machine_id.is_some() {
            "unknown".to_owned()
        } else {
            from.to_string()
        };
    }
    entry.node = node_id(entry.machine_id.as_deref(), &entry.host);
    Ok(entry)
}

/// The id of a node. Machines with the same id, such as copies of one disk, are distinguished by their names.
#[must_use]
pub fn node_id(machine_id: Option<&str>, host: &str) -> String {
    let machine_id = machine_id.unwrap_or("");
    // With their lengths, so that no two pairs of texts give the same bytes.
    let id = format!("{}\n{machine_id}{}\n{host}", machine_id.len(), host.len());
    hash(id.as_bytes()).chars().take(16).collect()
}

/// Refuses a report of another machine than its key; one without a name gets that of the key.
fn check_machine(entry: &mut Entry, name: &str) -> Result<(), Refusal> {
    if entry.host.is_empty() && entry.machine_id.is_none() {
        name.clone_into(&mut entry.host);
    }
    if entry.host == name || entry.machine_id.as_deref() == Some(name) {
        return Ok(());
    }
    let line = format!(
        "the key is that of {name:?}, and the report is of {:?}",
        entry.host
    );
    Err(Refusal::new(RefusalReason::Signature, line))
}

/// The header's verdict, unless it is better than the report's.
fn counting(own: Verdict, claimed: &str) -> Result<Verdict, Refusal> {
    let parsed = verdict(claimed).ok_or_else(|| {
        let line =
            format!("Firstlight-Verdict: read {claimed:?}, allowed: PASS, DEGRADED, FAIL, ERROR");
        Refusal::new(RefusalReason::Contradiction, line)
    })?;
    if badness(parsed) < badness(own) {
        let line =
            format!("Firstlight-Verdict is {parsed}, and the report's own verdict {own} is worse");
        return Err(Refusal::new(RefusalReason::Contradiction, line));
    }
    Ok(parsed)
}

/// The verdict with this name.
#[must_use]
pub fn verdict(name: &str) -> Option<Verdict> {
    VERDICTS
        .into_iter()
        .find(|verdict| verdict.to_string() == name)
}

/// All verdicts, best first.
pub const VERDICTS: [Verdict; 4] = [
    Verdict::Pass,
    Verdict::Degraded,
    Verdict::Fail,
    Verdict::Error,
];

/// How bad a verdict is.
#[must_use]
pub fn badness(verdict: Verdict) -> usize {
    VERDICTS
        .iter()
        .position(|one| *one == verdict)
        .unwrap_or(VERDICTS.len())
}

fn of_verdict(file: VerdictFile) -> Entry {
    let all = if file.codes.is_empty() {
        file.failed
    } else {
        file.codes
    };
    Entry {
        digest: String::new(),
        node: String::new(),
        host: String::new(),
        machine_id: None,
        started: None,
        verdict: file.verdict,
        scope: cut(file.scope.as_deref().unwrap_or("unknown")),
        codes: codes(all.iter().map(String::as_str)),
        says: cut(file.cause.as_deref().unwrap_or("")),
        gpus: cut(file.covers.as_deref().unwrap_or("")),
        level: "none".to_owned(),
        pair: None,
        busbw: None,
        seconds: file.seconds,
        signed: false,
    }
}

fn of_report(report: &Report) -> Entry {
    let first = report.causes.first();
    let recorded = if report.is_recorded() {
        format!("; the machine in {}", report.root)
    } else {
        String::new()
    };
    let test = |id: &str| report.tests.iter().find(|test| test.id == id);
    let sums = test("nccl-allreduce").and_then(|t| t.tables.iter().find_map(all_reduce));
    Entry {
        host: cut(report.machine.host.as_deref().unwrap_or("")),
        machine_id: report.machine.machine_id.as_deref().map(cut),
        started: Some(cut(&report.started)),
        codes: codes(report.causes.iter().map(|cause| cause.code.as_str())),
        says: cut(&first.map_or_else(|| report.answer.clone(), |cause| cause.says.to_string())),
        gpus: cut(&(report.gpu_names() + &recorded)),
        level: report.level.to_string(),
        pair: report.slowest_pair(),
        busbw: sums.and_then(|busbw| {
            busbw
                .into_iter()
                .filter(|busbw| busbw.is_finite())
                .max_by(f64::total_cmp)
        }),
        seconds: Some(report.seconds),
        ..of_verdict(VerdictFile {
            verdict: report.verdict,
            cause: None,
            codes: Vec::new(),
            failed: Vec::new(),
            scope: Some(report.scope.to_string()),
            covers: None,
            seconds: None,
        })
    }
}

fn codes<'a>(all: impl Iterator<Item = &'a str>) -> String {
    cut(&all.take(CODES).collect::<Vec<_>>().join(" "))
}

fn cut(text: &str) -> String {
    text.chars().take(LONGEST).collect()
}

/// The bus bandwidth out of place of each size of all_reduce, GB/s.
fn all_reduce(table: &Table) -> Option<Vec<f64>> {
    match table.known().as_ref() {
        Table::Calls(CallTable::AllReduce, rows) => {
            Some(rows.iter().map(|row| row.out_of_place_busbw).collect())
        }
        _ => None,
    }
}
