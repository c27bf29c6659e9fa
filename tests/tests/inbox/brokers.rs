//! Real brokers.
