//! Numbers formatted as in C, which nccl-tests' table depends on.

/// A figure in `width` columns with as many decimals as fit, at most two, as in nccl-tests: its columns are 7
/// wide for times and 6 for bandwidths.
#[must_use]
pub fn figure(value: f64, width: usize) -> String {
    let digits = digits(value);
    if !value.is_finite() || digits < width - 2 {
        format!("{value:>width$.2}")
    } else if digits < width - 1 {
        format!("{value:>width$.1}")
    } else if digits < width + 1 {
        format!("{value:>width$.0}")
    } else {
        let decimals = if width >= 7 { 1 } else { 0 };
        format!("{:>width$}", exponential(value, decimals))
    }
}

/// Digits before the decimal point; none below 1.
fn digits(value: f64) -> usize {
    let mut digits = 0;
    let mut power = 1.0;
    while value >= power && digits < 20 {
        power *= 10.0;
        digits += 1;
    }
    digits
}

/// `%.*e`: an exponent has a sign and two digits at least.
fn exponential(value: f64, decimals: usize) -> String {
    let text = format!("{value:.decimals$e}");
    match text
        .split_once('e')
        .and_then(|(mantissa, e)| Some((mantissa, e.parse::<i32>().ok()?)))
    {
        Some((mantissa, e)) => {
            let sign = if e < 0 { '-' } else { '+' };
            format!("{mantissa}e{sign}{:02}", e.unsigned_abs())
        }
        None => text,
    }
}

/// `%g`: six significant digits, no zeros at the end.
#[must_use]
pub fn general(value: f64) -> String {
    let text = exponential(value, 5);
    let Some((mantissa, exponent)) = text.split_once('e') else {
        return text;
    };
    let Ok(exponent) = exponent.parse::<i32>() else {
        return text;
    };
    let short = |text: &str| match text.contains('.') {
        true => text.trim_end_matches('0').trim_end_matches('.').to_owned(),
        false => text.to_owned(),
    };
    if !(-4..6).contains(&exponent) {
        let end = text.strip_prefix(mantissa).unwrap_or_default();
        return format!("{}{end}", short(mantissa));
    }
    let decimals = usize::try_from(5 - exponent).unwrap_or(0);
    short(&format!("{value:.decimals$}"))
}

#[cfg(test)]
mod tests {
    use super::*;

    /// The expected texts come from glibc's printf.
    #[test]
    fn larger_figures_have_fewer_decimals() {
        let times = [
            (0.58, "   0.58"),
            (19.43, "  19.43"),
            (1864.29, "1864.29"),
            (9999.994, "9999.99"),
            (10000.0, "10000.0"),
            (16253.4, "16253.4"),
            (99999.96, "100000.0"),
            (123_456.7, " 123457"),
            (1_234_567.8, "1234568"),
            (12_345_678.0, "1.2e+07"),
        ];
        for (value, text) in times {
            assert_eq!(figure(value, 7), text);
        }
        let bandwidths = [
            (0.0, "  0.00"),
            (328.82, "328.82"),
            (1234.56, "1234.6"),
            (12_345.6, " 12346"),
            (123_456.0, "123456"),
            (1_234_567.0, " 1e+06"),
        ];
        for (value, text) in bandwidths {
            assert_eq!(figure(value, 6), text);
        }
    }

    #[test]
    fn infinities_and_nan_are_formatted() {
        assert_eq!(figure(f64::INFINITY, 7), "    inf");
        assert_eq!(figure(f64::NAN, 6), "   NaN");
        assert_eq!(general(f64::INFINITY), "inf");
    }

    #[test]
    fn general_numbers_have_six_digits() {
        let known = [
            (0.0, "0"),
            (70.952, "70.952"),
            (9.773_05, "9.77305"),
            (196.584_3, "196.584"),
            (999_999.5, "1e+06"),
            (100_000.0, "100000"),
            (1_234_567.0, "1.23457e+06"),
            (0.000_123_4, "0.0001234"),
            (0.000_012_34, "1.234e-05"),
        ];
        for (value, text) in known {
            assert_eq!(general(value), text);
        }
    }
}
