//! Studies as data: the factors they vary, the figures they draw, and the published claims they decide. Read from TOML;
//! the built-in studies are TOML files too. Nothing here opens a target or runs anything.

mod arm;
mod arms;
mod builtin;
mod claim;
mod factor;
mod figure;
mod file;
mod group;
mod latency_bound;
mod metric;
mod percentile;
mod scale;
mod selection;
mod study;
mod survey;
mod validate;
mod values;

pub use arm::{Arm, IOPS};
pub use builtin::{BUILT_IN, BuiltIn, built_in};
pub use claim::{Check, Claim, Need, Operand, PublishedValue, Rule, Take};
pub use factor::{Factor, FactorValue};
pub use figure::{AxisScale, Figure, PublishedPoint};
pub use group::{Cores, Drives, Group, NamedPath};
pub use latency_bound::LatencyBound;
pub use metric::{Metric, Requests};
pub use percentile::Percentile;
pub use scale::{PerScale, Scale};
pub use selection::{Condition, Selection};
pub use study::{Lengths, Study};
pub use survey::{Survey, all_paths};

#[cfg(test)]
mod tests;
