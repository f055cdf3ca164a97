//! Simulator: the roles' own state machines under one seed, and the checker of histories.
