//! The load generator by itself: `cargo run --release -p shorttail-bench --example load -- --help`.

use clap::Parser;
use shorttail_bench::load::{LoadOptions, run};

#[derive(Parser)]
#[command(about = "Puts load on a memcached or Redis server and checks every answer.")]
struct Flags {
    #[command(flatten)]
    options: LoadOptions,
}

fn main() -> anyhow::Result<()> {
    run(Flags::parse().options)
}
