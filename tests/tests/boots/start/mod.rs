//! Ways to start: the recipe, boot entries, media, Secure Boot, a locked-down kernel, a golden image.

mod entries;
mod golden;
mod lockdown;
mod media;
mod pxe_serve;
mod reset;
mod run;
mod secure_boot;
