//! A moment as text, in UTC, as reports show it.

use std::time::{Duration, SystemTime, UNIX_EPOCH};
use time::OffsetDateTime;
use time::format_description::well_known::Rfc3339;

/// The last second that can be written: 9999-12-31T23:59:59Z.
const LAST: u64 = 253_402_300_799;

/// `2026-11-20T12:00:00Z`; a clock before 1970 shows 1970, as unset clocks do, and one after 9999 its last second.
#[must_use]
pub fn utc(at: SystemTime) -> String {
    let seconds = at
        .duration_since(UNIX_EPOCH)
        .map_or(0, |d| d.as_secs())
        .min(LAST);
    let at = OffsetDateTime::UNIX_EPOCH + Duration::from_secs(seconds);
    at.format(&Rfc3339).unwrap_or_default()
}

/// Seconds since 1970 of what [`utc`] writes; `None` for any other text.
#[must_use]
pub fn since_1970(text: &str) -> Option<u64> {
    let at = OffsetDateTime::parse(text, &Rfc3339).ok()?;
    let seconds = u64::try_from(at.unix_timestamp()).ok()?;
    // Other notations, such as another offset, are not written by this program.
    (utc(UNIX_EPOCH + Duration::from_secs(seconds)) == text).then_some(seconds)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn known_moments_are_written_as_date_says() {
        for (seconds, text) in [
            (0, "1970-01-01T00:00:00Z"),
            (951_782_400, "2000-02-29T00:00:00Z"),
            (1_709_251_199, "2024-02-29T23:59:59Z"),
            (1_709_251_200, "2024-03-01T00:00:00Z"),
            (1_795_132_800, "2026-11-20T00:00:00Z"),
            (4_107_542_400, "2100-03-01T00:00:00Z"),
        ] {
            assert_eq!(utc(UNIX_EPOCH + Duration::from_secs(seconds)), text);
            assert_eq!(since_1970(text), Some(seconds));
        }
    }

    #[test]
    fn invalid_times_have_no_seconds() {
        let wrong = [
            "",
            "today",
            "2026-02-29T00:00:00Z",
            "2026-11-20T24:00:00Z",
            "2026-11-20T00:00:00",
            "1969-12-31T23:59:59Z",
            "2026-00-00T00:00:00Z",
            "0000-01-00T00:00:00Z",
            "2026-11-20T00:00:00+",
            "2026-11-2\u{e9}T00:00:00Z",
        ];
        for text in wrong {
            assert_eq!(since_1970(text), None, "{text}");
        }
    }
}
