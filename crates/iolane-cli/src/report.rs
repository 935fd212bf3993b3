//! `iolane report`: the page of a study's results, and the same as pictures, tables and a digest. The library makes them;
//! this reads the folder, writes them and says where they are.

use std::ffi::OsString;
use std::path::{Path, PathBuf};

use iolane::Error;
use iolane_study::report::charts::Charts;
use iolane_study::report::{self, Loaded, PAGE_FILE, RECORDS_FILE, REPORT_FILE, drawing};

use crate::Outcome;
use crate::arguments::{ReportArguments, ReportOutputs};
use crate::output::{self, MadeFolders};

pub(crate) fn report(arguments: &ReportArguments) -> anyhow::Result<Outcome> {
    let ReportOutputs { png, svg, md, csv } = &arguments.others;
    let is_page_alone = [png, svg, md, csv].iter().all(|other| other.is_none());
    let page = arguments.out.clone().or_else(|| is_page_alone.then(|| arguments.folder.join(PAGE_FILE)));
    let only_one = [&page, md].into_iter().flatten().filter(|file| output::json_on_stdout(Some(file))).count() < 2;
    if !only_one {
        return Err(Error::usage("--out - with --md -", "both would go to standard output")
            .remedy("name files")
            .into());
    }
    let loaded = report::load(&arguments.folder)?;
    let mut made = Made { kept: kept(&loaded), ..Made::default() };
    if let Some(file) = page {
        made.file(file, report::page(&loaded)?.into())?;
    }
    if let Some(file) = md {
        made.file(file.clone(), report::digest(&loaded).into())?;
    }
    if let Some(folder) = csv {
        let tables = report::tables(&loaded)?;
        made.folder(folder, tables.into_iter().map(|table| (table.name, table.text.into())))?;
    }
    if png.is_some() || svg.is_some() {
        pictures(&loaded, &arguments.others, &mut made)?;
    }
    made.write()?;
    Ok(Outcome::Done)
}

fn pictures(loaded: &Loaded, asked: &ReportOutputs, made: &mut Made) -> anyhow::Result<()> {
    let (charts, from) = (Charts::new(loaded).charts, report::provenance(loaded));
    if let Some(folder) = &asked.svg {
        let drawn = charts.iter().map(|chart| Ok((format!("{}.svg", chart.id), drawing::svg(chart, &from)?.into())));
        made.folder(folder, drawn.collect::<iolane::Result<Vec<_>>>()?)?;
    }
    if let Some(folder) = &asked.png {
        let drawn = charts.iter().map(|chart| Ok((format!("{}.png", chart.id), drawing::png(chart, &from)?)));
        made.folder(folder, drawn.collect::<iolane::Result<Vec<_>>>()?)?;
    }
    Ok(())
}

/// What no report may take the place of: the targets, where they are still there, and the results themselves.
pub(crate) fn kept(loaded: &Loaded) -> Vec<OsString> {
    let targets = loaded.json["targets"].as_array().into_iter().flatten();
    let targets = targets.filter_map(|target| target["name"].as_str()).map(OsString::from);
    targets.chain([REPORT_FILE, RECORDS_FILE].map(|file| loaded.folder.join(file).into())).collect()
}

/// What was made, before any of it is written: where something cannot be, nothing is.
#[derive(Default)]
struct Made {
    kept: Vec<OsString>,
    files: Vec<(PathBuf, Vec<u8>)>,
    /// What is said once it is written.
    said: Vec<String>,
    folders: Vec<MadeFolders>,
}

impl Made {
    fn file(&mut self, file: PathBuf, bytes: Vec<u8>) -> anyhow::Result<()> {
        if !output::json_on_stdout(Some(&file)) {
            self.said.push(output::shown(&file));
        }
        self.add(file, bytes)
    }

    fn add(&mut self, file: PathBuf, bytes: Vec<u8>) -> anyhow::Result<()> {
        output::check_writable(&file, &self.kept)?;
        if self.files.iter().any(|(known, _)| std::path::absolute(known).ok() == std::path::absolute(&file).ok()) {
            let what = format!("writing {}", output::shown(&file));
            return Err(Error::usage(what, "two things are to be written there").remedy("name two files").into());
        }
        self.files.push((file, bytes));
        Ok(())
    }

    fn folder(&mut self, folder: &Path, files: impl IntoIterator<Item = (String, Vec<u8>)>) -> anyhow::Result<()> {
        self.folders.push(MadeFolders::make(folder)?);
        let before = self.files.len();
        for (name, bytes) in files {
            self.add(folder.join(name), bytes)?;
        }
        self.said.push(format!("{}: {} files", output::shown(folder), self.files.len() - before));
        Ok(())
    }

    fn write(self) -> anyhow::Result<()> {
        let (shown, files): (Vec<_>, Vec<_>) =
            self.files.iter().partition(|(file, _)| output::json_on_stdout(Some(file)));
        let files: Vec<(&Path, &[u8])> = files.iter().map(|(file, bytes)| (file.as_path(), bytes.as_slice())).collect();
        output::write_files(&files)?;
        for (_, bytes) in shown {
            output::print(&String::from_utf8_lossy(bytes))?;
        }
        for line in &self.said {
            // Standard output may be the digest's, and nothing else's.
            match self.files.iter().any(|(file, _)| output::json_on_stdout(Some(file))) {
                true => output::complain(line),
                false => output::print(&format!("{line}\n"))?,
            }
        }
        Ok(())
    }
}

/// Writes the page into the folder of a study that has just ended, and names it; where that fails, says so: the results
/// are there all the same.
pub(crate) fn page_of(folder: &Path) -> Option<PathBuf> {
    let file = folder.join(PAGE_FILE);
    let written = report::load(folder).and_then(|loaded| report::page(&loaded)).map_err(anyhow::Error::from);
    match written.and_then(|page| output::write_file(&file, page.as_bytes())) {
        Ok(()) => Some(file),
        Err(error) => {
            output::complain(&format!("iolane: the page of the results: {error}"));
            None
        }
    }
}
