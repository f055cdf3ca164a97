//! `shorttail bench codes`: our erasure codes beside ISA-L's, in one run on the same bytes.
//!
//! Counted is the time of one call that encodes a stripe, or that decodes as many lost chunks as the code can. The two
//! contestants take turns, round by round, and the median turn of each is compared. What can be prepared is: ISA-L's
//! tables are expanded and our plan is looked up before; the look-up is timed on its own. Both must have given the same
//! bytes, or there is no report.
//!
//! Must not know of the store: this measures `codes` alone.

use std::ffi::{c_int, c_uchar};
use std::hint::black_box;
use std::time::{Duration, Instant};

use anyhow::{Context as _, bail, ensure};
use libloading::Library;
use serde::Serialize;
use shorttail_codes::{Code, Kernel};

use crate::median::median;

/// Smallest chunk: ISA-L's fast paths begin here.
const CHUNK_BYTES_MIN: usize = 64;
/// Largest chunk: 80 of them still fit a small machine.
const CHUNK_BYTES_MAX: usize = 1 << 23;
const ROUNDS_MAX: usize = 10_001;
/// Length of one contestant's turn: long beside the clock's resolution, and so short that the median turn is not one
/// that another process cut in two.
const TURN: Duration = Duration::from_micros(200);
/// Between chunks, so that chunks of a power of two do not compete for the same cache lines.
const CHUNK_GAP_BYTES: usize = 192;
const ALIGNMENT_BYTES: usize = 64;

/// Compare our erasure codes with ISA-L's
#[derive(clap::Args, Debug, Clone)]
pub struct CodesOptions {
    /// Codes to measure
    #[arg(long = "code", value_name = "rs:K+M", value_delimiter = ',', default_values = ["rs:8+2", "rs:10+4"])]
    codes: Vec<Code>,
    /// Chunk sizes to measure, in bytes
    #[arg(long, value_name = "BYTES", value_delimiter = ',', default_values_t = [512, 4096, 65536])]
    chunk_bytes: Vec<usize>,
    /// Turns of each contestant, of a fifth of a millisecond each
    #[arg(long, default_value_t = 301)]
    rounds: usize,
    /// Use this kernel of ours instead of the fastest: avx512-gfni, avx2-gfni, avx2, neon, plain
    #[arg(long)]
    kernel: Option<Kernel>,
    /// ISA-L's shared library
    #[arg(long, value_name = "FILE", default_value = "libisal.so.2")]
    isal: String,
    /// Print one JSON object instead of a table
    #[arg(long)]
    json: bool,
}

/// Everything that was measured, and on what.
#[derive(Serialize, Debug)]
struct Report {
    processor: String,
    kernel: String,
    /// The library's file; null if there is none.
    isal: Option<String>,
    rounds: usize,
    rows: Vec<Row>,
    plans: Vec<PlanRow>,
}

/// What it costs to find a plan that was made before.
#[derive(Serialize, Debug)]
struct PlanRow {
    code: String,
    /// Median of one look-up for the decoding that is measured.
    look_up_ns: f64,
}

#[derive(Serialize, Debug)]
struct Row {
    code: String,
    chunk_bytes: usize,
    operation: Operation,
    /// Median of one call.
    ours_ns: f64,
    isal_ns: Option<f64>,
    /// Our time divided by ISA-L's.
    ratio: Option<f64>,
    /// Bytes read by our calls in a second, in units of 10^9.
    ours_source_gb_per_s: f64,
}

#[derive(Serialize, Clone, Copy, PartialEq, Eq, Debug)]
#[serde(rename_all = "lowercase")]
enum Operation {
    Encode,
    Decode,
}

/// Measures, and prints what came out.
///
/// # Errors
/// Options without sense, a kernel that this processor lacks, or results that differ from ISA-L's.
pub fn run(options: CodesOptions) -> anyhow::Result<()> {
    check(&options)?;
    let isal = match Isal::load(&options.isal) {
        Ok(isal) => Some(isal),
        Err(error) => {
            eprintln!("{error:#}; measuring ours alone");
            eprintln!("to compare: apt-get install libisal2 (Debian, Ubuntu), or name a library with --isal");
            None
        }
    };
    let (mut rows, mut plans) = (Vec::new(), Vec::new());
    for code in &options.codes {
        let code = options.kernel.map_or_else(|| Ok(code.clone()), |kernel| code.with_kernel(kernel))?;
        for &chunk_bytes in &options.chunk_bytes {
            for operation in [Operation::Encode, Operation::Decode] {
                rows.push(measure(&code, chunk_bytes, operation, options.rounds, isal.as_ref())?);
            }
        }
        plans.push(measure_look_up(&code, options.rounds)?);
    }
    let report = Report {
        processor: processor(),
        kernel: options.kernel.unwrap_or_else(Kernel::best).to_string(),
        isal: isal.map(|isal| isal.file),
        rounds: options.rounds,
        rows,
        plans,
    };
    if options.json {
        println!("{}", serde_json::to_string_pretty(&report)?);
    } else {
        print!("{}", table(&report));
    }
    Ok(())
}

fn check(options: &CodesOptions) -> anyhow::Result<()> {
    for &bytes in &options.chunk_bytes {
        ensure!(
            (CHUNK_BYTES_MIN..=CHUNK_BYTES_MAX).contains(&bytes),
            "--chunk-bytes must be {CHUNK_BYTES_MIN} to {CHUNK_BYTES_MAX}, not {bytes}"
        );
    }
    ensure!((1..=ROUNDS_MAX).contains(&options.rounds), "--rounds must be 1 to {ROUNDS_MAX}, not {}", options.rounds);
    match options.codes.iter().find(|code| code.parity_count() == 0) {
        Some(code) => bail!("{code} has no parities: nothing to measure"),
        None => Ok(()),
    }
}

/// One code, size and operation.
fn measure(
    code: &Code,
    chunk_bytes: usize,
    operation: Operation,
    rounds: usize,
    isal: Option<&Isal>,
) -> anyhow::Result<Row> {
    let lost: Vec<usize> = (0..code.parity_count()).collect();
    let plan = code.repair_plan(&lost, &lost)?;
    let coefficients = match operation {
        Operation::Encode => matrix(code),
        Operation::Decode => plan.coefficients.clone(),
    };
    // What the bytes are does not matter to either: any sources will do for decoding as well.
    let (source_count, output_count) = (code.data_count(), code.parity_count());
    ensure!(coefficients.len() == source_count * output_count, "{code} lost as many chunks as it can");
    let (mut source_arena, mut our_arena, mut isal_arena) = (
        Arena::new(source_count, chunk_bytes),
        Arena::new(output_count, chunk_bytes),
        Arena::new(output_count, chunk_bytes),
    );
    source_arena.fill_with_noise();
    let sources = source_arena.chunks();
    let mut outputs = our_arena.chunks_mut();
    let mut ours = || match operation {
        Operation::Encode => code.encode(black_box(&sources), &mut outputs),
        Operation::Decode => plan.decode(black_box(&sources), &mut outputs),
    };
    let mut call = isal.map(|isal| isal.prepare(&coefficients, &sources, isal_arena.chunks_mut()));
    ours();
    let turns = calls_per_turn(&mut ours);
    let (mut our_times, mut isal_times) = (Vec::new(), Vec::new());
    for _ in 0..rounds {
        our_times.push(time(turns, &mut ours));
        if let Some(call) = &mut call {
            isal_times.push(time(turns, &mut || call.run()));
        }
    }
    drop(call);
    ensure!(isal.is_none() || our_arena.chunks() == isal_arena.chunks(), "{code}: ISA-L gives other bytes");
    let ours_ns = median(our_times);
    let isal_ns = (!isal_times.is_empty()).then(|| median(isal_times));
    Ok(Row {
        code: code.to_string(),
        chunk_bytes,
        operation,
        ours_ns,
        isal_ns,
        ratio: isal_ns.map(|isal_ns| ours_ns / isal_ns),
        ours_source_gb_per_s: (source_count * chunk_bytes) as f64 / ours_ns,
    })
}

fn measure_look_up(code: &Code, rounds: usize) -> anyhow::Result<PlanRow> {
    let lost: Vec<usize> = (0..code.parity_count()).collect();
    code.repair_plan(&lost, &lost)?;
    let mut look_up = || drop(black_box(code.repair_plan(black_box(&lost), &lost)));
    let turns = calls_per_turn(&mut look_up);
    let times = (0..rounds).map(|_| time(turns, &mut look_up));
    Ok(PlanRow { code: code.to_string(), look_up_ns: median(times) })
}

fn matrix(code: &Code) -> Vec<u8> {
    let row = |parity| (0..code.data_count()).map(move |data| code.coefficient(parity, data));
    (0..code.parity_count()).flat_map(row).collect()
}

/// Calls that fill a turn.
fn calls_per_turn(call: &mut dyn FnMut()) -> u32 {
    let mut calls = 1;
    while calls < 1 << 24 {
        let start = Instant::now();
        (0..calls).for_each(|_| call());
        if start.elapsed() >= TURN {
            break;
        }
        calls *= 2;
    }
    calls
}

/// Nanoseconds of one call, from a turn of many.
fn time(calls: u32, call: &mut dyn FnMut()) -> f64 {
    let start = Instant::now();
    (0..calls).for_each(|_| call());
    start.elapsed().as_secs_f64() * 1e9 / f64::from(calls)
}

/// Chunks in one piece of memory, each aligned to a cache line.
struct Arena {
    bytes: Vec<u8>,
    start: usize,
    chunk_count: usize,
    chunk_bytes: usize,
}

impl Arena {
    fn new(chunk_count: usize, chunk_bytes: usize) -> Self {
        let stride = Self::stride(chunk_bytes);
        let bytes = vec![0; chunk_count * stride + ALIGNMENT_BYTES];
        let start = bytes.as_ptr().align_offset(ALIGNMENT_BYTES).min(ALIGNMENT_BYTES);
        Arena { bytes, start, chunk_count, chunk_bytes }
    }

    fn stride(chunk_bytes: usize) -> usize {
        chunk_bytes.next_multiple_of(ALIGNMENT_BYTES) + CHUNK_GAP_BYTES
    }

    fn fill_with_noise(&mut self) {
        let mut state = 0x9e37_79b9_7f4a_7c15_u64;
        for byte in &mut self.bytes {
            state ^= state << 13;
            state ^= state >> 7;
            state ^= state << 17;
            *byte = state.to_le_bytes()[4];
        }
    }

    fn chunks(&self) -> Vec<&[u8]> {
        let strides = self.bytes[self.start..].chunks_exact(Self::stride(self.chunk_bytes)).take(self.chunk_count);
        strides.map(|stride| &stride[..self.chunk_bytes]).collect()
    }

    fn chunks_mut(&mut self) -> Vec<&mut [u8]> {
        let stride = Self::stride(self.chunk_bytes);
        let strides = self.bytes[self.start..].chunks_exact_mut(stride).take(self.chunk_count);
        strides.map(|stride| &mut stride[..self.chunk_bytes]).collect()
    }
}

type InitTables = unsafe extern "C" fn(c_int, c_int, *const c_uchar, *mut c_uchar);
type EncodeData = unsafe extern "C" fn(c_int, c_int, c_int, *const c_uchar, *const *const c_uchar, *const *mut c_uchar);

/// ISA-L, loaded while the program runs.
struct Isal {
    init_tables: InitTables,
    encode_data: EncodeData,
    /// Where it was loaded from.
    file: String,
    /// Keeps the functions above in memory.
    _library: Library,
}

impl Isal {
    fn load(name: &str) -> anyhow::Result<Isal> {
        let cannot = || format!("cannot load ISA-L ({name})");
        // SAFETY: the user names the library; ISA-L's own initialisers only choose its functions by processor. The
        // names and types are those of its header `erasure_code.h`, unchanged since version 2.0.
        unsafe {
            let library = Library::new(name).with_context(cannot)?;
            let init_tables = *library.get::<InitTables>(b"ec_init_tables\0").with_context(cannot)?;
            let encode_data = *library.get::<EncodeData>(b"ec_encode_data\0").with_context(cannot)?;
            Ok(Isal { init_tables, encode_data, file: loaded_file(name), _library: library })
        }
    }

    /// A call that sets `outputs` to the matrix times `sources`, with everything done that can be done beforehand.
    fn prepare<'a>(&'a self, coefficients: &[u8], sources: &[&'a [u8]], outputs: Vec<&'a mut [u8]>) -> IsalCall<'a> {
        let bytes = sources.first().map_or(0, |source| source.len());
        assert!(sources.iter().all(|source| source.len() == bytes) && outputs.iter().all(|out| out.len() == bytes));
        assert_eq!(coefficients.len(), sources.len() * outputs.len());
        let mut tables = vec![0; 32 * coefficients.len()];
        let counts = [bytes, sources.len(), outputs.len()].map(|count| c_int::try_from(count).expect("bounded"));
        // SAFETY: the matrix has as many coefficients as the counts say, and ISA-L writes 32 bytes for each.
        unsafe { (self.init_tables)(counts[1], counts[2], coefficients.as_ptr(), tables.as_mut_ptr()) };
        let sources = sources.iter().map(|source| source.as_ptr()).collect();
        let outputs_mut = outputs.into_iter().map(|output| output.as_mut_ptr()).collect();
        IsalCall { isal: self, counts, tables, sources, outputs: outputs_mut }
    }
}

/// One prepared call; holds the borrow of the chunks through its lifetime.
struct IsalCall<'a> {
    isal: &'a Isal,
    /// Bytes of a chunk, sources, outputs.
    counts: [c_int; 3],
    tables: Vec<u8>,
    sources: Vec<*const u8>,
    outputs: Vec<*mut u8>,
}

impl IsalCall<'_> {
    fn run(&mut self) {
        let [bytes, source_count, output_count] = self.counts;
        // SAFETY: `prepare` checked lengths and counts, and the lifetime keeps the chunks borrowed.
        unsafe {
            (self.isal.encode_data)(
                bytes,
                source_count,
                output_count,
                black_box(self.tables.as_ptr()),
                self.sources.as_ptr(),
                self.outputs.as_ptr(),
            );
        }
    }
}

/// The file behind a library's name, whose ending tells its version; the name itself where that is not known.
fn loaded_file(name: &str) -> String {
    let maps = std::fs::read_to_string("/proc/self/maps").unwrap_or_default();
    let stem = name.rsplit('/').next().and_then(|file| file.split('.').next()).unwrap_or(name);
    let mut files = maps.lines().filter_map(|line| line.find('/').map(|path| &line[path..]));
    files.find(|path| path.rsplit('/').next().is_some_and(|file| file.starts_with(stem))).unwrap_or(name).to_owned()
}

fn processor() -> String {
    let text = std::fs::read_to_string("/proc/cpuinfo").unwrap_or_default();
    let model = text.lines().find_map(|line| line.strip_prefix("model name")?.split_once(':'));
    model.map_or_else(|| std::env::consts::ARCH.to_owned(), |(_, model)| model.trim().to_owned())
}

fn table(report: &Report) -> String {
    let mut text = format!(
        "{}, kernel {}, ISA-L {}, medians of {} rounds\n\n",
        report.processor,
        report.kernel,
        report.isal.as_deref().unwrap_or("not found"),
        report.rounds
    );
    let mut line = |cells: [&str; 7]| {
        let [code, chunk, operation, ours, isal, ratio, speed] = cells;
        text += &format!("{code:<9}{chunk:>8}  {operation:<8}{ours:>12}{isal:>12}{ratio:>12}{speed:>10}\n");
    };
    line(["code", "chunk B", "", "ours ns", "ISA-L ns", "ours/ISA-L", "GB/s"]);
    for row in &report.rows {
        let number = |value: Option<f64>, digits| value.map_or("-".to_owned(), |value| format!("{value:.digits$}"));
        let operation = if row.operation == Operation::Encode { "encode" } else { "decode" };
        line([
            &row.code,
            &row.chunk_bytes.to_string(),
            operation,
            &number(Some(row.ours_ns), 1),
            &number(row.isal_ns, 1),
            &number(row.ratio, 2),
            &number(Some(row.ours_source_gb_per_s), 1),
        ]);
    }
    text.push('\n');
    for plan in &report.plans {
        text += &format!("{}: finding a plan again takes {:.1} ns\n", plan.code, plan.look_up_ns);
    }
    text
}

#[cfg(test)]
mod tests {
    use super::*;
    use clap::Parser as _;

    #[derive(clap::Parser)]
    struct Line {
        #[command(flatten)]
        options: CodesOptions,
    }

    fn options(flags: &[&str]) -> CodesOptions {
        Line::try_parse_from([&["codes"], flags].concat()).expect("good flags").options
    }

    #[test]
    fn ours_alone_is_measured_without_isal() {
        let code = Code::parse("rs:3+2").expect("a code");
        let row = measure(&code, 100, Operation::Decode, 3, None).expect("measured");
        assert!(row.ours_ns > 0.0 && row.isal_ns.is_none() && row.ratio.is_none());
        let rows = vec![row];
        let plans = vec![measure_look_up(&code, 3).expect("measured")];
        let report = Report { processor: "any".into(), kernel: "plain".into(), isal: None, rounds: 3, rows, plans };
        assert!(table(&report).contains("ISA-L not found"));
        assert!(serde_json::to_string(&report).expect("plain data").contains(r#""operation":"decode""#));
    }

    #[test]
    fn options_without_sense_are_refused() {
        assert!(check(&options(&[])).is_ok());
        for flags in [["--chunk-bytes", "63"], ["--rounds", "0"], ["--code", "rs:4+0"]] {
            assert!(check(&options(&flags)).is_err(), "{flags:?}");
        }
        assert!(Line::try_parse_from(["codes", "--code", "rs:0+2"]).is_err());
        assert!(Isal::load("no-such-library.so").is_err());
    }

    #[test]
    fn chunks_of_an_arena_are_aligned_and_apart() {
        let arena = Arena::new(3, 100);
        let chunks = arena.chunks();
        assert_eq!(chunks.len(), 3);
        assert!(chunks.iter().all(|chunk| chunk.len() == 100 && chunk.as_ptr().addr() % ALIGNMENT_BYTES == 0));
    }
}
