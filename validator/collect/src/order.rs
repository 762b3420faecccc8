//! The order of a node's reports: by when their runs began, where that can be true, and otherwise by arrival. Pure.

use crate::intake::badness;
use outcome::Verdict;
use time::OffsetDateTime;
use time::format_description::well_known::Rfc3339;

/// No run began before 2026-01-01, when this was written: a clock that says so was never set.
const CLOCKS_ARE_SET: i64 = 1_767_225_600;

/// Why a report's own start is not used.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) enum NoStart {
    /// It has none.
    None,
    /// It is before any run: the clock was not set.
    Unset,
    /// It is after the report's arrival.
    Later,
}

/// A report's place among those of its node.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) struct Place {
    /// When its run began, or when it arrived: seconds since 1970.
    pub(crate) moment: i64,
    /// Its verdict.
    pub(crate) verdict: Verdict,
    /// Whether its MAC was verified.
    pub(crate) signed: bool,
}

/// When a run began, seconds since 1970; `started` is what its report says, and `received` when it arrived.
///
/// # Errors
/// See [`NoStart`].
pub(crate) fn began(started: Option<&str>, received: i64) -> Result<i64, NoStart> {
    let parsed = started
        .and_then(|text| OffsetDateTime::parse(text, &Rfc3339).ok())
        .ok_or(NoStart::None)?;
    match parsed.unix_timestamp() {
        began if began < CLOCKS_ARE_SET => Err(NoStart::Unset),
        began if began > received => Err(NoStart::Later),
        began => Ok(began),
    }
}

/// The place of a report.
pub(crate) fn place(started: Option<&str>, received: i64, verdict: Verdict, signed: bool) -> Place {
    Place {
        moment: began(started, received).unwrap_or(received),
        verdict,
        signed,
    }
}

impl Place {
    /// Whether this report, which has just arrived, is older than `newest`. Of two that began in the same second, the worse
    /// one counts. `signed`: only reports with a MAC count where there is one.
    pub(crate) fn is_late(&self, newest: &Self, signed: bool) -> bool {
        if signed && self.signed != newest.signed {
            return newest.signed;
        }
        let worse = badness(self.verdict) >= badness(newest.verdict);
        self.moment < newest.moment || self.moment == newest.moment && !worse
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    const NOON: i64 = 1_795_694_400;

    fn at(started: &str, verdict: Verdict, signed: bool) -> Place {
        place(Some(started), NOON + 60, verdict, signed)
    }

    #[test]
    fn a_start_counts_only_if_it_can_be_true() {
        let noon = "2026-11-26T12:00:00Z";
        assert_eq!(began(Some(noon), NOON), Ok(NOON));
        assert_eq!(began(Some("2026-11-26T13:00:00+01:00"), NOON), Ok(NOON));
        assert_eq!(began(Some(noon), NOON - 1), Err(NoStart::Later));
        assert_eq!(
            began(Some("1970-01-01T00:00:09Z"), NOON),
            Err(NoStart::Unset)
        );
        assert_eq!(
            began(Some("2025-12-31T23:59:59Z"), NOON),
            Err(NoStart::Unset)
        );
        assert_eq!(began(Some("yesterday"), NOON), Err(NoStart::None));
        assert_eq!(began(None, NOON), Err(NoStart::None));
        assert_eq!(
            at("2099-01-01T00:00:00Z", Verdict::Pass, false).moment,
            NOON + 60
        );
    }

    #[test]
    fn the_run_that_began_last_is_the_newest_and_signed_ones_come_first() {
        let (pass, fail) = (Verdict::Pass, Verdict::Fail);
        let newest = at("2026-11-26T12:00:00Z", fail, true);
        let late = |started, verdict, signed| at(started, verdict, signed).is_late(&newest, true);
        assert!(late("2026-11-26T11:59:59Z", pass, true));
        assert!(!late("2026-11-26T12:00:01Z", pass, true));
        assert!(
            late("2026-11-26T12:00:00Z", pass, true)
                && !late("2026-11-26T12:00:00Z", Verdict::Error, true)
        );
        assert!(late("2026-11-26T12:00:01Z", pass, false), "it has no MAC");
        assert!(
            !at("2026-11-26T12:00:01Z", pass, false).is_late(&newest, false),
            "reports need none"
        );
        let unsigned = at("2026-11-26T12:00:00Z", fail, false);
        assert!(!at("2026-11-26T11:00:00Z", pass, true).is_late(&unsigned, true));
    }
}
