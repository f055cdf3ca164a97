//! Simulator: the roles' own state machines under one seed, and the checker of histories.
//!
//! One seed is one run: [`rng`] draws, [`schedule`] orders, [`network`] carries, [`trace`] proves that two runs were
//! the same. [`history`] holds what clients saw, and [`checker`] judges it against [`model`]. [`scenario`] has the
//! words of scripted runs. [`detect`] experiments with the request monitor alone.
//!
//! Must not know: sockets, the operating system's randomness. Clocks and threads are for [`cli`] and [`progress`]
//! alone.

pub mod checker;
pub mod cli;
pub mod command_of_model;
pub mod config;
pub mod detect;
pub mod export;
pub mod faults_slow;
pub mod history;
pub mod judge;
pub mod limits;
pub mod lines;
pub mod model;
pub mod network;
pub mod node_state;
pub mod progress;
pub mod rng;
pub mod scenario;
pub mod schedule;
pub mod trace;
pub mod workload;
pub mod world;
