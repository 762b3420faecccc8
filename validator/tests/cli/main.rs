//! The built program on modelled machines: what it prints, what it writes, how it exits.

// Everything here is a test; this attribute lets helpers stop at the first surprise, as tests may.
#[cfg(test)]
mod as_root;
#[cfg(test)]
mod devices;
#[cfg(test)]
mod earlier;
#[cfg(test)]
mod fabric;
#[cfg(test)]
mod gpus;
#[cfg(test)]
mod habits;
#[cfg(test)]
mod image;
#[cfg(test)]
mod machine;
#[cfg(test)]
mod network;
#[cfg(test)]
mod outputs;
#[cfg(test)]
mod places;
#[cfg(test)]
mod publish;
#[cfg(test)]
mod schema;
#[cfg(test)]
#[cfg(test)]
#[path = "../../../tests/src/servers.rs"]
#[expect(
    unreachable_pub,
    reason = "the harness of the boots, whose file it is, exports it"
)]
mod servers;
#[cfg(test)]
mod setup;
#[cfg(test)]
mod usage;
#[cfg(test)]
mod verdicts;
