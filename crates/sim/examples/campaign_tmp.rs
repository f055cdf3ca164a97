//! Temporary.
use clap::Parser;
#[derive(clap::Parser)]
struct Args {
    #[command(flatten)]
    options: shorttail_sim::command::SimOptions,
}
fn main() -> anyhow::Result<()> {
    shorttail_sim::command::run(Args::parse().options)
}
