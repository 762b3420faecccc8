//! Is what was built what it should be: the image, its media, signatures and documents, and the scripts that build them?
//! Needs image and media (`./run image-tests` builds them) and boots nothing. Three tests run at a time, for
//! some of them build: `cargo test --test image NAME -- --test-threads=3`.

mod any_linux;
mod compare;
mod contents;
mod driver_build;
mod driver_edits;
mod driver_image;
mod media;
mod offline;
mod relock;
mod signing;
mod trust;
mod usb_writer;
