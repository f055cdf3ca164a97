//! Room for what clients of one core sent and nobody was asked yet: requests that are read in part, or that wait.
//!
//! A client may always have a little, so short requests are never held up. Beyond that all of them hold so much
//! together; who would hold more is not read, and what it sends stays with the system, which soon takes no more of it.
//!
//! ```text
//! little --more, there is room--> holds --asked for, in part or whole--> little, or holds, behind all others
//!   |                                 ^
//!   '--more, there is none----> waits-'  when there is room and nobody waits longer, or as the first that wants more
//! ```
//! The first of those that want more goes on without room, so each has its turn, however long those before it take: it
//! brings the room beyond its bound by its own request at most. While somebody waits, who holds and hardly goes on is
//! late, and is let go.
//!
//! Must not know: protocols, sockets.

use std::collections::BTreeMap;

use hashbrown::HashMap;

/// Bytes that a client may always hold: all its requests that are not large.
pub const LITTLE_BYTES: usize = 64 << 10;

/// Bytes that all clients of a gateway hold beyond that; each core has its part, and room for some large values at
/// least.
const INPUTS_BYTES_MAX: usize = 256 << 20;
const CORE_BYTES_MIN: usize = 64 << 20;

/// Bytes that a client may be read at once while there is room.
pub const READ_BYTES: usize = 256 << 10;

/// Microseconds within which who holds something goes on, while others wait, and bytes that count as that: who is on a
/// line of 100 kbit/s does.
pub const LATE_US: u64 = 10_000_000;
const STEP_BYTES: usize = 64 << 10;

#[derive(Debug)]
pub struct InputRoom {
    bytes_max: usize,
    /// Beyond the little that each may have.
    bytes: usize,
    /// Clients that hold more, or want to.
    holders: HashMap<u64, Holder>,
    /// Those of them that more input brings on, by their numbers; and those that wait for room.
    wanting: BTreeMap<u64, u64>,
    waiting: BTreeMap<u64, u64>,
    number_next: u64,
}

#[derive(Debug)]
struct Holder {
    /// Grows in the order in which they began to hold what they hold.
    number: u64,
    bytes: usize,
    wants: bool,
    waits: bool,
    /// When it last went on, and what it held then.
    since_us: u64,
    bytes_then: usize,
}

impl Holder {
    fn goes_on(&mut self, now_us: u64) {
        (self.since_us, self.bytes_then) = (now_us, self.bytes);
    }
}

impl InputRoom {
    pub fn of_core(core_count: usize) -> Self {
        Self::new((INPUTS_BYTES_MAX / core_count).max(CORE_BYTES_MIN))
    }

    pub fn new(bytes_max: usize) -> Self {
        let (holders, wanting, waiting) = (HashMap::new(), BTreeMap::new(), BTreeMap::new());
        InputRoom { bytes_max, bytes: 0, holders, wanting, waiting, number_next: 0 }
    }

    /// A client holds so many bytes now. `wants`: only more input brings it on.
    pub fn hold(&mut self, now_us: u64, client: u64, bytes: usize, wants: bool) {
        let is_little = bytes < LITTLE_BYTES || bytes == LITTLE_BYTES && !wants;
        if is_little {
            return self.leave(client);
        }
        let mut holder = self.take(client).unwrap_or_else(|| {
            let number = self.number();
            Holder { number, bytes, wants, waits: false, since_us: now_us, bytes_then: bytes }
        });
        if bytes < holder.bytes {
            // Else who always has another request to send would be the first for ever.
            holder.number = self.number();
        }
        let is_less = bytes < holder.bytes;
        (holder.bytes, holder.waits) = (bytes, holder.waits && wants);
        if is_less || wants != holder.wants || bytes >= holder.bytes_then + STEP_BYTES {
            holder.goes_on(now_us);
        }
        holder.wants = wants;
        self.put(client, holder);
    }

    /// How many bytes more of a client may be read now, which holds what was told last. 0: none; it waits, if it wants
    /// more.
    pub fn bytes_left(&mut self, now_us: u64, client: u64, held_bytes: usize) -> usize {
        let number = self.holders.get(&client).map_or(u64::MAX, |holder| holder.number);
        let is_behind = self.waiting.first_key_value().is_some_and(|(&first, _)| first < number);
        let has_room = self.bytes < self.bytes_max && !is_behind;
        let is_first = self.wanting.first_key_value().is_some_and(|(&first, _)| first == number);
        let bytes = match held_bytes {
            _ if has_room => READ_BYTES,
            held if held < LITTLE_BYTES => LITTLE_BYTES - held,
            // So that what follows its request is little again.
            _ if is_first => LITTLE_BYTES,
            _ => 0,
        };
        if let Some(mut holder) = self.take(client) {
            if holder.waits && bytes > 0 {
                holder.goes_on(now_us);
            }
            holder.waits = holder.wants && bytes == 0;
            self.put(client, holder);
        }
        bytes
    }

    pub fn waits(&self, client: u64) -> bool {
        self.holders.get(&client).is_some_and(|holder| holder.waits)
    }

    /// A client took some of its replies: one that wants no input went on.
    pub fn took(&mut self, now_us: u64, client: u64) {
        if let Some(holder) = self.holders.get_mut(&client).filter(|holder| !holder.wants) {
            holder.goes_on(now_us);
        }
    }

    /// A client holds only little, or is gone.
    pub fn leave(&mut self, client: u64) {
        if !self.holders.is_empty() {
            self.take(client);
        }
    }

    pub fn has_next(&self) -> bool {
        let first = |places: &BTreeMap<u64, u64>| places.first_key_value().map(|(&number, _)| number);
        let next = first(&self.waiting);
        next.is_some() && (self.bytes < self.bytes_max || next == first(&self.wanting))
    }

    /// Those that wait and may be read now, as many as there is room for; they keep their places until they are.
    pub fn take_next(&mut self, now_us: u64) -> Vec<u64> {
        let (mut next, mut bytes) = (Vec::new(), self.bytes);
        while self.has_next()
            && (next.is_empty() || bytes < self.bytes_max)
            && let Some((_, client)) = self.waiting.pop_first()
        {
            let holder = self.holders.get_mut(&client).expect("who waits is among them");
            holder.waits = false;
            holder.goes_on(now_us);
            bytes += READ_BYTES;
            next.push(client);
        }
        next
    }

    /// Those that hold something and did not go on for long, while others wait.
    pub fn late(&self, now_us: u64) -> Vec<u64> {
        if self.waiting.is_empty() {
            return Vec::new();
        }
        let is_late = |holder: &Holder| !holder.waits && holder.since_us + LATE_US <= now_us;
        self.holders.iter().filter(|(_, holder)| is_late(holder)).map(|(&client, _)| client).collect()
    }

    #[cfg(test)]
    pub fn bytes(&self) -> usize {
        self.bytes
    }

    fn number(&mut self) -> u64 {
        self.number_next += 1;
        self.number_next
    }

    fn take(&mut self, client: u64) -> Option<Holder> {
        let holder = self.holders.remove(&client)?;
        self.bytes -= holder.bytes - LITTLE_BYTES;
        self.wanting.remove(&holder.number);
        self.waiting.remove(&holder.number);
        Some(holder)
    }

    fn put(&mut self, client: u64, holder: Holder) {
        self.bytes += holder.bytes - LITTLE_BYTES;
        if holder.wants {
            self.wanting.insert(holder.number, client);
        }
        if holder.waits {
            self.waiting.insert(holder.number, client);
        }
        self.holders.insert(client, holder);
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    const MIB: usize = 1 << 20;

    /// Reads a client that has `sent` more, as long as it may be; answers what it holds then. No request ends.
    fn read(room: &mut InputRoom, now_us: u64, client: u64, held: usize, sent: usize) -> usize {
        let (mut held, end) = (held, held + sent);
        while held < end {
            room.hold(now_us, client, held, true);
            match room.bytes_left(now_us, client, held) {
                0 => return held,
                bytes => held = end.min(held + bytes),
            }
        }
        room.hold(now_us, client, held, true);
        held
    }

    /// A room of a mebibyte that the clients 1 to 4 fill, each with a part of what it wants.
    fn full() -> InputRoom {
        let mut room = InputRoom::new(MIB);
        for client in 1..=4 {
            assert_eq!(read(&mut room, 0, client, 0, MIB / 4 + LITTLE_BYTES), MIB / 4 + LITTLE_BYTES);
        }
        room
    }

    #[test]
    fn all_hold_so_much_and_each_its_little() {
        let mut room = InputRoom::of_core(8);
        let held: Vec<_> = (0..100).map(|client| read(&mut room, 0, client, 0, 2 * MIB)).collect();
        assert_eq!(held[..33], [2 * MIB; 33], "as much as there is room for");
        assert_eq!(held[34..], [LITTLE_BYTES; 66]);
        let beyond: usize = held.iter().map(|bytes| bytes - LITTLE_BYTES).sum();
        // The first always goes on; and one read.
        assert!((64 * MIB..=64 * MIB + READ_BYTES).contains(&(beyond)), "{beyond}");
        // Another one goes on within its little, and what waits for something else waits for no room.
        room.hold(0, 200, 1000, true);
        assert_eq!(room.bytes_left(0, 200, 1000), LITTLE_BYTES - 1000);
        room.hold(0, 201, LITTLE_BYTES + 1, false);
        assert_eq!((room.bytes_left(0, 201, LITTLE_BYTES + 1), room.waits(201)), (0, false));
        (0..300).for_each(|client| room.leave(client));
        assert_eq!((room.bytes, room.holders.len(), room.wanting.len(), room.waiting.len()), (0, 0, 0, 0));
    }

    #[test]
    fn one_goes_on_although_all_wait_for_all() {
        let mut room = full();
        let held = MIB / 4 + LITTLE_BYTES;
        for client in [4, 3, 2] {
            assert_eq!(read(&mut room, 0, client, held, MIB), held);
        }
        assert!(!room.has_next());
        assert_eq!(room.bytes_left(0, 1, held), LITTLE_BYTES, "what follows its request is little then");
        assert_eq!(read(&mut room, 0, 1, held, 9 * MIB), held + 9 * MIB, "whatever its length");
        // It is asked for. What follows is behind those that wait, however much more there is of it.
        room.hold(0, 1, LITTLE_BYTES + 1, true);
        assert_eq!((room.bytes_left(0, 1, LITTLE_BYTES + 1), room.waits(1)), (0, true));
        assert_eq!(room.take_next(0), [2], "in the order in which they began");
        assert_eq!(read(&mut room, 0, 2, held, 9 * MIB), held + 9 * MIB);
        room.leave(2);
        assert_eq!(room.take_next(0), [3, 4, 1][..2], "as there is room for");
    }

    #[test]
    fn who_goes_on_without_end_does_so_in_turn() {
        let mut room = full();
        let held = MIB / 4 + LITTLE_BYTES;
        assert_eq!(read(&mut room, 0, 2, held, 1), held);
        // The first has one request after the other, and always the beginning of another one.
        assert_eq!(read(&mut room, 0, 1, held, MIB), held + MIB);
        room.hold(0, 1, held, true);
        assert_eq!(room.take_next(0), [2]);
        assert_eq!(read(&mut room, 0, 1, held, MIB), held);
        assert_eq!(read(&mut room, 0, 2, held, MIB), held + MIB);
    }

    #[test]
    fn nobody_overtakes_who_waits_for_room() {
        let mut room = full();
        assert_eq!(read(&mut room, 0, 5, 0, MIB), LITTLE_BYTES);
        room.leave(4);
        assert!(room.has_next());
        assert_eq!(read(&mut room, 0, 6, 0, MIB), LITTLE_BYTES);
        assert_eq!(room.take_next(0), [5]);
        assert_eq!(read(&mut room, 0, 5, LITTLE_BYTES, MIB / 4), MIB / 4 + LITTLE_BYTES);
        room.leave(6);
        assert_eq!((room.has_next(), room.take_next(0)), (false, vec![]), "who is gone waits no more");
    }

    /// What waits for an owner, or for its client to read, holds its room, and nobody counts on it.
    #[test]
    fn who_wants_nothing_is_not_waited_for() {
        let mut room = full();
        let held = MIB / 4 + LITTLE_BYTES;
        (1..=3).for_each(|client| room.hold(0, client, held, false));
        assert_eq!(read(&mut room, 0, 4, held, MIB), held + MIB);
        assert_eq!(read(&mut room, 0, 5, 0, MIB), LITTLE_BYTES);
        room.hold(0, 4, held, false);
        assert_eq!(room.take_next(0), [5], "now it is the first");
        assert_eq!(read(&mut room, 0, 5, LITTLE_BYTES, MIB), MIB + LITTLE_BYTES);
    }

    #[test]
    fn who_hardly_goes_on_is_late_while_others_wait() {
        let mut room = full();
        let held = MIB / 4 + LITTLE_BYTES;
        room.hold(0, 2, held, false);
        room.hold(0, 3, held, false);
        assert!(room.late(LATE_US).is_empty(), "nobody wants their room");
        read(&mut room, LATE_US - 1, 4, held, 1);
        // Some bytes now and then are not enough; of replies any are, if nothing else is to come.
        assert_eq!(read(&mut room, LATE_US - 1, 1, held, STEP_BYTES - 1), held + STEP_BYTES - 1);
        room.took(LATE_US - 1, 1);
        room.took(LATE_US - 1, 3);
        let mut late = room.late(LATE_US);
        late.sort_unstable();
        assert_eq!((late, room.late(LATE_US - 1)), (vec![1, 2], vec![]), "who waits for room is not");
        read(&mut room, LATE_US, 1, held + STEP_BYTES - 1, 1);
        assert_eq!(room.late(LATE_US), [2]);
        room.leave(2);
        assert_eq!(room.take_next(3 * LATE_US), [4]);
        read(&mut room, 3 * LATE_US, 5, 0, MIB);
        read(&mut room, 3 * LATE_US, 6, 0, MIB);
        assert!(room.waits(6) && !room.late(3 * LATE_US).contains(&4), "its time begins when it is read");
    }

    #[test]
    fn who_is_asked_for_or_read_again_is_not_late() {
        let mut room = full();
        let held = MIB / 4 + LITTLE_BYTES;
        read(&mut room, 0, 4, held, 1);
        read(&mut room, 0, 5, 0, MIB);
        room.hold(LATE_US, 3, held - 1, true);
        room.hold(LATE_US, 2, held, false);
        assert_eq!(room.late(LATE_US), [1]);
        room.leave(1);
        assert_eq!(room.bytes_left(LATE_US, 4, held), READ_BYTES, "before it is called");
        assert_eq!(room.take_next(LATE_US), [5]);
        room.hold(LATE_US, 6, 2 * MIB, false);
        assert_eq!(read(&mut room, LATE_US, 7, 0, MIB), LITTLE_BYTES);
        assert_eq!(room.late(2 * LATE_US - 1), Vec::<u64>::new());
    }
}
