//! Derives.
