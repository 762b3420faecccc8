//! What does the shipped image do in QEMU? Each module answers one question. The tests need the image and its media,
//! which `./run boots` builds before it runs them; `cargo test --test boots NAME -- --test-threads=5` only runs them.
//! At most two machines work at the same time, or three if processors are idle; four more may wait for a deadline. Tests begin
//! in the order of their names: the longest ones, in `bootup`, must not be the last.

mod bootup;
mod broken;
mod driver;
mod fabric;
mod hand_over;
mod network;
mod nodes;
mod publish;
mod simgpu;

use std::path::Path;

/// The number of pixels of this color in a portable pixmap (P6, one byte per channel).
fn pixels(picture: &Path, color: [u8; 3]) -> usize {
    let bytes = std::fs::read(picture).unwrap();
    let header = bytes.splitn(4, |b| *b == b'\n').collect::<Vec<_>>();
    assert_eq!(
        (header.first(), header.get(2)),
        (Some(&&b"P6"[..]), Some(&&b"255"[..]))
    );
    header[3]
        .chunks_exact(3)
        .filter(|pixel| **pixel == color)
        .count()
}
