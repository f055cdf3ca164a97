//! Erasure codes over GF(2^8): generator matrices, encoding, folding, decoding, kernels.
