//! Is what was built what it should be: the image, its media, signatures and documents, and the scripts that build them?
//! Needs image and media (`./run image-tests` builds them) and boots nothing. The tests run one after the other, for some
//! of them build: `cargo test -p firstlight-tests --test image NAME -- --test-threads=1`.

mod any_linux;
mod compare;
mod contents;
mod driver_build;
mod driver_check;
mod driver_prune;
mod media;
mod offline;
mod relock;
mod signing;
mod trust;
mod usb_writer;
