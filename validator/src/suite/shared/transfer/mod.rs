//! One transfer between two GPUs: its definition, its faults, and the fault rate that many good ones rule out.

mod definition;
mod fault;

pub(in crate::suite) use definition::{Direction, Engine, Memory, Transfer, TransferKind, size};
pub(in crate::suite) use fault::{
    Circumstance, Fault, FaultKind, SAMPLE, Traces, findings, ones, unanswered,
};

/// The rate of faults, in percent, that `n` transfers without one rule out with 95 % confidence: 3 in n (the
/// rule of three: (1 - p)^n = 0.05), rounded up to one digit.
pub(in crate::suite) fn ruled_out(n: u64) -> String {
    if n < 3 {
        return "100 %".to_owned();
    }
    let percent = 300.0 / float(n);
    let digits = (-percent.log10().floor()).max(0.0);
    let scale = 10_f64.powf(digits);
    let rounded = (percent * scale - 1e-9).ceil() / scale;
    format!("{rounded} %")
}

#[expect(clippy::cast_precision_loss, reason = "shown with one digit")]
const fn float(n: u64) -> f64 {
    n as f64
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_ruled_out_rate_follows_from_the_number_of_transfers() {
        let rates = [0, 16, 300, 1000, 1056, 8192, 70_000].map(ruled_out);
        assert_eq!(
            rates,
            [
                "100 %", "19 %", "1 %", "0.3 %", "0.3 %", "0.04 %", "0.005 %"
            ]
        );
    }
}
