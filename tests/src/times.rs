//! How long each test takes that builds, boots or runs something by this harness, for the list of the slowest ones: from its
//! first call here to its end. The test runner's own times are not in stable Rust.

use std::fs::File;
use std::io::Write;
use std::thread;
use std::time::Instant;

/// The variable that names the file to which each test adds a line: its seconds and its name.
const FILE: &str = "FIRSTLIGHT_TEST_TIMES";

/// A test that runs: the test runner gives each a thread with its name, and threads that a test starts have none.
struct Running {
    name: Option<String>,
    since: Instant,
}

impl Drop for Running {
    fn drop(&mut self) {
        let (Some(file), Some(name)) = (std::env::var_os(FILE), &self.name) else {
            return;
        };
        let line = format!("{:.1} {name}\n", self.since.elapsed().as_secs_f64());
        // A list of times is no reason to fail a test.
        let _ = File::options()
            .append(true)
            .create(true)
            .open(file)
            .and_then(|mut file| file.write_all(line.as_bytes()));
    }
}

/// Begins to count in this test, unless it has begun.
pub(crate) fn begin() {
    thread_local! {
        static RUNNING: Running =
            Running { name: thread::current().name().map(str::to_owned), since: Instant::now() };
    }
    RUNNING.with(|_| ());
}
