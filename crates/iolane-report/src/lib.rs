//! Results for people: charts as data, HTML pages, pictures, a summary and CSV tables. The command line calls it with results
//! that `iolane-study` loaded. It measures nothing and decides nothing.
#![forbid(unsafe_code)]

pub mod chart_style;
pub mod charts;
pub mod drawing;
mod facts;
mod page;
mod rerun;
mod summary;
mod tables;
mod text;

pub use facts::provenance;
pub use page::{PAGE_FILE, compare_page, page, predict_page};
pub use summary::summary;
pub use tables::{CsvFile, tables};
