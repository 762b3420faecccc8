//! Checks URLs of servers.

/// Accepts an `http` or `https` URL without a user name. The validator, which opens it, checks it as well.
#[must_use]
pub(super) fn url(text: &str) -> Option<String> {
    let rest = text.strip_prefix("http://").or_else(|| text.strip_prefix("https://"))?;
    let host =
        rest.split(['/', '?', '#']).next().filter(|host| !host.is_empty() && !host.starts_with(':'))?;
    let plain = text.bytes().all(|b| b.is_ascii_graphic() && !b"\"<>\\^`{|}".contains(&b));
    let behind = host.rsplit_once(']').map_or(host, |(_, behind)| behind);
    let port = behind.split_once(':').is_none_or(|(_, port)| {
        port.bytes().all(|b| b.is_ascii_digit()) && port.parse::<u16>().is_ok_and(|port| port > 0)
    });
    (plain && port && !host.contains('@')).then(|| text.to_owned())
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn urls_name_a_host_and_no_user() {
        assert_eq!(url("http://h:80/a?b").as_deref(), Some("http://h:80/a?b"));
        for bad in
            ["", "h", "ftp://h/", "http://", "https:///x", "http://u:p@h/", "http://h/a b", "http://:80/"]
        {
            assert_eq!(url(bad), None, "{bad}");
        }
        assert!(url("http://[fd00::1]").is_some() && url("http://[fd00::1]:65535/").is_some());
        for bad in ["http://h:80800/", "http://h:0/", "http://h:/", "http://h:+80/", "http://[fd00::1]:x/"] {
            assert_eq!(url(bad), None, "{bad}");
        }
    }
}
