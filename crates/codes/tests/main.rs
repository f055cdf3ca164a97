//! Codes, from outside. One program, as each one more takes seconds to link.

mod erasures;
mod isal;
mod kernels;
mod lrc;
mod stripes;

#[test]
fn every_file_here_is_one_of_these() {
    let listed = include_str!("main.rs");
    for entry in std::fs::read_dir(concat!(env!("CARGO_MANIFEST_DIR"), "/tests")).expect("this directory") {
        let name = entry.expect("an entry").file_name().into_string().expect("text");
        let module = name.trim_end_matches(".rs");
        let is_other = module == "main";
        assert!(is_other || listed.contains(&format!("\nmod {module};\n")), "nobody runs {name}");
    }
}
