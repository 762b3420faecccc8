//! The fabric of modelled machines: reading, comparison with lspci, topology, fix and restore.

// Everything here is a test; this attribute lets helpers stop at the first surprise, as tests may.
#[cfg(test)]
mod fix;
#[cfg(test)]
mod lspci;
#[cfg(test)]
mod machines;
#[cfg(test)]
mod modelled;
#[cfg(test)]
mod other_bus;
#[cfg(test)]
mod rebar;
#[cfg(test)]
mod text;
