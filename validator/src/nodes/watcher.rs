//! What the tests over nodes display while they run.

use super::cluster::Cluster;
use super::communicators::Communicator;
use crate::nccl::{Row, Sweep};
use gpu::Collective;
use outcome::Judgement;

/// The id and the name of a test, and what a pass proves.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct TestInfo {
    /// The test's id in reports.
    pub id: &'static str,
    /// The test's name for people.
    pub title: &'static str,
    /// What a pass proves.
    pub proves: &'static str,
}

/// Receives the progress of the tests, for the console.
pub trait Watcher {
    /// A communicator has started; this sweep follows.
    fn head(&mut self, cluster: &Cluster, communicator: &Communicator, sweep: &Sweep);
    /// A row was measured.
    fn row(&mut self, row: &Row);
    /// A table that is complete.
    fn text(&mut self, text: &str);
    /// The rows of a collective are complete.
    fn tail(&mut self, collective: Collective, rows: &[Row]);
    /// A test has ended.
    fn ended(&mut self, test: &TestInfo, judgement: &Judgement, seconds: f64);
}
