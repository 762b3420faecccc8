//! Reads a table of known problems, strictly: one line says what is wrong, where, and what is allowed. Pure.

use super::Problem;
use super::version::{End, Range, Version};
use outcome::text::quoted;
use toml::{Table, Value};

/// The keys of a row.
const KEYS: [&str; 9] = [
    "id", "says", "thread", "read", "driver", "kernel", "nccl", "gpus", "tests",
];

/// The rows of a table; `tests`: the existing test ids.
///
/// # Errors
/// The first mistake.
pub(super) fn parse(text: &str, tests: &[&str]) -> Result<Vec<Problem>, String> {
    let mut table: Table = text.parse().map_err(|e: toml::de::Error| {
        let line = e
            .span()
            .and_then(|s| text.get(..s.start))
            .map_or(1, |t| t.matches('\n').count() + 1);
        format!("line {line}: {}", e.message().replace('\n', " "))
    })?;
    let rows = match table.remove("problem") {
        None => Vec::new(),
        Some(Value::Array(rows)) => rows,
        Some(other) => return Err(wrong("problem", &other, "tables [[problem]]")),
    };
    if let Some(key) = table.keys().next() {
        return Err(format!(
            "{}: there is no such key; allowed: [[problem]]",
            quoted(key)
        ));
    }
    let problems = (1..)
        .zip(&rows)
        .map(|(n, row)| problem(n, row, tests))
        .collect::<Result<Vec<_>, _>>()?;
    match super::doubled(&problems) {
        Some(id) => Err(format!("id: {id} is there twice")),
        None => Ok(problems),
    }
}

fn wrong(at: &str, read: &Value, allowed: &str) -> String {
    format!(
        "{at}: read {}; allowed: {allowed}",
        quoted(&read.to_string())
    )
}

fn problem(n: usize, row: &Value, tests: &[&str]) -> Result<Problem, String> {
    let at = format!("problem {n}");
    let Value::Table(table) = row else {
        return Err(wrong(&at, row, "a table"));
    };
    if let Some(key) = table.keys().find(|key| !KEYS.contains(&key.as_str())) {
        return Err(format!(
            "{at}, {}: there is no such key; allowed: {}",
            quoted(key),
            KEYS.join(", ")
        ));
    }
    let row = Row { at, table };
    let is_id = |c: char| c.is_ascii_alphanumeric() || c == '-';
    let problem = Problem {
        id: row.text("id", "letters, digits and -", |text| {
            text.chars().all(is_id)
        })?,
        says: row.text("says", "a clause without a line end", |text| {
            !text.contains(char::is_control)
        })?,
        thread: row.text("thread", "an address that begins with https://", is_address)?,
        read: row.text(
            "read",
            "the date on which the thread was read, as 2026-11-27",
            is_date,
        )?,
        driver: row.range("driver")?,
        kernel: row.range("kernel")?,
        nccl: row.range("nccl")?,
        gpus: row.list(
            "gpus",
            "a list of models, each as the driver names it or a part of the name",
            |model| model.split_whitespace().next().is_some(),
        )?,
        tests: row.list("tests", &format!("a list of: {}", tests.join(", ")), |id| {
            tests.contains(&id)
        })?,
    };
    // Without a version the row would never end.
    if [&problem.driver, &problem.kernel, &problem.nccl]
        .iter()
        .all(|range| range.is_none())
    {
        return Err(format!(
            "{}: has no versions; allowed: at least one of driver, kernel, nccl",
            row.at
        ));
    }
    Ok(problem)
}

fn is_address(text: &str) -> bool {
    text.starts_with("https://") && !text.contains(|c: char| c.is_whitespace() || c.is_control())
}

fn is_date(text: &str) -> bool {
    let mut parts = text
        .split('-')
        .map(|part| (part.len(), part.parse::<u32>().ok()));
    let date = [parts.next(), parts.next(), parts.next()];
    let [
        Some((4, Some(2000..))),
        Some((2, Some(1..=12))),
        Some((2, Some(1..=31))),
    ] = date
    else {
        return false;
    };
    parts.next().is_none()
}

/// One row.
struct Row<'a> {
    at: String,
    table: &'a Table,
}

impl Row<'_> {
    fn text(
        &self,
        key: &str,
        allowed: &str,
        fits: impl Fn(&str) -> bool,
    ) -> Result<String, String> {
        let at = format!("{}, {key}", self.at);
        let Some(value) = self.table.get(key) else {
            return Err(format!("{at}: is missing; allowed: {allowed}"));
        };
        let text = value
            .as_str()
            .filter(|text| !text.trim().is_empty() && fits(text));
        text.map(str::to_owned)
            .ok_or_else(|| wrong(&at, value, allowed))
    }

    fn list(
        &self,
        key: &str,
        allowed: &str,
        fits: impl Fn(&str) -> bool,
    ) -> Result<Vec<String>, String> {
        let Some(value) = self.table.get(key) else {
            return Ok(Vec::new());
        };
        let texts = value.as_array().filter(|all| !all.is_empty());
        let texts = texts.and_then(|all| all.iter().map(Value::as_str).collect::<Option<Vec<_>>>());
        let texts = texts.filter(|all| all.iter().all(|text| fits(text)));
        let texts = texts.ok_or_else(|| wrong(&format!("{}, {key}", self.at), value, allowed))?;
        Ok(texts.into_iter().map(str::to_owned).collect())
    }

    fn range(&self, key: &str) -> Result<Option<Range>, String> {
        const ALLOWED: &str = "{ from = \"1.2\", to = \"1.4\" } or { from = \"1.2\", fixed = \"1.5\" }, of numbers and \
            dots, with at least one version in it";
        let Some(value) = self.table.get(key) else {
            return Ok(None);
        };
        let range = value
            .as_table()
            .filter(|table| table.len() == 2)
            .and_then(|table| {
                let version = |key| Version::exact(table.get(key)?.as_str()?);
                let end = version("to")
                    .map(End::To)
                    .or_else(|| version("fixed").map(End::Fixed))?;
                Range::of(version("from")?, end)
            });
        range
            .map(Some)
            .ok_or_else(|| wrong(&format!("{}, {key}", self.at), value, ALLOWED))
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    const TESTS: [&str; 2] = ["p2p-integrity", "nccl"];
    const ROW: &str = r#"
[[problem]]
id = "made-up-1"
says = "data arrives wrong"
thread = "https://example.org/1"
read = "2026-11-27"
driver = { from = "580.142", to = "580.142" }
gpus = ["RTX 6000 Ada"]
tests = ["p2p-integrity"]
"#;

    #[test]
    fn a_row_is_read_whole() {
        let rows = parse(ROW, &TESTS).unwrap();
        assert_eq!(
            (rows.len(), rows[0].id.as_str(), rows[0].tests.len()),
            (1, "made-up-1", 1)
        );
        assert_eq!(parse("", &TESTS).unwrap(), []);
    }

    #[test]
    fn one_line_says_what_is_wrong_where_and_what_is_allowed() {
        let with = |old: &str, new: &str| {
            assert!(ROW.contains(old), "{old}");
            parse(&ROW.replace(old, new), &TESTS).unwrap_err()
        };
        for (old, new, what) in [
            (
                "[[problem]]",
                "[[problems]]",
                "problems: there is no such key; allowed: [[problem]]",
            ),
            ("[[problem]]", "[problem]", "problem: read {"),
            (
                "id = \"made-up-1\"",
                "id = \"a b\"",
                "problem 1, id: read \"a b\"; allowed: letters, digits and -",
            ),
            (
                "id = \"made-up-1\"\n",
                "",
                "problem 1, id: is missing; allowed: letters",
            ),
            (
                "says = \"data arrives wrong\"",
                "says = 1",
                "problem 1, says: read 1; allowed: a clause",
            ),
            (
                "says",
                "said",
                "problem 1, said: there is no such key; allowed: id, says",
            ),
            (
                "https://",
                "http://",
                "problem 1, thread: read \"http://example.org/1\"; allowed: an address",
            ),
            (
                "2026-11-27",
                "2026-13-27",
                "problem 1, read: read \"2026-13-27\"; allowed: the date",
            ),
            ("2026-11-27", "27.11.2026", "problem 1, read: read"),
            (
                "to = \"580.142\"",
                "to = \"575\"",
                "problem 1, driver: read {",
            ),
            (
                ", to = \"580.142\"",
                "",
                "allowed: { from = \"1.2\", to = \"1.4\" } or",
            ),
            (
                "to = \"580.142\"",
                "fixed = \"580.142\"",
                "with at least one version in it",
            ),
            ("to = \"580.142\"", "to = \"580.x\"", "of numbers and dots"),
            (
                "to = \"580.142\"",
                "to = \"580.150\", fixed = \"590\"",
                "problem 1, driver: read {",
            ),
            (
                "driver = { from = \"580.142\", to = \"580.142\" }\n",
                "",
                "problem 1: has no versions; allowed: at least",
            ),
            (
                "[\"RTX 6000 Ada\"]",
                "[]",
                "problem 1, gpus: read []; allowed: a list of models",
            ),
            ("[\"RTX 6000 Ada\"]", "[\" \"]", "problem 1, gpus: read"),
            (
                "[\"p2p-integrity\"]",
                "[\"p2p\"]",
                "problem 1, tests: read [\"p2p\"]; allowed: a list of: p2p-integrity, nccl",
            ),
            (
                "[\"p2p-integrity\"]",
                "[]",
                "problem 1, tests: read []; allowed: a list of",
            ),
            ("id = \"made-up-1\"", "id = ", "line 3: "),
        ] {
            let why = with(old, new);
            assert!(why.contains(what) && !why.contains('\n'), "{new}: {why}");
        }
        let twice = parse(&format!("{ROW}{ROW}"), &TESTS).unwrap_err();
        assert_eq!(twice, "id: made-up-1 is there twice");
    }
}
