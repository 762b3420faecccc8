//! The fabric of modelled machines: read, second witness, topology, fix and restore.

// All of it is a test; saying so lets helpers stop at the first surprise, as tests may.
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
