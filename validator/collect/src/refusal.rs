//! Why requests are refused: each reason has a status for the sender and a word for its counter, and each refusal has
//! one line.

use hyper::StatusCode;
use outcome::text::is_invisible;

/// Why a request is refused. Each reason has a counter.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum RefusalReason {
    /// A path with `..`, `//`, `%` or `\`.
    Path,
    /// There is no such page, node or report.
    Unknown,
    /// A query that is not understood.
    Query,
    /// A method that the path does not support.
    Method,
    /// The Content-Type is not JSON.
    Type,
    /// The token is missing or wrong.
    Token,
    /// The MAC is missing.
    Unsigned,
    /// The MAC is wrong.
    Signature,
    /// Larger than allowed.
    Size,
    /// The request did not arrive in time.
    Slow,
    /// The sender stopped before the end.
    Broken,
    /// The body does not match `Idempotency-Key`.
    Digest,
    /// Not HTTP, or not JSON.
    Malformed,
    /// An unknown schema, or an incomplete report.
    Schema,
    /// A report that contradicts itself or its headers.
    Contradiction,
    /// The store cannot be written or read.
    Store,
    /// Too many connections, or too many reports at a time.
    Busy,
}

impl RefusalReason {
    /// All reasons, in the order of their numbers.
    pub const ALL: [Self; 17] = [
        Self::Path,
        Self::Unknown,
        Self::Query,
        Self::Method,
        Self::Type,
        Self::Token,
        Self::Unsigned,
        Self::Signature,
        Self::Size,
        Self::Slow,
        Self::Broken,
        Self::Digest,
        Self::Malformed,
        Self::Schema,
        Self::Contradiction,
        Self::Store,
        Self::Busy,
    ];

    /// The response's status, and the counter's word.
    #[must_use]
    pub const fn status_and_word(self) -> (StatusCode, &'static str) {
        match self {
            Self::Path => (StatusCode::BAD_REQUEST, "path"),
            Self::Unknown => (StatusCode::NOT_FOUND, "unknown"),
            Self::Query => (StatusCode::BAD_REQUEST, "query"),
            Self::Method => (StatusCode::METHOD_NOT_ALLOWED, "method"),
            Self::Type => (StatusCode::UNSUPPORTED_MEDIA_TYPE, "type"),
            Self::Token => (StatusCode::UNAUTHORIZED, "token"),
            Self::Unsigned => (StatusCode::UNAUTHORIZED, "unsigned"),
            Self::Signature => (StatusCode::FORBIDDEN, "signature"),
            Self::Size => (StatusCode::PAYLOAD_TOO_LARGE, "size"),
            Self::Slow => (StatusCode::REQUEST_TIMEOUT, "slow"),
            Self::Broken => (StatusCode::BAD_REQUEST, "broken"),
            Self::Digest => (StatusCode::BAD_REQUEST, "digest"),
            Self::Malformed => (StatusCode::BAD_REQUEST, "malformed"),
            Self::Schema => (StatusCode::UNPROCESSABLE_ENTITY, "schema"),
            Self::Contradiction => (StatusCode::UNPROCESSABLE_ENTITY, "contradiction"),
            Self::Store => (StatusCode::SERVICE_UNAVAILABLE, "store"),
            Self::Busy => (StatusCode::SERVICE_UNAVAILABLE, "busy"),
        }
    }
}

/// A refusal: the reason, and one line for the sender and the log.
#[derive(Debug, Clone, PartialEq, Eq, thiserror::Error)]
#[error("{line}")]
pub struct Refusal {
    /// The reason.
    pub why: RefusalReason,
    /// One line.
    pub line: String,
}

impl Refusal {
    /// A refusal with this line; what would break or turn the line is replaced.
    pub fn new(why: RefusalReason, line: impl Into<String>) -> Self {
        let line: String = line.into();
        Self {
            why,
            line: line
                .chars()
                .map(|c| if is_invisible(c) { '?' } else { c })
                .take(1000)
                .collect(),
        }
    }
}
