//! Child processes: started in a group of their own, killed whole, always reaped.
