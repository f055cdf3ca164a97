//! The measurements by themselves: `cargo run --release -p shorttail-bench --example bench -- load --help`.
//!
//! Where a cluster is started, `--binary` must name the shorttail program.

use clap::Parser;

#[derive(Parser)]
#[command(about = "Measures memcached, Redis and ShortTail.")]
struct Flags {
    #[command(subcommand)]
    command: shorttail_bench::Command,
}

fn main() -> anyhow::Result<()> {
    Flags::parse().command.run()
}
