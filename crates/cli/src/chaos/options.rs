//! The flags of `shorttail chaos`.

use clap::{ArgGroup, Args, Subcommand};
use shorttail_chaos::{ChaosOrder, Class, Corrupt, Fault, FaultKind, FlipBits, Loss, Slow, Stall};
use shorttail_server::config::Size;

use super::values::{CycleValue, DurationValue, Nodes, RampValue, ShareValue, TailValue};
use crate::admin::AdminPort;

pub const EXAMPLES: &str = "\
Examples:
  shorttail up --allow-chaos              nodes that obey; others refuse
  shorttail chaos slow 3 --delay 50ms     its replies leave 50 ms later
  shorttail chaos stall 3 --for 1s        it answers nothing for a second
  shorttail chaos kill 3                  as by kill -9
  shorttail chaos show                    which there are, and what they did
  shorttail chaos clear                   none any more

NODE is a number, several (0,4,7) or all. A node has at most one fault of each kind (slow, stall, drop, corrupt): a new \
one takes the place of the old one. With --for a fault ends by itself. Only what a node answers to gateways suffers; its \
heartbeats to the coordinator do not. Exit code 1 if a node did not obey.";

const SLOW_EXAMPLES: &str = "\
Examples:
  shorttail chaos slow 3 --delay 50ms
  shorttail chaos slow 3 --delay 20ms --jitter       give or take a half
  shorttail chaos slow 3 --tail 1%:200ms             one reply in a hundred
  shorttail chaos slow 3 --ramp 0..50ms/10s          worse for ten seconds
  shorttail chaos slow 3 --delay 50ms --square 10s   ten seconds, not ten
  shorttail chaos slow 3 --delay 50ms --writes-only
  shorttail chaos slow 3 --delay 50ms --values-above 16KiB
  shorttail chaos slow 3 --bandwidth 1MiB            a link of 1 MiB a second
  shorttail chaos slow all --delay 20ms --for 30s    for half a minute

Delays add up; a request that is not delayed overtakes one that is. Only --bandwidth makes requests wait for each \
other.";

const STALL_EXAMPLES: &str = "\
Examples:
  shorttail chaos stall 3 --for 1s
  shorttail chaos stall 3                    until it is cleared
  shorttail chaos stall 3 --duty 50ms/2ms    stopped, running, and so on

Connections and requests are taken; what was to be answered leaves when the stall is over.";

const DROP_EXAMPLES: &str = "\
Examples:
  shorttail chaos drop 3 --share 1%          one in a hundred never leaves
  shorttail chaos drop 3 --share 1% --reset  its connection breaks instead
  shorttail chaos drop 3 --for 5s            none leaves for five seconds";

const CORRUPT_EXAMPLES: &str = "\
Examples:
  shorttail chaos corrupt 3 --bits 100    of the sealed chunks that it holds
  shorttail chaos corrupt 3 --share 1%    of the reads, a bit on its way out

Bits that were flipped in memory stay so: clearing the faults does not turn them back.";

#[derive(Args, Debug)]
pub struct ChaosCommand {
    #[command(flatten)]
    pub admin: AdminPort,
    #[command(subcommand)]
    pub verb: ChaosVerb,
}

#[derive(Subcommand, Debug)]
pub enum ChaosVerb {
    /// Replies leave late
    #[command(after_help = SLOW_EXAMPLES)]
    Slow(SlowOptions),
    /// Requests are taken and not answered
    #[command(after_help = STALL_EXAMPLES)]
    Stall(StallOptions),
    /// Replies are lost
    #[command(after_help = DROP_EXAMPLES)]
    Drop(DropOptions),
    /// Bits are wrong, in memory or in what is read
    #[command(after_help = CORRUPT_EXAMPLES)]
    Corrupt(CorruptOptions),
    /// The process dies at once, its memory with it
    Kill {
        /// Which: 3, or 0,4,7, or all
        #[arg(value_name = "NODE")]
        nodes: Nodes,
    },
    /// No fault any more; what is held back leaves at once
    Clear {
        /// Which: 3, or 0,4,7, or all
        #[arg(value_name = "NODE", default_value = "all")]
        nodes: Nodes,
    },
    /// The faults that nodes have, and what they did so far
    Show,
}

#[derive(Args, Debug)]
pub struct SlowOptions {
    /// Which: 3, or 0,4,7, or all
    #[arg(value_name = "NODE")]
    nodes: Nodes,
    /// Every reply leaves so much later
    #[arg(long, value_name = "DURATION")]
    delay: Option<DurationValue>,
    /// Delays differ by up to this share, either way; without a share, by half
    #[arg(long, value_name = "SHARE", num_args = 0..=1, default_missing_value = "50%", require_equals = true)]
    jitter: Option<ShareValue>,
    /// So many replies leave so much later
    #[arg(long, value_name = "SHARE:DURATION")]
    tail: Option<TailValue>,
    /// A delay that grows (or shrinks) from one to another over a time, and then stays
    #[arg(long, value_name = "FROM..TO/DURATION")]
    ramp: Option<RampValue>,
    /// Slow for the first time, not for the second (without one: as long), and so on
    #[arg(long, value_name = "SLOW[/QUICK]")]
    square: Option<CycleValue>,
    /// Only what is read suffers
    #[arg(long)]
    reads_only: bool,
    /// Only what is written suffers
    #[arg(long, conflicts_with = "reads_only")]
    writes_only: bool,
    /// Only requests and replies of more bytes than this suffer
    #[arg(long, value_name = "SIZE")]
    values_above: Option<Size>,
    /// Bytes a second that pass to and from the node
    #[arg(long, value_name = "SIZE[/s]", value_parser = parse_bandwidth)]
    bandwidth: Option<Size>,
    #[command(flatten)]
    until: Until,
}

#[derive(Args, Debug)]
pub struct StallOptions {
    /// Which: 3, or 0,4,7, or all
    #[arg(value_name = "NODE")]
    nodes: Nodes,
    /// Stopped for the first time, running for the second, and so on
    #[arg(long, value_name = "STOPPED/RUNNING")]
    duty: Option<CycleValue>,
    #[command(flatten)]
    until: Until,
}

#[derive(Args, Debug)]
pub struct DropOptions {
    /// Which: 3, or 0,4,7, or all
    #[arg(value_name = "NODE")]
    nodes: Nodes,
    /// How many of the replies
    #[arg(long, value_name = "SHARE", default_value = "100%")]
    share: ShareValue,
    /// The connection breaks instead
    #[arg(long)]
    reset: bool,
    #[command(flatten)]
    until: Until,
}

#[derive(Args, Debug)]
#[command(group = ArgGroup::new("harm").required(true).args(["bits", "share"]))]
pub struct CorruptOptions {
    /// Which: 3, or 0,4,7, or all
    #[arg(value_name = "NODE")]
    nodes: Nodes,
    /// Flip so many bits of stored chunks, once
    #[arg(long, value_name = "N", conflicts_with = "duration")]
    bits: Option<u32>,
    /// Flip one bit in so many of the reads
    #[arg(long, value_name = "SHARE")]
    share: Option<ShareValue>,
    #[command(flatten)]
    until: Until,
}

#[derive(Args, Debug)]
pub struct Until {
    /// How long; without it, until it is cleared
    #[arg(id = "duration", long = "for", value_name = "DURATION")]
    duration: Option<DurationValue>,
}

impl ChaosVerb {
    /// Which nodes are to do what; `None` when there is nothing to order.
    pub fn order(self) -> Option<(Nodes, ChaosOrder)> {
        Some(match self {
            ChaosVerb::Slow(options) => options.order(),
            ChaosVerb::Stall(StallOptions { nodes, duty, until }) => {
                (nodes, until.apply(FaultKind::Stall(Stall { cycle: duty.map(|duty| duty.0) })))
            }
            ChaosVerb::Drop(DropOptions { nodes, share, reset, until }) => {
                (nodes, until.apply(FaultKind::Drop(Loss { share_ppm: share.ppm, reset })))
            }
            ChaosVerb::Corrupt(CorruptOptions { nodes, bits: Some(count), .. }) => {
                (nodes, ChaosOrder::FlipBits(FlipBits { count }))
            }
            ChaosVerb::Corrupt(CorruptOptions { nodes, share, until, .. }) => {
                let share_ppm = share.map_or(1_000_000, |share| share.ppm);
                (nodes, until.apply(FaultKind::Corrupt(Corrupt { share_ppm })))
            }
            ChaosVerb::Kill { nodes } => (nodes, ChaosOrder::Kill),
            ChaosVerb::Clear { nodes } => (nodes, ChaosOrder::Clear),
            ChaosVerb::Show => return None,
        })
    }
}

impl SlowOptions {
    fn order(self) -> (Nodes, ChaosOrder) {
        let only = match (self.reads_only, self.writes_only) {
            (true, _) => Some(Class::Read),
            (_, true) => Some(Class::Write),
            (false, false) => None,
        };
        let slow = Slow {
            delay_us: self.delay.map_or(0, |delay| delay.us),
            jitter_ppm: self.jitter.map_or(0, |jitter| jitter.ppm),
            tail: self.tail.map(|tail| tail.0),
            ramp: self.ramp.map(|ramp| ramp.0),
            square: self.square.map(|square| square.0),
            only,
            above_bytes: self.values_above.map_or(0, |size| size.0),
            bandwidth: self.bandwidth.map_or(0, |size| size.0),
        };
        (self.nodes, self.until.apply(FaultKind::Slow(slow)))
    }
}

impl Until {
    fn apply(self, kind: FaultKind) -> ChaosOrder {
        ChaosOrder::Apply(Fault { kind, for_us: self.duration.map(|duration| duration.us) })
    }
}

/// `1MiB/s`, or `1MiB`.
fn parse_bandwidth(text: &str) -> Result<Size, String> {
    text.strip_suffix("/s").unwrap_or(text).parse::<Size>().map_err(|error| error.to_string())
}
