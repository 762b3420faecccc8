//! One rank's part of a collective.

use crate::gpu::cuda::Span;
use crate::gpu::{Collective, DataType, RedOp};

/// One rank's part of a collective.
#[derive(Debug, Clone, Copy)]
pub struct Call {
    /// The collective.
    pub collective: Collective,
    /// The memory that this rank sends; as long as the shape requires, or longer.
    pub send: Span,
    /// The memory that receives; likewise. In place it is `send` or a part of it, or contains it.
    pub receive: Span,
    /// The call's count, elements: `Shape::count`.
    pub count: u64,
    /// Element type.
    pub data: DataType,
    /// The reduction, if any.
    pub op: RedOp,
    /// The root, if any.
    pub root: usize,
}
