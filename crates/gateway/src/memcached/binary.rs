//! The refusal of memcached's deprecated binary protocol, in its own form so that its clients can show it.

/// First byte of a binary request.
pub const REQUEST_MAGIC: u8 = 0x80;
/// Bytes of a binary header.
pub const HEADER_BYTES: usize = 24;

const RESPONSE_MAGIC: u8 = 0x81;
const STATUS_NOT_SUPPORTED: u16 = 0x83;
const TEXT: &[u8] = b"The binary protocol is not supported: use the text or meta protocol";

/// The error response to the request whose header is `header`.
///
/// ```text
/// magic  opcode  key  extras  type  status  body  opaque  cas
///   1      1      2     1      1      2      4      4      8
/// ```
pub fn refusal(header: &[u8; HEADER_BYTES]) -> Vec<u8> {
    let mut response = vec![0; HEADER_BYTES];
    response[0] = RESPONSE_MAGIC;
    response[1] = header[1];
    response[6..8].copy_from_slice(&STATUS_NOT_SUPPORTED.to_be_bytes());
    let body_bytes = u32::try_from(TEXT.len()).expect("a short text");
    response[8..12].copy_from_slice(&body_bytes.to_be_bytes());
    response[12..16].copy_from_slice(&header[12..16]);
    response.extend_from_slice(TEXT);
    response
}
