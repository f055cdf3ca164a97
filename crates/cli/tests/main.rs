//! The program, as processes. One program of tests, as each one more takes seconds to link, and so that what one waits
//! for costs no other.

mod apart;
mod chaos;
mod cluster;
mod crowd;
mod domains;
mod ends;
mod files;
mod gateways;
mod hung;
mod members;
mod memory_file;
mod near;
mod passwords;
mod processes;
mod up;

#[test]
fn every_file_here_is_one_of_these() {
    let listed = include_str!("main.rs");
    for entry in std::fs::read_dir(concat!(env!("CARGO_MANIFEST_DIR"), "/tests")).expect("this directory") {
        let name = entry.expect("an entry").file_name().into_string().expect("text");
        let module = name.trim_end_matches(".rs");
        let is_other = module == "main" || module == "tidy";
        assert!(is_other || listed.contains(&format!("\nmod {module};\n")), "nobody runs {name}");
    }
}
