//! Process 1.
