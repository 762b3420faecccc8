//! NCCL's bus bandwidth over the size of the data, one drawing for each collective, with and without peer-to-peer where
//! both were measured.

use super::curve::{Axes, Curve, curves};
use super::frame::{note, section};
use crate::render::element::{Element, element};
use crate::report::Report;
use serde_json::Value;

/// Tables of collectives, and what their curve is called.
const TABLES: [(&str, &str); 4] = [
    ("nccl.all_reduce", "P2P on"),
    ("nccl.all_reduce.off", "P2P off"),
    ("nccl.collectives", "P2P on"),
    ("nccl.processes", "P2P on, processes"),
];
/// What a row's bus bandwidth is called.
const BUSBW: &str = "out-of-place busbw";

/// The curves; `None` if NCCL was not measured.
pub(super) fn section_of(report: &Report) -> Option<Element> {
    let mut collectives: Vec<(String, Vec<Curve>)> = Vec::new();
    let tables = report.tests.iter().flat_map(|test| &test.tables);
    let named = |name: &str| tables.clone().find(|table| table["name"].as_str() == Some(name));
    for (table, curve) in TABLES.iter().filter_map(|(name, curve)| Some((named(name)?, *curve))) {
        for (collective, size, busbw) in rows(table).into_iter().flatten() {
            let place = collectives.iter().position(|(name, _)| *name == collective);
            let place = place.unwrap_or_else(|| {
                collectives.push((collective.clone(), Vec::new()));
                collectives.len() - 1
            });
            let Some((_, all)) = collectives.get_mut(place) else { continue };
            match all.iter_mut().find(|known| known.name == curve) {
                Some(known) => known.points.push((size, busbw)),
                None => all.push(Curve { name: curve.to_owned(), points: vec![(size, busbw)] }),
            }
        }
    }
    let off = collectives.iter().any(|(_, all)| all.iter().any(|curve| curve.name == "P2P off"));
    let drawn = collectives.iter_mut().filter_map(|(name, all)| {
        all.iter_mut().for_each(ordered);
        let title = format!("{name}, bus bandwidth");
        curves(&Axes { title: &title, unit: "GB/s", sizes: true }, all)
    });
    let drawn: Vec<_> = drawn.collect();
    let some = !drawn.is_empty();
    let how = if off {
        "Bus bandwidth out of place, over the size of the data. Without peer-to-peer NCCL was measured where a curve says so."
    } else {
        "Bus bandwidth out of place, over the size of the data. NCCL was not measured without peer-to-peer."
    };
    let drawings = element("div").with("class", "curves").text("").children(drawn);
    some.then(|| section("NCCL").with("id", "nccl").child(note(how)).child(drawings))
}

/// By size; of several rows of one size (other types) the first.
fn ordered(curve: &mut Curve) {
    curve.points.sort_by(|(a, _), (b, _)| a.total_cmp(b));
    curve.points.dedup_by(|(a, _), (b, _)| a.total_cmp(b).is_eq());
}

/// Collective, size in bytes and bus bandwidth of each row; `None` if the table has no such columns.
fn rows(table: &Value) -> Option<Vec<(String, f64, f64)>> {
    let at =
        |name: &str| table["columns"].as_array()?.iter().position(|c| c["heading"].as_str() == Some(name));
    let (collective, size, busbw) = (at("collective")?, at("size")?, at(BUSBW)?);
    let row = |row: &Value| {
        Some((row.get(collective)?.as_str()?.to_owned(), row.get(size)?.as_f64()?, row.get(busbw)?.as_f64()?))
    };
    Some(table["rows"].as_array()?.iter().filter_map(row).collect())
}
