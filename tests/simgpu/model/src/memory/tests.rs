use super::*;

const MIB: u64 = 1 << 20;

fn spans(memory: &Memory, address: u64, bytes: u64) -> Result<Vec<Span>> {
    match memory.place(address, bytes)? {
        Place::Gpu(spans) => Ok(spans),
        other => panic!("{other:?}"),
    }
}

#[test]
fn memory_runs_out_and_comes_back() {
    let mut memory = Memory::new(vec![10 * MIB, 10 * MIB]);
    let first = memory.alloc(0, 7 * MIB).unwrap();
    assert_eq!(memory.free(0), 2 * MIB);
    assert_eq!(memory.alloc(0, 3 * MIB), Err(Status::OUT_OF_MEMORY));
    assert!(memory.alloc(1, 3 * MIB).is_ok());
    assert_eq!(memory.free_at(first), Ok(0));
    assert_eq!(memory.free_at(first), Err(Status::INVALID_VALUE));
    assert_eq!(memory.free(0), 10 * MIB);
}

#[test]
fn no_address_leads_beyond_its_allocation() {
    let mut memory = Memory::new(vec![100 * MIB; 2]);
    let a = memory.alloc(0, 4096).unwrap();
    let b = memory.alloc(0, 4096).unwrap();
    assert!(a != b && spans(&memory, a, 4096).is_ok());
    for (address, bytes) in [(a, 4097), (a + 4096, 1), (b - 1, 1), (a - 1, 2)] {
        assert_eq!(spans(&memory, address, bytes).unwrap_err(), Status::ILLEGAL_ADDRESS);
    }
    assert!(matches!(memory.place(0x5555_0000_0000, 4).unwrap(), Place::Pageable));
}

#[test]
fn addresses_do_not_run_out_by_use() {
    let mut memory = Memory::new(vec![u64::MAX >> 10]);
    let kept = memory.alloc(0, MIB).unwrap();
    for _ in 0..100 {
        let big = memory.alloc(0, 20 << 30).unwrap();
        assert!(big > kept);
        memory.free_at(big).unwrap();
    }
}

#[test]
fn hand_made_mappings_are_one_stretch_of_addresses() {
    let mut memory = Memory::new(vec![100 * MIB; 2]);
    let (a, b) = (memory.create(0, 2 * MIB).unwrap(), memory.create(1, 2 * MIB).unwrap());
    assert_eq!(memory.create(0, MIB), Err(Status::INVALID_VALUE));
    let address = memory.reserve(4 * MIB, 0).unwrap();
    memory.map(address, 2 * MIB, 0, a).unwrap();
    assert_eq!(memory.map(address, 2 * MIB, 0, b), Err(Status::INVALID_VALUE));
    memory.map(address + 2 * MIB, 2 * MIB, 0, b).unwrap();
    memory.release(a).unwrap();
    memory.set_access(address, 4 * MIB, 1, true).unwrap();
    let all = spans(&memory, address + MIB, 2 * MIB).unwrap();
    assert_eq!(
        all.iter().map(|s| (s.owner, s.offset, s.bytes)).collect::<Vec<_>>(),
        [(0, MIB, MIB), (1, 0, MIB)]
    );
    memory.write(&all, &[(2 * MIB, Some(Content::pattern(1, 0)))]);
    assert_eq!(memory.read(&all, 0).len(), 2);
    assert_eq!(memory.unreserve(address, 4 * MIB), Err(Status::INVALID_VALUE));
    memory.unmap(address, 4 * MIB).unwrap();
    memory.unreserve(address, 4 * MIB).unwrap();
    // The released one went with its mapping, the other is still held.
    assert_eq!((memory.free(0), memory.free(1)), (100 * MIB, 98 * MIB));
}

#[test]
fn a_mirror_is_seen_by_the_writer_alone() {
    let mut memory = Memory::new(vec![100 * MIB; 2]);
    let address = memory.alloc(1, 4096).unwrap();
    let place = spans(&memory, address, 4096).unwrap();
    memory.write(&place, &[(4096, Some(Content::Byte(1)))]);
    let store = memory.stores.get_mut(&place[0].store).unwrap();
    store.mirrors.entry(0).or_default().write(8, 8, Content::Byte(2));
    let seen = |by| crate::extents::bytes(&memory.read(&place, by));
    assert_eq!((seen(0)[7], seen(0)[8], seen(0)[16]), (1, 2, 1));
    assert!(seen(1).iter().all(|b| *b == 1));
}
