//! Whether the preconditions of a test with GPUs hold: there must be GPUs, and delivery of data must have
//! been proven, or at least not disproven.

use crate::suite::TestContext;
use outcome::finding::Finding;
use outcome::test;
use outcome::{Judgement, Outcome};

/// The judgement of a test that does not run, `None` if it may run; `pairs`: it needs two GPUs.
///
/// # Errors
/// When this is unknown.
pub(in crate::suite) fn gate(
    context: &TestContext,
    pairs: bool,
) -> Result<Option<Judgement>, Box<Finding>> {
    if let Some(none) = context.no_gpus(pairs)? {
        return Ok(Some(none));
    }
    Ok(unproven(context.outcome(test::P2P_INTEGRITY.id)).map(Judgement::not_applicable))
}

/// Why the result of `p2p-integrity` stops another test. If that test was left out, it stops none: every test
/// checks its own data too.
const fn unproven(proof: Option<Outcome>) -> Option<&'static str> {
    match proof {
        Some(Outcome::Fail) => {
            Some("data does not arrive (see p2p-integrity), so this test does not run")
        }
        Some(Outcome::Error) => Some("it is unknown whether data arrives (see p2p-integrity)"),
        Some(Outcome::Pass | Outcome::Warn | Outcome::NotApplicable) | None => None,
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn tests_go_on_only_where_delivery_is_not_disproven() {
        for open in [None, Some(Outcome::Pass), Some(Outcome::Warn)] {
            assert_eq!(unproven(open), None);
        }
        assert!(
            unproven(Some(Outcome::Fail)).is_some() && unproven(Some(Outcome::Error)).is_some()
        );
    }
}
