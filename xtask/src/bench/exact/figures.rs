//! The cost of one path: what exact mode measures and docs/performance.md keeps.

/// Instructions per I/O.
#[derive(Debug, Clone, PartialEq)]
pub(crate) struct Figures {
    pub(crate) path: String,
    pub(crate) depth: u32,
    pub(crate) iolane: f64,
    pub(crate) fio: f64,
}
