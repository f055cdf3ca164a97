//! Orders of delayed flushes: what the next owner finds of them.

use super::*;

fn is_due(engine: &Engine, at: UnixMs) -> bool {
    engine.flushes.due.get(&PARTITION).is_some_and(|&(_, due)| due == at)
}

#[test]
fn an_order_that_is_carried_when_its_flush_happens_goes_nowhere_else() {
    for has_happened in [true, false] {
        let mut engine = engine_of_ready_nodes(CodeShape::reed_solomon(1, 1).expect("a code"), 3);
        let at = UnixMs(5_000);
        order(&mut engine, at);
        let logs: Vec<StripeSlot> = engine.logs.values().map(|log| log.open[0]).collect();
        logs.iter().for_each(|&slot| confirm_all(&mut engine, slot));
        assert!(is_due(&engine, at));
        // What is carried is not confirmed.
        engine.abandon(logs[0]);
        pass(&mut engine);
        let carried = open_of(&engine).expect("it went there");
        assert_eq!(controls_in(&engine, carried), [Control::FlushDue(at)]);
        if has_happened {
            let floor = engine.take_version();
            engine.apply_floor(floor);
        }
        engine.abandon(carried);
        let elsewhere = open_of(&engine).map(|slot| controls_in(&engine, slot));
        assert_eq!(elsewhere, if has_happened { None } else { Some(vec![Control::FlushDue(at)]) });
        if has_happened {
            pass(&mut engine);
            assert!(engine.voids.is_emptied(engine.stripes.at(logs[0]).id), "nothing holds it up");
        }
    }
}

#[test]
fn an_order_that_a_flush_overtook_is_declared_again() {
    let mut engine = engine_of_ready_nodes(CodeShape::reed_solomon(1, 1).expect("a code"), 2);
    let at = UnixMs(5_000);
    order(&mut engine, at);
    let floor = engine.take_version();
    engine.apply_floor(floor);
    let logs: Vec<StripeSlot> = engine.logs.values().map(|log| log.open[0]).collect();
    logs.iter().for_each(|&slot| confirm_all(&mut engine, slot));
    assert!(!is_due(&engine, at) && engine.is_ordering(), "a later owner would not find it");
    assert_eq!(controls_in(&engine, logs[0]), [Control::FlushDue(at); 2]);
    pass(&mut engine);
    logs.iter().for_each(|&slot| confirm_all(&mut engine, slot));
    assert!(engine.flushes.due.values().all(|&(version, due)| due == at && version > floor));
    assert_eq!(engine.flushes.due.len(), engine.config.partitions.len());
    assert!(!engine.is_ordering());
}

/// Of one that is not durable everywhere yet, too: nobody declares it anew where it was.
#[test]
fn an_order_is_kept_where_it_is_durable_while_it_is_not_elsewhere() {
    let mut engine = engine_of_ready_nodes(CodeShape::reed_solomon(1, 1).expect("a code"), 3);
    let at = UnixMs(5_000);
    order(&mut engine, at);
    let first = engine.logs[&PARTITION].open[0];
    confirm_all(&mut engine, first);
    assert!(engine.is_ordering() && !is_due(&engine, at), "another partition has not confirmed it");
    engine.abandon(first);
    pass(&mut engine);
    let elsewhere = open_of(&engine).map(|slot| controls_in(&engine, slot));
    assert_eq!(elsewhere, Some(vec![Control::FlushDue(at)]));
}

/// A later owner takes the one that was declared last.
#[test]
fn of_two_orders_the_later_one_counts_whichever_is_durable_first() {
    for is_in_order in [true, false] {
        let mut engine = engine_of_ready_nodes(CodeShape::reed_solomon(1, 1).expect("a code"), 3);
        order(&mut engine, UnixMs(5_000));
        order(&mut engine, UnixMs(9_000));
        let declared = engine.flushes.declarations.iter().map(|(key, declaration)| (declaration.version, key));
        let mut declared: Vec<_> = declared.collect();
        declared.sort_unstable_by_key(|&(version, _)| version);
        if !is_in_order {
            declared.reverse();
        }
        for (_, key) in declared {
            for partition in engine.all_partitions() {
                engine.declaration_confirmed(key, partition);
            }
        }
        assert!(!engine.is_ordering());
        assert_eq!(engine.flushes.due.len(), engine.config.partitions.len());
        assert!(engine.flushes.due.values().all(|&(_, at)| at == UnixMs(9_000)), "in order: {is_in_order}");
    }
}
