//! What the machine says about a run.
