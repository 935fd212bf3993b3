//! Results as HTML pages that work without a network. Made from results folders; the command line writes them. Nothing is
//! computed here that study.json or the runs do not contain.

mod answers;
mod chart_figure;
mod claims;
mod compare;
mod embedded;
mod html_table;
mod loads;
mod predict;
mod shell;
mod study;
#[cfg(test)]
mod tests;

pub use compare::compare_page;
pub use predict::predict_page;
pub use study::{PAGE_FILE, page};
