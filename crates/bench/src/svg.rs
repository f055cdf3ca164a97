//! Plots without a library: small SVG documents with titled axes and units.
//!
//! Must not know: where the numbers come from, except in [`load_plot`].

use std::fmt::Write;

use crate::report::LoadReport;

mod bars;

pub use bars::Bars;

const WIDTH: f64 = 760.0;
const PANEL_HEIGHT: f64 = 340.0;
const LEFT: f64 = 84.0;
const RIGHT: f64 = 44.0;
const TOP: f64 = 48.0;
const BOTTOM: f64 = 56.0;

/// Colours that are told apart by colour-blind readers (Okabe and Ito).
const COLOURS: [&str; 7] = ["#0072b2", "#d55e00", "#009e73", "#cc79a7", "#e69f00", "#56b4e9", "#000000"];

/// One axis: its title with unit, its range and its ticks with their labels.
pub struct Axis {
    title: String,
    from: f64,
    to: f64,
    pub ticks: Vec<(f64, String)>,
}

pub struct Series {
    pub name: String,
    pub points: Vec<(f64, f64)>,
}

/// One panel of lines.
pub struct Panel {
    pub title: String,
    pub x: Axis,
    pub y: Axis,
    pub series: Vec<Series>,
}

/// What fills a panel.
pub trait Draw {
    fn draw(&self, out: &mut String);
}

/// A document of panels below each other.
pub fn document(panels: &[&dyn Draw]) -> String {
    let height = PANEL_HEIGHT * panels.len() as f64;
    let mut out = format!(
        "<svg xmlns=\"http://www.w3.org/2000/svg\" width=\"{WIDTH}\" height=\"{height}\" \
         viewBox=\"0 0 {WIDTH} {height}\" font-family=\"sans-serif\" font-size=\"12\" fill=\"#222\">\n\
         <rect width=\"100%\" height=\"100%\" fill=\"white\"/>\n"
    );
    for (index, panel) in panels.iter().enumerate() {
        let _ = writeln!(out, "<g transform=\"translate(0 {})\">", PANEL_HEIGHT * index as f64);
        panel.draw(&mut out);
        out.push_str("</g>\n");
    }
    out.push_str("</svg>\n");
    out
}

/// Latency percentiles of each class, and throughput over time.
pub fn load_plot(report: &LoadReport) -> String {
    let (percentiles, throughput) = (percentile_panel(report), throughput_panel(report));
    document(&[&percentiles, &throughput])
}

/// Shares on a scale of nines, microseconds on a logarithmic scale.
fn percentile_panel(report: &LoadReport) -> Panel {
    let nines = |share: f64| -(1.0 - share).log10();
    let series: Vec<Series> = report
        .classes
        .iter()
        .map(|class| Series {
            name: class.class.clone(),
            points: class.latency.curve.iter().map(|&(share, us)| (nines(share), us.max(0.1).log10())).collect(),
        })
        .collect();
    let all = || series.iter().flat_map(|series| &series.points);
    let nines_max = all().map(|point| point.0).fold(1.0, f64::max).ceil();
    let low = all().map(|point| point.1).fold(f64::INFINITY, f64::min).clamp(-1.0, 9.0).floor();
    let high = all().map(|point| point.1).fold(low + 1.0, f64::max).ceil();
    let labels = ["min", "90 %", "99 %", "99.9 %", "99.99 %", "99.999 %", "99.9999 %"];
    let mut x_ticks: Vec<(f64, String)> =
        labels.iter().enumerate().map(|(index, label)| (index as f64, (*label).to_owned())).collect();
    x_ticks.push((nines(0.5), "50 %".to_owned()));
    x_ticks.retain(|tick| tick.0 <= nines_max);
    Panel {
        title: "Latency by percentile".to_owned(),
        x: Axis { title: "share of operations".to_owned(), from: 0.0, to: nines_max, ticks: x_ticks },
        y: Axis::decades("latency, microseconds", low as i32, high as i32),
        series,
    }
}

fn decade(power: i32) -> String {
    if power < 0 { format!("{}", 10f64.powi(power)) } else { grouped(10u64.pow(power.unsigned_abs())) }
}

fn throughput_panel(report: &LoadReport) -> Panel {
    // At most this many points: more than a reader or the width can tell apart.
    const POINTS: usize = 150;
    let timeline = &report.timeline;
    // The last slice is rarely full.
    let whole = ((report.seconds / timeline.slice_s.max(1e-9)) as usize).clamp(1, timeline.operations.len().max(1));
    let operations = &timeline.operations[..whole.min(timeline.operations.len())];
    let per_point = operations.len().div_ceil(POINTS).max(1);
    let points: Vec<(f64, f64)> = operations
        .chunks(per_point)
        .enumerate()
        .map(|(index, slices)| {
            let seconds = slices.len() as f64 * timeline.slice_s;
            let middle = (index * per_point) as f64 * timeline.slice_s + seconds / 2.0;
            (middle, slices.iter().sum::<u64>() as f64 / seconds)
        })
        .collect();
    let highest = points.iter().map(|point| point.1).fold(1.0, f64::max);
    let seconds = operations.len().max(1) as f64 * timeline.slice_s.max(1e-9);
    Panel {
        title: "Throughput over time".to_owned(),
        x: Axis::linear("time, seconds", seconds, false),
        y: Axis::linear("operations per second", highest, true),
        series: vec![Series { name: "all operations".to_owned(), points }],
    }
}

impl Axis {
    /// From 0 to `to`, or to the next tick above it.
    pub fn linear(title: &str, to: f64, to_next_tick: bool) -> Self {
        let step = round_step(to / 5.0);
        let end = if to_next_tick { (to / step).ceil() * step } else { to };
        let count = (end / step + 1e-9) as u64;
        let label = |value: f64| if step >= 1.0 { grouped(value.round() as u64) } else { format!("{value:.2}") };
        let ticks = (0..=count).map(|index| index as f64 * step).map(|value| (value, label(value))).collect();
        Axis { title: title.to_owned(), from: 0.0, to: end, ticks }
    }

    /// Powers of ten; values are given as their logarithms.
    pub fn decades(title: &str, low: i32, high: i32) -> Self {
        let ticks = (low..=high).map(|power| (f64::from(power), decade(power))).collect();
        Axis { title: title.to_owned(), from: f64::from(low), to: f64::from(high.max(low + 1)), ticks }
    }

    /// Where a value lies, 0 to 1.
    fn place(&self, value: f64) -> f64 {
        ((value - self.from) / (self.to - self.from)).clamp(0.0, 1.0)
    }
}

/// The smallest of 1, 2, 5 times a power of ten that is not below `at_least`.
fn round_step(at_least: f64) -> f64 {
    let power = 10f64.powf(at_least.max(1e-6).log10().floor());
    [1.0, 2.0, 5.0, 10.0].into_iter().map(|factor| factor * power).find(|&step| step >= at_least).unwrap_or(power)
}

fn grouped(number: u64) -> String {
    let digits = number.to_string();
    let groups: Vec<&str> =
        digits.as_bytes().rchunks(3).rev().map(|group| std::str::from_utf8(group).expect("digits are ASCII")).collect();
    groups.join("\u{202f}")
}

impl Draw for Panel {
    fn draw(&self, out: &mut String) {
        self.draw_frame(out);
        for (series, colour) in self.series.iter().zip(COLOURS.iter().cycle()) {
            let points: Vec<String> =
                series.points.iter().map(|&(x, y)| format!("{:.1},{:.1}", self.x_at(x), self.y_at(y))).collect();
            let _ = writeln!(
                out,
                "<polyline fill=\"none\" stroke=\"{colour}\" stroke-width=\"2\" stroke-linejoin=\"round\" points=\"{}\"/>",
                points.join(" ")
            );
        }
        if self.series.len() > 1 {
            self.draw_legend(out);
        }
    }
}

impl Panel {
    fn draw_frame(&self, out: &mut String) {
        let at = |ticks: &[(f64, String)], place: &dyn Fn(f64) -> f64| {
            ticks.iter().map(|(value, label)| (place(*value), label.clone())).collect::<Vec<_>>()
        };
        let y_ticks = at(&self.y.ticks, &|value| self.y_at(value));
        let x_ticks = at(&self.x.ticks, &|value| self.x_at(value));
        frame(out, (26, &self.title), (&self.y.title, &y_ticks), &x_ticks);
        let _ = writeln!(
            out,
            "<text x=\"{}\" y=\"{}\" text-anchor=\"middle\">{}</text>",
            f64::midpoint(LEFT, WIDTH - RIGHT),
            PANEL_HEIGHT - BOTTOM + 42.0,
            escaped(&self.x.title)
        );
    }

    fn draw_legend(&self, out: &mut String) {
        for (index, (series, colour)) in self.series.iter().zip(COLOURS.iter().cycle()).enumerate() {
            let y = TOP + 14.0 + 18.0 * index as f64;
            let _ = writeln!(
                out,
                "<line x1=\"{}\" y1=\"{y}\" x2=\"{}\" y2=\"{y}\" stroke=\"{colour}\" stroke-width=\"3\"/>\
                 <text x=\"{}\" y=\"{}\">{}</text>",
                LEFT + 12.0,
                LEFT + 32.0,
                LEFT + 40.0,
                y + 4.0,
                escaped(&series.name)
            );
        }
    }

    fn x_at(&self, value: f64) -> f64 {
        LEFT + self.x.place(value) * (WIDTH - LEFT - RIGHT)
    }

    fn y_at(&self, value: f64) -> f64 {
        PANEL_HEIGHT - BOTTOM - self.y.place(value) * (PANEL_HEIGHT - TOP - BOTTOM)
    }
}

/// What every panel has: its title at a height, a line across at each tick of the vertical axis, one down at each of
/// the other, and the axes. Ticks: where they are drawn, and their labels.
fn frame(
    out: &mut String,
    (title_y, title): (u32, &str),
    (y_title, y_ticks): (&str, &[(f64, String)]),
    x_ticks: &[(f64, String)],
) {
    let (right, bottom) = (WIDTH - RIGHT, PANEL_HEIGHT - BOTTOM);
    let _ = writeln!(
        out,
        "<text x=\"{LEFT}\" y=\"{title_y}\" font-size=\"15\" font-weight=\"bold\">{}</text>",
        escaped(title)
    );
    for (y, label) in y_ticks {
        let _ = writeln!(
            out,
            "<line x1=\"{LEFT}\" y1=\"{y:.1}\" x2=\"{right}\" y2=\"{y:.1}\" stroke=\"#ddd\"/>\
             <text x=\"{}\" y=\"{:.1}\" text-anchor=\"end\">{}</text>",
            LEFT - 8.0,
            y + 4.0,
            escaped(label)
        );
    }
    for (x, label) in x_ticks {
        let _ = writeln!(
            out,
            "<line x1=\"{x:.1}\" y1=\"{TOP}\" x2=\"{x:.1}\" y2=\"{bottom}\" stroke=\"#eee\"/>\
             <text x=\"{x:.1}\" y=\"{}\" text-anchor=\"middle\">{}</text>",
            bottom + 18.0,
            escaped(label)
        );
    }
    let _ = writeln!(
        out,
        "<path d=\"M{LEFT} {TOP}V{bottom}H{right}\" fill=\"none\" stroke=\"#222\"/>\
         <text transform=\"translate(18 {}) rotate(-90)\" text-anchor=\"middle\">{}</text>",
        f64::midpoint(TOP, bottom),
        escaped(y_title)
    );
}

fn escaped(text: &str) -> String {
    text.replace('&', "&amp;").replace('<', "&lt;").replace('>', "&gt;")
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn steps_are_round_and_axes_reach_their_values() {
        assert_eq!([0.7, 3.0, 11.0, 2_000.0].map(round_step), [1.0, 5.0, 20.0, 2_000.0]);
        let axis = Axis::linear("x", 137_000.0, true);
        assert_eq!(axis.to, 150_000.0);
        assert_eq!(axis.ticks.last().map(|tick| tick.1.as_str()), Some("150\u{202f}000"));
    }

    #[test]
    fn names_cannot_break_the_document() {
        let axis = || Axis::linear("a < b & c", 10.0, true);
        let series = Series { name: "<x>".to_owned(), points: vec![(0.0, 0.0), (99.0, 5.0)] };
        let other = Series { name: "y".to_owned(), points: vec![] };
        let mut out = String::new();
        Panel { title: "t".to_owned(), x: axis(), y: axis(), series: vec![series, other] }.draw(&mut out);
        assert!(out.contains("a &lt; b &amp; c") && out.contains("&lt;x&gt;") && !out.contains("<x>"));
        // A point outside the axes stays inside the picture.
        assert!(out.contains(&format!("points=\"{LEFT:.1},{:.1} {:.1},", PANEL_HEIGHT - BOTTOM, WIDTH - RIGHT)));
    }
}
