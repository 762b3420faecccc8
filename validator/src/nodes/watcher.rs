//! What the tests over nodes display while they run.

use super::arm::Group;
use super::cluster::Cluster;
use crate::gpu::Collective;
use crate::nccl::{Row, Sweep};
use crate::outcome::Judgement;

/// A test's name and what a pass proves.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct About {
    /// Short and stable.
    pub id: &'static str,
    /// The name.
    pub title: &'static str,
    /// What a pass proves.
    pub proves: &'static str,
}

/// Receives the progress of the tests, for the console.
pub trait Watcher {
    /// An arm has started, with these GPUs; this sweep follows.
    fn head(&mut self, cluster: &Cluster, group: &Group, sweep: &Sweep);
    /// A row was measured.
    fn row(&mut self, row: &Row);
    /// A table that is complete.
    fn text(&mut self, text: &str);
    /// The rows of a collective are complete.
    fn tail(&mut self, collective: Collective, rows: &[Row]);
    /// A test has ended.
    fn ended(&mut self, about: &About, judgement: &Judgement, seconds: f64);
}
