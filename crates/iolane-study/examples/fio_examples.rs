//! Writes which job files of a folder run here into `docs/fio-job-files.md`, between its markers. fio's sources with its
//! examples are not part of this repository: `cargo run -p iolane-study --example fio_examples -- FIO/examples [PAGE]`.
//! Without a page it prints the table. Opens no target.

use std::error::Error;
use std::path::{Path, PathBuf};
use std::process::ExitCode;

use iolane_study::fio::{JobFile, jobs};

const BEGIN: &str = "<!-- fio's examples: begin -->\n";
const END: &str = "<!-- fio's examples: end -->";

/// What a job file needs that is not block I/O on Linux here.
const ELSEWHERE: [(&str, &str); 9] = [
    ("trim", "discard"),
    ("zonemode=zbd", "zoned devices"),
    ("zone_mgmt", "zoned devices"),
    ("cmd_type=bsg", "SCSI commands"),
    ("fdp=", "data placement of NVMe"),
    ("pi_act=", "protection information of NVMe"),
    ("write_mode=", "other NVMe commands than read and write"),
    ("atomic=", "atomic writes"),
    ("sprandom=", "preconditioning with sprandom"),
];

const ENGINES: [&str; 11] =
    ["psync", "sync", "pvsync", "pvsync2", "posixaio", "libaio", "io_uring", "io_uring_cmd", "null", "vsync", "splice"];

/// Files that prescribe a section on fio's command line.
const SECTIONS: [(&str, &str); 1] = [("xnvme-compare.fio", "default")];

enum Verdict {
    Runs,
    Elsewhere(String),
    Refused(String),
}

fn main() -> ExitCode {
    match run() {
        Ok(()) => ExitCode::SUCCESS,
        Err(error) => {
            eprintln!("fio_examples: {error}");
            ExitCode::FAILURE
        }
    }
}

fn run() -> Result<(), Box<dyn Error>> {
    let mut arguments = std::env::args_os().skip(1).map(PathBuf::from);
    let folder = arguments.next().ok_or("name the folder of fio's examples")?;
    let mut files: Vec<PathBuf> =
        std::fs::read_dir(folder)?.map(|entry| Ok(entry?.path())).collect::<std::io::Result<_>>()?;
    files.retain(|file| file.extension().is_some_and(|extension| extension == "fio"));
    files.sort();
    let verdicts: Vec<(String, Verdict)> = files.iter().map(|file| (name(file), verdict(file))).collect();
    let table = table(&verdicts);
    match arguments.next() {
        None => print!("{table}"),
        Some(page) => {
            let text = std::fs::read_to_string(&page)?;
            let (before, rest) = text.split_once(BEGIN).ok_or("the page has no first marker")?;
            let (_, after) = rest.split_once(END).ok_or("the page has no last marker")?;
            std::fs::write(&page, format!("{before}{BEGIN}{table}{END}{after}"))?;
        }
    }
    Ok(())
}

fn name(file: &Path) -> String {
    file.file_name().unwrap_or_default().to_string_lossy().into_owned()
}

/// The sections of a file that are run; empty for all.
fn sections(name: &str) -> Vec<String> {
    SECTIONS.iter().filter(|(file, _)| *file == name).map(|(_, section)| (*section).into()).collect()
}

fn verdict(file: &Path) -> Verdict {
    let text = std::fs::read_to_string(file).unwrap_or_default();
    let options = text.lines().map(|line| line.split([';', '#']).next().unwrap_or_default().replace([' ', '\t'], ""));
    for option in options {
        if let Some(engine) = option.strip_prefix("ioengine=")
            && !ENGINES.contains(&engine)
        {
            return Verdict::Elsewhere(format!("engine `{engine}`"));
        }
        let found = |(part, _): &&(&str, &str)| match *part {
            "trim" => option.starts_with("rw=") && option.contains("trim"),
            part => option.starts_with(part),
        };
        if let Some((_, need)) = ELSEWHERE.iter().find(found) {
            return Verdict::Elsewhere((*need).into());
        }
    }
    match JobFile::read_sections(file, &sections(&name(file))).and_then(|file| jobs(&file)) {
        Ok(_) => Verdict::Runs,
        Err(error) => Verdict::Refused(first_reason(&error.to_string())),
    }
}

/// The first error of a file, without its line and its remedy.
fn first_reason(error: &str) -> String {
    let first = error.lines().find(|line| line.contains(" line ")).unwrap_or(error);
    let (_, reason) = first.split_once(" line ").unwrap_or(("", first));
    let (_, reason) = reason.split_once(": ").unwrap_or(("", reason));
    reason.split(';').next().unwrap_or(reason).to_owned()
}

fn table(verdicts: &[(String, Verdict)]) -> String {
    let count = |is: fn(&Verdict) -> bool| verdicts.iter().filter(|(_, verdict)| is(verdict)).count();
    let runs = count(|verdict| matches!(verdict, Verdict::Runs));
    let refused = count(|verdict| matches!(verdict, Verdict::Refused(_)));
    let mut text = format!(
        "Of {} files, {} need an engine or a feature that iolane does not have. Of the other {}, {runs} run.\n\n\
         | file | runs, or the first reason why not |\n|---|---|\n",
        verdicts.len(),
        verdicts.len() - runs - refused,
        runs + refused,
    );
    for (name, verdict) in verdicts {
        let verdict = match verdict {
            Verdict::Runs => {
                let options = sections(name).into_iter().map(|section| format!(" with `--section {section}`"));
                format!("runs{}", options.collect::<String>())
            }
            Verdict::Elsewhere(need) => format!("needs {need}"),
            Verdict::Refused(reason) => reason.replace('|', "\\|"),
        };
        text.push_str(&format!("| `{name}` | {verdict} |\n"));
    }
    text
}
