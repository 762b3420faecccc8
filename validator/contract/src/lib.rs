//! The vocabulary of init and validator: the documents, lines and words by which the two meet. Types and
//! their text only: nothing here reads, decides or acts.

pub mod driver;
pub mod last_line;
pub mod mark;
pub mod outcome;
pub mod recovery;
pub mod schema;
pub mod section;
pub mod status;
