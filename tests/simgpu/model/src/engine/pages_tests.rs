//! Tags and tables of copies, well and with faults.

use super::tests::{Bench, OUT, SIZE, bench};
use crate::Host as _;
use crate::kernel::Kernel;
use crate::memory::Tags;

const TAGS: Tags = Tags { at: 0, pages: 32, first: 5, shift: 21, writer: 1, nonce: 3, seed: 4 };
const SENTINEL: u64 = 7;
/// Where the pattern of GPU 0's buffer begins, were page 0 its first.
const FIRST: u64 = 5 << 19;

/// Peer 1 tags all pages of GPU 0, whose owner looks at them.
fn tagged(faults: &str) -> (Bench, [u64; 5]) {
    let mut bench = bench("epyc-8x4090", faults);
    let base = bench.buffers[0];
    bench.launch(0, Kernel::Fill { dst: base, words: SIZE / 4, seed: SENTINEL, first: FIRST });
    bench.finish(0);
    bench.launch(1, Kernel::Tag { base, tags: TAGS });
    bench.finish(1);
    let found = counted(&mut bench, 0, true);
    (bench, found)
}

fn counted(bench: &mut Bench, by: usize, restore: bool) -> [u64; 5] {
    let base = bench.buffers[0];
    bench.preset();
    bench.launch(by, Kernel::CheckTags { base, tags: TAGS, sentinel: SENTINEL, restore, out: OUT });
    bench.finish(by);
    assert_eq!(bench.host.read(OUT + 40, 8), 32u64.to_le_bytes(), "every page is looked at");
    bench.out()
}

fn unchanged(bench: &mut Bench) -> u64 {
    let src = bench.buffers[0];
    bench.preset();
    let check =
        Kernel::Check { src, words: SIZE / 4, first: FIRST, expected: SENTINEL, sentinel: 1, out: OUT };
    bench.launch(0, check);
    bench.finish(0);
    bench.out()[0]
}

#[test]
fn tags_of_every_page_are_found_and_what_was_there_comes_back() {
    let (mut bench, found) = tagged("");
    assert_eq!(found, [0, 0, 0, u64::MAX, 0]);
    assert_eq!(unchanged(&mut bench), 0);
    assert_eq!(counted(&mut bench, 0, false)[..3], [32, 0, 32], "they are gone now");
}

#[test]
fn a_page_that_a_peer_does_not_reach_has_no_tag() {
    // The buffer lies at the bottom of the memory.
    let hole = format!("[[fault]]\nkind = \"stale\"\npair = [1, 0]\nhole = [{}, {}]\n", 8 << 20, 12 << 20);
    let (mut bench, found) = tagged(&hole);
    assert_eq!(found, [2, 0, 2, 9, 10]);
    assert_eq!(unchanged(&mut bench), 0, "right ones were restored, and nothing came to the others");
    let (_, other) = tagged(&hole.replace("[1, 0]", "[2, 0]"));
    assert_eq!(other[0], 0, "another pair's hole");
}

#[test]
fn reads_of_tags_meet_faults_of_reads() {
    let read = "[[fault]]\nkind = \"zeros\"\nway = \"read\"\npair = [0, 1]\nevery = 10\n";
    let mut bench = bench("epyc-8x4090", read);
    let base = bench.buffers[0];
    bench.launch(0, Kernel::Tag { base, tags: TAGS });
    bench.finish(0);
    assert_eq!(counted(&mut bench, 1, false)[..2], [3, 3]);
    assert_eq!(counted(&mut bench, 0, false)[0], 0);
}

#[test]
fn a_stray_write_lands_at_its_address_whoever_has_it() {
    let at = SIZE / 2;
    let stray = format!("[[fault]]\nkind = \"stray\"\npair = [2, 1]\ngpu = 0\nat = {at}\n");
    let mut bench = bench("epyc-8x4090", &stray);
    bench.fill(0, 1);
    bench.fill(1, 2);
    bench.fill(2, 3);
    (0..3).for_each(|gpu| bench.finish(gpu));
    bench.copy(2, 2, 1, 4096);
    bench.finish(2);
    assert_eq!(bench.check(0, SIZE, 1, 3)[..4], [1, 0, 0, at / 4]);
    assert_eq!(bench.check(1, 4096, 3, 2)[0], 0);
}

/// Copies of a table from GPU 1 to GPU 0: target, source and size in the buffers.
fn batch(faults: &str, copies: &[(u64, u64, u64)]) -> [u64; 5] {
    let mut bench = bench("epyc-8x4090", faults);
    bench.fill(0, SENTINEL);
    bench.fill(1, 8);
    (0..2).for_each(|gpu| bench.finish(gpu));
    let (to, from) = (bench.buffers[0], bench.buffers[1]);
    let table = OUT + 4096;
    let numbers = copies.iter().flat_map(|(t, f, n)| [to + t, from + f, *n, *f, *t]);
    let bytes: Vec<u8> = numbers.flat_map(u64::to_le_bytes).collect();
    bench.host.write(table, &bytes);
    let count = copies.len() as u64;
    bench.launch(1, Kernel::CopyBatch { table, count });
    bench.finish(1);
    bench.preset();
    let check =
        Kernel::CheckBatch { table, count, seed: 8, sentinel: SENTINEL, guard: 64, restore: true, out: OUT };
    bench.launch(0, check);
    bench.finish(0);
    let found = bench.out();
    if found[0] == 0 {
        assert_eq!(bench.check(0, SIZE, SENTINEL, 1)[0], 0, "all is as it was");
    }
    found
}

const COPIES: &[(u64, u64, u64)] =
    &[(64, 1, 1), (1003, 4096, 777), (8192, 8193, 4096), (1 << 20, 5, 8 << 20)];

#[test]
fn copies_of_any_size_and_place_are_found_right() {
    assert_eq!(batch("", COPIES), [0, 0, 0, u64::MAX, 0]);
}

#[test]
fn each_copy_of_a_table_meets_its_own_faults() {
    let fault = |more: &str| batch(&format!("[[fault]]\nkind = \"stale\"\npair = [1, 0]\n{more}"), COPIES);
    assert_eq!(fault("no_multiple = 4\nfrom_bytes = 2")[3] >> 40, 1);
    let [wrong, _, old, first, last] = fault("from_bytes = 4096\nto_bytes = 4096");
    assert_eq!((wrong, old, first >> 40, last >> 40), (1024, 1024, 2, 2));
    assert_eq!(fault("unaligned = 16\nfrom_bytes = 1000")[3] >> 40, 2);
    assert_eq!(fault("every = 4")[3] >> 40, 3);
    assert_eq!(fault("load = 1")[0], 0, "nothing else was under way");
    assert_eq!(fault("shared = true")[0], 0);
    let half = fault(&format!("hole = [{}, {}]", 4 << 20, 5 << 20));
    assert_eq!((half[0], half[3] & 0xff_ffff_ffff), ((1 << 20) / 4, ((3 << 20) + 64) / 4));
}

#[test]
fn what_is_no_multiple_of_a_word_may_be_wrong_in_one_byte() {
    let flip = "[[fault]]\nkind = \"flip\"\npair = [1, 0]\nfrom_bytes = 700\nto_bytes = 800\n";
    let [wrong, zeros, old, first, last] = batch(flip, COPIES);
    assert_eq!((wrong, zeros, old, first, first >> 40), (1, 0, 0, last, 1));
}

#[test]
fn an_error_that_is_not_sticky_comes_from_the_call_and_leaves_the_context() {
    let mut bench = bench("epyc-8x4090", "[[fault]]\nkind = \"error\"\npair = [0, 1]\ncode = 1\n");
    let [a, b] = [bench.buffers[0], bench.buffers[1]];
    assert_eq!(bench.engine.refusal(0, b, a, 64), Err(crate::Status(1)));
    assert_eq!(bench.engine.refusal(1, a, b, 64), Ok(()));
    bench.copy(0, 0, 1, 64);
    bench.finish(0);
    bench.copy(1, 1, 0, 64);
    bench.finish(1);
}
