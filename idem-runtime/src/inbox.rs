//! Consumers: a message is processed once.
