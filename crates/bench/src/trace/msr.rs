//! The block traces of MSR Cambridge.
//!
//! Source: Narayanan et al., "Write off-loading" (FAST 2008), and the README of the traces: lines of
//! `Timestamp,Hostname,DiskNumber,Type,Offset,Size,ResponseTime`, without a header; Type is Read or Write, Offset and
//! Size are bytes, times are in units of 100 ns.

use super::BlockRequest;

/// One line; none if it is not of this format.
pub fn parse_line(line: &str) -> Option<BlockRequest> {
    let mut fields = line.split(',').map(str::trim);
    fields.next()?.parse::<u64>().ok()?;
    let (_host, _disk) = (fields.next()?, fields.next()?.parse::<u32>().ok()?);
    let is_read = match fields.next()? {
        kind if kind.eq_ignore_ascii_case("read") => true,
        kind if kind.eq_ignore_ascii_case("write") => false,
        _ => return None,
    };
    let (offset_bytes, bytes) = (fields.next()?.parse().ok()?, fields.next()?.parse().ok()?);
    fields.next()?.parse::<u64>().ok()?;
    fields.next().is_none().then_some(BlockRequest { offset_bytes, bytes, is_read })
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn reads_and_writes_are_told_apart() {
        let read = "128166372003061629,usr,1,Read,7014609920,24576,41286";
        assert_eq!(parse_line(read), Some(BlockRequest { offset_bytes: 7_014_609_920, bytes: 24_576, is_read: true }));
        assert_eq!(parse_line(&read.replace("Read", "write")).map(|request| request.is_read), Some(false));
    }

    #[test]
    fn what_is_no_request_is_refused() {
        for line in ["", "1,usr,1,Erase,0,1,1", "1,usr,1,Read,-1,1,1", "1,usr,1,Read,0,1", "1,usr,1,Read,0,1,1,1"] {
            assert_eq!(parse_line(line), None, "{line}");
        }
    }
}
