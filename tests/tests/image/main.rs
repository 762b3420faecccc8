//! Tests of the built image, its media, signatures and documents, and of the scripts that build them. Nothing is booted.
//! Needs the image and the media (`./run image-tests` builds them). Three tests run at a time, because some of them
//! build: `cargo test --test image NAME -- --test-threads=3`.

mod added;
mod any_linux;
mod compare;
mod contents;
mod driver_build;
mod driver_edits;
mod driver_image;
mod driver_sources;
mod driver_versions;
mod media;
mod offline;
mod release_notes;
mod relock;
mod signing;
mod trees;
mod trust;
mod usb_writer;
