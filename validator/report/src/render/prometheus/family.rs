//! One metric of the text exposition format 0.0.4 with all its series. The format requires the lines of a
//! metric to be together and no duplicate series; both hold for any report, and so do the rules for names and escapes.

use outcome::text::is_invisible;
use std::collections::BTreeMap;
use std::fmt::Write as _;

/// A metric and its series.
#[derive(Debug)]
pub struct Family {
    name: &'static str,
    kind: &'static str,
    help: &'static str,
    series: Vec<(String, f64)>,
    /// How often each set of labels occurred.
    seen: BTreeMap<String, usize>,
}

impl Family {
    /// A gauge without series, which writes nothing. The HELP text is the same in every version and for every report:
    /// node_exporter silently drops series of a metric that has two texts in its folder. So a metric that means something
    /// else gets another name.
    #[must_use]
    pub const fn new(name: &'static str, help: &'static str) -> Self {
        Self {
            name,
            kind: "gauge",
            help,
            series: Vec::new(),
            seen: BTreeMap::new(),
        }
    }

    /// The same metric as a counter, which only grows while the program runs.
    #[must_use]
    pub const fn into_counter(mut self) -> Self {
        self.kind = "counter";
        self
    }

    /// A gauge with a single series.
    #[must_use]
    pub fn single(
        name: &'static str,
        help: &'static str,
        labels: &[(&str, &str)],
        value: f64,
    ) -> Self {
        let mut family = Self::new(name, help);
        family.add(labels, value);
        family
    }

    /// Adds a series. A duplicate of earlier labels gets an additional label, so that neither hides the
    /// other.
    pub fn add(&mut self, labels: &[(&str, &str)], value: f64) {
        let mut labels: Vec<_> = labels
            .iter()
            .map(|(name, value)| label(name, value))
            .collect();
        let times = self.seen.entry(labels.join(",")).or_default();
        *times += 1;
        if *times > 1 {
            labels.push(label("again", &times.to_string()));
        }
        self.series.push((labels.join(","), value));
    }

    /// A series for each state: 1 for the present one, 0 for the others.
    pub fn states(&mut self, labels: &[(&str, &str)], name: &str, all: &[&str], is: &str) {
        for state in all {
            self.add(
                &[labels, &[(name, state)]].concat(),
                f64::from(u8::from(*state == is)),
            );
        }
    }

    /// Its lines.
    #[must_use]
    pub fn text(&self) -> String {
        let Self {
            name,
            kind,
            help,
            series,
            ..
        } = self;
        if series.is_empty() {
            return String::new();
        }
        let help = help.replace('\\', "\\\\").replace('\n', "\\n");
        let mut text = format!("# HELP {name} {help}\n# TYPE {name} {kind}\n");
        for (labels, value) in series {
            let labels = if labels.is_empty() {
                String::new()
            } else {
                format!("{{{labels}}}")
            };
            // Writing into a String cannot fail.
            let _ = writeln!(text, "{name}{labels} {value}");
        }
        text
    }
}

fn label(name: &str, value: &str) -> String {
    let mut text = label_name(name) + "=\"";
    for c in value.chars() {
        match c {
            '\\' => text.push_str("\\\\"),
            '"' => text.push_str("\\\""),
            '\n' => text.push_str("\\n"),
            c if is_invisible(c) => text.push('?'),
            c => text.push(c),
        }
    }
    text + "\""
}

/// The name with `_` for whatever a label's name may not have: one bad name would make the whole file invalid.
fn label_name(name: &str) -> String {
    let allowed: String = name
        .chars()
        .map(|c| if c.is_ascii_alphanumeric() { c } else { '_' })
        .collect();
    let starts_well = allowed.starts_with(|c: char| c.is_ascii_alphabetic() || c == '_');
    if starts_well {
        allowed
    } else {
        format!("_{allowed}")
    }
}
