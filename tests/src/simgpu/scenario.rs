//! A scenario as data: read from its file, combined with its machine's, and changed by a test.

use super::names;
use crate::error::{Error, Result};
use crate::image::workspace;
use machines::Machine;
use std::fs;
use std::path::{Path, PathBuf};
use toml::{Table, Value};

/// The expected result of the program.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Expectation {
    /// The verdict.
    pub verdict: String,
    /// The tests that must be blamed; no others may be.
    pub fails: Vec<String>,
    /// Tests that may be blamed too, depending on where the fault is.
    pub also: Vec<String>,
    /// The codes of which one must be the first cause in the report; if empty, there is no cause.
    pub cause: Vec<String>,
}

/// A scenario.
#[derive(Debug, Clone)]
pub struct Scenario {
    /// The libraries' input.
    simulated: Table,
    /// Which libraries and functions are omitted.
    layout: Table,
    expect: Table,
    within: Option<Machine>,
    settings: Vec<String>,
}

impl Scenario {
    /// The scenario of this name.
    ///
    /// # Errors
    /// If it, or its machine, does not exist or is not TOML.
    pub fn named(name: &str) -> Result<Self> {
        Self::of(names::table(name)?)
    }

    /// The scenario that a table describes.
    ///
    /// # Errors
    /// If its machine does not exist or is not TOML.
    pub fn of(mut own: Table) -> Result<Self> {
        let mut take = |key: &str| match own.remove(key) {
            Some(Value::Table(table)) => table,
            _ => Table::new(),
        };
        let (layout, expect) = (take("layout"), take("expect"));
        let on = own
            .remove("on")
            .and_then(|on| Some(on.as_str()?.to_owned()))
            .unwrap_or_default();
        let mut simulated = read(&folder("machines").join(format!("{on}.toml")))?;
        merge(&mut simulated, own);
        Ok(Self {
            simulated,
            layout,
            expect,
            within: None,
            settings: Vec::new(),
        })
    }

    /// The same GPUs in this modelled machine, whose GPUs have the scenario's addresses.
    #[must_use]
    pub fn within(mut self, machine: Machine) -> Self {
        self.within = Some(machine);
        self
    }

    /// The same with the settings of a machine's owner: `expect.gpus=4`.
    #[must_use]
    pub fn set(mut self, settings: &[String]) -> Self {
        self.settings.extend_from_slice(settings);
        self
    }

    pub(super) fn settings(&self) -> &[String] {
        &self.settings
    }

    /// The modelled machine that was set for it.
    pub(super) fn own_machine(&self) -> Option<&Machine> {
        self.within.as_ref()
    }

    /// The same machine with `gpus` GPUs, at the addresses of [`super::root`]'s machine.
    #[must_use]
    pub fn gpus(mut self, gpus: usize) -> Self {
        let addresses = super::layout::addresses(gpus)
            .into_iter()
            .map(Value::String)
            .collect();
        let machine = self.table("machine");
        machine.insert(
            "gpus".into(),
            Value::Integer(i64::try_from(gpus).unwrap_or_default()),
        );
        machine.insert("bdf".into(), Value::Array(addresses));
        machine.remove("numa");
        self
    }

    /// Number of GPUs.
    #[must_use]
    pub fn count(&self) -> usize {
        let gpus = self
            .simulated
            .get("machine")
            .and_then(|m| m.get("gpus")?.as_integer());
        gpus.and_then(|n| usize::try_from(n).ok())
            .unwrap_or_default()
    }

    /// The socket of a GPU: they are spread over the sockets evenly, in order.
    #[must_use]
    pub(super) fn socket(&self, gpu: usize) -> usize {
        let sockets = self
            .simulated
            .get("machine")
            .and_then(|m| m.get("sockets")?.as_integer());
        let sockets = sockets
            .and_then(|n| usize::try_from(n).ok())
            .unwrap_or(1)
            .max(1);
        (gpu / self.count().div_ceil(sockets).max(1)).min(sockets - 1)
    }

    /// The addresses of its GPUs.
    #[must_use]
    pub fn addresses(&self) -> Vec<String> {
        let listed = self
            .simulated
            .get("machine")
            .and_then(|m| m.get("bdf")?.as_array());
        let text = |v: &Value| v.as_str().map(str::to_owned);
        listed
            .into_iter()
            .flatten()
            .filter_map(text)
            .take(self.count())
            .collect()
    }

    /// Moves every fault of a pair to this pair, in the direction of the data; a fault from the second to the first GPU
    /// keeps that direction.
    #[must_use]
    pub fn pair(mut self, from: usize, to: usize) -> Self {
        let number = |n: usize| Value::Integer(i64::try_from(n).unwrap_or_default());
        for fault in self.faults() {
            let Some(Value::Array(old)) = fault.get("pair") else {
                continue;
            };
            let turned =
                old.first().and_then(Value::as_integer) > old.get(1).and_then(Value::as_integer);
            let pair = if turned { [to, from] } else { [from, to] };
            fault.insert("pair".into(), Value::Array(pair.map(number).to_vec()));
        }
        self
    }

    /// Changes one key of all faults.
    #[must_use]
    pub fn fault(mut self, key: &str, value: impl Into<Value>) -> Self {
        let value = value.into();
        for fault in self.faults() {
            fault.insert(key.to_owned(), value.clone());
        }
        self
    }

    /// Changes one key of the machine.
    #[must_use]
    pub fn machine(mut self, key: &str, value: impl Into<Value>) -> Self {
        self.table("machine").insert(key.to_owned(), value.into());
        self
    }

    /// The machine's table, as the libraries read it.
    pub(crate) fn machine_table(&self) -> Table {
        self.simulated
            .get("machine")
            .and_then(Value::as_table)
            .cloned()
            .unwrap_or_default()
    }

    /// Whether `NVLink` joins the GPUs.
    #[must_use]
    pub fn has_nvlink(&self) -> bool {
        self.machine_table().contains_key("nvlink")
    }

    /// The same machine with links between GPUs that are `by` times as fast, and also those to the host if they are the
    /// same links. Latencies do not change.
    #[must_use]
    pub fn scaled(mut self, by: f64) -> Self {
        let nvlink = self.has_nvlink();
        let own: &[&str] = if nvlink {
            &["local", "host", "staged", "socket_link"]
        } else {
            &["local"]
        };
        for (key, figures) in self.table("figures") {
            if !own.contains(&key.as_str()) {
                scale_rates(figures, key, by);
            }
        }
        let ways: &[&str] = if nvlink { &["p2p"] } else { &["p2p", "shm"] };
        self.collectives_scaled(by, ways)
    }

    /// How many times faster GPUs on the same socket are than GPUs on different sockets.
    #[must_use]
    pub fn same_socket_speedup(&self) -> f64 {
        let figures = self.simulated.get("figures");
        let least = |place: &str| {
            figures?
                .get(place)?
                .get("sm")?
                .get("write")?
                .get(0)?
                .as_float()
        };
        least("near")
            .zip(least("far"))
            .map_or(1.0, |(near, far)| near / far)
    }

    /// The same machine with collectives that are `by` times as fast, with peer access (`p2p`) or without (`shm`).
    #[must_use]
    pub fn collectives_scaled(mut self, by: f64, ways: &[&str]) -> Self {
        for (key, tables) in self.table("nccl") {
            if let (true, Value::Table(tables)) = (ways.contains(&key.as_str()), tables) {
                tables
                    .iter_mut()
                    .for_each(|(_, table)| scale_times(table, by));
            }
        }
        self
    }

    /// The expected result.
    #[must_use]
    pub fn expect(&self) -> Expectation {
        let verdict = self
            .expect
            .get("verdict")
            .and_then(Value::as_str)
            .unwrap_or_default()
            .to_owned();
        let list = |key| strings(&self.expect, key);
        Expectation {
            verdict,
            fails: list("fails"),
            also: list("also"),
            cause: list("cause"),
        }
    }

    /// Generation and width of its GPUs' links.
    pub(super) fn pcie(&self) -> Option<(u8, u8)> {
        let pcie = self.simulated.get("machine")?.get("pcie")?;
        let number = |key: &str| u8::try_from(pcie.get(key)?.as_integer()?).ok();
        Some((number("gen")?, number("width")?))
    }

    /// Generation and width of a GPU's link if it is really narrow: a link with the usual rate is only reported
    /// incorrectly.
    pub(super) fn narrowed(&self, gpu: usize) -> Option<(Option<u8>, Option<u8>)> {
        let is = |f: &&Value, key: &str, value: &Value| f.get(key) == Some(value);
        let faults = self.simulated.get("fault")?.as_array()?;
        let gpu = Value::Integer(i64::try_from(gpu).ok()?);
        let fault = faults
            .iter()
            .find(|f| is(f, "kind", &"narrow".into()) && is(f, "gpu", &gpu))?;
        let slower = fault
            .get("rate")
            .and_then(Value::as_float)
            .is_some_and(|rate| rate < 1.0);
        let number = |key: &str| u8::try_from(fault.get(key)?.as_integer()?).ok();
        slower.then(|| (number("gen"), number("width")))
    }

    /// The driver's version.
    #[must_use]
    pub fn version(&self) -> &str {
        self.simulated
            .get("machine")
            .and_then(|m| m.get("driver")?.as_str())
            .unwrap_or("0")
    }

    /// The libraries' input, as text.
    #[must_use]
    pub fn text(&self) -> String {
        self.simulated.to_string()
    }

    /// Whether RDMA cards are simulated.
    pub(super) fn has_cards(&self) -> bool {
        let devices = self
            .simulated
            .get("verbs")
            .and_then(|verbs| verbs.get("devices"));
        devices
            .and_then(Value::as_array)
            .is_some_and(|devices| !devices.is_empty())
    }

    /// The omitted libraries.
    pub(super) fn without(&self) -> Vec<String> {
        strings(&self.layout, "without")
    }

    /// Lines that the kernel logged before the tests.
    pub(super) fn logged(&self) -> Vec<String> {
        strings(&self.layout, "logged")
    }

    /// The omitted functions.
    pub(super) fn without_symbols(&self) -> Vec<String> {
        strings(&self.layout, "without_symbols")
    }

    fn table(&mut self, key: &str) -> &mut Table {
        let value = self
            .simulated
            .entry(key)
            .or_insert_with(|| Value::Table(Table::new()));
        value
            .as_table_mut()
            .unwrap_or_else(|| panic!("{key} is no table"))
    }

    fn faults(&mut self) -> impl Iterator<Item = &mut Table> {
        let all = self
            .simulated
            .get_mut("fault")
            .and_then(Value::as_array_mut);
        all.into_iter().flatten().filter_map(Value::as_table_mut)
    }
}

/// A folder of `tests/simgpu`.
pub(crate) fn folder(name: &str) -> PathBuf {
    workspace().join("tests/simgpu").join(name)
}

pub(crate) fn read(path: &Path) -> Result<Table> {
    let text = fs::read_to_string(path).map_err(Error::file("read", path))?;
    text.parse().map_err(|e: toml::de::Error| Error::Scenario {
        path: path.to_owned(),
        why: e.to_string(),
    })
}

/// Merges `over` into `under`; tables are merged recursively, everything else is replaced.
pub(crate) fn merge(under: &mut Table, over: Table) {
    for (key, value) in over {
        match (under.get_mut(&key), value) {
            (Some(Value::Table(old)), Value::Table(new)) => merge(old, new),
            (_, new) => drop(under.insert(key, new)),
        }
    }
}

/// Scales the part of times above the smallest one, which is bytes divided by a rate.
fn scale_times(table: &mut Value, by: f64) {
    for key in ["out", "in"] {
        let Some(Value::Array(times)) = table.get_mut(key) else {
            continue;
        };
        let least = times
            .iter()
            .filter_map(Value::as_float)
            .fold(f64::INFINITY, f64::min);
        for time in times {
            if let Value::Float(us) = time {
                *us = least + (*us - least) / by;
            }
        }
    }
}

/// Scales all numbers except those whose key names a time or GPUs.
fn scale_rates(value: &mut Value, key: &str, by: f64) {
    match value {
        _ if key.ends_with("_us") || key.ends_with("_ns") || key == "gpus" => {}
        Value::Float(rate) => *rate *= by,
        Value::Array(values) => values
            .iter_mut()
            .for_each(|value| scale_rates(value, key, by)),
        Value::Table(table) => table
            .iter_mut()
            .for_each(|(key, value)| scale_rates(value, key, by)),
        _ => {}
    }
}

fn strings(table: &Table, key: &str) -> Vec<String> {
    let listed = table.get(key).and_then(Value::as_array);
    listed
        .into_iter()
        .flatten()
        .filter_map(|v| Some(v.as_str()?.to_owned()))
        .collect()
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_fault_moves_to_another_pair_in_its_own_direction() {
        let pair = |name, from, to| {
            Scenario::named(name)
                .unwrap()
                .gpus(16)
                .pair(from, to)
                .text()
        };
        assert!(pair("zeros", 3, 12).contains("pair = [3, 12]"));
        assert!(pair("one-direction", 3, 12).contains("pair = [12, 3]"));
    }
}
