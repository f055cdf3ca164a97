//! Chunks that are rebuilt while the file system of the node's memory is full: the order fails for want of room,
//! nothing else does, no memory is lost, and the node tells that it has none.
//!
//! Each test is run by a process that has a small file system in memory for itself, in a namespace of its own.

use std::fs::File;
use std::io::Write;
use std::os::unix::fs::MetadataExt;
use std::path::{Path, PathBuf};
use std::process::Command;
use std::sync::Arc;

use shorttail_codes::Code;
use shorttail_node::limits::PAGES_ASK_US;
use shorttail_node::{Node, NodeConfig, Pace};
use shorttail_store::piece::seal_piece;
use shorttail_store::{BootId, MemoryFile, NearReader, NearWriter, RoomsView};
use shorttail_units::{Configuration, Epoch, NodeId, Now, OpNumber, PartitionId, StripeId};
use shorttail_wire::node::{ChunkDescription, Hello, NodeRequest, PROTOCOL_VERSION, Refusal, Source};

use crate::setup::cluster::{Cluster, SESSION, TARGET, as_it_is, description, id};
use crate::setup::{CLUSTER, Memory, config};

const PAGE_BYTES: u64 = 4096;
/// A chunk with its header takes a whole block of the arena, whose pages nobody takes before they are written.
const CHUNK_BYTES: usize = BLOCK_BYTES as usize - 256;
const BLOCK_BYTES: u64 = 64 << 10;
const BLOCK_PAGES: u64 = BLOCK_BYTES / PAGE_BYTES;

/// Where the process of a test has its file system.
const PLACE: &str = "SMALL_FILE_SYSTEM";

/// A command in a namespace of its own, in which that directory is a small file system in memory. It may have few files
/// open.
fn in_a_namespace(place: &Path) -> Command {
    let script = "mount -t tmpfs -o size=4m,huge=never none \"$SMALL_FILE_SYSTEM\" && ulimit -n 64 && exec \"$@\"";
    let mut command = Command::new("unshare");
    command.args(["--user", "--map-root-user", "--mount", "sh", "-c", script, "sh"]).env(PLACE, place);
    command
}

/// Runs the test in a process that has such a file system. Where nobody may have one, that is told, past what the
/// tests' runner keeps to itself.
fn with_a_small_file_system(test: &str, run: impl FnOnce(&Path)) {
    if let Some(place) = std::env::var_os(PLACE) {
        return run(Path::new(&place));
    }
    let place = tempfile::tempdir().expect("a directory");
    // The program itself, as it may lie where one may not look from there.
    let itself = std::env::current_exe().expect("a name");
    let may = in_a_namespace(place.path())
        .arg(&itself)
        .arg("--list")
        .output()
        .expect("unshare is installed (Debian: util-linux)");
    if !may.status.success() {
        let why = String::from_utf8_lossy(&may.stderr);
        let told = format!("\nnot tested here: {test}: this process may not make a namespace: {}\n", why.trim());
        return std::io::stderr().write_all(told.as_bytes()).expect("told");
    }
    let mut command = in_a_namespace(place.path());
    command.arg(itself).args(["--exact", &format!("full::{test}"), "--nocapture"]);
    let output = command.output().expect("it was there a moment ago");
    let said = [output.stdout, output.stderr].map(|said| String::from_utf8_lossy(&said).into_owned()).concat();
    assert!(output.status.success() && said.contains("1 passed"), "{}: {said}", output.status);
}

/// What takes up the rest of the file system.
struct Ballast(PathBuf);

impl Ballast {
    /// Leaves so many pages free.
    fn leave(&self, pages: u64) {
        let mut file = File::create(&self.0).expect("made");
        let page = [1; PAGE_BYTES as usize];
        let full = loop {
            if let Err(error) = file.write_all(&page) {
                break error;
            }
        };
        assert_eq!(full.kind(), std::io::ErrorKind::StorageFull);
        let length = file.metadata().expect("a file").len();
        file.set_len(length - pages * PAGE_BYTES).expect("shorter");
    }
}

impl Drop for Ballast {
    fn drop(&mut self) {
        // There may never have been any.
        let _ = std::fs::remove_file(&self.0);
    }
}

/// How a room is written beside the core.
#[derive(Clone, Copy, Debug)]
enum Way {
    /// Pages are made, where the system does that.
    Made,
    /// They are taken one by one.
    Taken,
    /// By system calls, as where pages cannot be taken.
    Called,
}

/// Writes as the server does, but never waits.
#[derive(Debug)]
struct Rooms(RoomsView, Memory);

impl NearReader for Rooms {
    fn read(&self, position: u64, into: &mut [u8]) -> usize {
        self.1.read(position, into)
    }
}

impl NearWriter for Rooms {
    fn write(&self, position: u64, room_bytes: usize, bytes: &[u8]) -> bool {
        self.0.write(position, room_bytes, bytes).is_ok()
    }
}

fn writer(way: Way, node: &Node) -> Box<dyn NearWriter> {
    let (memory, file) = (Memory::of(node), node.memory().expect("it is in a file"));
    let rooms = match way {
        Way::Made => RoomsView::of_file(file),
        Way::Taken => {
            // What makes pages is a file, too, and there is none to be had.
            let _hogs: Vec<File> = std::iter::from_fn(|| File::open("/dev/null").ok()).collect();
            let rooms = RoomsView::of_file(file);
            assert!(rooms.as_ref().is_ok_and(|rooms| !rooms.makes_pages()));
            rooms
        }
        Way::Called => return Box::new(memory),
    };
    Box::new(Rooms(rooms.expect("a view"), memory))
}

fn described(stripe: u64, index: usize) -> ChunkDescription {
    ChunkDescription { chunk_bytes: CHUNK_BYTES as u32, ..description(stripe, index) }
}

fn data(stripe: u64, index: usize) -> Vec<u8> {
    let mut piece: Vec<u8> = (0..CHUNK_BYTES).map(|at| (at * (stripe as usize + index) % 251) as u8).collect();
    seal_piece(&mut piece, id(stripe));
    piece
}

fn parity(stripe: u64) -> Vec<u8> {
    let mut parity = vec![0; CHUNK_BYTES];
    let code = Code::reed_solomon(2, 1).expect("a code");
    code.encode(&[&data(stripe, 0), &data(stripe, 1)], &mut [&mut parity]);
    parity
}

/// A cluster whose third node has its memory in the small file system.
struct Scene {
    cluster: Cluster,
    file: Arc<File>,
    ballast: Ballast,
}

impl Scene {
    fn new(way: Way, place: &Path) -> Self {
        let mut cluster = Cluster::new();
        let config =
            NodeConfig { pace: Pace { repair_bytes_per_s: u64::MAX, scrub_bytes_per_s: 0 }, ..config(TARGET as u16) };
        let file = File::options()
            .read(true)
            .write(true)
            .create(true)
            .truncate(true)
            .open(place.join("memory"))
            .expect("made");
        let memory = MemoryFile::take(file, BootId::default(), 1, config.memory_bytes).expect("there is room");
        let core = memory.core(0).expect("there is room");
        let mut node = Node::in_memory(config, core, Now::default()).expect("a node");
        node.handle_session_opened(SESSION);
        let file = Arc::clone(node.memory().expect("it is in a file"));
        let writer = writer(way, &node);
        cluster.backgrounds[TARGET] = node.background(None, Some(writer));
        cluster.nodes[TARGET] = node;
        let hello = Hello { version: PROTOCOL_VERSION, cluster: CLUSTER, core: 0, owner: 6, epoch: Epoch(3) };
        cluster.tell(TARGET, &NodeRequest::Hello(hello));
        cluster.tell(TARGET, &NodeRequest::Fence { partition: 2, epoch: Epoch(3), next: StripeId::default() });
        for (stripe, index) in (11..=14).flat_map(|stripe| [(stripe, 0), (stripe, 1)]) {
            let bytes = &data(stripe, index);
            cluster.tell(index, &NodeRequest::Install { description: described(stripe, index), bytes });
        }
        Scene { cluster, file, ballast: Ballast(place.join("ballast")) }
    }

    /// What came of it.
    fn rebuild(&mut self, stripe: u64) -> Result<(), Refusal> {
        let source = |index: u8| Source { index, core: 0, node: NodeId(index.into()), position: None };
        let sources = vec![source(0), source(1)];
        let before = self.cluster.outcomes.len();
        self.cluster.tell(TARGET, &NodeRequest::Rebuild { description: described(stripe, TARGET), sources });
        self.cluster.carry_out(&as_it_is);
        assert_eq!(self.cluster.outcomes.len(), before + 1, "there is an answer");
        self.cluster.outcomes[before].map_err(|(refusal, _)| refusal)
    }

    fn assert_holds(&mut self, stripe: u64) {
        let (op, length) = (OpNumber(0), CHUNK_BYTES as u32);
        let read = NodeRequest::ReadRange { stripe: id(stripe), offset: 0, length, op };
        assert!(self.cluster.tell(TARGET, &read) == parity(stripe), "stripe {stripe}");
    }

    /// What the node counts, and what its file takes.
    fn used(&self) -> (u64, u64) {
        let node = &self.cluster.nodes[TARGET];
        node.check_invariants();
        (node.used_bytes(), self.file.metadata().expect("a file").blocks() * 512)
    }
}

/// Every room of the node is asked for and given up more than once.
fn refuses_what_there_is_no_room_for(way: Way, place: &Path) {
    let mut scene = Scene::new(way, place);
    assert_eq!(scene.rebuild(11), Ok(()));
    let before = scene.used();
    assert_eq!(before.0, BLOCK_BYTES);
    // The last page of the room may be the one that is not to be had.
    for pages in (0..BLOCK_PAGES).chain((0..BLOCK_PAGES).rev()) {
        scene.ballast.leave(pages);
        assert_eq!(scene.rebuild(12), Err(Refusal::OutOfMemory), "{way:?}: {pages} pages are left");
        assert_eq!(scene.used(), before, "{way:?}: {pages} pages are left");
        scene.assert_holds(11);
    }
    scene.ballast.leave(BLOCK_PAGES);
    assert_eq!(scene.rebuild(12), Ok(()), "{way:?}: as much as it takes");
    let used = scene.used();
    assert_eq!(used, (before.0 + BLOCK_BYTES, before.1 + BLOCK_BYTES), "{way:?}");
    assert_eq!(scene.rebuild(13), Err(Refusal::OutOfMemory), "{way:?}");
    assert_eq!(scene.used(), used, "{way:?}");
    let (up_to, partition) = (Configuration::END, PartitionId(2));
    scene.cluster.tell(TARGET, &NodeRequest::Free { first: id(11), count: 1, partition, epoch: Epoch(3), up_to });
    assert_eq!(scene.rebuild(14), Ok(()), "{way:?}: in place of what was freed");
    [12, 14].into_iter().for_each(|stripe| scene.assert_holds(stripe));
    assert_eq!(scene.used(), used, "{way:?}");
}

#[test]
fn what_is_rebuilt_on_a_full_file_system_is_refused_and_costs_nothing() {
    with_a_small_file_system("what_is_rebuilt_on_a_full_file_system_is_refused_and_costs_nothing", |place| {
        [Way::Made, Way::Taken, Way::Called].into_iter().for_each(|way| refuses_what_there_is_no_room_for(way, place));
    });
}

/// What is told is what owners choose nodes by.
fn tells_what_there_is(place: &Path) {
    let mut scene = Scene::new(Way::Called, place);
    let room = |scene: &Scene| {
        let node = &scene.cluster.nodes[TARGET];
        node.check_invariants();
        assert_eq!(node.chunk_room_bytes() + node.chunk_taken_bytes(), 15 * BLOCK_BYTES);
        node.chunk_room_bytes()
    };
    assert_eq!(room(&scene), 15 * BLOCK_BYTES);
    scene.ballast.leave(BLOCK_PAGES);
    assert_eq!(scene.rebuild(11), Ok(()));
    assert_eq!(room(&scene), 14 * BLOCK_BYTES, "nobody knows yet");
    assert_eq!(scene.rebuild(12), Err(Refusal::OutOfMemory));
    assert!(scene.cluster.nodes[TARGET].is_short_of_pages());
    assert_eq!(room(&scene), 0);
    let (up_to, partition) = (Configuration::END, PartitionId(2));
    scene.cluster.tell(TARGET, &NodeRequest::Free { first: id(11), count: 1, partition, epoch: Epoch(3), up_to });
    assert_eq!(room(&scene), BLOCK_BYTES, "its pages are there");
    assert_eq!(scene.rebuild(13), Ok(()));
    assert_eq!(room(&scene), 0);
    let turn = |scene: &mut Scene, mono_us| {
        scene.cluster.nodes[TARGET].end_turn(Now { mono_us, ..Now::default() });
        (room(scene), scene.cluster.nodes[TARGET].poll_deadline())
    };
    assert_eq!(turn(&mut scene, 5), (0, Some(5 + PAGES_ASK_US)));
    assert_eq!(turn(&mut scene, 5 + PAGES_ASK_US), (0, Some(5 + 2 * PAGES_ASK_US)), "it is full");
    scene.ballast.leave(4 * BLOCK_PAGES);
    assert_eq!(turn(&mut scene, 4 + 2 * PAGES_ASK_US), (0, Some(5 + 2 * PAGES_ASK_US)));
    assert_eq!(turn(&mut scene, 5 + 2 * PAGES_ASK_US), (14 * BLOCK_BYTES, None));
    assert_eq!(scene.rebuild(12), Ok(()));
    [12, 13].into_iter().for_each(|stripe| scene.assert_holds(stripe));
}

#[test]
fn a_node_whose_file_system_is_full_has_no_room_until_it_is_not() {
    with_a_small_file_system("a_node_whose_file_system_is_full_has_no_room_until_it_is_not", tells_what_there_is);
}

#[test]
fn what_a_file_system_lacks_is_known_beforehand() {
    with_a_small_file_system("what_a_file_system_lacks_is_known_beforehand", |place| {
        let options = File::options().read(true).write(true).create(true).truncate(false).open(place.join("memory"));
        let memory = MemoryFile::take(options.expect("made"), BootId::default(), 1, 1 << 20).expect("there is room");
        assert_eq!(memory.lacking_bytes().expect("told"), 0);
        let ballast = Ballast(place.join("ballast"));
        let lacks = |pages| {
            ballast.leave(pages);
            memory.lacking_bytes().expect("told")
        };
        let file_bytes = place.join("memory").metadata().expect("a file").len();
        assert_eq!(lacks(3), file_bytes - PAGE_BYTES - 3 * PAGE_BYTES, "its first page is there");
        assert_eq!(lacks(file_bytes / PAGE_BYTES - 2), PAGE_BYTES);
        assert_eq!(lacks(file_bytes / PAGE_BYTES - 1), 0);
    });
}
