//! Parses texts inside of configuration values: places, addresses, URLs, serial lines, names.

use super::mac::Mac;
use super::remote::RemoteSource;
use super::types::{CardSelector, DeviceSpec, RootSource, Serial, TimeSource};
use std::net::IpAddr;

/// `LABEL=..`, `UUID=..` or `/dev/..`.
#[must_use]
pub fn device_spec(text: &str) -> Option<DeviceSpec> {
    let named = |rest: &str| (!rest.is_empty()).then(|| rest.to_owned());
    if let Some(label) = text.strip_prefix("LABEL=") {
        return named(label).map(DeviceSpec::Label);
    }
    if let Some(uuid) = text.strip_prefix("UUID=") {
        return named(uuid).map(DeviceSpec::Uuid);
    }
    let device = text
        .strip_prefix("/dev/")
        .filter(|rest| !rest.is_empty() && !rest.contains(".."));
    device.map(|_| DeviceSpec::Device(text.to_owned()))
}

/// What `root_source` accepts, for error messages.
pub const ROOT: &str = "LABEL=.., UUID=.., /dev/.., each with :/FILE for an image on it, or \
                        http://HOST/FILE#sha256=64 HEX DIGITS; https too";

/// A place, `PLACE:/FILE`, or the URL of a file with its checksum.
#[must_use]
pub fn root_source(text: &str) -> Option<RootSource> {
    if text.starts_with("http://") || text.starts_with("https://") {
        return RemoteSource::parse(text)
            .filter(|remote| !remote.is_folder())
            .map(RootSource::Remote);
    }
    let (device, image) = match text.split_once(":/") {
        Some((device, file)) if !file.is_empty() && !file.split('/').any(|part| part == "..") => {
            (device, Some(format!("/{file}")))
        }
        Some(_) => return None,
        None => (text, None),
    };
    Some(RootSource::Disk {
        place: device_spec(device)?,
        image,
    })
}

/// `ADDRESS/PREFIX`.
#[must_use]
pub fn address(text: &str) -> Option<(IpAddr, u8)> {
    let (address, prefix) = text.split_once('/')?;
    let address: IpAddr = address.parse().ok()?;
    let prefix: u8 = prefix.parse().ok()?;
    let most = if address.is_ipv4() { 32 } else { 128 };
    (1..=most).contains(&prefix).then_some((address, prefix))
}

/// `NAME` or `NAME,RATE`; the rate may be followed by `n8` as in `console=`.
#[must_use]
pub fn serial(text: &str) -> Option<Serial> {
    let (name, rate) = text
        .split_once(',')
        .map_or((text, None), |(name, rate)| (name, Some(rate)));
    let plain = name.starts_with(|c: char| c.is_ascii_alphabetic());
    let plain = plain && name.bytes().all(|b| b.is_ascii_alphanumeric());
    let rate = match rate {
        Some(rate) => {
            let number: u32 = rate.strip_suffix("n8").unwrap_or(rate).parse().ok()?;
            Some(number)
                .filter(|n| (300..=4_000_000).contains(n))?
                .into()
        }
        None => None,
    };
    plain.then(|| Serial {
        name: name.to_owned(),
        rate,
    })
}

/// The list of a kernel word is split at commas, and so is `ttyS0,115200`: an item that begins with a digit
/// is joined to the name before it.
fn rejoin_rates(items: &[String]) -> Vec<String> {
    let mut lines: Vec<String> = Vec::new();
    for item in items {
        match lines.last_mut() {
            Some(name) if item.starts_with(|c: char| c.is_ascii_digit()) && !name.contains(',') => {
                name.push(',');
                name.push_str(item);
            }
            _ => lines.push(item.clone()),
        }
    }
    lines
}

/// `HOST`, `HOST:PORT` or `dhcp`.
#[must_use]
pub fn time_source(text: &str) -> Option<TimeSource> {
    let fine = |b: u8| b.is_ascii_alphanumeric() || b".-:[]".contains(&b);
    let plain = (1..=255).contains(&text.len()) && !text.starts_with('-') && text.bytes().all(fine);
    plain.then(|| {
        if text == "dhcp" {
            TimeSource::Dhcp
        } else {
            TimeSource::Server(text.to_owned())
        }
    })
}

/// A host name.
#[must_use]
pub fn hostname(text: &str) -> Option<String> {
    let fine = |b: u8| b.is_ascii_alphanumeric() || b == b'.' || b == b'-';
    ((1..=64).contains(&text.len()) && text.bytes().all(fine)).then(|| text.to_owned())
}

/// The name of a network interface.
#[must_use]
pub fn interface(text: &str) -> Option<String> {
    let fine = |b: u8| b.is_ascii_graphic() && b != b'/' && b != b':';
    ((1..=15).contains(&text.len()) && text.bytes().all(fine) && text != "." && text != "..")
        .then(|| text.to_owned())
}

/// Accepts an `http` or `https` URL without a user name. The validator, which opens it, checks it as well.
#[must_use]
pub fn url(text: &str) -> Option<String> {
    let rest = text
        .strip_prefix("http://")
        .or_else(|| text.strip_prefix("https://"))?;
    let host = rest
        .split(['/', '?', '#'])
        .next()
        .filter(|host| !host.is_empty() && !host.starts_with(':'))?;
    let plain = text
        .bytes()
        .all(|b| b.is_ascii_graphic() && !b"\"<>\\^`{|}".contains(&b));
    let behind = host.rsplit_once(']').map_or(host, |(_, behind)| behind);
    let port = behind.split_once(':').is_none_or(|(_, port)| {
        port.bytes().all(|b| b.is_ascii_digit()) && port.parse::<u16>().is_ok_and(|port| port > 0)
    });
    (plain && port && !host.contains('@')).then(|| text.to_owned())
}

/// An absolute path.
#[must_use]
pub fn absolute(path: &str) -> Option<String> {
    path.starts_with('/').then(|| path.to_owned())
}

/// A host name, or nothing.
#[must_use]
pub fn hostname_or_none(text: &str) -> Option<String> {
    if text.is_empty() {
        Some(String::new())
    } else {
        hostname(text)
    }
}

/// A network card by name or Ethernet address.
fn card(text: &str) -> Option<CardSelector> {
    let mac = Mac::parse(text)
        .filter(|_| text.contains(':'))
        .map(CardSelector::Mac);
    mac.or_else(|| interface(text).map(CardSelector::Name))
}

/// A network card; nothing means any.
#[must_use]
pub fn card_or_any(text: &str) -> Option<CardSelector> {
    if text.is_empty() {
        Some(CardSelector::Any)
    } else {
        card(text)
    }
}

/// Network cards by name or Ethernet address.
#[must_use]
pub fn cards(items: &[String]) -> Option<Vec<CardSelector>> {
    items.iter().map(|text| card(text)).collect()
}

/// Names of kernel modules.
#[must_use]
pub fn modules(items: &[String]) -> Option<Vec<String>> {
    let fine = |b: u8| b.is_ascii_alphanumeric() || b == b'-' || b == b'_';
    items
        .iter()
        .all(|name| !name.is_empty() && name.bytes().all(fine))
        .then(|| items.to_vec())
}

/// An absolute path of a program and its words, or nothing.
#[must_use]
pub fn program(items: &[String]) -> Option<Vec<String>> {
    items
        .first()
        .is_none_or(|program| program.starts_with('/'))
        .then(|| items.to_vec())
}

/// Serial lines.
#[must_use]
pub fn serial_lines(items: &[String]) -> Option<Vec<Serial>> {
    rejoin_rates(items)
        .iter()
        .map(|line| serial(line))
        .collect()
}

/// Sources of the time.
#[must_use]
pub fn time_sources(items: &[String]) -> Option<Vec<TimeSource>> {
    items.iter().map(|text| time_source(text)).collect()
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn places_are_labels_uuids_or_devices() {
        assert_eq!(
            device_spec("LABEL=FIRSTLIGHT"),
            Some(DeviceSpec::Label("FIRSTLIGHT".into()))
        );
        assert_eq!(
            device_spec("UUID=12AB-34CD"),
            Some(DeviceSpec::Uuid("12AB-34CD".into()))
        );
        assert_eq!(
            device_spec("/dev/sda1"),
            Some(DeviceSpec::Device("/dev/sda1".into()))
        );
        for bad in [
            "",
            "LABEL=",
            "UUID=",
            "/dev/",
            "sda1",
            "/dev/../etc/passwd",
            "http://x/y",
        ] {
            assert_eq!(device_spec(bad), None, "{bad}");
        }
    }

    #[test]
    fn a_root_may_be_an_image_on_a_place() {
        let (place, image) = (DeviceSpec::Label("X".into()), Some("/a/b.squashfs".into()));
        assert_eq!(
            root_source("LABEL=X:/a/b.squashfs"),
            Some(RootSource::Disk { place, image })
        );
        let place = DeviceSpec::Device("/dev/vda".into());
        assert_eq!(
            root_source("/dev/vda"),
            Some(RootSource::Disk { place, image: None })
        );
        for bad in ["LABEL=X:/", "LABEL=X:/../x", ":/x"] {
            assert_eq!(root_source(bad), None, "{bad}");
        }
    }

    #[test]
    fn a_root_on_a_server_is_a_file_with_a_checksum() {
        let sum = "ab".repeat(32);
        let root = root_source(&format!("https://h/r.squashfs#sha256={sum}"));
        let remote = RemoteSource {
            url: "https://h/r.squashfs".into(),
            sha256: sum.clone(),
        };
        assert_eq!(root, Some(RootSource::Remote(remote)));
        for bad in [
            "http://h/r.squashfs",
            "http://h/r.squashfs#sha256=12",
            &format!("http://h/r/#sha256={sum}"),
        ] {
            assert_eq!(root_source(bad), None, "{bad}");
        }
    }

    #[test]
    fn time_comes_from_servers_by_name_or_from_dhcp() {
        assert_eq!(time_source("dhcp"), Some(TimeSource::Dhcp));
        for good in [
            "10.0.0.1",
            "ntp.example.com:123",
            "[fd00::1]:123",
            "fd00::1",
        ] {
            assert_eq!(time_source(good), Some(TimeSource::Server(good.into())));
        }
        for bad in ["", "-h", "http://h/", "a b", "h/x"] {
            assert_eq!(time_source(bad), None, "{bad}");
        }
    }

    #[test]
    fn addresses_need_a_prefix_that_fits() {
        assert!(address("10.0.0.2/24").is_some());
        assert!(address("fd00::2/64").is_some());
        for bad in [
            "10.0.0.2",
            "10.0.0.2/33",
            "10.0.0.2/0",
            "10.0.0/8",
            "fd00::2/129",
            "/24",
        ] {
            assert_eq!(address(bad), None, "{bad}");
        }
    }

    #[test]
    fn a_rate_that_a_kernel_word_cut_off_is_joined_to_its_line() {
        let items = |text: &str| text.split(' ').map(str::to_owned).collect::<Vec<_>>();
        assert_eq!(
            rejoin_rates(&items("ttyS0 115200n8 ttyS1")),
            ["ttyS0,115200n8", "ttyS1"]
        );
        assert_eq!(rejoin_rates(&items("115200")), ["115200"]);
        assert_eq!(
            rejoin_rates(&items("ttyS0,9600 115200")),
            ["ttyS0,9600", "115200"]
        );
    }

    #[test]
    fn serial_lines_are_read_as_in_console_words() {
        assert_eq!(
            serial("ttyS0,115200n8"),
            Some(Serial {
                name: "ttyS0".into(),
                rate: Some(115_200)
            })
        );
        assert_eq!(
            serial("ttyS1"),
            Some(Serial {
                name: "ttyS1".into(),
                rate: None
            })
        );
        for bad in ["", ",9600", "ttyS0,", "ttyS0,fast", "../mem", "ttyS0,1"] {
            assert_eq!(serial(bad), None, "{bad}");
        }
    }

    #[test]
    fn urls_name_a_host_and_no_user() {
        assert_eq!(url("http://h:80/a?b").as_deref(), Some("http://h:80/a?b"));
        for bad in [
            "",
            "h",
            "ftp://h/",
            "http://",
            "https:///x",
            "http://u:p@h/",
            "http://h/a b",
            "http://:80/",
        ] {
            assert_eq!(url(bad), None, "{bad}");
        }
        assert!(url("http://[fd00::1]").is_some() && url("http://[fd00::1]:65535/").is_some());
        for bad in [
            "http://h:80800/",
            "http://h:0/",
            "http://h:/",
            "http://h:+80/",
            "http://[fd00::1]:x/",
        ] {
            assert_eq!(url(bad), None, "{bad}");
        }
    }
}
