//! What a cluster says about itself: `GET /status` on its admin address, over a blocking socket.
//!
//! HTTP/1.0, because its answer ends where the connection ends.

use std::io::{Read, Write};
use std::net::{TcpStream, ToSocketAddrs};
use std::time::Duration;

use anyhow::{Context, bail, ensure};
use serde::Deserialize;

use crate::limits::{HTTP_ANSWER_BYTES_MAX, HTTP_TIMEOUT_SECONDS};

/// The part of the status that measurements use.
#[derive(Clone, Debug, PartialEq, Deserialize)]
pub struct Status {
    /// For example `rs:4+2`.
    pub code: String,
    pub objects: u64,
    pub bytes_stored: u64,
    pub bytes_used: u64,
    pub nodes: Vec<NodeStatus>,
    pub gateways: Vec<GatewayStatus>,
    #[serde(default)]
    pub repair: RepairStatus,
}

/// How far repair is.
#[derive(Clone, Copy, Debug, Default, PartialEq, Deserialize)]
pub struct RepairStatus {
    pub chunks_missing: u64,
    pub chunks_rebuilt_total: u64,
    pub bytes_rebuilt_total: u64,
}

#[derive(Clone, Debug, PartialEq, Deserialize)]
pub struct NodeStatus {
    pub id: u64,
    pub pid: u32,
    pub state: String,
    /// Some gateway goes round it because it is abnormally slow.
    #[serde(default)]
    pub fail_slow: bool,
    /// How long it was so until now, microseconds.
    #[serde(default)]
    pub flagged_us: u64,
    /// Writes placed on it because another node was slow or down.
    #[serde(default)]
    pub redirect_count: u64,
}

#[derive(Clone, Debug, PartialEq, Deserialize)]
pub struct GatewayStatus {
    pub pid: u32,
    pub memcached: Option<String>,
    pub redis: Option<String>,
    #[serde(default)]
    pub admin: Option<String>,
    #[serde(default = "yes")]
    pub serving: bool,
    /// What it owns, one owner each.
    #[serde(default)]
    pub tenures: Vec<TenureStatus>,
}

#[derive(Clone, Copy, Debug, PartialEq, Deserialize)]
pub struct TenureStatus {
    pub epoch: u64,
}

/// A gateway that says nothing of it serves.
fn yes() -> bool {
    true
}

impl Status {
    /// Asks the admin address, given as HOST:PORT.
    ///
    /// # Errors
    /// Nobody answers there, or not with a status.
    pub fn get(admin: &str) -> anyhow::Result<Self> {
        let body = http_get(admin, "/status")?;
        serde_json::from_slice(&body).with_context(|| format!("the status of {admin} is not as expected"))
    }

    /// Ids of the nodes that some gateway goes round because they are slow.
    pub fn fail_slow(&self) -> Vec<u64> {
        self.nodes.iter().filter(|node| node.fail_slow).map(|node| node.id).collect()
    }

    /// (k + m) / k of the cluster's code: bytes that a byte costs at least.
    ///
    /// # Errors
    /// The code's name has no such numbers.
    pub fn redundancy(&self) -> anyhow::Result<f64> {
        code_redundancy(&self.code)
    }
}

/// (k + m) / k of `rs:k+m`, and as much of `lrc:k+l+g`.
///
/// # Errors
/// The name is of another shape.
pub fn code_redundancy(code: &str) -> anyhow::Result<f64> {
    let shape = code.rsplit(':').next().unwrap_or(code);
    let numbers: Option<Vec<u32>> = shape.split('+').map(|number| number.parse().ok()).collect();
    match numbers.as_deref() {
        Some([data, parities @ ..]) if *data > 0 && !parities.is_empty() => {
            Ok(f64::from(data + parities.iter().sum::<u32>()) / f64::from(*data))
        }
        _ => bail!("code `{code}` is not of the form rs:K+M or lrc:K+L+G"),
    }
}

/// The body of an answer to GET.
///
/// # Errors
/// Nobody answers, or not with success.
pub fn http_get(address: &str, path: &str) -> anyhow::Result<Vec<u8>> {
    let timeout = Duration::from_secs(HTTP_TIMEOUT_SECONDS);
    let mut resolved = address.to_socket_addrs().with_context(|| format!("{address} is no address"))?;
    let first = resolved.next().with_context(|| format!("{address} has no address"))?;
    let mut stream =
        TcpStream::connect_timeout(&first, timeout).with_context(|| format!("cannot connect to {address}"))?;
    stream.set_read_timeout(Some(timeout))?;
    stream.set_write_timeout(Some(timeout))?;
    let request = format!("GET {path} HTTP/1.0\r\nHost: {address}\r\nConnection: close\r\n\r\n");
    stream.write_all(request.as_bytes()).with_context(|| format!("cannot ask {address}"))?;
    let mut answer = Vec::new();
    let read = stream.take(HTTP_ANSWER_BYTES_MAX + 1).read_to_end(&mut answer);
    read.with_context(|| format!("no answer from {address}"))?;
    ensure!(answer.len() as u64 <= HTTP_ANSWER_BYTES_MAX, "{address} answers more than {HTTP_ANSWER_BYTES_MAX} bytes");
    body_of(&answer).with_context(|| format!("GET {path} of {address}")).map(<[u8]>::to_vec)
}

fn body_of(answer: &[u8]) -> anyhow::Result<&[u8]> {
    const HEADERS_END: &[u8] = b"\r\n\r\n";
    let end = answer.windows(HEADERS_END.len()).position(|window| window == HEADERS_END);
    let end = end.context("the answer is not HTTP")?;
    let head = String::from_utf8_lossy(&answer[..end]);
    let status = head.split_ascii_whitespace().nth(1).unwrap_or("nothing");
    ensure!(head.starts_with("HTTP/1.") && status == "200", "the answer is `{}`", head.lines().next().unwrap_or(""));
    Ok(&answer[end + HEADERS_END.len()..])
}

#[cfg(test)]
mod tests {
    use std::net::TcpListener;

    use super::*;

    /// Answers one connection with `answer` and returns its address.
    fn serve(answer: &'static str) -> (String, std::thread::JoinHandle<()>) {
        let listener = TcpListener::bind("127.0.0.1:0").expect("a free port");
        let address = listener.local_addr().expect("bound").to_string();
        let server = std::thread::spawn(move || {
            let (mut stream, _) = listener.accept().expect("a client");
            let mut request = [0; 512];
            assert!(stream.read(&mut request).expect("a request") > 0);
            stream.write_all(answer.as_bytes()).expect("the client reads");
        });
        (address, server)
    }

    #[test]
    fn a_status_is_read_and_more_fields_do_no_harm() {
        let (address, server) = serve(
            "HTTP/1.1 200 OK\r\ncontent-type: application/json\r\n\r\n{\"code\":\"rs:8+2\",\"objects\":3,\"bytes_stored\":100,\
             \"bytes_used\":130,\"nodes\":[{\"id\":1,\"pid\":7,\"address\":\"a\",\"state\":\"normal\",\"new\":1,\
             \"fail_slow\":true}],\
             \"gateways\":[{\"id\":0,\"pid\":8,\"memcached\":\"127.0.0.1:1\",\"redis\":null,\"admin\":\"x\"}]}",
        );
        let status = Status::get(&address).expect("a status");
        server.join().expect("served");
        assert_eq!((status.objects, status.nodes[0].pid, status.gateways[0].redis.clone()), (3, 7, None));
        assert_eq!(status.fail_slow(), [1]);
        assert_eq!(status.redundancy().expect("rs:8+2"), 1.25);
    }

    #[test]
    fn an_error_of_the_server_is_told() {
        let (address, server) = serve("HTTP/1.1 503 Service Unavailable\r\n\r\n");
        let error = format!("{:#}", Status::get(&address).expect_err("no status"));
        server.join().expect("served");
        assert!(error.contains("503") && error.contains(&address), "{error}");
    }

    #[test]
    fn codes_without_numbers_are_refused() {
        assert_eq!(code_redundancy("rs:4+2").expect("good"), 1.5);
        assert_eq!(code_redundancy("lrc:12+2+1").expect("good"), 1.25);
        assert!(code_redundancy("rs:0+2").is_err());
        assert!(code_redundancy("mirror").is_err());
    }
}
