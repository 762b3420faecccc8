//! What one rank is asked to do in a collective.

use crate::gpu::cuda::Span;
use crate::gpu::{Collective, DataType, RedOp};

/// One rank's part of a collective.
#[derive(Debug, Clone, Copy)]
pub struct Call {
    /// Which.
    pub collective: Collective,
    /// What this rank sends; as long as the shape says, or longer.
    pub send: Span,
    /// Where it receives; likewise. In place it is `send` or a part of it, or contains it.
    pub receive: Span,
    /// The call's count, elements: `Shape::count`.
    pub count: u64,
    /// Element type.
    pub data: DataType,
    /// The reduction, where it is one.
    pub op: RedOp,
    /// The root, where there is one.
    pub root: usize,
}
