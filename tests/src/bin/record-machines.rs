//! Writes the recorded machines of `tests/machines` anew from their descriptions.

use harness::machines::{ALL, folder, write};
use std::fs;
use std::io::{self, ErrorKind};

fn main() -> io::Result<()> {
    for machine in ALL.map(|machine| machine()) {
        let to = folder().join(machine.name);
        match fs::remove_dir_all(&to) {
            Err(e) if e.kind() != ErrorKind::NotFound => return Err(e),
            _ => write(&machine, &to)?,
        }
        println!("{}  {}", machine.name, machine.about);
    }
    Ok(())
}
