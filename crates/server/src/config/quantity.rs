//! Times and shares as people write them; nothing is lost in rounding.

/// Millionths of the whole in one percent.
const PERCENT_PPM: u64 = 10_000;

/// Microseconds of `50ms`, `1.5s`, `200us`, `2m`, `1h` or `0`.
///
/// # Errors
/// When it is none of these, or no whole number of microseconds.
pub fn parse_us(text: &str) -> Result<u64, String> {
    let malformed = || format!("{text:?} is not a duration: write for example 50ms, 1.5s, 200us or 2m");
    let text = text.trim();
    let digits = text.find(|c: char| !c.is_ascii_digit() && c != '.').unwrap_or(text.len());
    let (number, unit) = text.split_at(digits);
    let unit_us = match unit.trim() {
        "us" => 1,
        "ms" => 1_000,
        "s" => 1_000_000,
        "m" => 60_000_000,
        "h" => 3_600_000_000,
        "" if number == "0" => 0,
        _ => return Err(malformed()),
    };
    decimal(number, unit_us).ok_or_else(malformed)
}

/// Whole seconds: `30`, `30s`, `2m` or `1h`.
///
/// # Errors
/// When it is none of these.
pub fn parse_seconds(text: &str) -> Result<u64, String> {
    const SECOND_US: u64 = 1_000_000;
    let malformed = || format!("{text:?} is no whole number of seconds: write for example 30, 30s or 2m");
    if let Ok(seconds) = text.trim().parse() {
        return Ok(seconds);
    }
    let us = parse_us(text).map_err(|_| malformed())?;
    us.is_multiple_of(SECOND_US).then_some(us / SECOND_US).ok_or_else(malformed)
}

/// Millionths of `1%` or `0.25%`.
///
/// # Errors
/// When it is none, no whole number of millionths, or above `100%`.
pub fn parse_ppm(text: &str) -> Result<u32, String> {
    let number = text.trim().strip_suffix('%').map(str::trim);
    let ppm = number.and_then(|number| decimal(number, PERCENT_PPM));
    let ppm = ppm.and_then(|ppm| u32::try_from(ppm).ok()).filter(|&ppm| ppm <= 1_000_000);
    ppm.ok_or_else(|| format!("{text:?} is not a share: write for example 5% or 0.5%"))
}

/// A number with at most six digits behind the point, times `unit`; nothing that is lost in rounding.
fn decimal(number: &str, unit: u64) -> Option<u64> {
    let (whole, fraction) = number.split_once('.').unwrap_or((number, ""));
    let is_number = |digits: &str| digits.bytes().all(|digit| digit.is_ascii_digit());
    if whole.is_empty() || number.ends_with('.') || fraction.len() > 6 || !is_number(whole) || !is_number(fraction) {
        return None;
    }
    let scale = 10u64.pow(fraction.len() as u32);
    let part = if fraction.is_empty() { 0 } else { fraction.parse::<u64>().ok()? * unit };
    let exact = part.is_multiple_of(scale);
    whole.parse::<u64>().ok()?.checked_mul(unit)?.checked_add(part / scale).filter(|_| exact)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn seconds_are_written_with_a_unit_or_without() {
        let seconds = |text| parse_seconds(text).ok();
        assert_eq!(["0", "30", " 30s", "2m", "1.5m", "1h"].map(seconds), [0, 30, 30, 120, 90, 3600].map(Some));
        assert_eq!(["", "-1", "1.5s", "500ms", "2 days", "s"].map(seconds), [None; 6]);
    }
}
