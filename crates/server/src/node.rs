//! Runs a node: one loop and one [`Node`] machine per core, memory split evenly between them.
//!
//! Core 0 accepts connections, reads the greeting's core number and hands the connection to that core.
//!
//! Must not know: what the messages mean.

mod background;
mod beside;
mod chaos;
mod core;
mod injector;
mod memory;
mod peers;

use std::sync::atomic::{AtomicU64, Ordering};
use std::sync::mpsc::Receiver;
use std::sync::{Arc, Mutex};
use std::time::Duration;

use anyhow::{Context, anyhow};
use mio::Poll;
use shorttail_node::{Node, NodeConfig as MachineConfig, NodeError, Pace};
pub use shorttail_store::MEMORY_FILE_LAYOUT;
use shorttail_store::MemoryIdentity;
use shorttail_units::{Incarnation, Now};
use shorttail_wire::control::{ChaosStatus, NodeSession, NodeState, NodeStatus, NodeWelcome, Order, Refusal, View};

use crate::config::{Address, NodeConfig, warn_of_fixed};
use crate::control::{
    ControlError, ControlEvent, NodeControl, Obey, Obeyed, fresh_incarnation, log_not_let_in, start_node,
};
use crate::near;
use crate::net::{self, Feed, Listener, Outlet};
use background::{BackgroundLoop, INBOX as BACKGROUND_INBOX};
use beside::AllBeside;
use chaos::OrderDesk;
use core::BackgroundEnds;
pub(crate) use core::{Core, CoreSetup, INBOX, ToNodeCore};
pub use memory::made_for_other_size;
use memory::{Memory, REPLACE};
use peers::Addresses;

/// What a core publishes for the heartbeats.
#[derive(Debug, Default)]
pub struct CoreGauges {
    used_bytes: AtomicU64,
    room_bytes: AtomicU64,
    /// Cores that get no pages: this one, or none.
    without_pages: AtomicU64,
    chunks_open: AtomicU64,
    chunks_sealed: AtomicU64,
    chunks_damaged: AtomicU64,
    scrubbed_bytes: AtomicU64,
    corruptions_found: AtomicU64,
    corruptions_repaired: AtomicU64,
    messages_damaged: AtomicU64,
    /// Written only in nodes that obey orders to be faulty.
    chaos: Mutex<ChaosStatus>,
}

/// Runs a node until its process is told to end. What `changes` brings is what it was told anew, as a whole.
///
/// # Errors
/// When the address is taken, the memory is not to be had, or the coordinator refuses the node for good.
pub fn run(mut config: NodeConfig, changes: &Receiver<NodeConfig>) -> anyhow::Result<()> {
    crate::panics::end_the_process();
    // A core and what is done beside it each, and the few that begin first: the main thread, control, signals. Who
    // shares a heap with a thread of the lowest class waits for it.
    crate::footprint::share_heaps(2 * config.threads + 4);
    let listener = Listener::bind(&config.listen).with_context(|| format!("cannot listen on {}", config.listen))?;
    let listening = listener.address()?;
    let desk = OrderDesk::new(config.allow_chaos);
    let mut memory = config.memory_file.as_deref().map(|path| Memory::open(path, &config)).transpose()?;
    let (control, welcome, incarnation) = register(&config, &listening, memory.as_mut(), &desk)?;
    let mut cores = start_cores(&config, welcome, incarnation, listener, &desk, memory.as_ref())?;
    tracing::info!(node = welcome.session.node_id.0, %listening, "serving");
    if config.allow_chaos {
        tracing::warn!("this node obeys orders to be faulty (--allow-chaos)");
    }
    let mut settling = crate::footprint::Settling::begin();
    loop {
        settling.check();
        control.publish(cores.status(desk.status()));
        while let Some(event) = control.poll_event() {
            match event {
                ControlEvent::Refused(refusal) => return Err(refused(&refusal, memory.as_mut())?),
                ControlEvent::NotLetIn(refusal) => log_not_let_in(&refusal),
                ControlEvent::View(view) => {
                    let addresses = addresses(&view);
                    cores.outlets.iter().for_each(|outlet| outlet.send(ToNodeCore::Addresses(Arc::clone(&addresses))));
                }
                // Terms are for gateways.
                ControlEvent::Terms(_)
                | ControlEvent::Served(_)
                | ControlEvent::Connected
                | ControlEvent::Disconnected => {}
            }
        }
        while let Ok(wanted) = changes.try_recv() {
            let before = pace(&config);
            warn_of_fixed(&config.take_live(wanted));
            let pace = pace(&config);
            if pace != before {
                let NodeConfig { repair_bytes_per_s, scrub_bytes_per_s, .. } = config;
                tracing::info!(repair_bytes_per_s, scrub_bytes_per_s, "repair and scrubbing go on at this pace");
                cores.outlets.iter().for_each(|outlet| outlet.send(ToNodeCore::Pace(pace)));
            }
        }
        // Heartbeats go out twice a second: the picture is never older than this.
        cores.beside.watch(Duration::from_millis(200))?;
    }
}

/// Becomes a member: as the life whose memory there is, or as a new one.
fn register(
    config: &NodeConfig,
    listening: &Address,
    memory: Option<&mut Memory>,
    desk: &OrderDesk,
) -> anyhow::Result<(NodeControl, NodeWelcome, Incarnation)> {
    let obey = || -> Obey {
        let desk = desk.clone();
        Box::new(move |order| {
            let outcome = match order {
                Order::Chaos(order) => desk.obey(order),
                Order::Policy(_) => Err("a node has no policies".to_owned()),
            };
            Obeyed { outcome, chaos: desk.status() }
        })
    };
    let start = |incarnation, session| start_node(config, listening, incarnation, session, Box::new(|| {}), obey());
    let register_anew = || register_anew(|incarnation| start(incarnation, None));
    let Some(memory) = memory else { return register_anew() };
    if let Some(found) = memory.identity() {
        let control = start(found.incarnation, memory.session());
        match control.registered() {
            Ok(welcome) => return Ok((control, welcome, found.incarnation)),
            Err(ControlError::Refused(Refusal::Retired { .. })) => {
                tracing::warn!(node = found.node.0, "what is in the memory file was given up meanwhile: it is wiped");
                memory.wipe()?;
            }
            Err(ControlError::Refused(refusal @ Refusal::Removed(_))) => return Err(refused(&refusal, Some(memory))?),
            Err(error @ ControlError::Refused(Refusal::OtherCluster(_))) => {
                return Err(error).context("the memory file cannot be used here");
            }
            // The file stays as it is.
            Err(error) => return Err(error.into()),
        }
    }
    let (control, welcome, incarnation) = register_anew()?;
    let NodeSession { cluster_id, node_id } = welcome.session;
    memory.begin(MemoryIdentity { cluster: cluster_id, node: node_id, incarnation })?;
    Ok((control, welcome, incarnation))
}

/// As a life that none follows. Where the clock went back an earlier one has a higher number: then as the next after
/// it.
fn register_anew(
    start: impl Fn(Incarnation) -> NodeControl,
) -> anyhow::Result<(NodeControl, NodeWelcome, Incarnation)> {
    let mut incarnation = fresh_incarnation().context("cannot draw a name for this life")?;
    let mut control = start(incarnation);
    if let Err(ControlError::Refused(Refusal::Retired { retired_through })) = control.registered() {
        incarnation = incarnation.max(Incarnation(retired_through.saturating_add(1)));
        control = start(incarnation);
    }
    let welcome = control.registered()?;
    Ok((control, welcome, incarnation))
}

/// Where the nodes of a view listen that may be read from.
fn addresses(view: &View) -> Addresses {
    let alive = view.nodes.iter().filter(|node| node.state != NodeState::Retired);
    Arc::new(alive.filter_map(|node| Some((node.id, node.address.parse().ok()?))).collect())
}

/// Why the node ends. The memory of an incarnation that was given up must not be used again; whatever else the
/// coordinator says, the file stays as it is.
fn refused(refusal: &Refusal, memory: Option<&mut Memory>) -> anyhow::Result<anyhow::Error> {
    if matches!(refusal, Refusal::Retired { .. } | Refusal::Removed(_)) {
        memory.map_or(Ok(()), Memory::void)?;
    }
    Ok(match refusal {
        Refusal::Retired { .. } => anyhow!("{refusal}: its memory is void, start the node anew"),
        _ => anyhow::Error::new(refusal.clone()).context("the coordinator does not let this node in again"),
    })
}

/// Did a node end because it was taken out of its cluster? Then it need not be started again.
pub fn was_removed(error: &anyhow::Error) -> bool {
    let refusal = error.chain().find_map(|cause| match cause.downcast_ref::<ControlError>() {
        Some(ControlError::Refused(refusal)) => Some(refusal),
        _ => cause.downcast_ref::<Refusal>(),
    });
    matches!(refusal, Some(Refusal::Removed(_)))
}

/// The cores that run: what they publish, and how they are told something.
struct Cores {
    gauges: Vec<Arc<CoreGauges>>,
    outlets: Vec<Outlet<ToNodeCore>>,
    beside: AllBeside,
}

impl Cores {
    /// What the node tells the coordinator: the sums of what its cores published.
    fn status(&self, chaos: ChaosStatus) -> NodeStatus {
        let sum = |field: fn(&CoreGauges) -> &AtomicU64| -> u64 {
            self.gauges.iter().map(|gauges| field(gauges).load(Ordering::Relaxed)).sum()
        };
        NodeStatus {
            memory_used_bytes: sum(|gauges| &gauges.used_bytes),
            memory_room_bytes: sum(|gauges| &gauges.room_bytes),
            lacks_pages: sum(|gauges| &gauges.without_pages) > 0,
            chunks_open: sum(|gauges| &gauges.chunks_open),
            chunks_sealed: sum(|gauges| &gauges.chunks_sealed),
            chunks_damaged: sum(|gauges| &gauges.chunks_damaged),
            scrubbed_bytes_total: sum(|gauges| &gauges.scrubbed_bytes),
            corruptions_found_total: sum(|gauges| &gauges.corruptions_found),
            corruptions_repaired_total: sum(|gauges| &gauges.corruptions_repaired),
            messages_damaged_total: sum(|gauges| &gauges.messages_damaged),
            chaos,
        }
    }
}

/// Each core's share.
fn pace(config: &NodeConfig) -> Pace {
    let cores = config.threads as u64;
    Pace { repair_bytes_per_s: config.repair_bytes_per_s / cores, scrub_bytes_per_s: config.scrub_bytes_per_s / cores }
}

fn start_cores(
    config: &NodeConfig,
    welcome: NodeWelcome,
    incarnation: Incarnation,
    listener: Listener,
    desk: &OrderDesk,
    memory: Option<&Memory>,
) -> anyhow::Result<Cores> {
    let core_count = u16::try_from(config.threads).context("threads")?;
    let (polls, outlets) = net::inboxes(config.threads, INBOX)?;
    let is_local = matches!(listener, Listener::Unix(..));
    let mut listener = Some(listener);
    let (mut all_gauges, mut all_beside) = (Vec::new(), AllBeside::new()?);
    for (core, (poll, inbox)) in (0..core_count).zip(polls) {
        let machine = MachineConfig {
            node: welcome.session.node_id,
            cluster: welcome.session.cluster_id,
            incarnation,
            core,
            core_count,
            memory_bytes: usize::try_from(config.memory_bytes)? / usize::from(core_count),
            pace: pace(config),
        };
        let gauges = Arc::new(CoreGauges::default());
        all_gauges.push(Arc::clone(&gauges));
        let listener = listener.take();
        let outlets = outlets.clone();
        // Faults that are ordered lie in the node's process, and would not be met by who reads past it.
        let is_near = is_local && !config.allow_chaos;
        let mut machine = match memory {
            None => near::node(machine).context("cannot reserve the node's memory")?,
            // The core's clock begins later.
            Some(memory) => Node::in_memory(machine, memory.core(core)?, Now::default()).map_err(unusable)?,
        };
        if is_near {
            near::offer(&mut machine);
        }
        // Other nodes and cores fail in other moments.
        let chaos_seed = config.allow_chaos.then(|| incarnation.0 ^ u64::from(core).rotate_left(48));
        let background_poll = Poll::new()?;
        let (background_inbox, hears) = Feed::new(&background_poll, BACKGROUND_INBOX)?;
        let (says, to_core) = Feed::beside(&outlets[usize::from(core)]);
        let (reader, writer) = (near::own(&machine), near::own_to_write(&machine));
        let background = machine.background(reader, writer);
        let (beside, watcher) = BackgroundLoop::new(background_poll, background_inbox, to_core, background);
        all_beside.add(beside, watcher);
        let setup = CoreSetup { poll, node: machine, inbox, cores: outlets, listener, gauges };
        let builder = std::thread::Builder::new().name(format!("core {core}")).stack_size(STACK_BYTES);
        builder.spawn(move || {
            let core_loop = Core::new(setup).map(|core| core.with_background(BackgroundEnds { hears, says }));
            let core_loop = core_loop.and_then(|core| match chaos_seed {
                Some(seed) => core.allow_chaos(seed),
                None => Ok(core),
            });
            if let Err(error) = core_loop.and_then(Core::run) {
                tracing::error!(%error, core, "a core ended; the node ends with it");
                std::process::exit(1);
            }
        })?;
    }
    desk.open(outlets.iter().cloned().zip(all_gauges.iter().cloned()).collect());
    Ok(Cores { gauges: all_gauges, outlets, beside: all_beside })
}

/// The loops keep nothing large on their stacks.
const STACK_BYTES: usize = 256 << 10;

/// Why a core cannot go on with what is in a memory file, and what to do where that is the file's fault.
fn unusable(error: NodeError) -> anyhow::Error {
    let is_damaged = matches!(error, NodeError::Notes(_));
    let error = anyhow::Error::new(error);
    if is_damaged { error.context(format!("what is in the memory file cannot be used; {REPLACE}")) } else { error }
}

#[cfg(test)]
mod tests {
    use shorttail_units::{ClusterId, NodeId};

    use super::*;
    use crate::config::NodeMembership;
    use crate::coordinator::tests::{self, RunningCoordinator};

    #[test]
    fn a_node_whose_clock_went_back_is_let_in() {
        let running = RunningCoordinator::start(None);
        let before = fresh_incarnation().expect("random").0 + (1 << 42);
        tests::node(&running.control, 3, before).0.registered().expect("let in");
        let start = |incarnation: Incarnation| tests::node(&running.control, 3, incarnation.0).0;
        let (_control, _, incarnation) = register_anew(start).expect("let in");
        assert_eq!(incarnation, Incarnation(before + 1));
    }

    #[test]
    fn only_memory_that_was_given_up_is_void() {
        let dir = tempfile::tempdir().expect("a directory");
        let config = NodeConfig {
            listen: "127.0.0.1:0".parse().expect("literal"),
            advertise: None,
            membership: NodeMembership::Static { cluster_id: ClusterId(7), node_id: NodeId(3) },
            memory_bytes: 16 << 20,
            threads: 1,
            memory_file: None,
            domain: String::new(),
            allow_chaos: false,
            repair_bytes_per_s: 1 << 20,
            scrub_bytes_per_s: 0,
        };
        let identity = MemoryIdentity { cluster: ClusterId(7), node: NodeId(3), incarnation: Incarnation(5) };
        let refusals = [
            (Refusal::ProtocolVersion(9), false),
            (Refusal::OtherCluster(8), false),
            (Refusal::NotLeading("b".into()), false),
            (Refusal::NodeIdTaken(3), false),
            (Refusal::Retired { retired_through: 5 }, true),
            (Refusal::Removed(3), true),
            (Refusal::Superseded(3), false),
            (Refusal::Full("node".into()), false),
            (Refusal::Malformed("odd".into()), false),
        ];
        for (refusal, is_void) in refusals {
            let path = dir.path().join("memory");
            let mut memory = Memory::open(&path, &config).expect("a new file");
            memory.begin(identity).expect("begun");
            let reason = refused(&refusal, Some(&mut memory)).expect("a reason");
            assert_eq!(was_removed(&reason), matches!(refusal, Refusal::Removed(_)), "{reason:#}");
            let at_once = anyhow::Error::new(ControlError::Refused(refusal.clone())).context("at the start");
            assert_eq!(was_removed(&at_once), was_removed(&reason), "{at_once:#}");
            drop(memory);
            let found = Memory::open(&path, &config).expect("its own").identity();
            assert_eq!(found, Some(identity).filter(|_| !is_void), "{refusal}");
            assert!(refusal.is_final() || !is_void, "{refusal}");
            std::fs::remove_file(path).expect("removed");
        }
    }
}
