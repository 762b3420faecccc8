//! A GPU's clock against the host's: a speed is bytes over time, and the time comes from the GPU's clock
//! alone.

use super::rounded;
use machine::GpuId;
use outcome::finding::{Code, Finding, Severity};

/// Two clocks may differ by this fraction; crystals differ by a ten-thousandth.
const APART: f64 = 0.02;
/// Additionally allowed: one step of a clock, ms.
const STEP_MS: f64 = 0.02;

/// A period that two clocks measured.
#[derive(Debug, Clone, Copy, PartialEq)]
pub struct ClockPeriod {
    /// The GPU's number.
    pub gpu: GpuId,
    /// Its length by the GPU's clock, ms.
    pub gpu_ms: f64,
    /// Its least length by the host's clock, ms: the GPU had already begun, and had not yet been asked to end.
    pub least_ms: f64,
    /// Its greatest length by the host's clock, ms.
    pub most_ms: f64,
}

/// A clock that contradicts the host's.
#[must_use]
pub fn clock_deviation(stretch: &ClockPeriod) -> Option<Finding> {
    let ClockPeriod {
        gpu,
        gpu_ms,
        least_ms,
        most_ms,
    } = stretch;
    let (least, most) = (
        least_ms * (1.0 - APART) - STEP_MS,
        most_ms * (1.0 + APART) + STEP_MS,
    );
    if (least..=most).contains(gpu_ms) {
        return None;
    }
    let message = format!(
        "GPU {gpu}: {gpu_ms:.3} ms passed by its clock, expected {least_ms:.3} to {most_ms:.3} ms, which passed by \
         the host's clock: no speed is reported"
    );
    let expected = if *gpu_ms < least { least_ms } else { most_ms };
    let finding = Code::GpuClock.finding(Severity::Error, gpu, message);
    Some(finding.values(rounded(*gpu_ms), rounded(*expected), Some("ms")))
}

#[cfg(test)]
mod tests {
    use super::*;

    fn found(gpu_ms: f64) -> Option<Finding> {
        clock_deviation(&ClockPeriod {
            gpu: 1.into(),
            gpu_ms,
            least_ms: 5.0,
            most_ms: 5.4,
        })
    }

    #[test]
    fn clocks_that_agree_pass() {
        assert_eq!(
            [5.0, 5.2, 5.4, 4.9, 5.5].map(|ms| found(ms).is_none()),
            [true; 5]
        );
    }

    #[test]
    fn a_slow_fast_or_invalid_clock_is_an_error() {
        for ms in [0.075, 2.5, 4.8, 5.6, 10.4, 0.0, -5.0, f64::NAN] {
            let finding = found(ms).unwrap();
            assert!(
                finding.is(Code::GpuClock) && finding.severity == Severity::Error,
                "{ms}"
            );
        }
        assert!(
            found(2.5)
                .unwrap()
                .message
                .starts_with("GPU 1: 2.500 ms passed by its clock, expected 5.000")
        );
    }
}
