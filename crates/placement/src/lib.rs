//! Which nodes hold the chunks of a stripe.
