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
mod leaving;
mod members;
mod memory_file;
mod near;
mod passwords;
mod processes;
mod up;
