//! Several machines that talk to each other for the time of a test: one of them listens, the others connect, and
//! all prove by HMAC that they know the same token, which is never sent. Every message has a limit in size
//! and a deadline, and a MAC with its number, so that none can be changed, repeated or sent by others. The caller
//! defines the content of messages.

mod guest;
mod host;
mod link;
mod seal;
mod wire;

pub use guest::{NoEntry, join};
pub use host::{Came, Event, Host};
pub use link::{Link, Listener, Speaker};
pub use seal::Token;
pub use wire::Cut;

/// The name of the protocol, which both sides must have.
const PROTOCOL: &str = "firstlight.meeting/1";
/// The longest message before a peer is proven to know the token, bytes.
const FIRST: usize = 4 << 10;
/// The longest message after that, bytes.
const LONGEST: usize = 4 << 20;
/// The longest name of a node, characters.
pub const NAME: usize = 64;

#[cfg(test)]
mod tests;
