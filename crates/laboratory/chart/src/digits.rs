//! Digits to display of a number.

/// Formats a number with about four digits.
pub(crate) fn rounded(value: f64) -> String {
    let digits = digits(value);
    format!("{value:.digits$}")
}

/// Number of decimals for about four digits in total.
pub fn digits(value: f64) -> usize {
    match value.abs() {
        v if v >= 1000.0 => 0,
        v if v >= 100.0 => 1,
        v if v >= 1.0 || v == 0.0 => 2,
        _ => 4,
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn numbers_have_about_four_digits() {
        let shown = [0.0, 0.852_63, -9.526, 123.45, 1234.5].map(rounded);
        assert_eq!(shown, ["0.00", "0.8526", "-9.53", "123.5", "1234"]);
    }
}
