//! Counters that a cluster's roles give at `/metrics`, in the text format of Prometheus.

use std::collections::BTreeMap;

use anyhow::Context;

use crate::admin::http_get;

/// Each metric by name, summed over its labels.
#[derive(Clone, Debug, Default, PartialEq)]
pub struct Metrics(BTreeMap<String, f64>);

impl Metrics {
    /// Asks a coordinator, which counts for all gateways.
    ///
    /// # Errors
    /// It does not answer, or not with text.
    pub fn get(admin: &str) -> anyhow::Result<Self> {
        let mut sums = Metrics::default();
        let body = http_get(admin, "/metrics")?;
        sums.add(std::str::from_utf8(&body).with_context(|| format!("the metrics of {admin} are no text"))?);
        Ok(sums)
    }

    fn add(&mut self, text: &str) {
        for line in text.lines().filter(|line| !line.starts_with('#')) {
            // name{labels} value [timestamp]; a label may hold spaces and brackets, but no name does.
            let name_end = line.find(['{', ' ']).unwrap_or(line.len());
            let after = if line[name_end..].starts_with('{') {
                line.rfind('}').map_or("", |end| &line[end + 1..])
            } else {
                &line[name_end..]
            };
            if let Some(value) = after.split_ascii_whitespace().next().and_then(|value| value.parse::<f64>().ok()) {
                *self.0.entry(line[..name_end].to_owned()).or_default() += value;
            }
        }
    }

    /// None if nobody gave such a metric.
    pub fn value(&self, name: &str) -> Option<f64> {
        self.0.get(name).copied()
    }

    /// How much a counter grew since then; none if nobody gives it.
    pub fn since(&self, earlier: &Metrics, name: &str) -> Option<f64> {
        Some(self.value(name)? - earlier.value(name).unwrap_or(0.0))
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn labels_are_summed_and_comments_left_out() {
        let mut metrics = Metrics::default();
        let text = "# HELP a b\n# TYPE a counter\na_total 3\nb{node=\"1\",x=\"} 9 {\"} 2\nb{node=\"2\"} 5 1700000000\n\nnonsense\n";
        metrics.add(text);
        assert_eq!([metrics.value("a_total"), metrics.value("b"), metrics.value("c")], [Some(3.0), Some(7.0), None]);
        let mut later = metrics.clone();
        later.add("a_total 4\nnew 1\n");
        assert_eq!([later.since(&metrics, "a_total"), later.since(&metrics, "new")], [Some(4.0), Some(1.0)]);
        assert_eq!(metrics.since(&later, "c"), None);
    }
}
