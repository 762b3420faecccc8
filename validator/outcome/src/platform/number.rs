//! Numbers of GPUs and ranks, each a type of its own, so that they are not confused.

use schemars::JsonSchema;
use serde::{Deserialize, Serialize};
use std::fmt;

/// A type for one kind of number. In JSON and in text it is the plain number.
macro_rules! number {
    ($(#[$doc:meta])* $name:ident) => {
        $(#[$doc])*
        #[derive(Clone, Copy, PartialEq, Eq, PartialOrd, Ord, Hash, Serialize, Deserialize, JsonSchema)]
        #[serde(transparent)]
        pub struct $name(usize);

        impl $name {
            /// From the plain number.
            #[must_use]
            pub const fn new(number: usize) -> Self {
                Self(number)
            }

            /// The plain number, which is also the index in a list of all.
            #[must_use]
            pub const fn index(self) -> usize {
                self.0
            }

            /// The first `count` numbers.
            pub fn all(count: usize) -> impl Iterator<Item = Self> + Clone {
                (0..count).map(Self)
            }

            /// Each of `items` with its number, in order.
            pub fn each<T>(items: impl IntoIterator<Item = T>) -> impl Iterator<Item = (Self, T)> {
                items.into_iter().enumerate().map(|(number, item)| (Self(number), item))
            }
        }

        /// The plain number, so that a list is shown as `[0, 1]`.
        impl fmt::Debug for $name {
            fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
                fmt::Debug::fmt(&self.0, f)
            }
        }

        impl fmt::Display for $name {
            fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
                fmt::Display::fmt(&self.0, f)
            }
        }

        /// Tests write plain numbers.
        #[cfg(any(test, feature = "samples"))]
        impl From<usize> for $name {
            fn from(number: usize) -> Self {
                Self(number)
            }
        }

        #[cfg(any(test, feature = "samples"))]
        impl PartialEq<usize> for $name {
            fn eq(&self, number: &usize) -> bool {
                self.0 == *number
            }
        }

        #[cfg(any(test, feature = "samples"))]
        impl $name {
            /// A list of these numbers.
            pub fn list<const N: usize>(numbers: [usize; N]) -> Vec<Self> {
                numbers.map(Self).to_vec()
            }
        }
    };
}

number! {
    /// A GPU by its number in this run.
    GpuId
}

number! {
    /// A rank of a communicator.
    Rank
}

impl Rank {
    /// Rank 0.
    pub const FIRST: Self = Self(0);

    /// The next rank on the ring of all `ranks`.
    #[must_use]
    pub fn next(self, ranks: usize) -> Self {
        Self((self.0 + 1) % ranks.max(1))
    }

    /// The previous rank on that ring.
    #[must_use]
    pub fn before(self, ranks: usize) -> Self {
        Self((self.0 + ranks.saturating_sub(1)) % ranks.max(1))
    }
}
