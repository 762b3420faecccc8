use super::*;
use crate::engine::tests::simulation;

#[test]
fn an_image_is_as_long_as_it_says() {
    let mut image = vec![0u8; 300];
    image[..4].copy_from_slice(b"\x7fELF");
    image[0x28] = 200;
    image[0x3a] = 20;
    image[0x3c] = 5;
    assert_eq!(module::length(|i| image[i]), 300);
    assert_eq!(module::length(|i| b".version 8.4\n\0"[i]), 13);
}

#[test]
fn only_kernels_that_the_image_names_are_found() {
    let mut simulation = simulation("");
    assert_eq!(simulation.load(0, b"nothing"), Err(Status::INVALID_IMAGE));
    let module = simulation.load(0, b"\x7fELF fl_fill\0fl_chase_init\0fl_other\0").unwrap();
    assert!(simulation.function(module, "fl_fill").is_ok());
    assert!(simulation.function(module, "fl_chase_init").is_ok());
    for name in ["fl_chase", "fl_check", "fl_other"] {
        assert_eq!(simulation.function(module, name), Err(Status::NOT_FOUND), "{name}");
    }
}

#[test]
fn peers_are_enabled_once_and_not_without_end() {
    let mut simulation = simulation("");
    for gpu in 0..8 {
        simulation.retain(gpu);
    }
    simulation.engine.scenario.machine.max_peers = 2;
    assert_eq!(simulation.enable_peer(0, 0), Err(Status::INVALID_CONTEXT));
    assert_eq!(simulation.enable_peer(0, 1), Ok(()));
    assert_eq!(simulation.enable_peer(0, 1), Err(Status::PEER_ACCESS_ALREADY_ENABLED));
    assert_eq!(simulation.enable_peer(0, 2), Ok(()));
    assert_eq!(simulation.enable_peer(0, 3), Err(Status::TOO_MANY_PEERS));
    assert_eq!(simulation.disable_peer(0, 2), Ok(()));
    assert_eq!(simulation.disable_peer(0, 2), Err(Status::PEER_ACCESS_NOT_ENABLED));
}

#[test]
fn what_is_said_of_a_pair_can_be_a_lie() {
    let lie = "[[fault]]\nkind = \"capability\"\npair = [1, 0]\nnvml = \"CNS\"\n[[fault]]\nkind = \"refuse\"\npair = [2, 3]\ncode = 205\n";
    let mut simulation = simulation(lie);
    for gpu in 0..8 {
        simulation.retain(gpu);
    }
    let scenario = simulation.scenario();
    assert!(scenario.can_access(1, 0));
    assert_eq!((scenario.nvml_status(1, 0, false), scenario.nvml_status(0, 1, false)), (1, 0));
    assert_eq!(simulation.p2p_attribute(2, 1, 0), Ok(1));
    assert_eq!(simulation.enable_peer(2, 3), Err(Status::MAP_FAILED));
    assert_eq!(simulation.enable_peer(3, 2), Ok(()));
}

#[test]
fn a_released_context_takes_everything_with_it() {
    let mut simulation = simulation("");
    simulation.retain(0);
    let before = simulation.memory(0);
    simulation.engine.memory.alloc(0, 1 << 30).unwrap();
    assert!(simulation.memory(0).0 < before.0);
    simulation.release(0).unwrap();
    assert_eq!(simulation.memory(0), before);
    assert_eq!(simulation.release(0), Err(Status::INVALID_CONTEXT));
}

#[test]
fn a_missing_gpu_has_no_ordinal() {
    let simulation = simulation("[[fault]]\nkind = \"missing\"\ngpu = 3\n");
    assert_eq!(simulation.count(), 7);
    assert_eq!(
        (simulation.gpu(2), simulation.gpu(3), simulation.gpu(7)),
        (Ok(2), Ok(4), Err(Status::INVALID_DEVICE))
    );
}
