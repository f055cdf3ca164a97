//! The closed formulas of section 5 of the paper, as it has them.

use shorttail_placement::Placement;

use super::Parameters;
use super::exact::choose;

/// The probability that some stripe is lost; none for a rule that the paper has no formula for.
pub fn loss_probability(placement: Placement, parameters: &Parameters) -> Option<f64> {
    let Parameters { node_count, chunks_per_node, failed_count, .. } = *parameters;
    let (chunk_count, fatal) = (parameters.chunk_count(), parameters.parity_count + 1);
    let (group, group_count) = match placement {
        Placement::Random | Placement::TwoChoices => {
            (chunk_count, node_count as f64 * chunks_per_node as f64 / chunk_count as f64)
        }
        Placement::CodingSets { spare_count } => {
            let size = chunk_count + usize::from(spare_count);
            (size, node_count as f64 / size as f64)
        }
        Placement::LeastLoaded => return None,
    };
    let of_group = choose(group, fatal) / choose(node_count, fatal);
    let survives = (1.0 - of_group * group_count).max(0.0);
    // 1 - survives^n, exact where it is tiny.
    Some(-(choose(failed_count, fatal) * survives.ln()).exp_m1())
}

#[cfg(test)]
mod tests {
    use super::super::BASE;
    use super::*;

    /// By hand: 1600 stripes of 120 fatal triples among 166 167 000, 120 triples of the ten that fail.
    #[test]
    fn the_base_parameters_by_hand() {
        let random = loss_probability(Placement::Random, &BASE).expect("a formula");
        let by_hand = 1.0 - (1.0 - 1600.0 * 120.0 / 166_167_000.0_f64).powi(120);
        assert!((random - by_hand).abs() < 1e-9 && (0.129..0.130).contains(&random), "{random}");
        let sets = loss_probability(Placement::CodingSets { spare_count: 2 }, &BASE).expect("a formula");
        assert!((0.0131..0.0132).contains(&sets), "{sets}");
        assert_eq!(loss_probability(Placement::LeastLoaded, &BASE), None);
    }
}
