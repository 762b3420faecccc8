//! Curves over a logarithmic axis of sizes, or over time: a drawing with axes, and for each curve its own color, dash and
//! marker, so that no curve is identified by color alone. Also the section of NCCL, with such a drawing for each collective.

use super::frame::{coordinate, drawing, label, line, shape};
use super::frame::{note, section};
use crate::Report;
use crate::render::element::{Element, element};
use outcome::table::{CallRow, CallTable, Table};

/// Width and height of a drawing.
const SIZE: (f64, f64) = (344.0, 214.0);
/// The plot inside it: left, top, right, bottom.
const PLOT: (f64, f64, f64, f64) = (44.0, 14.0, 332.0, 156.0);
/// The number of styles. Further curves are not drawn; the table has their figures.
const MAX_CURVES: usize = 6;

/// One curve: its name and its points.
pub struct Curve {
    /// Its name in the legend.
    pub name: String,
    /// Its points, in the units of the axes.
    pub points: Vec<(f64, f64)>,
}

/// The description of the axes.
pub struct Axes<'a> {
    /// The title of the figure.
    pub title: &'a str,
    /// The unit of the vertical axis.
    pub unit: &'a str,
    /// Whether the horizontal axis is one of sizes in bytes, with powers of two; else it is of seconds.
    pub sizes: bool,
}

/// The curves as a figure; `None` if no curve has a point.
pub fn curves(axes: &Axes<'_>, all: &[Curve]) -> Option<Element> {
    let points = || {
        all.iter()
            .flat_map(|curve| &curve.points)
            .filter(|(_, y)| y.is_finite())
    };
    let along = |x: f64| if axes.sizes { x.max(1.0).log2() } else { x };
    let first = points().map(|(x, _)| along(*x)).reduce(f64::min)?;
    let last = points().map(|(x, _)| along(*x)).reduce(f64::max)?;
    let most = points().map(|(_, y)| *y).fold(0.0, f64::max);
    let (left, top, right, bottom) = PLOT;
    let step = step(most);
    let steps = (most / step).ceil().max(1.0);
    let x = |value: f64| left + (along(value) - first) / (last - first).max(1e-9) * (right - left);
    let y = |value: f64| bottom - value / (steps * step) * (bottom - top);
    let mut parts = vec![label(0.0, 9.0, "small dim", axes.unit)];
    let mut at = 0.0;
    while at <= steps {
        let height = y(at * step);
        parts.push(line((left, height), (right, height), "grid"));
        parts.push(
            label(
                left - 4.0,
                height + 4.0,
                "small dim",
                &coordinate(at * step),
            )
            .with("text-anchor", "end"),
        );
        at += 1.0;
    }
    for (n, value) in ticks(axes.sizes, first, last).into_iter().enumerate() {
        let words = if axes.sizes {
            bytes(value)
        } else {
            format!("{} s", coordinate(value))
        };
        let anchor = match n {
            0 => "start",
            4 => "end",
            _ => "middle",
        };
        parts.push(line((x(value), bottom), (x(value), bottom + 3.0), "axis"));
        parts.push(label(x(value), bottom + 15.0, "small dim", &words).with("text-anchor", anchor));
    }
    parts.push(line((left, bottom), (right, bottom), "axis"));
    for (n, curve) in all.iter().enumerate().take(MAX_CURVES) {
        parts.extend(curve_elements(n, curve, &x, &y));
    }
    let summaries: Vec<_> = all
        .iter()
        .filter_map(|curve| summary(curve, axes))
        .collect();
    let figure = element("figure").child(element("figcaption").text(axes.title));
    Some(figure.child(drawing(SIZE, axes.title, &summaries.join("; "), parts)))
}

/// A curve's line, its markers and its entry in the legend.
fn curve_elements(
    n: usize,
    curve: &Curve,
    x: &impl Fn(f64) -> f64,
    y: &impl Fn(f64) -> f64,
) -> Vec<Element> {
    let class = format!("curve c{n}");
    let places: Vec<_> = curve
        .points
        .iter()
        .filter(|(_, v)| v.is_finite())
        .map(|(a, b)| (x(*a), y(*b)))
        .collect();
    let path: Vec<_> = places
        .iter()
        .map(|(x, y)| format!("{},{}", coordinate(*x), coordinate(*y)))
        .collect();
    let mut parts = vec![
        element("polyline")
            .with("class", &class)
            .with("points", &path.join(" ")),
    ];
    parts.extend(
        places
            .iter()
            .filter(|_| places.len() <= 40)
            .map(|place| marker(n, *place)),
    );
    let column = if n.is_multiple_of(2) {
        4.0
    } else {
        SIZE.0 / 2.0
    };
    let height = SIZE.1 - 30.0
        + if n >= 2 {
            if n >= 4 { 26.0 } else { 13.0 }
        } else {
            0.0
        };
    parts.push(line(
        (column, height - 4.0),
        (column + 26.0, height - 4.0),
        &class,
    ));
    parts.push(marker(n, (column + 13.0, height - 4.0)));
    parts.push(label(column + 31.0, height, "small", &curve.name));
    parts
}

/// The marker of curve `n`: one of three shapes.
fn marker(n: usize, (x, y): (f64, f64)) -> Element {
    let class = format!("dot c{n}");
    match n % 3 {
        0 => shape("circle", [("cx", x), ("cy", y), ("r", 2.6)]).with("class", &class),
        1 => shape(
            "rect",
            [
                ("x", x - 2.4),
                ("y", y - 2.4),
                ("width", 4.8),
                ("height", 4.8),
            ],
        )
        .with("class", &class),
        _ => {
            let corners = [(x, y - 3.4), (x - 3.2, y + 2.4), (x + 3.2, y + 2.4)];
            let corners = corners.map(|(x, y)| format!("{},{}", coordinate(x), coordinate(y)));
            element("polygon")
                .with("class", &class)
                .with("points", &corners.join(" "))
        }
    }
}

/// The last and the highest point in words.
fn summary(curve: &Curve, axes: &Axes<'_>) -> Option<String> {
    let (last, value) = curve.points.last()?;
    let most = curve.points.iter().map(|(_, y)| *y).reduce(f64::max)?;
    let at = if axes.sizes {
        bytes(*last)
    } else {
        format!("{last:.0} s")
    };
    Some(format!(
        "{}: {value:.2} {} at {at}, at most {most:.2}",
        curve.name, axes.unit
    ))
}

/// 1, 2 or 5 times a power of ten: at most five steps reach `most`.
fn step(most: f64) -> f64 {
    let rough = (most / 5.0).max(1e-6);
    let power = 10_f64.powf(rough.log10().floor());
    [1.0, 2.0, 5.0]
        .into_iter()
        .map(|n| n * power)
        .find(|step| *step >= rough)
        .unwrap_or(10.0 * power)
}

fn ticks(sizes: bool, first: f64, last: f64) -> Vec<f64> {
    let count = 4.0;
    let mut all = Vec::new();
    let mut n = 0.0;
    while n <= count {
        let at = first + (last - first) * n / count;
        all.push(if sizes { at.round().exp2() } else { at });
        n += 1.0;
    }
    all.dedup();
    all
}

#[expect(
    clippy::cast_possible_truncation,
    clippy::cast_sign_loss,
    reason = "a size of a test, a power of two"
)]
fn bytes(value: f64) -> String {
    outcome::text::size(value as u64)
}

/// Tables of collectives, and the names of their curves.
const TABLES: [(CallTable, &str); 4] = [
    (CallTable::AllReduce, "P2P on"),
    (CallTable::AllReduceOff, "P2P off"),
    (CallTable::Collectives, "P2P on"),
    (CallTable::Processes, "P2P on, processes"),
];

/// The curves; `None` if NCCL was not measured.
pub(super) fn section_of(report: &Report) -> Option<Element> {
    let mut collectives: Vec<(String, Vec<Curve>)> = Vec::new();
    let tables: Vec<_> = report
        .tests
        .iter()
        .flat_map(|test| &test.tables)
        .map(Table::known)
        .collect();
    let calls = |of: CallTable| {
        tables.iter().find_map(|table| match table.as_ref() {
            Table::Calls(table, rows) if *table == of => Some(rows),
            _ => None,
        })
    };
    for (rows, curve) in TABLES
        .iter()
        .filter_map(|(table, curve)| Some((calls(*table)?, *curve)))
    {
        for CallRow {
            collective,
            bytes,
            out_of_place_busbw: busbw,
            ..
        } in rows.iter().filter(|row| row.out_of_place_busbw.is_finite())
        {
            let point = (float(*bytes), *busbw);
            let place = collectives.iter().position(|(name, _)| name == collective);
            let place = place.unwrap_or_else(|| {
                collectives.push((collective.clone(), Vec::new()));
                collectives.len() - 1
            });
            let Some((_, all)) = collectives.get_mut(place) else {
                continue;
            };
            match all.iter_mut().find(|known| known.name == curve) {
                Some(known) => known.points.push(point),
                None => all.push(Curve {
                    name: curve.to_owned(),
                    points: vec![point],
                }),
            }
        }
    }
    let off = collectives
        .iter()
        .any(|(_, all)| all.iter().any(|curve| curve.name == "P2P off"));
    let drawn = collectives.iter_mut().filter_map(|(name, all)| {
        all.iter_mut().for_each(sort_by_size);
        let title = format!("{name}, bus bandwidth");
        curves(
            &Axes {
                title: &title,
                unit: "GB/s",
                sizes: true,
            },
            all,
        )
    });
    let drawn: Vec<_> = drawn.collect();
    let some = !drawn.is_empty();
    let how = if off {
        "Bus bandwidth out of place, over the size of the data. Curves named P2P off were measured without peer-to-peer."
    } else {
        "Bus bandwidth out of place, over the size of the data. NCCL was not measured without peer-to-peer."
    };
    let drawings = element("div")
        .with("class", "curves")
        .text("")
        .children(drawn);
    some.then(|| {
        section("NCCL")
            .with("id", "nccl")
            .child(note(how))
            .child(drawings)
    })
}

/// Sorts a curve by size; of several rows of one size (other types) the first is kept.
fn sort_by_size(curve: &mut Curve) {
    curve.points.sort_by(|(a, _), (b, _)| a.total_cmp(b));
    curve
        .points
        .dedup_by(|(a, _), (b, _)| a.total_cmp(b).is_eq());
}

#[expect(
    clippy::cast_precision_loss,
    reason = "a size of a test, a power of two"
)]
const fn float(bytes: u64) -> f64 {
    bytes as f64
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn an_axis_has_round_steps() {
        assert_eq!([20.6, 4.0, 100.0, 0.9].map(step), [5.0, 1.0, 20.0, 0.2]);
        assert_eq!(
            ticks(true, 3.0, 27.0),
            [8.0, 512.0, 32768.0, 2_097_152.0, 134_217_728.0]
        );
        assert_eq!(ticks(false, 0.0, 0.0), [0.0]);
    }

    #[test]
    fn a_curve_without_points_is_not_drawn() {
        let axes = Axes {
            title: "all_reduce",
            unit: "GB/s",
            sizes: true,
        };
        assert!(curves(&axes, &[]).is_none());
        assert!(
            curves(
                &axes,
                &[Curve {
                    name: "on".into(),
                    points: vec![]
                }]
            )
            .is_none()
        );
        assert!(
            curves(
                &axes,
                &[Curve {
                    name: "on".into(),
                    points: vec![(8.0, 0.0)]
                }]
            )
            .is_some()
        );
    }
}
