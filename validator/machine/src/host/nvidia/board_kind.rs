//! What kind of board a GPU is, by its PCI device id: GeForce or not, integrated or not, with a link of its own to the
//! processor or not. Pure.
//!
//! The ids are those of the PCI ID Project's list of 22 August 2026 (pci-ids.ucw.cz) and of NVIDIA's table of names
//! (`g_nv_name_released.h`) of driver 595.45.04, from Maxwell on. A board that only a virtual GPU calls GeForce is none.

/// Boards whose name has `GeForce` or `TITAN`, sorted.
#[rustfmt::skip]
const GEFORCE: &[u16] = &[
    0x1340, 0x1341, 0x1344, 0x1346, 0x1347, 0x1348, 0x1349, 0x134b, 0x134d, 0x134e, 0x134f, 0x137d, 0x1380, 0x1381,
    0x1382, 0x1390, 0x1391, 0x1392, 0x1393, 0x1398, 0x1399, 0x139a, 0x139b, 0x139c, 0x139d, 0x13c0, 0x13c2, 0x13d7,
    0x13d8, 0x13d9, 0x13da, 0x13e7, 0x1401, 0x1402, 0x1404, 0x1406, 0x1407, 0x1427, 0x1617, 0x1618, 0x1619, 0x161a,
    0x1667, 0x174d, 0x174e, 0x179c, 0x17c2, 0x17c8, 0x1b00, 0x1b01, 0x1b02, 0x1b06, 0x1b80, 0x1b81, 0x1b82, 0x1b83,
    0x1b84, 0x1ba0, 0x1ba1, 0x1ba2, 0x1bad, 0x1be0, 0x1be1, 0x1c02, 0x1c03, 0x1c04, 0x1c06, 0x1c20, 0x1c21, 0x1c22,
    0x1c23, 0x1c60, 0x1c61, 0x1c62, 0x1c81, 0x1c82, 0x1c83, 0x1c8c, 0x1c8d, 0x1c8f, 0x1c90, 0x1c91, 0x1c92, 0x1c94,
    0x1c96, 0x1ccc, 0x1ccd, 0x1d01, 0x1d02, 0x1d10, 0x1d11, 0x1d12, 0x1d13, 0x1d16, 0x1d52, 0x1d56, 0x1d81, 0x1e02,
    0x1e03, 0x1e04, 0x1e07, 0x1e2d, 0x1e2e, 0x1e81, 0x1e82, 0x1e84, 0x1e87, 0x1e89, 0x1e90, 0x1e91, 0x1e93, 0x1eae,
    0x1ec2, 0x1ec7, 0x1ed0, 0x1ed1, 0x1ed3, 0x1f02, 0x1f03, 0x1f06, 0x1f07, 0x1f08, 0x1f09, 0x1f0a, 0x1f10, 0x1f11,
    0x1f12, 0x1f14, 0x1f15, 0x1f42, 0x1f47, 0x1f50, 0x1f51, 0x1f54, 0x1f55, 0x1f82, 0x1f83, 0x1f91, 0x1f92, 0x1f94,
    0x1f95, 0x1f96, 0x1f97, 0x1f98, 0x1f99, 0x1f9c, 0x1f9d, 0x1f9f, 0x1fa0, 0x1fd9, 0x1fdd, 0x2182, 0x2184, 0x2187,
    0x2188, 0x2191, 0x2192, 0x21c4, 0x21d1, 0x2203, 0x2204, 0x2205, 0x2206, 0x2207, 0x2208, 0x220a, 0x2216, 0x222b,
    0x222f, 0x2414, 0x2420, 0x2460, 0x2482, 0x2484, 0x2486, 0x2487, 0x2488, 0x2489, 0x248c, 0x248d, 0x248e, 0x249c,
    0x249d, 0x24a0, 0x24ac, 0x24ad, 0x24af, 0x24bf, 0x24c7, 0x24c8, 0x24c9, 0x24dc, 0x24dd, 0x24e0, 0x2501, 0x2503,
    0x2504, 0x2507, 0x2508, 0x2509, 0x2520, 0x2521, 0x2523, 0x252f, 0x2544, 0x2560, 0x2561, 0x2563, 0x2582, 0x2583,
    0x2584, 0x25a0, 0x25a2, 0x25a5, 0x25a6, 0x25a7, 0x25a9, 0x25aa, 0x25ab, 0x25ac, 0x25ad, 0x25af, 0x25e0, 0x25e2,
    0x25e5, 0x25ec, 0x25ed, 0x2681, 0x2684, 0x2685, 0x2689, 0x2702, 0x2703, 0x2704, 0x2705, 0x2709, 0x2717, 0x2757,
    0x2782, 0x2783, 0x2786, 0x2788, 0x27a0, 0x27e0, 0x2803, 0x2805, 0x2808, 0x2820, 0x2822, 0x2860, 0x2882, 0x28a0,
    0x28a1, 0x28a3, 0x28e0, 0x28e1, 0x28e3, 0x2b85, 0x2b87, 0x2b8c, 0x2c02, 0x2c05, 0x2c18, 0x2c19, 0x2c58, 0x2c59,
    0x2d04, 0x2d05, 0x2d18, 0x2d19, 0x2d58, 0x2d59, 0x2d83, 0x2d98, 0x2dd8, 0x2f04, 0x2f06, 0x2f18, 0x2f58,
];

/// Boards from Turing on that NVIDIA's table names otherwise, sorted.
#[rustfmt::skip]
const OTHER: &[u16] = &[
    0x1e09, 0x1e30, 0x1e36, 0x1e37, 0x1e78, 0x1eb0, 0x1eb1, 0x1eb5, 0x1eb6, 0x1eb8, 0x1ef5, 0x1f0b, 0x1f36, 0x1f76,
    0x1fb0, 0x1fb1, 0x1fb2, 0x1fb6, 0x1fb7, 0x1fb8, 0x1fb9, 0x1fba, 0x1fbb, 0x1fbc, 0x1ff0, 0x1ff2, 0x1ff9, 0x20b0,
    0x20b2, 0x20b3, 0x20b5, 0x20b7, 0x20bd, 0x20f1, 0x20f3, 0x20f5, 0x20f6, 0x20fd, 0x2189, 0x220d, 0x2230, 0x2231,
    0x2232, 0x2233, 0x2235, 0x2236, 0x2237, 0x2238, 0x230e, 0x2321, 0x2322, 0x2324, 0x2329, 0x232c, 0x2330, 0x2331,
    0x2335, 0x2339, 0x233a, 0x233b, 0x2342, 0x2348, 0x2438, 0x248a, 0x24b0, 0x24b1, 0x24b6, 0x24b7, 0x24b8, 0x24b9,
    0x24ba, 0x24bb, 0x24fa, 0x2531, 0x2571, 0x25b0, 0x25b2, 0x25b6, 0x25b8, 0x25b9, 0x25ba, 0x25bb, 0x25bc, 0x25bd,
    0x25f9, 0x25fa, 0x25fb, 0x26b1, 0x26b2, 0x26b3, 0x26b5, 0x26b8, 0x26b9, 0x26ba, 0x2730, 0x2770, 0x27b0, 0x27b1,
    0x27b2, 0x27b6, 0x27b8, 0x27ba, 0x27bb, 0x27fb, 0x2838, 0x28b0, 0x28b8, 0x28b9, 0x28ba, 0x28bb, 0x28f8, 0x2901,
    0x2941, 0x29bb, 0x2bb1, 0x2bb3, 0x2bb4, 0x2bb5, 0x2bb9, 0x2c31, 0x2c33, 0x2c34, 0x2c38, 0x2c39, 0x2c77, 0x2c79,
    0x2d30, 0x2d39, 0x2d79, 0x2db8, 0x2db9, 0x2df9, 0x2e12, 0x2f38, 0x31c2,
];

/// First and last ids of the chips that are one with the processor: GB10B (Thor), GB20B (GB10).
const INTEGRATED: &[(u16, u16)] = &[(0x2b00, 0x2b7f), (0x2e00, 0x2e7f)];
/// Words of their names, as the driver writes them.
const INTEGRATED_NAMES: &[&str] = &["GB10", "Thor", "Orin", "Xavier", "Tegra"];
/// GH200, GB200 and GB300: boards with Grace, which reaches them over NVLink-C2C.
const OWN_LINK: &[u16] = &[
    0x2342, 0x2343, 0x2345, 0x2348, 0x2941, 0x31a1, 0x31c2, 0x31c3,
];
/// Words of their names, as the driver writes them.
const OWN_LINK_NAMES: &[&str] = &["GH200", "GB200", "GB300"];
/// SXM boards of SXM3 and later: V100 SXM3, A100 and A800, H100, H800, H20 and H200, B200. NVLinks connect all such boards of a
/// baseboard with each other, in most cases through NVSwitches. Sorted.
const ALL_BY_NVLINK: &[u16] = &[
    0x1db8, 0x20b0, 0x20b2, 0x20b3, 0x20bd, 0x20f3, 0x2324, 0x2329, 0x232c, 0x2330, 0x2335, 0x2901,
];
/// Parts of their names, as the driver writes them.
const ALL_BY_NVLINK_NAMES: &[&str] = &["SXM3", "SXM4", "SXM5", "SXM6"];

/// Whether it is a GeForce board: by the driver's name, else by its id. `None` if neither is known.
#[must_use]
pub fn geforce(device: Option<u16>, name: Option<&str>) -> Option<bool> {
    let by_name = name.map(|name| name.contains("GeForce") || name.contains("TITAN"));
    by_name.or_else(|| {
        let device = device?;
        let of = |ids: &[u16]| ids.binary_search(&device).is_ok();
        of(GEFORCE)
            .then_some(true)
            .or_else(|| (of(OTHER) || is_integrated(Some(device), None)).then_some(false))
    })
}

/// Whether it is integrated: its memory is the processor's.
#[must_use]
pub fn is_integrated(device: Option<u16>, name: Option<&str>) -> bool {
    let by_id = device.is_some_and(|id| {
        INTEGRATED
            .iter()
            .any(|(first, last)| (*first..=*last).contains(&id))
    });
    by_id || has_word(name, INTEGRATED_NAMES)
}

/// Whether the board has a processor of its own (Grace) with its own link to it.
#[must_use]
pub fn has_own_link(device: Option<u16>, name: Option<&str>) -> bool {
    device.is_some_and(|id| OWN_LINK.contains(&id)) || has_word(name, OWN_LINK_NAMES)
}

/// Whether it is an SXM board of a baseboard on which NVLinks connect all boards with each other.
#[must_use]
pub fn is_all_by_nvlink(device: Option<u16>, name: Option<&str>) -> bool {
    device.is_some_and(|id| ALL_BY_NVLINK.binary_search(&id).is_ok())
        || name.is_some_and(|name| ALL_BY_NVLINK_NAMES.iter().any(|part| name.contains(part)))
}

fn has_word(name: Option<&str>, words: &[&str]) -> bool {
    name.is_some_and(|name| name.split_whitespace().any(|word| words.contains(&word)))
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn boards_are_known_by_their_ids() {
        for (device, expected) in [
            (0x1b80, Some(true)),
            (0x1e04, Some(true)),
            (0x1e02, Some(true)),
            (0x2204, Some(true)),
            (0x2684, Some(true)),
            (0x2757, Some(true)),
            (0x2b85, Some(true)),
            (0x2d04, Some(true)),
            (0x2230, Some(false)),
            (0x26b1, Some(false)),
            (0x26b5, Some(false)),
            (0x2335, Some(false)),
            (0x2bb1, Some(false)),
            (0x2e12, Some(false)),
            (0x3fff, None),
        ] {
            assert_eq!(geforce(Some(device), None), expected, "{device:#x}");
        }
        assert_eq!(geforce(None, None), None);
    }

    #[test]
    fn boards_that_nvlinks_connect_are_known() {
        for (device, name, expected) in [
            (0x2335, None, true),
            (0x2330, None, true),
            (0x20b2, None, true),
            (0x3182, Some("NVIDIA B300 SXM6 AC"), true),
            (0x2331, Some("NVIDIA H100 PCIe"), false),
            (0x233b, Some("NVIDIA H200 NVL"), false),
            (0x1db1, Some("Tesla V100-SXM2-16GB"), false),
            (0x2684, None, false),
        ] {
            assert_eq!(
                is_all_by_nvlink(Some(device), name),
                expected,
                "{device:#x}"
            );
        }
        assert!(ALL_BY_NVLINK.is_sorted());
    }

    #[test]
    fn the_drivers_name_is_better_than_the_id() {
        assert_eq!(
            geforce(Some(0x3fff), Some("NVIDIA GeForce RTX 6090")),
            Some(true)
        );
        assert_eq!(geforce(Some(0x1e02), Some("NVIDIA TITAN RTX")), Some(true));
        assert_eq!(
            geforce(Some(0x2684), Some("NVIDIA RTX 5880 Ada Generation")),
            Some(false)
        );
    }

    #[test]
    fn integrated_gpus_and_boards_of_grace_are_known() {
        for (device, name, integrated, own_link) in [
            (0x2e12, None, true, false),
            (0x2e2a, None, true, false),
            (0x2b00, None, true, false),
            (0x3fff, Some("NVIDIA GB10"), true, false),
            (0x2342, None, false, true),
            (0x2941, None, false, true),
            (0x31c2, None, false, true),
            (0x3fff, Some("NVIDIA GB300"), false, true),
            (0x2335, Some("NVIDIA H200"), false, false),
            (0x2901, Some("NVIDIA B200"), false, false),
            (0x2b85, None, false, false),
        ] {
            assert_eq!(is_integrated(Some(device), name), integrated, "{device:#x}");
            assert_eq!(has_own_link(Some(device), name), own_link, "{device:#x}");
        }
    }

    #[test]
    fn the_tables_are_sorted_and_have_no_id_twice() {
        for ids in [GEFORCE, OTHER] {
            assert!(ids.windows(2).all(|pair| pair[0] < pair[1]));
        }
        assert!(
            !GEFORCE
                .iter()
                .any(|id| OTHER.contains(id) || OWN_LINK.contains(id))
        );
    }
}
