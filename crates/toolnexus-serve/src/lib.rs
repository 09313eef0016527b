//! A toolkit on a listener of its own.
