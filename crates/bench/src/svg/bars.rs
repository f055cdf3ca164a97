//! Groups of bars side by side, on a logarithmic scale, each bar with its number: how the papers show latencies.

use std::fmt::Write;

use super::{BOTTOM, COLOURS, Draw, LEFT, PANEL_HEIGHT, RIGHT, TOP, WIDTH, escaped, frame};

/// One panel of bars.
pub struct Bars {
    pub title: String,
    /// Of the vertical axis, with its unit.
    pub unit: String,
    /// What the bars of a group stand for, in their order.
    pub names: Vec<String>,
    /// Each with its name and a number for each of `names`; a number that is not above 0 is left out.
    pub groups: Vec<(String, Vec<f64>)>,
}

impl Draw for Bars {
    fn draw(&self, out: &mut String) {
        let values = || self.groups.iter().flat_map(|group| &group.1).copied().filter(|value| *value > 0.0);
        let low = values().fold(f64::INFINITY, f64::min).clamp(1e-9, 1e12).log10().floor();
        let high = values().fold(0.0, f64::max).max(10f64.powf(low)).log10().ceil().max(low + 1.0);
        let bottom = PANEL_HEIGHT - BOTTOM;
        let y_at = |value: f64| bottom - (value.log10() - low) / (high - low) * (bottom - TOP);
        let ticks = (low as i32..=high as i32).map(|power| 10f64.powi(power));
        let ticks: Vec<_> = ticks.map(|value| (y_at(value), number(value))).collect();
        frame(out, (20, &self.title), (&self.unit, &ticks), &[]);
        let group_width = (WIDTH - LEFT - RIGHT) / self.groups.len().max(1) as f64;
        let bar_width = group_width * 0.86 / self.names.len().max(1) as f64;
        for (group_index, (group, values)) in self.groups.iter().enumerate() {
            let left = LEFT + group_width * (group_index as f64 + 0.07);
            let middle = left + group_width * 0.43;
            let _ = writeln!(
                out,
                "<text x=\"{middle:.1}\" y=\"{}\" text-anchor=\"middle\">{}</text>",
                bottom + 18.0,
                escaped(group)
            );
            let bars = values.iter().zip(COLOURS.iter().cycle()).enumerate();
            for (index, (&value, colour)) in bars.filter(|(_, (value, _))| **value > 0.0) {
                let (x, y) = (left + bar_width * index as f64, y_at(value).min(bottom));
                let _ = writeln!(
                    out,
                    "<rect x=\"{x:.1}\" y=\"{y:.1}\" width=\"{:.1}\" height=\"{:.1}\" fill=\"{colour}\"/>\
                     <text x=\"{:.1}\" y=\"{:.1}\" text-anchor=\"middle\" font-size=\"10\">{}</text>",
                    bar_width * 0.92,
                    bottom - y,
                    x + bar_width * 0.46,
                    y - 3.0,
                    number(value)
                );
            }
        }
        self.draw_legend(out);
    }
}

impl Bars {
    /// A row below the groups.
    fn draw_legend(&self, out: &mut String) {
        let y = PANEL_HEIGHT - 12.0;
        let step = (WIDTH - LEFT - RIGHT) / self.names.len().max(1) as f64;
        for (index, (name, colour)) in self.names.iter().zip(COLOURS.iter().cycle()).enumerate() {
            let x = LEFT + step * index as f64;
            let _ = writeln!(
                out,
                "<rect x=\"{x:.1}\" y=\"{}\" width=\"12\" height=\"12\" fill=\"{colour}\"/>\
                 <text x=\"{:.1}\" y=\"{}\">{}</text>",
                y - 10.0,
                x + 16.0,
                y,
                escaped(name)
            );
        }
    }
}

/// Three digits that count.
fn number(value: f64) -> String {
    match value {
        _ if value >= 100.0 => super::grouped(value.round() as u64),
        _ if value >= 10.0 => format!("{value:.1}"),
        _ if value >= 1.0 => format!("{value:.2}"),
        _ => format!("{value:.3}"),
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn drawn(groups: Vec<(String, Vec<f64>)>) -> String {
        let names = vec!["a".to_owned(), "<b>".to_owned()];
        let mut out = String::new();
        Bars { title: "t".to_owned(), unit: "ms".to_owned(), names, groups }.draw(&mut out);
        out
    }

    #[test]
    fn a_bar_is_as_high_as_its_logarithm() {
        let out = drawn(vec![("median".to_owned(), vec![1.0, 100.0])]);
        let full = PANEL_HEIGHT - BOTTOM - TOP;
        assert!(out.contains("height=\"0.0\"") && out.contains(&format!("height=\"{full:.1}\"")), "{out}");
        assert!(out.contains("median") && out.contains("&lt;b&gt;") && !out.contains("<b>"));
    }

    #[test]
    fn what_was_not_measured_has_no_bar() {
        let out = drawn(vec![("p99".to_owned(), vec![0.0, 5.0])]);
        assert_eq!(out.matches("fill=\"#0072b2\"").count(), 1, "only in the legend");
        assert!(!drawn(vec![]).contains("NaN"));
    }
}
