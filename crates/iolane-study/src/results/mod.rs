//! The results of a study: `study.json`, schema `iolane.study/1`, described in `docs/schema/study.json`. Derived from
//! the rows only; the command line prints from it, and `iolane-report` draws it.

mod advice;
mod arms;
mod by_model;
mod figures;
#[doc(hidden)]
pub mod fixtures;
mod folder;
mod goal;
mod load;
mod notes;
mod rate_until;
mod reanalyze;
mod replace;
mod report;
mod skipped;

pub use advice::{Answer, Choice, REPEATS_FOR_ADVICE, Ranked, RunnerUp, Sureness, answers, ranked, sentences};
pub(crate) use advice::{best_of_each_path, by_rate, candidates, goals_of, loads};
pub use arms::{ArmReport, arm_reports};
pub use figures::{FigureReport, Point, Series};
pub use folder::{ResultsFolder, Written, write_remade, write_report};
pub use goal::Goal;
pub use load::{Loaded, load};
pub(crate) use notes::too_few;
pub use rate_until::{RateAnswer, RateUntil, Searched, load_in_words};
pub use reanalyze::{Remade, with_model, with_trace};
pub use replace::replace;
pub use report::{Asked, RECORDS_FILE, REPORT_FILE, RecordsFile, SCHEMA, StudyReport, to_json};
pub use skipped::{Skipped, skipped};
