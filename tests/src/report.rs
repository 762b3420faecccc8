//! A report, queried by test id, finding code and subject.

use serde_json::Value;

/// `firstlight.report/1`.
#[derive(Debug)]
pub struct Report(pub Value);

impl Report {
    /// One test's entry.
    ///
    /// # Panics
    /// If the report has no such test.
    #[must_use]
    #[track_caller]
    pub fn test(&self, id: &str) -> &Value {
        let tests = self.0["tests"].as_array().into_iter().flatten();
        let ids: Vec<_> = tests.clone().map(|t| t["id"].as_str()).collect();
        tests
            .into_iter()
            .find(|t| t["id"] == id)
            .unwrap_or_else(|| panic!("no test {id} among {ids:?}"))
    }

    /// The outcome of a test: `pass`, `warn`, `fail`, `error`, `not-applicable`.
    #[must_use]
    #[track_caller]
    pub fn outcome(&self, id: &str) -> &str {
        self.test(id)["outcome"].as_str().unwrap_or("no outcome")
    }

    /// The findings of one test about one subject, as `(code, severity)`.
    #[must_use]
    #[track_caller]
    pub fn findings_about(&self, id: &str, subject: &str) -> Vec<(&str, &str)> {
        let findings = self.test(id)["findings"].as_array().into_iter().flatten();
        let about = findings.filter(|f| f["subject"] == subject);
        about
            .map(|f| (text(&f["code"]), text(&f["severity"])))
            .collect()
    }

    /// One PCI function of the fabric.
    ///
    /// # Panics
    /// If the fabric has no such function.
    #[must_use]
    #[track_caller]
    pub fn device(&self, bdf: &str) -> &Value {
        let devices = self.0["fabric"]["devices"].as_array().into_iter().flatten();
        let all: Vec<_> = devices.clone().map(|d| d["bdf"].as_str()).collect();
        devices
            .into_iter()
            .find(|d| d["bdf"] == bdf)
            .unwrap_or_else(|| panic!("no {bdf} among {all:?}"))
    }

    /// How two devices are connected, in the abbreviations of `nvidia-smi topo -m`.
    #[must_use]
    pub fn path(&self, a: &str, b: &str) -> Option<&str> {
        let paths = self.0["fabric"]["paths"].as_array().into_iter().flatten();
        let joins = |p: &&Value| (p["a"] == a && p["b"] == b) || (p["a"] == b && p["b"] == a);
        paths.into_iter().find(joins)?["kind"].as_str()
    }
}

fn text(value: &Value) -> &str {
    value.as_str().unwrap_or("no text")
}
