//! The figures in the form of perftest's programs (`ib_write_bw --report_gbits`, `ib_write_lat`), and for the report.

use super::Memory;
use super::pass::{Latency, Pass, Rate};
use serde_json::{Value, json};
use std::fmt::Write as _;

/// The name of a port: of a node and a rail.
pub(super) type Name<'a> = &'a dyn Fn(usize, usize) -> String;

const fn word(memory: Memory) -> &'static str {
    match memory {
        Memory::Host => "host memory",
        Memory::Gpu => "GPU memory",
    }
}

fn rates(pass: &Pass) -> impl Iterator<Item = (&Rate, f64)> {
    pass.rates.iter().map(|rate| (rate, rate.gbit_s()))
}

/// For the console.
pub(super) fn text(all: &[Pass], memory: Memory, name: Name<'_>) -> String {
    let mut text = String::new();
    for pass in all.iter().filter(|pass| !pass.rates.is_empty()) {
        let (a, b) = pass.pair;
        let (a, b) = (name(a, pass.rail), name(b, pass.rail));
        let _ = writeln!(text, "\n# RDMA {}: {a}, {b}; MTU {}", word(memory), pass.mtu);
        text.push_str(" #bytes     #iterations    BW average[Gb/sec]   MsgRate[Mpps]   transfer\n");
        for (rate, gbit_s) in rates(pass) {
            let (from, to) = (name(rate.nodes.0, pass.rail), name(rate.nodes.1, pass.rail));
            #[expect(clippy::cast_precision_loss, reason = "far below 2^52")]
            let messages = rate.count as f64 / rate.seconds / 1e6;
            let (bytes, count, verb) = (rate.bytes, rate.count, rate.verb);
            let _ = writeln!(
                text,
                " {bytes:<10} {count:<14} {gbit_s:<20.2} {messages:<15.6} {verb} by {from}, at {to}"
            );
        }
        text.push_str(" #bytes #iterations    t_min[usec]    t_max[usec]  t_typical[usec]    99% percentile[usec]   transfer\n");
        for of in &pass.latencies {
            let Latency { verb, times, .. } = of;
            let [least, most, typical, late] = [0.0, 1.0, 0.5, 0.99].map(|part| of.at(part));
            let count = times.len();
            let _ = writeln!(
                text,
                " 8       {count:<14} {least:<14.2} {most:<12.2} {typical:<18.2} {late:<22.2} {verb}"
            );
        }
    }
    text
}

/// For the report.
pub(super) fn rows(all: &[Pass], memory: Memory, name: Name<'_>) -> Value {
    let columns = [("rail", ""), ("transfer", ""), ("by", ""), ("at", ""), ("size", "B"), ("rate", "Gb/s")];
    let columns: Vec<_> =
        columns.iter().map(|(heading, unit)| json!({ "heading": heading, "unit": unit })).collect();
    let rows = all.iter().flat_map(|pass| {
        rates(pass).map(move |(rate, gbit_s)| {
            let (by, at) = (name(rate.nodes.0, pass.rail), name(rate.nodes.1, pass.rail));
            json!([pass.rail, rate.verb.to_string(), by, at, rate.bytes, gbit_s])
        })
    });
    json!({ "name": format!("RDMA, {}", word(memory)), "columns": columns, "rows": rows.collect::<Vec<_>>() })
}
