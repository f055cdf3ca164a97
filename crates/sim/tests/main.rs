//! Simulated clusters. One program, as each one more takes seconds to link, and so that no file's tests wait for those
//! of another.

mod alike;
mod bounds;
mod coordinated;
mod coordinators;
mod corruption;
mod detect;
mod flush_later;
mod flushes_shared;
mod full;
mod groups;
mod hung;
mod hurt_messages;
mod members;
mod memory_file;
mod moves_half_told;
mod moves_not_made;
mod near;
mod outlived;
mod pieces;
mod placement;
mod repair;
mod rings;
mod rules;
mod seeds;
mod slow;
mod strategies;
mod stuck;
mod witnesses;

#[test]
fn every_file_here_is_one_of_these() {
    let listed = include_str!("main.rs");
    for entry in std::fs::read_dir(concat!(env!("CARGO_MANIFEST_DIR"), "/tests")).expect("this directory") {
        let name = entry.expect("an entry").file_name().into_string().expect("text");
        let module = name.trim_end_matches(".rs");
        assert!(module == "main" || listed.contains(&format!("\nmod {module};\n")), "nobody runs {name}");
    }
}
