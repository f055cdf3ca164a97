//! When a core is woken for what it is told by its background.

use shorttail_node::FromBackground;
use shorttail_node::limits::REBUILT_GATHER_US;

use crate::setup::cluster::{Cluster, SESSION, TARGET, as_it_is};

#[test]
fn chunks_that_are_rebuilt_are_gathered_and_other_news_wake_the_core_at_once() {
    let mut cluster = Cluster::new();
    cluster.order(1);
    let said = cluster.carry_out_beside(&as_it_is);
    assert!(matches!(said[..], [FromBackground::Rebuilt(_)]), "{said:?}");
    let background = &mut cluster.backgrounds[TARGET];
    assert_eq!(background.poll_deadline(), Some(REBUILT_GATHER_US));
    assert!(!background.wakes_core(REBUILT_GATHER_US - 1));
    assert!(background.wakes_core(REBUILT_GATHER_US) && !background.wakes_core(REBUILT_GATHER_US), "once");
    assert_eq!(background.poll_deadline(), None);
    cluster.order(2);
    cluster.nodes[TARGET].handle_session_closed(SESSION);
    cluster.pass_on_orders();
    let background = &mut cluster.backgrounds[TARGET];
    assert!(background.end_turn(0, |said| assert!(
        matches!(said, FromBackground::Forgotten(_) | FromBackground::Spent(_)),
        "{said:?}"
    )));
    assert_eq!(background.poll_deadline(), None);
}
