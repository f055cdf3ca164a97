//! A strict reader of the text format of Prometheus, for tests: what it takes, any scraper takes.

use std::collections::{BTreeMap, BTreeSet};

type Sample = (String, BTreeMap<String, String>, f64);

/// All samples of a text, by name and labels.
///
/// # Panics
/// When a line is malformed, a family is described twice or late or not at all, a sample comes twice or outside of its
/// family, a counter or a histogram is none.
pub fn read(text: &str) -> Vec<Sample> {
    assert!(text.ends_with('\n') && !text.contains('\r'), "lines end in a line feed, the last one too");
    let mut kinds: BTreeMap<String, String> = BTreeMap::new();
    let (mut helped, mut current, mut seen) = (None, None, BTreeSet::new());
    let mut samples = Vec::new();
    for line in text.lines() {
        if let Some(rest) = line.strip_prefix("# HELP ") {
            let (name, help) = rest.split_once(' ').expect("a name and a text");
            assert!(is_name(name) && !help.trim().is_empty() && !help.contains('\\'), "{line}");
            helped = Some(name.to_owned());
        } else if let Some(rest) = line.strip_prefix("# TYPE ") {
            let (name, kind) = rest.split_once(' ').expect("a name and a kind");
            assert_eq!(helped.take().as_deref(), Some(name), "HELP stands before TYPE: {line}");
            assert!(["gauge", "counter", "histogram"].contains(&kind), "{line}");
            assert_eq!(kind == "counter", name.ends_with("_total"), "{line}");
            assert!(kinds.insert(name.to_owned(), kind.to_owned()).is_none(), "described twice: {line}");
            current = Some((name.to_owned(), kind.to_owned()));
        } else {
            let sample = read_sample(line);
            let (family, kind) = current.as_ref().expect("a sample is in a family");
            let suffix = sample.0.strip_prefix(family.as_str()).unwrap_or_else(|| panic!("not of {family}: {line}"));
            let is_of =
                if kind == "histogram" { ["_bucket", "_sum", "_count"].contains(&suffix) } else { suffix.is_empty() };
            assert!(is_of && (kind == "gauge" || sample.2 >= 0.0), "{line}");
            assert!(seen.insert((sample.0.clone(), sample.1.clone())), "twice: {line}");
            samples.push(sample);
        }
    }
    kinds.iter().filter(|(_, kind)| *kind == "histogram").for_each(|(name, _)| check_histogram(name, &samples));
    samples
}

/// The value of a sample.
pub fn value(samples: &[Sample], name: &str, labels: &[(&str, &str)]) -> Option<f64> {
    let wanted: BTreeMap<String, String> = labels.iter().map(|(n, v)| ((*n).to_owned(), (*v).to_owned())).collect();
    samples.iter().find(|(n, l, _)| n == name && *l == wanted).map(|(_, _, value)| *value)
}

fn read_sample(line: &str) -> Sample {
    let (name, mut rest) = line.split_at(line.find(['{', ' ']).unwrap_or_else(|| panic!("no value: {line}")));
    assert!(is_name(name), "{line}");
    let mut labels = BTreeMap::new();
    if let Some(inner) = rest.strip_prefix('{') {
        rest = inner;
        loop {
            let (label, after) = rest.split_once("=\"").unwrap_or_else(|| panic!("no label: {line}"));
            assert!(is_name(label) && !label.contains(':'), "{line}");
            let (value, after) = read_quoted(after);
            assert!(labels.insert(label.to_owned(), value).is_none(), "a label twice: {line}");
            match after.split_at(1) {
                (",", after) => rest = after,
                ("}", after) => {
                    rest = after;
                    break;
                }
                _ => panic!("{line}"),
            }
        }
    }
    let number = rest.strip_prefix(' ').unwrap_or_else(|| panic!("no blank: {line}"));
    assert!(!number.contains(' '), "a timestamp: {line}");
    (name.to_owned(), labels, number.parse().unwrap_or_else(|_| panic!("no number: {line}")))
}

/// A label's value up to its closing quote, and what follows.
fn read_quoted(text: &str) -> (String, &str) {
    let mut value = String::new();
    let mut characters = text.char_indices();
    while let Some((at, character)) = characters.next() {
        match character {
            '"' => return (value, &text[at + 1..]),
            '\\' => value.push(match characters.next().map(|(_, escaped)| escaped) {
                Some('n') => '\n',
                Some(escaped @ ('\\' | '"')) => escaped,
                other => panic!("escapes {other:?}"),
            }),
            '\n' => panic!("a line feed in a label"),
            other => value.push(other),
        }
    }
    panic!("an open quote: {text}");
}

fn check_histogram(name: &str, samples: &[Sample]) {
    let mut series: BTreeMap<BTreeMap<String, String>, Vec<(f64, f64)>> = BTreeMap::new();
    for (found, labels, count) in samples.iter().filter(|(found, ..)| *found == format!("{name}_bucket")) {
        let mut labels = labels.clone();
        let bound = labels.remove("le").unwrap_or_else(|| panic!("{found} without le"));
        let bound = if bound == "+Inf" { f64::INFINITY } else { bound.parse().expect("a bound") };
        series.entry(labels).or_default().push((bound, *count));
    }
    for (labels, buckets) in series {
        assert!(buckets.is_sorted_by(|one, other| one.0 < other.0 && one.1 <= other.1), "{name} {labels:?}");
        let last = buckets.last().expect("not empty");
        let labels: Vec<(&str, &str)> = labels.iter().map(|(n, v)| (n.as_str(), v.as_str())).collect();
        assert_eq!(Some(last.1), value(samples, &format!("{name}_count"), &labels), "{name} {labels:?}");
        assert_eq!(last.0, f64::INFINITY, "{name} {labels:?}");
        assert!(value(samples, &format!("{name}_sum"), &labels).is_some(), "{name} {labels:?}");
    }
}

fn is_name(name: &str) -> bool {
    let mut characters = name.chars();
    let starts = characters.next().is_some_and(|first| first.is_ascii_alphabetic() || first == '_' || first == ':');
    starts && characters.all(|other| other.is_ascii_alphanumeric() || other == '_' || other == ':')
}
