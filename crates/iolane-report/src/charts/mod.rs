//! Every chart of a study as plain data: axes, lines, points with their intervals, published points. Made from a results
//! folder; the page, the pictures and the tables show them. Nothing here draws.

mod axes;
mod chart;
mod compared;
mod cost;
mod figures;
mod id;
mod latency;
mod load;
mod predicted;
mod rate_curve;
mod study;
mod survey;
#[cfg(test)]
mod tests;
mod timeline;
mod unit;

pub use chart::{Axis, AxisKind, Chart, ChartKind, ChartSection, Charts, Line, Mark, NotDrawn, PublishedPoint};
pub use compared::compared;
pub use predicted::predicted;
pub use unit::Unit;
