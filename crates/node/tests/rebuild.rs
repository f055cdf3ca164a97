//! Nodes that rebuild chunks from each other's: an owner, four nodes, RS(2,2).

use shorttail_codes::Code;
use shorttail_node::fuzz::Unwritable;
use shorttail_node::limits::{OUTPUT_KEPT_BYTES, REBUILD_US_MAX, REBUILDS_MAX};
use shorttail_node::{Background, FromBackground, Node, NodeConfig, Pace, PeerId};
use shorttail_store::piece::seal_piece;
use shorttail_units::{Configuration, Epoch, NodeId, Now, OpNumber, PartitionId, StripeId};
use shorttail_wire::node::{ChunkDescription, Hello, Members, NodeReply, NodeRequest, Refusal, Source, next_frame};

use crate::setup::{config, fence, frames_of, hello, stripe, striped};

const OWNER: u64 = 1;
const CHUNK_BYTES: usize = 5000;
/// The nodes that hold chunks 0 to 3, and one that holds nothing.
const NODE_COUNT: u16 = 5;
const SPARE: usize = 4;

struct Nodes {
    nodes: Vec<Node>,
    /// Beside each of them. The nodes' cores give their chunks themselves.
    backgrounds: Vec<Background>,
    now_us: u64,
    /// Sessions between nodes: who reads, from whom; the number of each is its place and some.
    sessions: Vec<(usize, PeerId)>,
    /// Nobody reaches this node.
    cut_off: Option<usize>,
    /// What a node sends behind a chunk is hurt on its way.
    hurts_behind_chunks: bool,
}

/// What the owner was told: replies by name, outcomes of orders.
#[derive(Debug, Default, PartialEq, Eq)]
struct Told {
    refusals: Vec<Refusal>,
    done_count: usize,
    rebuilt: Vec<Result<(), (Refusal, Option<u8>)>>,
    bytes: Vec<Vec<u8>>,
    damaged: Vec<StripeId>,
}

impl Nodes {
    fn new(bytes_per_s: u64) -> Self {
        Self::scrubbing(bytes_per_s, 0)
    }

    fn scrubbing(bytes_per_s: u64, scrub_bytes_per_s: u64) -> Self {
        let node = |number: u16| {
            let config =
                NodeConfig { pace: Pace { repair_bytes_per_s: bytes_per_s, scrub_bytes_per_s }, ..config(number) };
            Node::new(config).expect("a node")
        };
        let mut nodes: Vec<Node> = (0..NODE_COUNT).map(node).collect();
        let background = |node: &mut Node| node.background(None, Some(Box::new(Unwritable)));
        let backgrounds = nodes.iter_mut().map(background).collect();
        let (sessions, cut_off) = (Vec::new(), None);
        let mut nodes = Nodes { nodes, backgrounds, now_us: 1, sessions, cut_off, hurts_behind_chunks: false };
        for number in 0..usize::from(NODE_COUNT) {
            nodes.nodes[number].handle_session_opened(OWNER);
            nodes.tell(number, &NodeRequest::Hello(hello()));
            nodes.tell(number, &fence(2, 3));
        }
        nodes
    }

    fn now(&self) -> Now {
        Now { mono_us: self.now_us, ..Now::default() }
    }

    fn tell(&mut self, node: usize, request: &NodeRequest<'_>) -> Told {
        let mut bytes = Vec::new();
        request.encode(1, &mut bytes);
        let now = self.now();
        self.nodes[node].handle_input(now, OWNER, &bytes).expect("the session stands");
        self.told(node)
    }

    fn told(&mut self, node: usize) -> Told {
        let output = self.nodes[node].poll_output(OWNER).map(std::mem::take).unwrap_or_default();
        let mut told = Told::default();
        for frame in frames_of(&output) {
            match NodeReply::parse(&frame).expect("a reply") {
                NodeReply::Refused { refusal, .. } => told.refusals.push(refusal),
                NodeReply::Rebuilt { outcome, .. } => told.rebuilt.push(outcome),
                NodeReply::Bytes(bytes) => told.bytes.push(bytes.to_vec()),
                NodeReply::Damaged { stripe } => told.damaged.push(stripe),
                _ => told.done_count += 1,
            }
        }
        told
    }

    /// Lets nodes talk until nothing is under way.
    fn settle(&mut self) {
        for _ in 0..10 {
            for reader in 0..self.nodes.len() {
                self.turn(reader);
                for peer in self.backgrounds[reader].rebuilds.peers().collect::<Vec<_>>() {
                    self.exchange(reader, peer);
                }
                self.nodes[reader].check_invariants();
            }
        }
    }

    /// Of a node, and of what is beside its core.
    fn turn(&mut self, node: usize) {
        let now = self.now();
        self.nodes[node].end_turn(now);
        let background = &mut self.backgrounds[node];
        self.nodes[node].serve_background(|said| _ = background.handle(said));
        background.rebuilds.advance(now.mono_us);
        self.tell_core(node);
    }

    fn tell_core(&mut self, node: usize) {
        self.backgrounds[node].end_turn(self.now_us, |said| self.nodes[node].handle_background(said));
    }

    fn close(&mut self, reader: usize, peer: PeerId) {
        self.backgrounds[reader].rebuilds.handle_closed(peer);
        self.tell_core(reader);
    }

    fn exchange(&mut self, reader: usize, peer: PeerId) {
        let source = usize::from(peer.node.0);
        if self.cut_off == Some(source) {
            return self.close(reader, peer);
        }
        let known = self.sessions.iter().position(|&session| session == (reader, peer));
        let place = known.unwrap_or_else(|| {
            self.sessions.push((reader, peer));
            self.nodes[source].handle_session_opened(99 + self.sessions.len() as u64);
            self.sessions.len() - 1
        });
        let (session, now) = (100 + place as u64, self.now());
        if let Some(output) = self.backgrounds[reader].rebuilds.output(peer).map(std::mem::take) {
            let consumed = self.nodes[source].handle_input(now, session, &output).expect("a greeted session");
            assert_eq!(consumed, output.len());
            let mut replies = self.nodes[source].poll_output(session).map(std::mem::take).unwrap_or_default();
            if self.hurts_behind_chunks && replies.len() > CHUNK_BYTES {
                replies.extend([0xff; 64]);
                self.backgrounds[reader].rebuilds.handle_input(peer, &replies).expect_err("no reply");
                self.close(reader, peer);
                return self.sessions.retain(|&session| session != (reader, peer));
            }
            let consumed = self.backgrounds[reader].rebuilds.handle_input(peer, &replies).expect("replies");
            assert_eq!(consumed, replies.len());
            self.tell_core(reader);
        }
    }

    fn holds(&mut self, node: usize, chunk: &[u8]) {
        let read = NodeRequest::ReadRange { stripe: stripe(7), offset: 0, length: CHUNK_BYTES as u32, op: OpNumber(0) };
        assert_eq!(self.tell(node, &read).bytes, [chunk]);
    }
}

fn free(up_to: Configuration) -> NodeRequest<'static> {
    NodeRequest::Free { first: stripe(7), count: 1, epoch: Epoch(3), partition: PartitionId(2), up_to }
}

/// Chunk `index` of the stripe on nodes 0 to 3, but where the spare node holds it.
fn description(index: u8, spare: Option<u8>) -> ChunkDescription {
    let mut members: Vec<NodeId> = (0..4).map(NodeId).collect();
    if let Some(place) = spare {
        members[usize::from(place)] = NodeId(SPARE as u16);
    }
    ChunkDescription { index, members: Members(members), ..striped(7) }
}

fn chunks() -> Vec<Vec<u8>> {
    let piece = |seed: usize| {
        let mut piece: Vec<u8> = (0..CHUNK_BYTES).map(|at| (at * seed % 251) as u8).collect();
        seal_piece(&mut piece, stripe(7));
        piece
    };
    let data = [piece(3), piece(7)];
    let mut parities = vec![vec![0; CHUNK_BYTES]; 2];
    let code = Code::reed_solomon(2, 2).expect("a code");
    let mut targets: Vec<&mut [u8]> = parities.iter_mut().map(Vec::as_mut_slice).collect();
    code.encode(&[&data[0], &data[1]], &mut targets);
    data.into_iter().chain(parities).collect()
}

/// All chunks installed but those of the nodes named.
fn nodes_without(missing: &[usize], bytes_per_s: u64) -> Nodes {
    with_chunks(Nodes::new(bytes_per_s), missing)
}

fn with_chunks(mut nodes: Nodes, missing: &[usize]) -> Nodes {
    for (index, chunk) in chunks().iter().enumerate().filter(|(index, _)| !missing.contains(index)) {
        let install = NodeRequest::Install { description: description(index as u8, None), bytes: chunk };
        assert_eq!(nodes.tell(index, &install).done_count, 1);
    }
    nodes
}

/// A chunk on the node that it was made for.
fn source_of(index: u8) -> Source {
    Source { index, core: 0, node: NodeId(u16::from(index)), position: None }
}

fn rebuild(index: u8, from: &[u8]) -> NodeRequest<'static> {
    let sources = from.iter().map(|&index| source_of(index)).collect();
    NodeRequest::Rebuild { description: description(index, Some(index)), sources }
}

/// Chunk 0 under the next number.
fn later_rebuild() -> NodeRequest<'static> {
    let configuration = Configuration::from_raw(3 << 32 | 1);
    let description = ChunkDescription { configuration, ..description(0, Some(0)) };
    NodeRequest::Rebuild { description, sources: [1, 3].map(source_of).to_vec() }
}

fn rebuild_in_place(index: u8, from: &[u8]) -> NodeRequest<'static> {
    let sources = from.iter().map(|&index| source_of(index)).collect();
    NodeRequest::Rebuild { description: description(index, None), sources }
}

const FAST: u64 = u64::MAX;

#[test]
fn data_and_parity_chunks_are_rebuilt_from_what_proves_itself() {
    for (lost, sources) in [(0u8, [1u8, 3]), (1, [2, 3]), (2, [0, 1]), (3, [1, 0])] {
        let mut nodes = nodes_without(&[usize::from(lost)], FAST);
        assert_eq!(nodes.tell(SPARE, &rebuild(lost, &sources)).done_count, 1, "the order is taken");
        nodes.settle();
        assert_eq!(nodes.told(SPARE).rebuilt, [Ok(())], "chunk {lost}");
        nodes.holds(SPARE, &chunks()[usize::from(lost)]);
        assert_eq!(nodes.nodes[SPARE].stats().rebuilds, 1);
    }
}

#[test]
fn a_chunk_is_copied_from_the_node_that_it_leaves() {
    for index in [1u8, 3] {
        let mut nodes = nodes_without(&[], FAST);
        assert_eq!(nodes.tell(SPARE, &rebuild(index, &[index])).done_count, 1, "the order is taken");
        nodes.settle();
        assert_eq!(nodes.told(SPARE).rebuilt, [Ok(())], "chunk {index}");
        nodes.holds(SPARE, &chunks()[usize::from(index)]);
        nodes.holds(usize::from(index), &chunks()[usize::from(index)]);
    }
}

#[test]
fn what_ended_is_told_although_the_next_message_is_hurt() {
    let mut nodes = nodes_without(&[], FAST);
    nodes.hurts_behind_chunks = true;
    nodes.tell(SPARE, &rebuild(1, &[1]));
    nodes.settle();
    assert_eq!(nodes.told(SPARE).rebuilt, [Ok(())]);
    nodes.holds(SPARE, &chunks()[1]);
}

#[test]
fn what_is_damaged_is_not_copied() {
    for index in [1u8, 3] {
        let mut nodes = nodes_without(&[], FAST);
        assert_eq!(nodes.nodes[usize::from(index)].flip_bits(1, 5), 1);
        nodes.tell(SPARE, &rebuild(index, &[index]));
        nodes.settle();
        assert_eq!(nodes.told(SPARE).rebuilt, [Err((Refusal::Damaged, Some(index)))]);
        assert_eq!(nodes.nodes[SPARE].used_bytes(), 0);
    }
}

#[test]
fn a_chunk_is_not_made_of_itself_and_others() {
    let mut nodes = nodes_without(&[], FAST);
    assert_eq!(nodes.tell(SPARE, &rebuild(1, &[1, 2])).refusals, [Refusal::Invalid]);
}

#[test]
fn a_parity_is_not_made_of_parities_and_nothing_of_nothing() {
    let mut nodes = nodes_without(&[3], FAST);
    assert_eq!(nodes.tell(SPARE, &rebuild(3, &[0, 2])).refusals, [Refusal::Invalid]);
    assert_eq!(nodes.tell(SPARE, &rebuild(3, &[])).refusals, [Refusal::Invalid]);
}

/// Places of sources are counted up to the chunks that a stripe may have.
#[test]
fn each_source_is_named_once() {
    let mut nodes = nodes_without(&[0], FAST);
    for sources in [&[1, 3, 1][..], &[1, 1], &[1; 200]] {
        assert_eq!(nodes.tell(SPARE, &rebuild(0, sources)).refusals, [Refusal::Invalid], "{sources:?}");
    }
    assert_eq!(nodes.tell(SPARE, &rebuild(0, &[1, 2, 3])).done_count, 1, "all that there are");
}

#[test]
fn the_source_that_is_to_blame_is_named() {
    let mut nodes = nodes_without(&[0, 2], FAST);
    nodes.tell(SPARE, &rebuild(0, &[1, 2]));
    nodes.settle();
    assert_eq!(nodes.told(SPARE).rebuilt, [Err((Refusal::NoChunk, Some(2)))]);
    nodes.cut_off = Some(3);
    nodes.tell(SPARE, &rebuild(0, &[1, 3]));
    nodes.settle();
    assert_eq!(nodes.told(SPARE).rebuilt, [Err((Refusal::Unreachable, Some(3)))]);
    nodes.cut_off = None;
    assert!(nodes.nodes[1].flip_bits(1, 5) == 1);
    nodes.tell(SPARE, &rebuild(0, &[1, 3]));
    nodes.settle();
    assert_eq!(nodes.told(SPARE).rebuilt, [Err((Refusal::Damaged, Some(1)))]);
    assert_eq!(nodes.nodes[SPARE].used_bytes(), 0);
}

#[test]
fn r11_a_stripe_that_was_freed_or_fenced_meanwhile_is_not_installed() {
    let fenced = [Err((Refusal::Fenced, None))];
    let free = free(Configuration::END);
    // Who freed it waits for no answer.
    for (change, refusal, told) in [(free, Refusal::Exists, &[][..]), (fence(2, 4), Refusal::Fenced, &fenced)] {
        let mut nodes = nodes_without(&[0], FAST);
        nodes.tell(SPARE, &rebuild(0, &[1, 3]));
        assert_eq!(nodes.tell(SPARE, &change).done_count, 1);
        nodes.settle();
        assert_eq!(nodes.told(SPARE).rebuilt, told);
        assert_eq!(nodes.nodes[SPARE].used_bytes(), 0);
        assert_eq!(nodes.tell(SPARE, &rebuild(0, &[1, 3])).refusals, [refusal], "nor is a later order taken");
    }
}

/// So many frees follow that the mark of the one that counts is gone.
#[test]
fn r11_an_order_outlasts_no_free() {
    let mut nodes = nodes_without(&[0], FAST);
    nodes.tell(SPARE, &rebuild(0, &[1, 3]));
    assert_eq!(nodes.tell(SPARE, &free(Configuration::END)).done_count, 1);
    let others = NodeRequest::Free {
        first: stripe(7).plus(1),
        count: 16_384,
        epoch: Epoch(3),
        partition: PartitionId(2),
        up_to: Configuration::END,
    };
    assert_eq!(nodes.tell(SPARE, &others).done_count, 1);
    nodes.settle();
    assert_eq!(nodes.told(SPARE).rebuilt, []);
    assert_eq!(nodes.nodes[SPARE].used_bytes(), 0);
}

/// Its owner may not have had the answer.
#[test]
fn what_is_ordered_twice_is_rebuilt_once() {
    let mut nodes = nodes_without(&[0], FAST);
    for _ in 0..2 {
        assert_eq!(nodes.tell(SPARE, &rebuild(0, &[1, 3])).done_count, 1);
    }
    nodes.settle();
    assert_eq!(nodes.told(SPARE).rebuilt, [Ok(())]);
    let again = nodes.tell(SPARE, &rebuild(0, &[1, 3]));
    assert_eq!((again.done_count, again.rebuilt), (1, vec![Ok(())]), "it is there");
    assert_eq!(nodes.nodes[SPARE].stats().rebuilds, 1);
}

/// An owner that gave up one order gives another one: what becomes of the first says nothing of the second.
#[test]
fn of_two_orders_for_a_stripe_the_later_counts() {
    let mut nodes = nodes_without(&[0], FAST);
    nodes.tell(SPARE, &rebuild(0, &[1, 2]));
    assert_eq!(nodes.tell(SPARE, &later_rebuild()).done_count, 1);
    assert_eq!(nodes.tell(2, &free(Configuration::END)).done_count, 1);
    nodes.settle();
    assert_eq!(nodes.told(SPARE).rebuilt, [Ok(())], "not that source 2 has no chunk");
    nodes.holds(SPARE, &chunks()[0]);
}

/// Its owner takes higher and higher numbers: whatever arrives late, and however often, only what was ordered after the
/// last free is here.
#[test]
fn r11_a_node_that_freed_a_chunk_takes_what_is_ordered_later() {
    let numbers: Vec<Configuration> = (0..5).map(|number| Configuration::from_raw(3 << 32 | number)).collect();
    let order = |number: usize| {
        let described = ChunkDescription { configuration: numbers[number], ..description(0, Some(0)) };
        NodeRequest::Rebuild { description: described, sources: [1, 3].map(source_of).to_vec() }
    };
    let mut nodes = nodes_without(&[0], FAST);
    assert_eq!(nodes.tell(SPARE, &free(numbers[1])).done_count, 1);
    assert_eq!(nodes.tell(SPARE, &order(1)).refusals, [Refusal::Exists], "it is late");
    // The free comes behind an order of a higher number, again and again.
    nodes.tell(SPARE, &order(2));
    nodes.tell(SPARE, &free(numbers[1]));
    nodes.settle();
    assert_eq!(nodes.told(SPARE).rebuilt, [Ok(())]);
    assert_eq!(nodes.tell(SPARE, &free(numbers[1])).done_count, 1);
    nodes.holds(SPARE, &chunks()[0]);
    // What is here is ordered once more, and is of the order's number then.
    assert_eq!(nodes.tell(SPARE, &order(3)).rebuilt, [Ok(())]);
    nodes.tell(SPARE, &free(numbers[2]));
    nodes.holds(SPARE, &chunks()[0]);
    nodes.tell(SPARE, &free(numbers[3]));
    assert_eq!(nodes.nodes[SPARE].used_bytes(), 0);
    assert_eq!(nodes.tell(SPARE, &order(3)).refusals, [Refusal::Exists]);
    // The stripe is gone.
    nodes.tell(SPARE, &order(4));
    nodes.tell(SPARE, &free(Configuration::END));
    nodes.settle();
    assert_eq!(nodes.told(SPARE).rebuilt, []);
    nodes.tell(SPARE, &free(numbers[2]));
    assert_eq!(nodes.tell(SPARE, &order(4)).refusals, [Refusal::Exists]);
    assert_eq!(nodes.nodes[SPARE].used_bytes(), 0);
}

#[test]
fn an_owner_that_greets_anew_has_no_orders_left() {
    let mut nodes = nodes_without(&[0], FAST);
    nodes.tell(SPARE, &rebuild(0, &[1, 3]));
    nodes.nodes[SPARE].handle_session_closed(OWNER);
    nodes.settle();
    assert_eq!(nodes.nodes[SPARE].used_bytes(), 0);
    assert!(nodes.backgrounds[SPARE].rebuilds.is_idle());
    assert_eq!(nodes.backgrounds[SPARE].rebuilds.deadline_us(), None);
}

#[test]
fn orders_wait_until_those_before_them_are_paid_for() {
    // Two sources of 5000 bytes: ten milliseconds.
    let mut nodes = nodes_without(&[0], 1_000_000);
    nodes.tell(SPARE, &rebuild(0, &[1, 3]));
    nodes.tell(SPARE, &later_rebuild());
    nodes.settle();
    assert_eq!(nodes.told(SPARE).rebuilt, [], "it does not count any more");
    assert_eq!(nodes.backgrounds[SPARE].rebuilds.deadline_us(), Some(8_001), "timers are coarse");
    nodes.now_us = 8_000;
    nodes.settle();
    assert_eq!(nodes.told(SPARE).rebuilt, []);
    nodes.now_us = 8_001;
    nodes.settle();
    assert_eq!(nodes.told(SPARE).rebuilt, [Ok(())]);
}

/// The core's heap may be locked while the background waits for the processor.
#[test]
fn what_an_order_came_in_goes_back_to_the_core() {
    let mut nodes = nodes_without(&[0], FAST);
    nodes.tell(SPARE, &rebuild(0, &[1, 3]));
    let (node, background) = (&mut nodes.nodes[SPARE], &mut nodes.backgrounds[SPARE]);
    node.serve_background(|said| _ = background.handle(said));
    let mut spent = 0;
    background.end_turn(1, |said| spent += usize::from(matches!(said, FromBackground::Spent(_))));
    assert_eq!(spent, 1);
}

#[test]
fn another_pace_holds_for_what_was_ordered_before() {
    let mut nodes = nodes_without(&[0], 1_000_000);
    nodes.nodes[SPARE].set_pace(Pace { repair_bytes_per_s: 500_000, scrub_bytes_per_s: 0 });
    nodes.tell(SPARE, &rebuild(0, &[1, 3]));
    nodes.tell(SPARE, &later_rebuild());
    nodes.settle();
    assert_eq!(nodes.backgrounds[SPARE].rebuilds.deadline_us(), Some(18_001), "twenty milliseconds instead of ten");
    nodes.nodes[SPARE].set_pace(Pace { repair_bytes_per_s: FAST, scrub_bytes_per_s: 0 });
    nodes.now_us = 18_001;
    nodes.settle();
    assert_eq!(nodes.told(SPARE).rebuilt, [Ok(())]);
}

#[test]
fn a_scrubber_that_is_told_to_goes_on_at_once() {
    let mut nodes = with_chunks(Nodes::scrubbing(FAST, 1), &[]);
    nodes.settle();
    assert_eq!(nodes.nodes[0].flip_bits(1, 5), 1);
    nodes.now_us += 60_000_000;
    nodes.settle();
    assert_eq!(nodes.told(0).damaged, [], "5000 bytes take more than an hour");
    let pace = |scrub_bytes_per_s| Pace { repair_bytes_per_s: FAST, scrub_bytes_per_s };
    nodes.nodes[0].set_pace(pace(0));
    nodes.settle();
    assert_eq!(nodes.told(0).damaged, [], "it is off");
    nodes.nodes[0].set_pace(pace(1_000_000));
    nodes.settle();
    assert_eq!(nodes.told(0).damaged, [stripe(7)]);
}

#[test]
fn a_source_that_never_answers_is_given_up() {
    let mut nodes = nodes_without(&[0], FAST);
    nodes.tell(SPARE, &rebuild(0, &[1, 3]));
    nodes.turn(SPARE);
    nodes.now_us = nodes.backgrounds[SPARE].rebuilds.deadline_us().expect("an order is under way");
    nodes.turn(SPARE);
    assert_eq!(nodes.told(SPARE).rebuilt, [Err((Refusal::Unreachable, Some(1)))]);
}

#[test]
fn nobody_waits_again_for_a_source_that_was_silent() {
    let mut nodes = nodes_without(&[0], FAST);
    let turn = |nodes: &mut Nodes| {
        nodes.turn(SPARE);
        nodes.told(SPARE).rebuilt
    };
    let unreachable = [Err((Refusal::Unreachable, Some(1)))];
    nodes.tell(SPARE, &rebuild(0, &[1, 3]));
    assert_eq!(turn(&mut nodes), []);
    nodes.now_us = nodes.backgrounds[SPARE].rebuilds.deadline_us().expect("an order is under way");
    assert_eq!(turn(&mut nodes), unreachable);
    assert_eq!(nodes.backgrounds[SPARE].rebuilds.peers().count(), 0, "both said nothing: they are connected anew");
    nodes.tell(SPARE, &rebuild(0, &[1, 3]));
    assert_eq!(turn(&mut nodes), unreachable, "at once");
    nodes.now_us += REBUILD_US_MAX - 1;
    nodes.tell(SPARE, &rebuild(0, &[1, 3]));
    assert_eq!(turn(&mut nodes), unreachable);
    nodes.now_us += 1;
    nodes.tell(SPARE, &rebuild(0, &[1, 3]));
    assert_eq!(turn(&mut nodes), [], "this one asks");
    nodes.settle();
    assert_eq!(nodes.told(SPARE).rebuilt, [Ok(())]);
}

#[test]
fn who_lost_one_answer_is_not_silent() {
    let mut nodes = nodes_without(&[0], FAST);
    nodes.tell(SPARE, &rebuild(0, &[1, 3]));
    nodes.turn(SPARE);
    let now = nodes.now();
    for peer in nodes.backgrounds[SPARE].rebuilds.peers().collect::<Vec<_>>() {
        let source = usize::from(peer.node.0);
        let output = nodes.backgrounds[SPARE].rebuilds.output(peer).map(std::mem::take).expect("it is asked");
        nodes.nodes[source].handle_session_opened(77);
        nodes.nodes[source].handle_input(now, 77, &output).expect("a greeted session");
        let replies = nodes.nodes[source].poll_output(77).map(std::mem::take).expect("it answers");
        let (_, greeting_bytes) = next_frame(&replies).expect("whole").expect("a greeting");
        let heard = &replies[..greeting_bytes];
        nodes.backgrounds[SPARE].rebuilds.handle_input(peer, heard).expect("a reply");
    }
    nodes.now_us = nodes.backgrounds[SPARE].rebuilds.deadline_us().expect("an order is under way");
    nodes.turn(SPARE);
    assert_eq!(nodes.told(SPARE).rebuilt, [Err((Refusal::Unreachable, Some(1)))]);
    assert_eq!(nodes.backgrounds[SPARE].rebuilds.peers().count(), 2);
    nodes.tell(SPARE, &rebuild(0, &[1, 3]));
    nodes.turn(SPARE);
    assert_eq!(nodes.told(SPARE).rebuilt, [], "they are asked again");
}

#[test]
fn where_nobody_rebuilds_orders_are_refused_at_once() {
    let mut nodes = nodes_without(&[0], FAST);
    nodes.nodes[SPARE] = Node::new(config(SPARE as u16)).expect("a node");
    nodes.nodes[SPARE].handle_session_opened(OWNER);
    nodes.tell(SPARE, &NodeRequest::Hello(hello()));
    nodes.tell(SPARE, &fence(2, 3));
    for _ in 0..2 {
        assert_eq!(nodes.tell(SPARE, &rebuild(0, &[1, 3])).refusals, [Refusal::Unreachable]);
    }
    assert!(!nodes.nodes[SPARE].serve_background(|said| panic!("{said:?}")));
}

#[test]
fn no_more_orders_are_taken_than_there_is_room_for() {
    let mut nodes = nodes_without(&[0], FAST);
    let order = |number: u64| {
        let description = ChunkDescription { stripe: stripe(100 + number), ..description(0, Some(0)) };
        NodeRequest::Rebuild { description, sources: [1, 3].map(source_of).to_vec() }
    };
    for number in 0..REBUILDS_MAX as u64 {
        assert_eq!(nodes.tell(SPARE, &order(number)).done_count, 1);
    }
    assert_eq!(nodes.tell(SPARE, &rebuild(0, &[1, 3])).refusals, [Refusal::Busy]);
    nodes.settle();
    assert!(!nodes.told(SPARE).rebuilt.is_empty(), "none of them has a source");
    assert_eq!(nodes.tell(SPARE, &rebuild(0, &[1, 3])).done_count, 1);
}

#[test]
fn another_node_may_read_and_change_nothing() {
    let mut nodes = nodes_without(&[0], FAST);
    let node = &mut nodes.nodes[1];
    node.handle_session_opened(50);
    let mut bytes = Vec::new();
    NodeRequest::Peer(Hello { owner: 4 << 16, epoch: Epoch(0), ..hello() }).encode(1, &mut bytes);
    free(Configuration::END).encode(1, &mut bytes);
    fence(2, 8).encode(1, &mut bytes);
    node.handle_input(Now::default(), 50, &bytes).expect("the session stands");
    let output = std::mem::take(node.poll_output(50).expect("replies"));
    let frames = frames_of(&output);
    let refusals = frames.iter().filter(|frame| matches!(NodeReply::parse(frame), Ok(NodeReply::Refused { .. })));
    assert_eq!(refusals.count(), 2);
    nodes.holds(1, &chunks()[1]);
}

/// From one end to the other: a bit turns over, the scrubber finds it, the owner is told and orders, and the chunk is
/// mended.
#[test]
fn what_the_scrubber_finds_is_mended_in_place() {
    for (damaged, sources) in [(0u8, [1u8, 3]), (3, [0, 1])] {
        let mut nodes = with_chunks(Nodes::scrubbing(FAST, 1_000_000), &[]);
        let node = usize::from(damaged);
        nodes.settle();
        assert_eq!(nodes.told(node).damaged, []);
        assert!(nodes.nodes[node].stats().scrubbed_bytes >= CHUNK_BYTES as u64);
        assert_eq!(nodes.nodes[node].flip_bits(1, 5), 1);
        nodes.now_us += 9_000_000;
        nodes.settle();
        assert_eq!(nodes.told(node).damaged, [], "not before the next pass");
        nodes.now_us += 1_100_000;
        nodes.settle();
        assert_eq!(nodes.told(node).damaged, [stripe(7)]);
        assert_eq!(nodes.tell(node, &rebuild_in_place(damaged, &sources)).done_count, 1);
        nodes.settle();
        assert_eq!(nodes.told(node).rebuilt, [Ok(())]);
        nodes.holds(node, &chunks()[node]);
        let stats = nodes.nodes[node].stats();
        assert_eq!((stats.corruptions_found, stats.corruptions_repaired), (1, 1));
        let again = nodes.tell(node, &rebuild_in_place(damaged, &sources));
        assert_eq!(again.rebuilt, [Ok(())], "it is intact, so that is done already");
        assert_eq!(nodes.nodes[node].stats().corruptions_repaired, 1);
    }
}

/// Memory may be read wrong once.
#[test]
fn what_reads_right_by_the_time_that_it_is_mended_stays() {
    let mut nodes = nodes_without(&[], FAST);
    assert_eq!(nodes.nodes[0].flip_bits(1, 5), 1);
    let told = nodes.tell(0, &rebuild_in_place(0, &[1, 3]));
    assert_eq!((told.done_count, told.rebuilt), (1, vec![]), "it is needed");
    assert_eq!(nodes.nodes[0].flip_bits(1, 5), 1);
    nodes.settle();
    assert_eq!(nodes.told(0).rebuilt, [Ok(())]);
    nodes.holds(0, &chunks()[0]);
    assert_eq!(nodes.nodes[0].stats().corruptions_repaired, 0);
}

#[test]
fn who_does_not_read_what_is_damaged_is_told_of_no_more() {
    let mut nodes = with_chunks(Nodes::scrubbing(FAST, 1_000_000), &[]);
    nodes.settle();
    assert_eq!(nodes.nodes[0].flip_bits(1, 5), 1);
    let pass = |nodes: &mut Nodes| {
        nodes.now_us += 10_100_000;
        nodes.settle();
    };
    // It left replies unread: more than those of a turn.
    let mut ping = Vec::new();
    NodeRequest::Ping.encode(1, &mut ping);
    let now = nodes.now();
    nodes.nodes[0].handle_input(now, OWNER, &ping.repeat(OUTPUT_KEPT_BYTES / 20)).expect("the session stands");
    let unread_bytes = |nodes: &mut Nodes| nodes.nodes[0].poll_output(OWNER).map_or(0, |output| output.len());
    let before = unread_bytes(&mut nodes);
    (0..3).for_each(|_| pass(&mut nodes));
    assert_eq!(unread_bytes(&mut nodes), before);
    assert_eq!(nodes.told(0).damaged, []);
    pass(&mut nodes);
    assert_eq!(nodes.told(0).damaged, [stripe(7)], "it reads again");
}
