//! Commands about the machine that they run on, and about the program: `firstlight image` shows which image runs and
//! whether it is unmodified; `firstlight record` writes the machine as one text file, for a bug report; `firstlight
//! completions` and `firstlight man` print shell completions and the manual pages.

use super::args::{Place, visible};
use super::output::{write, write_json_or_text};
use super::{CommandError, FAILURE, NOT_DONE, SUCCESS};
use clap::Command;
use clap_complete::{Shell, generate};
use clap_mangen::Man;
use machine::host::cmdline;
use machine::image::{Document, examine};
use machine::recording;
use machine::root::Root;
use outcome::text::shown;
use std::io::{self, Write};

/// Prints the completion script for `shell`.
pub(super) fn completions(shell: Shell) -> Result<u8, CommandError> {
    let mut script = Vec::new();
    generate(shell, &mut visible(), "firstlight", &mut script);
    write(&Place::Stdout, &String::from_utf8_lossy(&script))?;
    Ok(SUCCESS)
}

/// Prints the manual pages.
pub(super) fn man() -> Result<u8, CommandError> {
    let mut command = visible();
    // Gives each command its whole name.
    command.build();
    let mut pages = Vec::new();
    add(&mut pages, &command, MORE).map_err(|e| CommandError::undone(&e))?;
    write(&Place::Stdout, &String::from_utf8_lossy(&pages))?;
    Ok(SUCCESS)
}

/// Adds the page of `command`, with what the command line's description does not have, and of each command below it.
fn add(pages: &mut Vec<u8>, command: &Command, more: &str) -> io::Result<()> {
    Man::new(command.clone()).render(pages)?;
    pages.write_all(more.as_bytes())?;
    command
        .get_subcommands()
        .try_for_each(|below| add(pages, below, ""))
}

/// The sections of the program's own page that are not in the command line's description.
const MORE: &str = r#".SH "EXIT STATUS"
.TP
\fB0\fR
PASS, or done
.TP
\fB1\fR
FAIL: a test failed
.TP
\fB2\fR
ERROR: no verdict could be reached, or something could not be read, done or written
.TP
\fB3\fR
DEGRADED: it works, and a test warned
.TP
\fB64\fR
wrong use, in one line; nothing was tested
.SH FILES
.TP
\fI/etc/firstlight/config.toml\fR
settings of the package's unit; a command reads it with \fB\-\-config\fR
.TP
\fI/run/firstlight/report.json\fR
the report of the package's unit, or of the appliance
.TP
\fI/run/firstlight/fabric.json\fR
the values that \fBfabric fix\fR has changed, for \fBfabric restore\fR
.TP
\fI/usr/share/misc/pci.ids\fR, \fI/usr/share/hwdata/pci.ids\fR
names of GPUs without a driver; not required
.SH ENVIRONMENT
.TP
\fBNO_COLOR\fR
if it is set and not empty, \fB\-\-color auto\fR means no color
.TP
\fBTERM\fR
without it, or as \fBdumb\fR, a terminal gets no color and no live row
.TP
\fBCUDA_VISIBLE_DEVICES\fR
is ignored, with a warning; \fB\-\-gpus\fR selects GPUs
.TP
\fBNCCL_NVLS_ENABLE\fR
if it is 0, NVLink SHARP is not tested, whatever the settings say
.SH EXAMPLES
.TP
\fBfirstlight validate\fR
tests this machine (as root)
.TP
\fBfirstlight validate \-\-level quick \-\-json r.json \-\-html r.html\fR
also writes the report for programs and as a page
.TP
\fBfirstlight p2p\fR
the tables of p2pBandwidthLatencyTest
.TP
\fBfirstlight nccl all_reduce \-b 8 \-e 128M \-f 2 \-g 8\fR
the table of nccl\-tests
.TP
\fBfirstlight validate \-\-json | jq .answer\fR
without a file, the JSON goes to standard output
"#;

/// Status 0 for golden, 1 for not golden, 2 if unknown.
pub(super) fn image(root: &Root, json: Option<&Place>) -> Result<u8, CommandError> {
    let cmdline = cmdline::read(root).ok();
    let seen = examine(root);
    let document = Document::of(root, cmdline.as_deref(), &seen);
    write_json_or_text(json, &document, &document.text())?;
    Ok(match &seen {
        Ok(Some(image)) if image.is_golden() => SUCCESS,
        Ok(Some(_)) => FAILURE,
        Ok(None) | Err(_) => NOT_DONE,
    })
}

/// `record FILE`
pub(super) fn record(root: &Root, place: &Place) -> Result<u8, CommandError> {
    if root.is_live() && !rustix::process::geteuid().is_root() {
        let why = "record: run it as root; other users see 64 bytes of configuration space";
        return Err(CommandError::Usage(why.to_owned()));
    }
    let result = recording::record(root);
    result
        .left_out
        .iter()
        .for_each(|line| log::warn!("left out: {}", shown(line)));
    write(place, &result.recording.to_string())?;
    log::info!(
        "{place}: holds PCI and RDMA addresses, GPU UUIDs and kernel log lines; read it before you share it"
    );
    Ok(SUCCESS)
}
