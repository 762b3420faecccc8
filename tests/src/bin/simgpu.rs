//! Lays out a scenario of `tests/simgpu/scenarios`: `simgpu SCENARIO DIR [GPUS]` makes DIR/lib with the libraries and
//! DIR/root with the machine. If DIR ends with `.cpio`, it becomes an archive of both that is appended to the initrd, for
//! `./run boot SCENARIO`. Without arguments it lists the scenarios and their expected results.

use harness::simgpu::{Libraries, Scenario, lay_out, overlay, root};
use std::error::Error;
use std::path::Path;

fn main() -> Result<(), Box<dyn Error>> {
    let words: Vec<_> = std::env::args().skip(1).collect();
    match words.iter().map(String::as_str).collect::<Vec<_>>()[..] {
        [] => list(),
        [name, to] => write_scenario(&named(name)?, Path::new(to)),
        [name, to, gpus] => write_scenario(&named(name)?.gpus(gpus.parse()?), Path::new(to)),
        _ => Err("usage: simgpu [SCENARIO DIR|FILE.cpio [GPUS]]".into()),
    }
}

fn named(name: &str) -> Result<Scenario, Box<dyn Error>> {
    Scenario::check_exists(name)?;
    Ok(Scenario::named(name)?)
}

fn list() -> Result<(), Box<dyn Error>> {
    for name in Scenario::names()? {
        let expect = Scenario::named(&name)?.expect();
        println!("{name:20} {:9} {}", expect.verdict, expect.fails.join(" "));
    }
    Ok(())
}

fn write_scenario(scenario: &Scenario, to: &Path) -> Result<(), Box<dyn Error>> {
    if to.extension().is_some_and(|e| e == "cpio") {
        std::fs::write(to, overlay(scenario)?.cpio())?;
    } else {
        lay_out(scenario, Libraries::built()?, &to.join("lib"))?;
        root(scenario, &to.join("root"))?;
    }
    let expect = scenario.expect();
    println!(
        "{}: {} {}",
        to.display(),
        expect.verdict,
        expect.fails.join(" ")
    );
    Ok(())
}
