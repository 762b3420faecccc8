//! Finds the modules for a device: matches `modules.alias` patterns against the device's modalias.

use std::fs;
use std::path::Path;

/// Whether a modules.alias pattern matches: `*`, `?` and `[..]` (with ranges and a leading `!`) as in
/// fnmatch(3).
#[must_use]
pub fn matches(pattern: &str, text: &str) -> bool {
    glob(pattern.as_bytes(), text.as_bytes())
}

/// Works without recursion: after a mismatch the last `*` matches one more byte, so the work is at most
/// length of the pattern times length of the text.
fn glob(pattern: &[u8], text: &[u8]) -> bool {
    let (mut p, mut t) = (pattern, text);
    let mut last_star: Option<(&[u8], &[u8])> = None;
    loop {
        if let Some((b'*', rest)) = p.split_first().map(|(c, r)| (*c, r)) {
            last_star = Some((rest, t));
            p = rest;
            continue;
        }
        let step = t
            .split_first()
            .and_then(|(c, rest)| Some((match_one(p, *c)?, rest)));
        if let Some((pattern_rest, text_rest)) = step {
            (p, t) = (pattern_rest, text_rest);
        } else if p.is_empty() && t.is_empty() {
            return true;
        } else if let Some((after, from)) = last_star {
            let Some((_, shorter)) = from.split_first() else {
                return false;
            };
            last_star = Some((after, shorter));
            (p, t) = (after, shorter);
        } else {
            return false;
        }
    }
}

/// The rest of the pattern if its first element matches this byte.
fn match_one(pattern: &[u8], byte: u8) -> Option<&[u8]> {
    let (first, rest) = pattern.split_first()?;
    match first {
        b'?' => Some(rest),
        b'[' => {
            let end = rest.iter().skip(1).position(|b| *b == b']')? + 1;
            let (set, after) = (rest.get(..end)?, rest.get(end + 1..)?);
            let (negated, set) = match set.split_first() {
                Some((b'!', set)) => (true, set),
                _ => (false, set),
            };
            (in_set(set, byte) != negated).then_some(after)
        }
        _ => (*first == byte).then_some(rest),
    }
}

fn in_set(set: &[u8], byte: u8) -> bool {
    match set {
        [low, b'-', high, rest @ ..] => (*low..=*high).contains(&byte) || in_set(rest, byte),
        [first, rest @ ..] => *first == byte || in_set(rest, byte),
        [] => false,
    }
}

/// The modaliases of the devices on a bus (`pci`, `virtio` ..), for `modules_for`. Devices on the auxiliary bus have no
/// `modalias` file, only the line in `uevent`.
pub fn devices(sys: &Path, bus: &str) -> impl Iterator<Item = String> {
    let devices = fs::read_dir(sys.join("bus").join(bus).join("devices"))
        .into_iter()
        .flatten()
        .flatten();
    let of = |path: &Path| {
        let uevent = || {
            let text = fs::read_to_string(path.join("uevent")).ok()?;
            text.lines()
                .find_map(|line| line.strip_prefix("MODALIAS=").map(str::to_owned))
        };
        fs::read_to_string(path.join("modalias"))
            .ok()
            .or_else(uevent)
    };
    devices
        .filter_map(move |entry| of(&entry.path()))
        .map(|text| text.trim().to_owned())
}

/// The modules that modules.alias names for a device, in the file's order, each once.
#[must_use]
pub fn modules_for(aliases: &str, modalias: &str) -> Vec<String> {
    let mut found: Vec<String> = Vec::new();
    for line in aliases.lines() {
        let mut words = line.split_whitespace();
        let (Some("alias"), Some(pattern), Some(module)) =
            (words.next(), words.next(), words.next())
        else {
            continue;
        };
        if matches(pattern, modalias) && !found.iter().any(|m| m == module) {
            found.push(module.to_owned());
        }
    }
    found
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn patterns_fit_as_fnmatch_has_it() {
        for (pattern, text, want) in [
            (
                "pci:v00008086d000010D3sv*sd*bc*sc*i*",
                "pci:v00008086d000010D3sv00008086sd0000bc02sc00i00",
                true,
            ),
            ("pci:v00008086d*", "pci:v000010DEd1", false),
            ("a*b*c", "aXbXbc", true),
            ("a*b*c", "aXbXb", false),
            ("a?c", "abc", true),
            ("a[b-d]e", "ace", true),
            ("a[!b-d]e", "ace", false),
            ("a[", "a[", false),
            ("*", "", true),
            ("", "a", false),
        ] {
            assert_eq!(matches(pattern, text), want, "{pattern} {text}");
        }
    }

    #[test]
    fn many_stars_take_no_exponential_time() {
        assert!(!matches(
            &"*a".repeat(40),
            &"a".repeat(39).replace("aaa", "aab").repeat(50)
        ));
    }

    #[test]
    fn a_device_gets_every_module_that_claims_it_once() {
        let text = "# Aliases\nalias pci:v1d2* e1000e\nalias pci:v1d* other\nalias pci:v1d2sv* e1000e\nbroken\n";
        assert_eq!(modules_for(text, "pci:v1d2sv3"), ["e1000e", "other"]);
        assert_eq!(modules_for(text, "pci:v9"), [""; 0]);
    }
}
