//! A ring between two threads, as between two processes.

use shorttail_store::{RingReader, RingWriter};
use shorttail_units::PartitionId;

const ONE: PartitionId = PartitionId(1);

/// One thread puts, one takes, and closes at some moment: what was put before that counts, and comes.
#[test]
fn what_counts_is_taken_whenever_the_ring_is_closed() {
    for round in 0..200_u64 {
        let mut reader = RingReader::new().expect("a ring");
        reader.give_room(reader.missing_room_bytes());
        let mut writer = RingWriter::open(reader.file()).expect("the other end");
        let putting =
            std::thread::spawn(move || (0..2000_u64).take_while(|it| writer.put(ONE, &it.to_le_bytes())).count());
        let (mut message, mut count) = (Vec::new(), 0);
        let mut take = |reader: &mut RingReader| {
            let is_there = reader.take(&mut message).expect("messages").is_some();
            if is_there {
                assert_eq!(message, u64::to_le_bytes(count), "in order");
                count += 1;
                let missing = reader.missing_room_bytes();
                reader.give_room(missing);
            }
            is_there
        };
        for _ in 0..round * 10 {
            take(&mut reader);
        }
        if round % 2 == 0 {
            reader.close()
        } else {
            reader.close_to(ONE)
        }
        while take(&mut reader) {}
        let put = putting.join().expect("it ends");
        assert!(count >= put as u64, "{count} of {put} came");
    }
}
