//! The table of predictions: machines from public forum threads and our own, each with its driver's answer.

use super::*;
use machine::host::nvidia::chip;

fn side(device: u16, geforce: bool, mapped: Option<bool>) -> GpuFacts {
    GpuFacts {
        chip: chip::of(device),
        geforce,
        mapped,
        obstruction: None,
        clique: None,
    }
}

fn driver(version: u32, changed: Option<bool>, dwords: &str) -> Option<Driver> {
    Some(Driver {
        version,
        changed,
        keys: RegistryKeys::of(version, dwords),
    })
}

fn pair(devices: [u16; 2], driver: Option<Driver>) -> PairFacts<'static> {
    let gpus = devices.map(|device| side(device, true, Some(true)));
    PairFacts {
        gpus,
        nvlinks: 0,
        switch: false,
        driver,
        host: None,
    }
}

#[track_caller]
fn is(pair: &PairFacts<'_>, expected: Expected, word: &str) {
    let (found, why) = predict(pair);
    assert_eq!(found, expected, "{why}");
    assert!(why.contains(word), "{why}");
}

const OLD: &str = "ForceP2P=17;RMForceP2PType=2;RMForceStaticBar1=1";
const NEW: &str = "ForceP2P=17;RMPcieP2PType=1;RMForceStaticBar1=1";
const ADA: [u16; 2] = [0x2684; 2];
const AMPERE: [u16; 2] = [0x2204; 2];
const BLACKWELL: [u16; 2] = [0x2b85; 2];

#[test]
fn ada_needs_our_changes_and_the_keys_of_its_version() {
    is(
        &pair(ADA, driver(555, Some(true), OLD)),
        Expected::Access,
        "BAR1",
    );
    is(
        &pair(ADA, driver(580, Some(true), NEW)),
        Expected::Access,
        "BAR1",
    );
    is(
        &pair(ADA, driver(595, Some(true), NEW)),
        Expected::Access,
        "BAR1",
    );
    is(
        &pair(ADA, driver(555, Some(false), "")),
        CHIPSET_OR_GPU,
        "ForceP2P",
    );
    is(
        &pair(ADA, driver(555, None, OLD)),
        Expected::Unknown,
        "patch level",
    );
    is(
        &pair(ADA, driver(575, Some(true), NEW)),
        NOT_SUPPORTED,
        "580",
    );
}

#[test]
fn ampere_needs_580_with_our_changes_and_the_keys() {
    is(
        &pair(AMPERE, driver(580, Some(true), NEW)),
        Expected::Access,
        "BAR1",
    );
    is(
        &pair([0x2204, 0x2484], driver(595, Some(true), NEW)),
        Expected::Access,
        "BAR1",
    );
    is(
        &pair(AMPERE, driver(580, Some(true), OLD)),
        Expected::Claimed,
        "RMForceP2PType=2",
    );
    is(
        &pair(AMPERE, driver(580, Some(true), "")),
        CHIPSET_OR_GPU,
        "ForceP2P",
    );
    is(
        &pair(AMPERE, driver(555, Some(true), OLD)),
        Expected::Unknown,
        "measured tests decide",
    );
    let mut unmapped = pair(AMPERE, driver(580, Some(true), NEW));
    unmapped.gpus[0].mapped = Some(false);
    is(&unmapped, NOT_SUPPORTED, "NVML counts too little");
}

#[test]
fn a_key_of_another_version_leaves_mailboxes_that_deliver_nothing() {
    is(
        &pair(ADA, driver(580, Some(true), OLD)),
        Expected::Claimed,
        "RMForceP2PType=2",
    );
    is(
        &pair(BLACKWELL, driver(580, Some(false), OLD)),
        Expected::Claimed,
        "RMForceP2PType=2",
    );
    is(
        &pair(BLACKWELL, driver(590, Some(false), "ForceP2P=17")),
        Expected::Claimed,
        "RMPcieP2PType=1",
    );
    is(
        &pair(ADA, driver(555, Some(true), "ForceP2P=17")),
        NOT_SUPPORTED,
        "RMForceP2PType=2",
    );
}

#[test]
fn blackwell_needs_580_and_no_changes() {
    is(
        &pair(BLACKWELL, driver(590, Some(false), NEW)),
        Expected::Access,
        "BAR1",
    );
    is(
        &pair(BLACKWELL, driver(590, None, NEW)),
        Expected::Access,
        "BAR1",
    );
    is(
        &pair(BLACKWELL, driver(570, Some(false), OLD)),
        Expected::Unknown,
        "before version 580",
    );
    is(
        &pair(BLACKWELL, driver(570, Some(true), OLD)),
        NOT_SUPPORTED,
        "580",
    );
    is(
        &pair(BLACKWELL, driver(590, Some(false), "")),
        CHIPSET_OR_GPU,
        "GeForce",
    );
}

#[test]
fn a_key_that_forbids_is_the_cause() {
    is(
        &pair(ADA, driver(555, Some(true), "ForceP2P=0")),
        DISABLED,
        "forbids",
    );
    let no_map = "ForceP2P=17;RMPcieP2PType=1;RMForceStaticBar1=0";
    is(
        &pair(ADA, driver(590, Some(true), no_map)),
        NOT_SUPPORTED,
        "static map",
    );
}

#[test]
fn without_the_static_map_there_is_no_access() {
    let mut one = pair(BLACKWELL, driver(590, Some(false), NEW));
    one.gpus[1].mapped = Some(false);
    is(&one, Expected::Claimed, "NVML counts too little");
    one.gpus[1].mapped = None;
    is(&one, Expected::Unknown, "does not report");
}

#[test]
fn an_obstructed_map_is_the_reason_and_names_what_is_in_its_way() {
    let with = |obstruction, mapped, version, keys| {
        let mut one = pair(BLACKWELL, driver(version, Some(false), keys));
        (one.gpus[0].obstruction, one.gpus[0].mapped) = (Some(obstruction), mapped);
        one
    };
    let short = |console| MapObstruction::Short {
        missing: 362,
        console,
    };
    for mapped in [Some(false), None] {
        is(
            &with(short(true), mapped, 595, NEW),
            Expected::Claimed,
            "362 MiB too small",
        );
        is(
            &with(short(true), mapped, 595, NEW),
            Expected::Claimed,
            "a console takes its first 512 MiB",
        );
    }
    assert!(
        !predict(&with(short(false), None, 595, NEW))
            .1
            .contains("console")
    );
    // NVML counts the whole map: the computation was wrong.
    is(
        &with(short(true), Some(true), 595, NEW),
        Expected::Access,
        "BAR1",
    );
    let mut old = pair(ADA, driver(570, Some(true), OLD));
    old.gpus[1].obstruction = Some(MapObstruction::Misaligned { console: true });
    is(&old, NOT_SUPPORTED, "a console at the start of BAR1");
    old.gpus[1].obstruction = Some(MapObstruction::Misaligned { console: false });
    is(&old, NOT_SUPPORTED, "mailboxes");
}

#[test]
fn mixed_boards_are_not_applicable_across_generations_and_need_a_key_within_one() {
    for devices in [[0x2684, 0x2204], [0x2b85, 0x2684]] {
        is(
            &pair(devices, driver(580, Some(true), NEW)),
            Expected::NotApplicable,
            "generations",
        );
    }
    is(
        &pair([0x2c05, 0x2d04], driver(590, Some(false), "")),
        NOT_SUPPORTED,
        "GB203 and GB206",
    );
    is(
        &pair([0x2c05, 0x2d04], driver(590, Some(false), NEW)),
        Expected::Access,
        "BAR1",
    );
}

#[test]
fn the_host_decides_for_boards_with_bar1_peers_of_their_own_unless_a_switch_is_above_both() {
    let model = |vendor: &str, family, model| CpuModel {
        vendor: vendor.to_owned(),
        family,
        model,
    };
    let keys = driver(590, Some(false), "RMPcieP2PType=1");
    let pro = |host, switch| {
        let gpus = [side(0x2bb1, false, Some(true)); 2];
        PairFacts {
            gpus,
            nvlinks: 0,
            switch,
            driver: keys,
            host,
        }
    };
    let (zen, spr) = (
        model("AuthenticAMD", 0x19, 17),
        model("GenuineIntel", 6, 143),
    );
    let others = [
        model("GenuineIntel", 6, 106),
        model("AuthenticAMD", 0x15, 2),
        model("x", 0x19, 143),
    ];
    is(&pro(Some(&zen), false), Expected::Access, "trusts");
    is(&pro(Some(&spr), false), Expected::Access, "trusts");
    for other in &others {
        is(&pro(Some(other), false), CHIPSET, "Sapphire Rapids");
        is(&pro(Some(other), true), Expected::Access, "switch");
    }
    is(&pro(None, false), Expected::Unknown, "processor");
    let own = PairFacts {
        driver: driver(590, Some(false), ""),
        ..pro(Some(&zen), false)
    };
    is(&own, Expected::Unknown, "firmware");
}

#[test]
fn nvlinks_are_access_and_what_is_not_known_is_unknown() {
    is(
        &PairFacts {
            nvlinks: 4,
            ..pair([0x2204; 2], None)
        },
        Expected::Access,
        "4 NVLinks",
    );
    is(&pair(ADA, None), Expected::Unknown, "driver");
    is(
        &pair([0x2684, 0x1234], driver(580, Some(true), NEW)),
        Expected::Unknown,
        "chip",
    );
}

/// Several public modules have peers through BAR1 for these boards, and nothing in a module tells whose it is.
#[test]
fn what_modules_of_others_may_give_is_unknown_with_any_keys() {
    let only_forced = "ForceP2P=17";
    for keys in [NEW, OLD, only_forced] {
        for changed in [Some(false), None] {
            is(
                &pair(AMPERE, driver(580, changed, keys)),
                Expected::Unknown,
                "modules of others have it",
            );
        }
        is(
            &pair(ADA, driver(580, Some(false), keys)),
            Expected::Unknown,
            "modules of others have it",
        );
    }
    let mut unmapped = pair([0x2204; 2], driver(580, Some(false), NEW));
    unmapped.gpus[0].mapped = Some(false);
    is(&unmapped, Expected::Unknown, "measured tests decide");
    is(
        &pair([0x2204; 2], driver(580, Some(false), "")),
        CHIPSET_OR_GPU,
        "NVIDIA's own driver",
    );
}

fn in_cliques(
    of: [Option<u8>; 2],
    devices: [u16; 2],
    driver: Option<Driver>,
) -> PairFacts<'static> {
    let mut pair = pair(devices, driver);
    (pair.gpus[0].clique, pair.gpus[1].clique) = (of[0], of[1]);
    pair
}

#[test]
fn within_a_clique_access_is_expected_whatever_the_board_and_the_keys() {
    let stock = driver(580, Some(false), "");
    for devices in [[0x2204; 2], ADA, BLACKWELL, [0x2c05, 0x2d04], [0x1234; 2]] {
        for driver in [stock, driver(580, None, NEW), None] {
            is(
                &in_cliques([Some(0); 2], devices, driver),
                Expected::Access,
                "clique 0",
            );
        }
    }
    let mut board = in_cliques([Some(7); 2], [0x2231; 2], stock);
    board.gpus.iter_mut().for_each(|gpu| gpu.geforce = false);
    is(&board, Expected::Access, "clique 7");
    is(
        &in_cliques([Some(0); 2], ADA, driver(580, None, "ForceP2P=0")),
        DISABLED,
        "forbids",
    );
    is(
        &in_cliques([Some(0); 2], [0x2684, 0x2204], stock),
        Expected::NotApplicable,
        "generations",
    );
}

#[test]
fn other_cliques_or_none_change_nothing() {
    for of in [
        [Some(0), Some(1)],
        [Some(0), None],
        [None, Some(0)],
        [None; 2],
    ] {
        is(
            &in_cliques(of, [0x2204; 2], driver(580, Some(false), "")),
            CHIPSET_OR_GPU,
            "ForceP2P",
        );
        is(
            &in_cliques(of, [0x2204; 2], None),
            Expected::Unknown,
            "driver",
        );
    }
}

#[test]
fn a_refusal_whose_letter_depends_on_the_host_names_both() {
    assert_eq!(
        CHIPSET_OR_GPU.to_string(),
        "none, CNS (chipset not supported) or GNS (GPU not supported)"
    );
}
