//! Traces in files, plain or compressed by gzip; the format follows from the first line.

use std::fs::File;
use std::io::{BufRead, BufReader, Read};
use std::path::Path;

use anyhow::{Context, bail};

use super::{BlockRequest, Summary, Trace, cloudphysics, msr, usr1};
use crate::limits::TRACE_REQUESTS_MAX;

/// Reads the first `count` requests of a file, or makes them if `name` is that of the synthetic trace; all or as many
/// as are allowed if no count is given. Blocks are `align` bytes apart.
///
/// # Errors
/// There is no such file, or a line of it is of neither format.
pub fn read_trace(name: &str, count: Option<usize>, align: u64, seed: u64) -> anyhow::Result<Trace> {
    let most = count.unwrap_or(TRACE_REQUESTS_MAX).min(TRACE_REQUESTS_MAX);
    if name == usr1::NAME {
        const REQUESTS: usize = 100_000;
        let trace = Trace::new("usr_1 (synthetic)", &usr1::generate(seed, most.min(REQUESTS)), align)?;
        return Ok(Trace { summary: Summary { is_synthetic: true, ..trace.summary }, ..trace });
    }
    let path = Path::new(name);
    let requests = open(path).and_then(|lines| parse(lines, most)).with_context(|| format!("trace {name}"))?;
    let shown = path.file_name().unwrap_or_default().to_string_lossy().into_owned();
    Trace::new(&shown, &requests, align).with_context(|| format!("trace {name}"))
}

fn open(path: &Path) -> anyhow::Result<Box<dyn BufRead>> {
    const GZIP: [u8; 2] = [0x1F, 0x8B];
    let mut file = BufReader::new(File::open(path).context("cannot open it")?);
    let is_compressed = file.fill_buf().context("cannot read it")?.starts_with(&GZIP);
    let plain: Box<dyn Read> =
        if is_compressed { Box::new(flate2::bufread::MultiGzDecoder::new(file)) } else { Box::new(file) };
    Ok(Box::new(BufReader::new(plain)))
}

fn parse(lines: impl BufRead, most: usize) -> anyhow::Result<Vec<BlockRequest>> {
    let mut requests = Vec::new();
    let mut parse_line: fn(&str) -> Option<BlockRequest> = msr::parse_line;
    for (number, line) in lines.lines().enumerate() {
        let line = line.context("cannot read it")?;
        if number == 0 && line.trim() == cloudphysics::HEADER {
            parse_line = cloudphysics::parse_line;
            continue;
        }
        if requests.len() == most {
            break;
        }
        match parse_line(&line) {
            Some(request) => requests.push(request),
            None => bail!("line {} is no request: `{}`", number + 1, crate::codec::shown(line.as_bytes())),
        }
    }
    Ok(requests)
}

#[cfg(test)]
mod tests {
    use super::*;

    fn parsed(text: &str, most: usize) -> anyhow::Result<Vec<BlockRequest>> {
        parse(text.as_bytes(), most)
    }

    #[test]
    fn the_first_line_tells_the_format() {
        let block = parsed("version,time,op,size,lbn\n1,5,28,512,2\n1,5,2a,1024,3\n", 9).expect("good");
        assert_eq!((block.len(), block[1].bytes, block[1].offset_bytes), (2, 1024, 1536));
        let msr = parsed("1,usr,1,Read,4096,512,7\n2,usr,1,Write,0,512,7\n3,usr,1,Write,0,512,7\n", 2).expect("good");
        assert_eq!((msr.len(), msr[0].is_read, msr[1].is_read), (2, true, false));
    }

    #[test]
    fn a_bad_line_is_named() {
        let error = parsed("1,usr,1,Read,4096,512,7\nnonsense\n", 9).expect_err("bad").to_string();
        assert!(error.contains("line 2") && error.contains("nonsense"), "{error}");
        let missing = read_trace("/nonexistent/trace.csv", None, 4096, 1).expect_err("absent");
        assert!(format!("{missing:#}").contains("/nonexistent/trace.csv"));
    }

    #[test]
    fn the_fixture_is_read_plain_and_compressed() {
        let directory = concat!(env!("CARGO_MANIFEST_DIR"), "/tests/data");
        let plain = read_trace(&format!("{directory}/msr.csv"), None, 4096, 1).expect("our own");
        let compressed = read_trace(&format!("{directory}/msr.csv.gz"), None, 4096, 1).expect("our own");
        assert_eq!(plain.accesses, compressed.accesses);
        assert_eq!((plain.summary.requests, plain.summary.keys), (12, 5));
        assert_eq!(plain.summary.name, "msr.csv");
    }

    #[test]
    fn the_synthetic_trace_is_labelled() {
        let trace = read_trace("usr_1", Some(1000), 4096, 1).expect("made by rule");
        assert!(trace.summary.is_synthetic && trace.summary.requests == 1000);
    }
}
