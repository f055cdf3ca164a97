//! `bench paper`: the experiments of the papers that ShortTail is built on, on our own system.

mod hydra;
mod shorttail;

/// Which paper.
#[derive(Clone, Debug, clap::Subcommand)]
pub enum Paper {
    Shorttail(Box<shorttail::ShorttailOptions>),
    Hydra(hydra::HydraOptions),
}

impl Paper {
    /// # Errors
    /// As the paper's module says.
    pub fn run(self) -> anyhow::Result<()> {
        match self {
            Paper::Shorttail(options) => shorttail::run(*options),
            Paper::Hydra(options) => hydra::run(&options),
        }
    }
}
