//! Numbers as people are told them, in every status and message.

/// `1 chunk`, `2 chunks`.
pub fn counted(count: u64, what: &str) -> String {
    if count == 1 { format!("1 {what}") } else { format!("{count} {what}s") }
}

/// `1 chunk is`, `2 chunks are`.
pub fn counted_are(count: u64, what: &str) -> String {
    format!("{} {}", counted(count, what), if count == 1 { "is" } else { "are" })
}

/// Numbers in order, as `0-3,7`.
pub fn ranges(numbers: &[u16]) -> String {
    let runs = numbers.chunk_by(|one, next| one.checked_add(1) == Some(*next));
    let text = |run: &[u16]| match run {
        [first, .., last] => format!("{first}-{last}"),
        _ => run.iter().map(u16::to_string).collect(),
    };
    runs.map(text).collect::<Vec<_>>().join(",")
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn numbers_that_follow_each_other_are_a_range() {
        assert_eq!(ranges(&[0, 1, 2, 5, 7, 8]), "0-2,5,7-8");
        assert_eq!((ranges(&[]), ranges(&[u16::MAX - 1, u16::MAX])), (String::new(), "65534-65535".to_owned()));
    }
}
