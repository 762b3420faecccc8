//! A moment as text, in UTC, as reports show it.

use std::time::{Duration, SystemTime, UNIX_EPOCH};

/// `2026-11-20T12:00:00Z`; a clock before 1970 shows 1970, as unset clocks do.
#[must_use]
pub(crate) fn utc(at: SystemTime) -> String {
    let seconds = at.duration_since(UNIX_EPOCH).map_or(0, |d| d.as_secs());
    let (days, second) = (seconds / 86_400, seconds % 86_400);
    let (year, month, day) = civil(days);
    let (h, m, s) = (second / 3600, second / 60 % 60, second % 60);
    format!("{year:04}-{month:02}-{day:02}T{h:02}:{m:02}:{s:02}Z")
}

/// Days since 1970-01-01 to year, month, day. A year is taken to begin in March, so that the leap
/// day is its last; 400 years are 146097 days (H. Hinnant, "chrono-Compatible Low-Level Date
/// Algorithms", `civil_from_days`).
fn civil(days: u64) -> (u64, u64, u64) {
    let shifted = days + 719_468;
    let (era, day_of_era) = (shifted / 146_097, shifted % 146_097);
    let year_of_era = (day_of_era - day_of_era / 1460 + day_of_era / 36_524 - day_of_era / 146_096) / 365;
    let day_of_year = day_of_era - (365 * year_of_era + year_of_era / 4 - year_of_era / 100);
    let march_month = (5 * day_of_year + 2) / 153;
    let day = day_of_year - (153 * march_month + 2) / 5 + 1;
    let month = if march_month < 10 { march_month + 3 } else { march_month - 9 };
    (era * 400 + year_of_era + u64::from(month <= 2), month, day)
}

/// Seconds since 1970 of what [`utc`] writes; `None` for any other text.
#[must_use]
pub(crate) fn since_1970(text: &str) -> Option<u64> {
    let field = |at: usize, long: usize| text.get(at..at + long)?.parse::<u64>().ok();
    let (year, month, day) = (field(0, 4)?, field(5, 2)?, field(8, 2)?);
    let (h, m, s) = (field(11, 2)?, field(14, 2)?, field(17, 2)?);
    // The inverse of `civil`, by the same source: `days_from_civil`.
    let years = year.checked_sub(u64::from(month <= 2))?;
    let (era, year_of_era) = (years / 400, years % 400);
    let day_of_year = (153 * ((month + 9) % 12) + 2) / 5 + day.checked_sub(1)?;
    let days = era * 146_097 + year_of_era * 365 + year_of_era / 4 - year_of_era / 100 + day_of_year;
    let seconds = days.checked_sub(719_468)? * 86_400 + h * 3600 + m * 60 + s;
    // Whatever is no moment, or written otherwise, is written otherwise again.
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
    fn what_is_no_moment_has_no_seconds() {
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
