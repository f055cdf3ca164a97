//! The same matrix gives the same bytes as ISA-L, a widely used library for erasure codes, where that is installed.
//!
//! Debian's package is libisal2. Without it these tests say that nothing was tested, or fail if the environment has
//! `SHORTTAIL_REQUIRE_ISAL=1`.

use std::ffi::{c_int, c_uchar};
use std::io::Write;

use libloading::{Library, Symbol};
use shorttail_codes::Code;

type InitTables = unsafe extern "C" fn(c_int, c_int, *const c_uchar, *mut c_uchar);
type EncodeData = unsafe extern "C" fn(c_int, c_int, c_int, *const c_uchar, *const *const c_uchar, *const *mut c_uchar);
type EncodeDataUpdate =
    unsafe extern "C" fn(c_int, c_int, c_int, c_int, *const c_uchar, *const c_uchar, *const *mut c_uchar);

fn isal() -> Option<Library> {
    // SAFETY: the library's initialisers only choose its functions by processor.
    match unsafe { Library::new("libisal.so.2") } {
        Ok(library) => Some(library),
        Err(error) => {
            let required = std::env::var_os("SHORTTAIL_REQUIRE_ISAL").is_some_and(|value| value == "1");
            assert!(!required, "ISA-L is required and cannot be loaded: {error}");
            // Past the harness, which keeps for itself what a test that passes prints.
            let told = format!("\nnot tested here: our codes against ISA-L ({error}); install libisal2\n");
            std::io::stderr().write_all(told.as_bytes()).expect("told");
            None
        }
    }
}

fn int(count: usize) -> c_int {
    c_int::try_from(count).expect("small")
}

/// ISA-L's expansion of a matrix of `rows` outputs by `columns` sources.
fn tables(isal: &Library, coefficients: &[u8], rows: usize, columns: usize) -> Vec<u8> {
    assert_eq!(coefficients.len(), rows * columns);
    let mut tables = vec![0; 32 * rows * columns];
    // SAFETY: the name, type and sizes are those of ISA-L's header: 32 bytes of table for each coefficient.
    unsafe {
        let init: Symbol<InitTables> = isal.get(b"ec_init_tables\0").expect("in every version");
        init(int(columns), int(rows), coefficients.as_ptr(), tables.as_mut_ptr());
    }
    tables
}

fn encode(isal: &Library, coefficients: &[u8], sources: &[&[u8]], rows: usize) -> Vec<Vec<u8>> {
    let bytes = sources[0].len();
    assert!(sources.iter().all(|source| source.len() == bytes));
    let tables = tables(isal, coefficients, rows, sources.len());
    let mut outs = vec![vec![0; bytes]; rows];
    let from: Vec<*const u8> = sources.iter().map(|source| source.as_ptr()).collect();
    let to: Vec<*mut u8> = outs.iter_mut().map(|out| out.as_mut_ptr()).collect();
    // SAFETY: as above; `from` and `to` hold as many pointers as the counts say, each to `bytes` bytes.
    unsafe {
        let encode: Symbol<EncodeData> = isal.get(b"ec_encode_data\0").expect("in every version");
        encode(int(bytes), int(sources.len()), int(rows), tables.as_ptr(), from.as_ptr(), to.as_ptr());
    }
    outs
}

fn matrix(code: &Code) -> Vec<u8> {
    let row = |parity| (0..code.data_count()).map(move |data| code.coefficient(parity, data));
    (0..code.parity_count()).flat_map(row).collect()
}

fn data(data_count: usize, bytes: usize) -> Vec<Vec<u8>> {
    let byte = |chunk: usize, column: usize| ((chunk * 131 + column * 7 + column * column / 3) % 251) as u8;
    (0..data_count).map(|chunk| (0..bytes).map(|column| byte(chunk, column)).collect()).collect()
}

const SHAPES: [(usize, usize); 9] = [(1, 1), (2, 1), (4, 2), (8, 2), (10, 4), (6, 3), (12, 5), (20, 7), (64, 16)];

#[test]
fn encoding_equals_isal() {
    let Some(isal) = isal() else { return };
    for (data_count, parity_count) in SHAPES {
        let code = Code::reed_solomon(data_count, parity_count).expect("within limits");
        for bytes in [64, 65, 100, 127, 512, 777, 4096, 10_000] {
            let data = data(data_count, bytes);
            let sources: Vec<&[u8]> = data.iter().map(Vec::as_slice).collect();
            let mut parities = vec![vec![0; bytes]; parity_count];
            code.encode(&sources, &mut parities.iter_mut().map(Vec::as_mut_slice).collect::<Vec<_>>());
            assert_eq!(parities, encode(&isal, &matrix(&code), &sources, parity_count), "{code}, {bytes} bytes");
        }
    }
}

#[test]
fn decoding_equals_isal() {
    let Some(isal) = isal() else { return };
    for (data_count, parity_count) in SHAPES {
        let code = Code::reed_solomon(data_count, parity_count).expect("within limits");
        let lost: Vec<usize> = (0..parity_count).map(|index| index * code.chunk_count() / parity_count).collect();
        let plan = code.repair_plan(&lost, &lost).expect("decodable");
        let data = data(plan.sources.len(), 600);
        let sources: Vec<&[u8]> = data.iter().map(Vec::as_slice).collect();
        let mut outs = vec![vec![0; 600]; lost.len()];
        plan.decode(&sources, &mut outs.iter_mut().map(Vec::as_mut_slice).collect::<Vec<_>>());
        assert_eq!(outs, encode(&isal, &plan.coefficients, &sources, lost.len()), "{code}");
    }
}

#[test]
fn folding_equals_isal() {
    let Some(isal) = isal() else { return };
    let code = Code::reed_solomon(10, 4).expect("within limits");
    let tables = tables(&isal, &matrix(&code), 4, 10);
    let delta = data(1, 1000).remove(0);
    for data_index in 0..10 {
        let mut ours = data(4, 1000);
        let mut theirs = ours.clone();
        for (parity_index, parity) in ours.iter_mut().enumerate() {
            code.fold(parity_index, data_index, &delta, parity);
        }
        let to: Vec<*mut u8> = theirs.iter_mut().map(|parity| parity.as_mut_ptr()).collect();
        // SAFETY: as above; `to` holds four pointers to as many bytes as `delta` has.
        unsafe {
            let update: Symbol<EncodeDataUpdate> = isal.get(b"ec_encode_data_update\0").expect("in every version");
            update(int(1000), 10, 4, int(data_index), tables.as_ptr(), delta.as_ptr(), to.as_ptr());
        }
        assert_eq!(ours, theirs, "data chunk {data_index}");
    }
}
