//! The counters of RDMA ports: bytes in both directions, and errors. RDMA traffic bypasses the network interface of a
//! card, so the counters of the interface include it only if RDMA is software on that interface.

use super::read::CLASS;
use crate::host::modules::absent_is_none;
use crate::root::Root;
use serde::{Deserialize, Serialize};

/// The values of a port's counters at one moment.
#[derive(Debug, Clone, PartialEq, Eq, Default, Serialize, Deserialize)]
pub struct RdmaCounters {
    /// Bytes; `None` if the port does not count them.
    pub bytes: Option<Bytes>,
    /// Errors, with the names of their counters.
    pub errors: Vec<(String, u64)>,
}

/// Bytes that a port has sent and received.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Serialize, Deserialize)]
pub struct Bytes {
    /// Bytes sent.
    pub sent: u64,
    /// Bytes received.
    pub received: u64,
    /// Whether the port's hardware counts them; otherwise the network interface does, together with its other traffic.
    pub hardware: bool,
}

/// The counters of bytes, below the port's folder, and how many bytes one count is: those that InfiniBand
/// defines, in words of 4 bytes, and those of drivers without them (bnxt_re, irdma).
const BYTES: [(&str, &str, u64); 3] = [
    ("counters/port_xmit_data", "counters/port_rcv_data", 4),
    ("hw_counters/tx_bytes", "hw_counters/rx_bytes", 1),
    ("hw_counters/ip4OutOctets", "hw_counters/ip4InOctets", 1),
];

/// Counters that do not change on a good link: broken symbols and packets, a link that went down, packets
/// that arrived out of order or were lost.
const ERRORS: [&str; 12] = [
    "counters/symbol_error",
    "counters/link_error_recovery",
    "counters/link_downed",
    "counters/port_rcv_errors",
    "counters/local_link_integrity_errors",
    "counters/excessive_buffer_overrun_errors",
    "hw_counters/out_of_sequence",
    "hw_counters/packet_seq_err",
    "hw_counters/implied_nak_seq_err",
    "hw_counters/local_ack_timeout_err",
    "hw_counters/rx_icrc_encapsulated",
    "hw_counters/seq_err_naks_rcvd",
];

/// Reads the counters of a port; `interface`: its network interface.
///
/// # Errors
/// The first counter that exists but cannot be read, with its name.
pub fn read_counters(
    root: &Root,
    device: &str,
    port: u32,
    interface: Option<&str>,
) -> Result<RdmaCounters, String> {
    let folder = format!("{CLASS}/{device}/ports/{port}");
    let mut errors = Vec::new();
    for name in ERRORS {
        let short = name.rsplit('/').next().unwrap_or(name);
        errors.extend(
            number(root, &format!("{folder}/{name}"))?.map(|count| (short.to_owned(), count)),
        );
    }
    Ok(RdmaCounters {
        bytes: bytes(root, device, &folder, interface)?,
        errors,
    })
}

fn bytes(
    root: &Root,
    device: &str,
    folder: &str,
    interface: Option<&str>,
) -> Result<Option<Bytes>, String> {
    for (sent, received, each) in BYTES {
        let of = |name: &str| number(root, &format!("{folder}/{name}"));
        if let (Some(sent), Some(received)) = (of(sent)?, of(received)?) {
            let (sent, received) = (sent.saturating_mul(each), received.saturating_mul(each));
            return Ok(Some(Bytes {
                sent,
                received,
                hardware: true,
            }));
        }
    }
    // An RDMA device on a card has the link `device`; a software device does not.
    let Some(interface) = interface.filter(|_| {
        !root
            .exists(format!("{CLASS}/{device}/device"))
            .unwrap_or(true)
    }) else {
        return Ok(None);
    };
    let of = |name: &str| {
        number(
            root,
            &format!("sys/class/net/{interface}/statistics/{name}"),
        )
    };
    let both = of("tx_bytes")?.zip(of("rx_bytes")?);
    Ok(both.map(|(sent, received)| Bytes {
        sent,
        received,
        hardware: false,
    }))
}

/// A counter; `None` where there is none. The kernel also shows counters that a card does not support.
fn number(root: &Root, file: &str) -> Result<Option<u64>, String> {
    let text = match root.text(file) {
        Err(e) if matches!(e.raw_os_error(), Some(NOT_SUPPORTED | INVALID)) => None,
        read => absent_is_none(read).map_err(|e| format!("/{file}: {e}"))?,
    };
    let parse = |text: String| {
        text.trim()
            .parse()
            .map_err(|_| format!("/{file}: read {text:?}, which is no number"))
    };
    text.map(parse).transpose()
}

/// Linux's `EOPNOTSUPP` and `EINVAL`.
const NOT_SUPPORTED: i32 = 95;
const INVALID: i32 = 22;

impl RdmaCounters {
    /// The errors that were counted since `before`: name, earlier count, present count.
    #[must_use]
    pub fn grown<'a>(&'a self, before: &'a Self) -> Vec<(&'a str, u64, u64)> {
        let old = |name: &str| {
            before
                .errors
                .iter()
                .find(|(other, _)| other == name)
                .map(|(_, count)| *count)
        };
        let grown = |(name, now): &'a (String, u64)| {
            let then = old(name)?;
            (*now > then).then_some((name.as_str(), then, *now))
        };
        self.errors.iter().filter_map(grown).collect()
    }
}

impl Bytes {
    /// Bytes of both directions since `before`.
    #[must_use]
    pub const fn since(&self, before: &Self) -> (u64, u64) {
        (
            self.sent.saturating_sub(before.sent),
            self.received.saturating_sub(before.received),
        )
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use std::fs;

    fn with(files: &[(&str, &str)], then: impl FnOnce(&Root)) {
        let dir = tempfile::tempdir().unwrap();
        for (path, text) in files {
            let path = dir.path().join("sys/class").join(path);
            fs::create_dir_all(path.parent().unwrap()).unwrap();
            fs::write(path, format!("{text}\n")).unwrap();
        }
        then(&Root::new(dir.path()));
    }

    fn bytes_of(files: &[(&str, &str)]) -> Option<(u64, u64, bool)> {
        let mut found = None;
        with(files, |root| {
            found = read_counters(root, "c0", 1, Some("eth0")).unwrap().bytes;
        });
        found.map(|bytes| (bytes.sent, bytes.received, bytes.hardware))
    }

    #[test]
    fn infinibands_counters_are_in_words_and_come_first() {
        let port = "infiniband/c0/ports/1";
        let words = [
            (format!("{port}/counters/port_xmit_data"), "10"),
            (format!("{port}/counters/port_rcv_data"), "3"),
        ];
        let octets = [
            (format!("{port}/hw_counters/tx_bytes"), "7"),
            (format!("{port}/hw_counters/rx_bytes"), "8"),
        ];
        let of_interface = [
            ("net/eth0/statistics/tx_bytes".to_owned(), "5"),
            ("net/eth0/statistics/rx_bytes".to_owned(), "6"),
        ];
        let all = |lists: &[&[(String, &'static str)]]| {
            let files: Vec<_> = lists.concat();
            bytes_of(
                &files
                    .iter()
                    .map(|(path, text)| (path.as_str(), *text))
                    .collect::<Vec<_>>(),
            )
        };
        assert_eq!(all(&[&words, &octets, &of_interface]), Some((40, 12, true)));
        assert_eq!(all(&[&octets, &of_interface]), Some((7, 8, true)));
        assert_eq!(all(&[&of_interface]), Some((5, 6, false)));
        assert_eq!(all(&[]), None);
        // The interface of a card does not count what the card sends by RDMA.
        let card = [("infiniband/c0/device/vendor".to_owned(), "0x15b3")];
        assert_eq!(all(&[&of_interface, &card]), None);
    }

    #[test]
    fn errors_that_grow_have_both_numbers_and_a_bad_counter_is_named() {
        let file = "infiniband/c0/ports/1/counters/symbol_error";
        let read = |count: &str| {
            let mut read = Err(String::new());
            with(&[(file, count)], |root| {
                read = read_counters(root, "c0", 1, None);
            });
            read
        };
        let (before, after) = (read("5").unwrap(), read("12").unwrap());
        assert_eq!(after.grown(&before), [("symbol_error", 5, 12)]);
        assert!(
            before.grown(&after).is_empty() && after.grown(&RdmaCounters::default()).is_empty()
        );
        assert!(read("many").unwrap_err().contains(file));
    }
}
