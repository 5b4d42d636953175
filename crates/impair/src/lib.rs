//! Network impairment models: loss, delay, rate, queues, reordering
#![forbid(unsafe_code)]
