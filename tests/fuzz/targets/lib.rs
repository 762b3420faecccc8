//! All parsers of untrusted input, by name. libFuzzer calls them by the program `fuzz`; the test here calls them with the
//! seeds, and with what is next to a seed.

mod init;
mod texts;
mod validator;

/// A parser with what must hold for any input; it panics where that does not hold.
pub type Target = fn(&[u8]);

/// The targets. Those that take text receive only input that is UTF-8.
pub const TARGETS: [(&str, Target); 16] = [
    ("arp", init::arp),
    ("cmdline", |bytes| text(bytes, init::cmdline)),
    ("config_space", validator::config_space),
    ("driver_evidence", validator::driver_evidence),
    ("driver_files", init::driver_files),
    ("image_list", validator::image_list),
    ("kmsg", validator::kmsg),
    ("modinfo", init::modinfo),
    ("modules_dep", |bytes| text(bytes, init::modules_dep)),
    ("nccl_dump", validator::nccl_dump),
    ("nccl_log", validator::nccl_log),
    ("report", validator::report),
    ("superblock", init::superblock),
    ("texts", texts::texts),
    ("toml_init", |bytes| text(bytes, init::toml_init)),
    ("toml_validator", |bytes| {
        text(bytes, validator::toml_validator);
    }),
];

fn text(bytes: &[u8], target: fn(&str)) {
    if let Ok(text) = std::str::from_utf8(bytes) {
        target(text);
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    /// How many inputs next to a seed are tried, of each kind.
    const OFFSETS: usize = 64;

    /// The seeds of a target, from `seeds.txt`; those with a name in `.hex` are in base 16. A target that has none begins with
    /// zeros.
    fn seeds(target: &str) -> Vec<Vec<u8>> {
        let text = include_str!("../seeds.txt");
        let files = text
            .split("\n==> ")
            .skip(1)
            .filter_map(|file| file.split_once('\n'));
        let of_target = files.filter(|(name, _)| name.split('/').next() == Some(target));
        let seeds: Vec<_> = of_target
            .map(|(name, content)| {
                if name.ends_with(".hex") {
                    hex(content)
                } else {
                    content.into()
                }
            })
            .collect();
        if seeds.is_empty() {
            vec![vec![0; 4096]]
        } else {
            seeds
        }
    }

    fn hex(text: &str) -> Vec<u8> {
        let digits: Vec<_> = text.chars().filter_map(|c| c.to_digit(16)).collect();
        digits
            .chunks(2)
            .map(|pair| u8::try_from(pair[0] * 16 + pair[1]).unwrap())
            .collect()
    }

    /// A seed, the seed cut off at offsets all over it, and with another byte at each of them.
    fn mutations(seed: &[u8]) -> impl Iterator<Item = Vec<u8>> {
        let offsets = || (0..seed.len()).step_by(seed.len().div_ceil(OFFSETS).max(1));
        let cut = offsets().map(|at| seed[..at].to_vec());
        let changed = offsets().flat_map(|at| {
            [0, b'\n', b'9', 0x80, 0xff].map(|byte| {
                let mut input = seed.to_vec();
                input[at] = byte;
                input
            })
        });
        std::iter::once(seed.to_vec()).chain(cut).chain(changed)
    }

    #[test]
    fn every_target_holds_for_its_seeds_and_for_what_is_next_to_them() {
        for (name, target) in TARGETS {
            let seeds = seeds(name);
            assert!(seeds.iter().all(|seed| !seed.is_empty()), "{name}");
            for seed in seeds {
                for input in mutations(&seed) {
                    let held = std::panic::catch_unwind(|| target(&input));
                    assert!(
                        held.is_ok(),
                        "{name}: {:?}",
                        String::from_utf8_lossy(&input)
                    );
                }
            }
        }
    }
}
