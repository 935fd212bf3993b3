//! `iolane completions` and `iolane man`: files that packages install with the program; `iolane fio`, a page of the
//! documentation.

use crate::arguments;
use crate::outcome::Outcome;
use crate::output;

pub(crate) fn completions(shell: clap_complete::Shell) -> anyhow::Result<Outcome> {
    let mut script = Vec::new();
    clap_complete::generate(shell, &mut arguments::command(), "iolane", &mut script);
    output::print(&String::from_utf8_lossy(&script))?;
    Ok(Outcome::Done)
}

pub(crate) fn fio_job_files() -> anyhow::Result<Outcome> {
    output::print(&arguments::manual::fio_job_files())?;
    Ok(Outcome::Done)
}

pub(crate) fn page() -> anyhow::Result<Outcome> {
    let mut page = Vec::new();
    clap_mangen::Man::new(arguments::command()).render(&mut page)?;
    output::print(&String::from_utf8_lossy(&page))?;
    Ok(Outcome::Done)
}
