//! What was asked for and cannot be had with these nodes, domains, coding sets and gateways, in words.
//!
//! Must not know: whether anything runs.

use shorttail_placement::chunks_of_domain_max;
use shorttail_server::config::UpConfig;

/// For people, before anything starts.
pub fn problems(config: &UpConfig) -> Vec<String> {
    let of_nodes = [domains_problem(config), coding_sets_problem(config)];
    let of_gateways = [idle_gateways_problem(config), idle_threads_problem(config)];
    of_nodes.into_iter().chain(of_gateways).flatten().collect()
}

/// May a whole domain die, and everything still be read?
pub fn may_lose_domain(config: &UpConfig) -> bool {
    chunks_in_domain(config, config.domain_count) <= config.code.tolerance()
}

/// How many chunks of a stripe some domain has to hold, if the nodes are in so many.
fn chunks_in_domain(config: &UpConfig, domain_count: usize) -> usize {
    let domains = (0..config.node_count).map(|id| id.checked_rem(domain_count));
    chunks_of_domain_max(domains, config.code)
}

fn domains_problem(config: &UpConfig) -> Option<String> {
    if may_lose_domain(config) {
        return None;
    }
    let (count, code) = (config.domain_count, config.code);
    let chunks = chunks_in_domain(config, count);
    let enough = (count..=config.node_count).find(|&count| chunks_in_domain(config, count) <= code.tolerance());
    let instead = enough.map_or_else(String::new, |enough| format!("; {enough} domains would do"));
    Some(format!(
        "--domains {count}: one has to hold {chunks} chunks of each stripe, and {code} survives the loss of {}: without a \
         domain objects cannot be read{instead}",
        code.tolerance()
    ))
}

fn coding_sets_problem(config: &UpConfig) -> Option<String> {
    let wanted = usize::from(config.placement.coding_set_nodes(config.code)?);
    let (placement, count) = (config.placement, config.node_count);
    (count < wanted).then(|| {
        format!(
            "--placement {placement} is of sets of {wanted} nodes, and there are {count}: stripes lie on all of them, as if \
             there were no sets; --nodes {wanted} would do"
        )
    })
}

fn idle_threads_problem(config: &UpConfig) -> Option<String> {
    let (threads, partitions) = (config.gateway_threads, usize::from(config.partition_count?));
    let idle = (config.gateway_count * threads).checked_sub(partitions).filter(|&idle| idle > 0 && threads > 1)?;
    Some(format!("--gateway-threads {threads} --partitions {partitions}: {idle} of the gateways' threads own nothing"))
}

fn idle_gateways_problem(config: &UpConfig) -> Option<String> {
    let (gateways, partitions) = (config.gateway_count, usize::from(config.partition_count?));
    let idle = gateways.checked_sub(partitions).filter(|&idle| idle > 0)?;
    let own = if idle == 1 { "1 gateway owns" } else { "some gateways own" };
    Some(format!("--gateways {gateways} --partitions {partitions}: {own} nothing and only passes requests on"))
}

#[cfg(test)]
mod tests {
    use super::*;
    use shorttail_server::config::{Text, UpOptions};

    fn problems_of(options: UpOptions) -> Vec<String> {
        problems(&options.resolve().expect("sensible"))
    }

    #[test]
    fn what_can_be_had_is_no_problem() {
        assert!(problems_of(UpOptions::default()).is_empty());
        let placement = Some(Text("coding-sets:2".parse().expect("a placement")));
        let options =
            UpOptions { placement, domains: Some(3), gateways: Some(3), partitions: Some(3), ..UpOptions::default() };
        assert!(problems_of(options).is_empty());
    }

    #[test]
    fn too_few_domains_are_told_with_how_many_would_do() {
        let of = |nodes, domains| UpOptions { nodes: Some(nodes), domains: Some(domains), ..UpOptions::default() };
        let [problem] = &problems_of(of(8, 2))[..] else { panic!("one problem") };
        assert_eq!(
            problem,
            "--domains 2: one has to hold 3 chunks of each stripe, and rs:4+2 survives the loss of 2: without a domain \
             objects cannot be read; 3 domains would do"
        );
        assert!(problems_of(of(7, 1))[0].starts_with("--domains 1: one has to hold 6 chunks"));
        assert!(problems_of(of(6, 3)).is_empty());
    }

    #[test]
    fn sets_and_gateways_that_are_too_many_are_told() {
        let placement = Some(Text("coding-sets:3".parse().expect("a placement")));
        let problem = &problems_of(UpOptions { placement, ..UpOptions::default() })[0];
        assert!(problem.starts_with("--placement coding-sets:3 is of sets of 9 nodes, and there are 8"), "{problem}");
        let options = UpOptions { gateways: Some(3), partitions: Some(2), ..UpOptions::default() };
        let wanted = "--gateways 3 --partitions 2: 1 gateway owns nothing and only passes requests on";
        assert_eq!(problems_of(options), [wanted]);
        let of = |threads| UpOptions { gateways: Some(2), gateway_threads: Some(threads), ..UpOptions::default() };
        assert_eq!(problems_of(of(8)), Vec::<String>::new(), "there are partitions for all, if nobody says how many");
        let wanted = "--gateway-threads 3 --partitions 4: 2 of the gateways' threads own nothing";
        assert_eq!(problems_of(UpOptions { partitions: Some(4), ..of(3) }), [wanted]);
        assert_eq!(problems_of(UpOptions { partitions: Some(4), ..of(2) }), Vec::<String>::new());
    }
}
