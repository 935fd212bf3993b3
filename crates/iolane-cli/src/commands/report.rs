//! `iolane report`: the page of a study's results, or the same as images, tables and a summary. Everything is made before the
//! first file is written.

use std::ffi::OsString;
use std::path::{Path, PathBuf};

use iolane::Error;
use iolane_report::charts::Charts;
use iolane_report::{PAGE_FILE, drawing};
use iolane_study::files::{self, MadeFolders};
use iolane_study::results::{self, Loaded};
use iolane_study::run_record::TargetRecord;

use super::report_page::kept;
use super::study;
use crate::arguments::ReportArguments;
use crate::outcome::Outcome;
use crate::output::{self, Destination, complain, printable};
use crate::targets;

pub(crate) fn report(arguments: ReportArguments) -> anyhow::Result<Outcome> {
    let job = Job::of_arguments(arguments)?;
    let loaded = results::load(&job.folder)?;
    let mut made = Made { kept: kept(&loaded), ..Made::default() };
    if let Some(page) = &job.page {
        made.document(page, iolane_report::page(&loaded)?.into())?;
    }
    if let Some(summary) = &job.summary {
        made.document(summary, iolane_report::summary(&loaded).into())?;
    }
    if let Some(text) = &job.text {
        let targets: Vec<String> = loaded.document.targets.iter().map(target).collect();
        made.document(text, study::page::text(&loaded.document, &targets.join("\n")).into())?;
    }
    if let Some(folder) = &job.csv {
        let tables = iolane_report::tables(&loaded)?;
        made.folder(folder, tables.into_iter().map(|table| (table.name, table.text.into())))?;
    }
    if job.png.is_some() || job.svg.is_some() {
        images(&loaded, &job, &mut made)?;
    }
    made.write()?;
    Ok(Outcome::Done)
}

/// What `iolane report` makes.
struct Job {
    folder: PathBuf,
    page: Option<Destination>,
    summary: Option<Destination>,
    text: Option<Destination>,
    csv: Option<PathBuf>,
    png: Option<PathBuf>,
    svg: Option<PathBuf>,
}

impl Job {
    fn of_arguments(arguments: ReportArguments) -> anyhow::Result<Self> {
        let ReportArguments { folder, out, png, svg, md, text, csv } = arguments;
        let has_other =
            [&md, &text].into_iter().any(Option::is_some) || [&png, &svg, &csv].into_iter().any(Option::is_some);
        let in_folder = (!has_other).then(|| Destination::File(folder.join(PAGE_FILE)));
        let page = out.or(in_folder);
        let named = [("--out -", &page), ("--md -", &md), ("--text -", &text)];
        let printed = named.into_iter().filter(|(_, output)| **output == Some(Destination::StandardOutput));
        let printed: Vec<&str> = printed.map(|(option, _)| option).collect();
        if printed.len() > 1 {
            let cause = "standard output takes one of them";
            return Err(Error::usage(printed.join(" with "), cause).remedy("name files").into());
        }
        Ok(Self { folder, page, summary: md, text, csv, png, svg })
    }
}

/// A target as the study was given it.
fn target(record: &TargetRecord) -> String {
    targets::in_words(record)
}

fn images(loaded: &Loaded, job: &Job, made: &mut Made) -> anyhow::Result<()> {
    let (charts, from) = (Charts::new(loaded).charts, iolane_report::provenance(loaded));
    if let Some(folder) = &job.svg {
        let drawn = charts.iter().map(|chart| (format!("{}.svg", chart.id), drawing::svg(chart, &from).into()));
        made.folder(folder, drawn)?;
    }
    if let Some(folder) = &job.png {
        let drawn = charts.iter().map(|chart| Ok((format!("{}.png", chart.id), drawing::png(chart, &from)?)));
        made.folder(folder, drawn.collect::<iolane::Result<Vec<_>>>()?)?;
    }
    Ok(())
}

/// What was made, before any of it is written: if one file cannot be, none is.
#[derive(Default)]
struct Made {
    kept: Vec<OsString>,
    files: Vec<(PathBuf, Vec<u8>)>,
    /// Goes to standard output, which is then free of everything else.
    printed: Option<Vec<u8>>,
    /// Printed once everything is written.
    lines: Vec<String>,
    folders: Vec<MadeFolders>,
}

impl Made {
    fn document(&mut self, destination: &Destination, bytes: Vec<u8>) -> anyhow::Result<()> {
        match destination {
            Destination::StandardOutput => self.printed = Some(bytes),
            Destination::File(file) => {
                self.file(file.clone(), bytes)?;
                self.lines.push(printable(file));
            }
        }
        Ok(())
    }

    fn file(&mut self, file: PathBuf, bytes: Vec<u8>) -> anyhow::Result<()> {
        files::check_writable(&file, &self.kept)?;
        if self.files.iter().any(|(known, _)| std::path::absolute(known).ok() == std::path::absolute(&file).ok()) {
            let what = format!("writing {}", printable(&file));
            return Err(Error::usage(what, "two outputs would be written there").remedy("name two files").into());
        }
        self.files.push((file, bytes));
        Ok(())
    }

    fn folder(&mut self, folder: &Path, files: impl IntoIterator<Item = (String, Vec<u8>)>) -> anyhow::Result<()> {
        self.folders.push(MadeFolders::make(folder)?);
        let before = self.files.len();
        for (name, bytes) in files {
            self.file(folder.join(name), bytes)?;
        }
        self.lines.push(format!("{}: {} files", printable(folder), self.files.len() - before));
        Ok(())
    }

    fn write(self) -> anyhow::Result<()> {
        let files: Vec<(&Path, &[u8])> =
            self.files.iter().map(|(file, bytes)| (file.as_path(), bytes.as_slice())).collect();
        files::write_together(&files)?;
        match &self.printed {
            None => output::print(&self.lines.iter().map(|line| format!("{line}\n")).collect::<String>()),
            Some(bytes) => {
                output::print(&String::from_utf8_lossy(bytes))?;
                self.lines.iter().for_each(|line| complain(line));
                Ok(())
            }
        }
    }
}
