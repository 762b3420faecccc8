//! The child that starts the GPU driver, by the functions of `driver`. Its standard input is a socket to
//! process 1, which gets the open GPUs through it.

use super::{network, say};
use crate::driver::start::places::Wanted;
use crate::driver::start::start_here;
use std::collections::BTreeMap;
use std::os::fd::AsFd;
use std::time::Duration;

/// Words with `=` are parameters, the others modules.
pub(super) fn load(load: &str, deadline_s: &str, words: &[&str]) -> Result<(), String> {
    let modules = words.iter().filter(|word| !word.contains('=')).map(|word| (*word).to_owned()).collect();
    let pairs = words.iter().filter_map(|word| word.split_once('='));
    let parameters: BTreeMap<_, _> = pairs.map(|(m, p)| (m.to_owned(), p.to_owned())).collect();
    let load = load.parse().map_err(|_| format!("{load}: neither true nor false"))?;
    let deadline = Duration::from_secs(
        deadline_s.parse().map_err(|_| format!("{deadline_s}: not a number of seconds"))?,
    );
    let keeper = std::io::stdin();
    let wanted = Wanted { load, modules, parameters, deadline };
    // Without a loopback the fabric manager reports what is missing.
    let mut loopback = || drop(network::link_up("lo"));
    start_here(&wanted, &mut say, keeper.as_fd(), &mut loopback)
}
