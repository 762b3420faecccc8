//! Holds the printed JSON Schema, and reports against it, with strict validators of two languages: Python's jsonschema and
//! JavaScript's ajv 8. `tests/check.sh` leaves out the module of a validator that is not installed.

use super::machine::{Machine, firstlight, run_of};
use serde_json::{Value, json};
use std::fs;
use std::path::Path;
use std::process::Command;

/// Compiles the schema of argument 1 strictly, and prints for each further file whether it is valid.
const AJV: &str = r#"
const { readFileSync } = require("fs");
const read = (file) => JSON.parse(readFileSync(file));
const Ajv = require("ajv/dist/2020").default;
const valid = new Ajv({ strict: true }).compile(read(process.argv[1]));
for (const file of process.argv.slice(2)) console.log(valid(read(file)) ? "valid" : "refused");
"#;

/// The same.
const JSONSCHEMA: &str = r#"
import json, sys
from jsonschema import Draft202012Validator
read = lambda file: json.load(open(file))
schema = read(sys.argv[1])
Draft202012Validator.check_schema(schema)
for file in sys.argv[2:]:
    print("valid" if Draft202012Validator(schema).is_valid(read(file)) else "refused")
"#;

/// A report of a modelled machine and changed ones, of which none is valid: the validator must say so.
fn holds(program: &str, option: &str, script: &str) {
    let folder = tempfile::tempdir().unwrap();
    let write = |name: &str, value: &Value| {
        fs::write(folder.path().join(name), value.to_string()).unwrap();
        name.to_owned()
    };
    let schema: Value =
        serde_json::from_str(&run_of(firstlight("schema").output().unwrap()).out).unwrap();
    let report: Value = serde_json::from_str(
        &Machine::modelled("epyc-8x4090")
            .run("validate --scope fabric --json -")
            .out,
    )
    .unwrap();
    let changed = |pointer: &str, value: Value| {
        let mut other = report.clone();
        *other.pointer_mut(pointer).unwrap() = value;
        other
    };
    let mut files = vec![write("schema.json", &schema), write("report.json", &report)];
    files.push(write("verdict.json", &changed("/verdict", json!("MAYBE"))));
    files.push(write(
        "negative.json",
        &changed("/gpus/0/bar1_bytes", json!(-1)),
    ));
    files.push(write("word.json", &changed("/seconds", json!("fast"))));
    let said = run(program, option, script, folder.path(), &files);
    assert_eq!(said, "valid\nrefused\nrefused\nrefused\n");
}

fn run(program: &str, option: &str, script: &str, folder: &Path, files: &[String]) -> String {
    let output = Command::new(program)
        .args([option, script])
        .args(files)
        .current_dir(folder)
        .output()
        .unwrap();
    assert!(
        output.status.success(),
        "{program}: {}",
        String::from_utf8_lossy(&output.stderr)
    );
    String::from_utf8(output.stdout).unwrap()
}

mod ajv {
    #[test]
    fn compiles_the_schema_strictly_and_judges_reports() {
        super::holds("node", "-e", super::AJV);
    }
}

mod jsonschema {
    #[test]
    fn accepts_the_schema_and_judges_reports() {
        super::holds("python3", "-c", super::JSONSCHEMA);
    }
}
