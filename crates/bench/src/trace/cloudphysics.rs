//! A block trace of a virtual machine by CloudPhysics, as libCacheSim distributes it.
//!
//! Lines of `version,time,op,size,lbn` below that header: the SCSI operation in hexadecimal (28 and 88 read, 2a and 8a
//! write), bytes, and the number of the first block of 512 bytes.

use super::BlockRequest;

pub const HEADER: &str = "version,time,op,size,lbn";

const BLOCK_BYTES: u64 = 512;

/// One line; none if it is not of this format.
pub fn parse_line(line: &str) -> Option<BlockRequest> {
    let fields: Vec<&str> = line.trim_end().split(',').collect();
    let [_version, time, operation, bytes, block] = fields[..] else { return None };
    time.parse::<u64>().ok()?;
    let is_read = match operation {
        "28" | "88" => true,
        "2a" | "8a" => false,
        _ => return None,
    };
    let offset_bytes = block.parse::<u64>().ok()?.checked_mul(BLOCK_BYTES)?;
    Some(BlockRequest { offset_bytes, bytes: bytes.parse().ok()?, is_read })
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn blocks_are_of_512_bytes_and_operations_of_scsi() {
        assert_eq!(
            parse_line("1,5633898,2a,6656,40409911"),
            Some(BlockRequest { offset_bytes: 40_409_911 * 512, bytes: 6_656, is_read: false })
        );
        assert_eq!(parse_line("1,5633898,28,512,1").map(|request| request.is_read), Some(true));
        for line in [HEADER, "1,2,35,512,1", "1,2,28,512", "1,2,28,512,36028797018963968"] {
            assert_eq!(parse_line(line), None, "{line}");
        }
    }
}
