//! The kernel that any processor can run, and the specification of the others.

use super::lanes::Job;
use crate::field::NIBBLE_PRODUCTS;

/// Runs a job, one output and one source after the other.
pub fn run(job: &mut Job<'_, '_>) {
    let source_count = job.sources.len();
    for (index, output) in job.outputs.iter_mut().enumerate() {
        if !job.accumulate {
            output.fill(0);
        }
        let coefficients = &job.coefficients[index * source_count..][..source_count];
        for (source, &coefficient) in job.sources.iter().zip(coefficients) {
            add_scaled(output, coefficient, source);
        }
    }
}

fn add_scaled(output: &mut [u8], coefficient: u8, source: &[u8]) {
    let products = &NIBBLE_PRODUCTS[usize::from(coefficient)];
    for (sum, byte) in output.iter_mut().zip(source) {
        *sum ^= products.low[usize::from(byte & 15)] ^ products.high[usize::from(byte >> 4)];
    }
}
