//! Locks between the threads of one process.

use std::sync::{Mutex, MutexGuard, PoisonError};

/// A lock that a panic poisoned is used on: what ours guard is plain data, valid after every statement.
pub(crate) fn lock<T>(mutex: &Mutex<T>) -> MutexGuard<'_, T> {
    mutex.lock().unwrap_or_else(PoisonError::into_inner)
}
