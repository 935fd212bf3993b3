//! Writes which job files of a folder run here into `docs/fio-job-files.md`, between its markers. fio's sources with its
//! examples are not part of this repository: `cargo run -p iolane-study --example fio_examples -- FIO/examples [PAGE]`.
//! Without a page it prints the table. With `--measure FOLDER IOLANE` at the end it runs scaled copies of those files with fio
//! and with that program on a scratch file in the folder, which must be on a disk that has O_DIRECT.

mod measure;

use std::error::Error;
use std::path::{Path, PathBuf};
use std::process::ExitCode;

use iolane_study::fio::{JobFile, jobs};

use self::measure::Lab;

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
    let mut arguments: Vec<PathBuf> = std::env::args_os().skip(1).map(PathBuf::from).collect();
    let lab = match arguments.iter().position(|argument| argument == Path::new("--measure")) {
        None => None,
        Some(index) => match &arguments.split_off(index)[..] {
            [_, folder, iolane] => Some(Lab::new(folder, iolane)?),
            _ => return Err("write --measure FOLDER IOLANE".into()),
        },
    };
    let mut arguments = arguments.into_iter();
    let folder = arguments.next().ok_or("name the folder of fio's examples")?;
    let mut files: Vec<PathBuf> =
        std::fs::read_dir(folder)?.map(|entry| Ok(entry?.path())).collect::<std::io::Result<_>>()?;
    files.retain(|file| file.extension().is_some_and(|extension| extension == "fio"));
    files.sort();
    let verdicts: Vec<(String, Verdict)> = files.iter().map(|file| (name(file), verdict(file))).collect();
    let figures = lab.as_ref().map(|lab| figures(lab, &files, &verdicts)).transpose()?;
    let table = table(&verdicts, figures.as_ref());
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

/// What was measured how, and the cells of each file.
struct Figures {
    description: String,
    cells: Vec<(String, String)>,
}

fn figures(lab: &Lab, files: &[PathBuf], verdicts: &[(String, Verdict)]) -> Result<Figures, Box<dyn Error>> {
    let mut cells = Vec::new();
    for (file, (name, verdict)) in files.iter().zip(verdicts) {
        cells.push(match verdict {
            Verdict::Runs => {
                let (fio, iolane) = lab.cells(file, &sections(name));
                eprintln!("{name}: fio {fio}, iolane {iolane}");
                (fio, iolane)
            }
            _ => (String::new(), String::new()),
        });
    }
    Ok(Figures { description: lab.description()?, cells })
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

fn table(verdicts: &[(String, Verdict)], figures: Option<&Figures>) -> String {
    let count = |is: fn(&Verdict) -> bool| verdicts.iter().filter(|(_, verdict)| is(verdict)).count();
    let runs = count(|verdict| matches!(verdict, Verdict::Runs));
    let refused = count(|verdict| matches!(verdict, Verdict::Refused(_)));
    let mut text = format!(
        "Of {} files, {} need an engine or a feature that iolane does not have. Of the other {}, {runs} run.\n\n",
        verdicts.len(),
        verdicts.len() - runs - refused,
        runs + refused,
    );
    text.push_str(&match figures {
        None => "| file | runs, or the first reason why not |\n|---|---|\n".into(),
        Some(Figures { description, .. }) => format!(
            "{description}| file | runs, or the first reason why not | fio, IOPS | iolane, IOPS |\n|---|---|---:|---:|\n"
        ),
    });
    for (index, (name, verdict)) in verdicts.iter().enumerate() {
        let verdict = match verdict {
            Verdict::Runs => {
                let options = sections(name).into_iter().map(|section| format!(" with `--section {section}`"));
                format!("runs{}", options.collect::<String>())
            }
            Verdict::Elsewhere(need) => format!("needs {need}"),
            Verdict::Refused(reason) => reason.replace('|', "\\|"),
        };
        let cells = figures.map(|figures| &figures.cells[index]);
        let cells = cells.map_or_else(String::new, |(fio, iolane)| format!(" {fio} | {iolane} |"));
        text.push_str(&format!("| `{name}` | {verdict} |{cells}\n"));
    }
    text
}
