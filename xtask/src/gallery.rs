//! `cargo xtask gallery [pages|peers|application]`: runs the four studies in the lab, one of them on two kernels, iolane beside its peers,
//! and the study of applications on this host,
//! and keeps what they made in docs/gallery: each page, its summary, a picture of it, the text, and the command. Nothing there is typed.
//! The runs stay in target/gallery, from which `cargo xtask gallery pages` renews all of it; they may come from a larger machine.

use std::fmt::Write as _;
use std::path::{Path, PathBuf};
use std::process::{Command, Stdio};

use anyhow::{Context, Result, bail, ensure};
use serde_json::Value;

use crate::child::{cargo, program, root, succeeds};
use crate::packages::{self, CHROMIUM, FIO, QEMU};

const STUDIES: [&str; 4] = ["systor22", "ijraset24", "hotstorage23", "floe26"];

/// Runs the studies, each in a guest like the published machine and as large as this host allows.
const STUDIES_COMMAND: &str = "lab study-all --time 24m --out results";

/// The study that runs on two kernels, and these.
const COMPARED: (&str, [&str; 2]) = ("systor22", ["6.1", "7.2"]);

/// The study that other tools run too, and where it runs. It is the name of its folder as well.
const PEERS: &str = "peers";
const PEERS_COMMAND: &str = "lab run --kernel 6.1 --nvme 2 --cpus 2 -- study --target nvme0 --target pci:0000:00:05.0 \
     --path psync,libaio,io_uring,nvme --depth 1,16,128 --batch-submit 1 --batch-complete 1 \
     --allow-writes nvme0 --peer fio,spdk_nvme_perf,bdevperf --time 12m --out results/peers";

/// The study of what databases do runs on a scratch file of this host.
const APPLICATION: &str = "application";
const APPLICATION_COMMAND: &str = "study application --out results/application";

/// The programs that this study needs and Debian does not have.
const SPDK: [&str; 2] = ["spdk_nvme_perf", "bdevperf"];

/// Where the gallery is, from the repository's root.
const FOLDER: &str = "docs/gallery";

/// Where the runs stay that it was made from.
const RUNS: &str = "target/gallery";

/// Renews the pages without a run.
const PAGES: &str = "pages";

/// The window of a picture, in pixels.
const WINDOW: &str = "1200,900";

pub(crate) fn run(names: &[String]) -> Result<bool> {
    let known = [PAGES, PEERS, APPLICATION];
    let only = match names {
        [] => None,
        [name] if known.contains(&name.as_str()) => Some(name.as_str()),
        _ => bail!("gallery takes no argument, or one of {}", known.join(", ")),
    };
    let runs = |what: &str| only.is_none_or(|only| only == what);
    let packages = [CHROMIUM, FIO, QEMU];
    if let Some(missing) = packages::install(&packages)?.first() {
        bail!("the gallery needs the Debian package {}", missing.name);
    }
    ensure!(succeeds(&mut cargo(&["build", "--release", "-q"]))?, "the program could not be built: see above");
    let (compared, kernels) = COMPARED;
    if only.is_none() {
        measure(&work_folder(None), &STUDIES, STUDIES_COMMAND).context("the studies")?;
        for kernel in kernels {
            let command = format!("lab run --kernel {kernel} --nvme 2 --cpus 2 -- study {compared} --time 4m");
            measure(&work_folder(Some(kernel)), &[compared], &command).with_context(|| format!("Linux {kernel}"))?;
        }
    }
    if runs(APPLICATION) {
        measure(&work_folder(None), &[APPLICATION], APPLICATION_COMMAND).context("the study of applications")?;
    }
    match SPDK.iter().find(|name| !is_on_path(name)) {
        _ if !runs(PEERS) => {}
        None => measure(&work_folder(None), &[PEERS], PEERS_COMMAND).context("iolane beside its peers")?,
        Some(name) => eprintln!("{name} (SPDK) is not on PATH: the page of peers stays as it is"),
    }
    // A page whose runs are not on this machine stays as it is.
    let pages = STUDIES.into_iter().chain([APPLICATION, PEERS]);
    let made: Vec<&str> = pages.filter(|study| results(&work_folder(None), study).exists()).collect();
    let is_compared = kernels.iter().all(|kernel| results(&work_folder(Some(kernel)), compared).exists());
    ensure!(!made.is_empty() || is_compared, "there are no runs in {RUNS}");
    let entries =
        made.into_iter().map(|study| Ok((study, show(study).with_context(|| format!("the page of {study}"))?)));
    let entries = entries.collect::<Result<Vec<(&str, String)>>>()?;
    if is_compared {
        compare().context("the comparison")?;
    }
    let path = root().join(FOLDER).join("README.md");
    let before = std::fs::read_to_string(&path).unwrap_or_default();
    std::fs::write(path, index(&entries, &before)?)?;
    Ok(true)
}

fn words(command: &str) -> Vec<String> {
    command.split_whitespace().map(str::to_owned).collect()
}

fn is_on_path(name: &str) -> bool {
    let folders = std::env::var_os("PATH").unwrap_or_default();
    std::env::split_paths(&folders).any(|folder| folder.join(name).is_file())
}

/// The folder in which studies run: that of a kernel that is compared, or the one of all others.
fn work_folder(kernel: Option<&str>) -> PathBuf {
    let runs = root().join(RUNS);
    kernel.map_or(runs.clone(), |kernel| runs.join(format!("linux-{kernel}")))
}

/// Where a study's results stay.
fn results(work: &Path, study: &str) -> PathBuf {
    work.join("results").join(study)
}

/// The folder of the gallery that keeps what belongs to `name`.
fn kept(name: &str) -> Result<PathBuf> {
    let kept = root().join(FOLDER).join(name);
    std::fs::create_dir_all(&kept)?;
    Ok(kept)
}

/// The program under the name by which a person calls it, since pages tell the command.
fn iolane() -> Command {
    let folders = std::env::var("PATH").unwrap_or_default();
    let mut iolane = program("iolane");
    iolane.env("PATH", format!("{}:{folders}", root().join("target/release").display()));
    iolane
}

/// Runs studies by one command; their results stay.
fn measure(work: &Path, studies: &[&str], command: &str) -> Result<()> {
    std::fs::create_dir_all(work)?;
    for old in studies.iter().map(|study| results(work, study)).filter(|old| old.exists()) {
        std::fs::remove_dir_all(&old)?;
    }
    eprintln!("$ iolane {command}");
    let mut child = iolane();
    let status =
        child.args(words(command)).current_dir(work).stdout(Stdio::null()).stderr(Stdio::inherit()).status()?;
    // 1 is a study that gave up an arm: the page says so.
    ensure!(matches!(status.code(), Some(0 | 1)), "it ended with {status}");
    Ok(())
}

/// The page of a study's results, its summary, its text and a picture of it. Returns the entry of the gallery's first page.
fn show(study: &str) -> Result<String> {
    let (kept, results) = (kept(study)?, results(&work_folder(None), study));
    let page = kept.join("report.html");
    let mut report = iolane();
    report.arg("report").arg(&results).arg("--md").arg(kept.join("summary.md"));
    report.arg("--text").arg(kept.join("terminal.txt")).arg("--out").arg(&page);
    ensure!(succeeds(&mut report)?, "no report could be made: see above");
    photograph(&page, &kept.join("page.png"))?;
    let text = std::fs::read(results.join("study.json"))?;
    entry(study, &serde_json::from_slice(&text).context("study.json")?)
}

/// What the gallery's first page says of a study: the command and the machine that its results name.
fn entry(study: &str, document: &Value) -> Result<String> {
    let host = &document["host"];
    let line = host["command_line"].as_array().context("study.json names no command")?;
    let line: Vec<&str> = line.iter().skip(1).filter_map(Value::as_str).collect();
    let drives = match document["targets"].as_array().map_or(0, Vec::len) {
        1 => "1 drive".to_owned(),
        drives => format!("{drives} drives"),
    };
    let kernel = host["kernel_release"].as_str().context("study.json names no kernel")?;
    let lab = |key: &str| host["lab"][key].as_u64();
    let machine = match (lab("cpus"), lab("host_cpus")) {
        (Some(cpus), Some(host_cpus)) => {
            format!("a guest of {cpus} processors and {drives} on {host_cpus} processors of the host")
        }
        _ => {
            let text = |value: &Value| value.as_str().map(str::to_owned).context("study.json does not name it");
            format!("processors {}, `{}`", text(&host["cpus_online"])?, text(&document["targets"][0]["name"])?)
        }
    };
    Ok(format!(
        "\n## {study}\n\n```\niolane {}\n```\n\nLinux {kernel}, {machine}. \
         [page]({study}/report.html) · [summary]({study}/summary.md) · [text]({study}/terminal.txt)\n\n\
         ![The page of {study}: the recommendation and the first charts]({study}/page.png)\n",
        line.join(" ")
    ))
}

/// The command that compares, as a person types it.
fn comparison() -> Vec<String> {
    let (study, kernels) = COMPARED;
    let [before, after] = kernels.map(|kernel| format!("linux-{kernel}/results/{study}"));
    ["compare".into(), before, after, "--html".into(), "compare.html".into()].into()
}

/// One study on two kernels, on one page.
fn compare() -> Result<()> {
    let (work, kept) = (root().join(RUNS), kept("compare")?);
    let output = iolane().current_dir(&work).args(comparison()).stderr(Stdio::inherit()).output()?;
    ensure!(matches!(output.status.code(), Some(0 | 1)), "it ended with {}", output.status);
    std::fs::write(kept.join("terminal.txt"), &output.stdout)?;
    let page = kept.join("compare.html");
    std::fs::copy(work.join("compare.html"), &page)?;
    photograph(&page, &kept.join("page.png"))
}

/// A picture of a page as a browser shows it.
fn photograph(page: &Path, picture: &Path) -> Result<()> {
    let profile = tempfile::tempdir()?;
    let mut browser = program("chromium");
    browser
        .args(["--headless=new", "--no-sandbox", "--disable-gpu", "--hide-scrollbars", "--timeout=8000"])
        .arg(format!("--user-data-dir={}", profile.path().display()))
        .arg(format!("--window-size={WINDOW}"))
        .arg(format!("--screenshot={}", picture.display()))
        .arg(format!("file://{}", page.display()))
        .stderr(Stdio::null());
    ensure!(succeeds(&mut browser)? && picture.exists(), "chromium made no picture of {}", page.display());
    Ok(())
}

/// The gallery's first page. An entry whose runs are not on this machine stays as it was before.
fn index(entries: &[(&str, String)], before: &str) -> Result<String> {
    let (compared, [earlier, later]) = COMPARED;
    let mut text = String::from(
        "# Gallery\n\nThe four published studies as the lab ran them, each in a guest with a kernel and emulated drives like the \
         published ones, and what databases do ([applications](../applications.md)), on a file of the host. Each entry has the command, the page, its summary, and its text. A page is one HTML file: download it \
         and open it.\n\n\
         The lab emulates its drives in software. Its differences between paths are those of the emulation, not of a real \
         drive. The pages show the published figures next to the measured ones, and the claims of the version that measured \
         ([all claims](../published-studies.md)).\n",
    );
    for study in STUDIES.into_iter().chain([APPLICATION]) {
        match entries.iter().find(|(name, _)| *name == study) {
            Some((_, entry)) => text.push_str(entry),
            None => text.push_str(&earlier_entry(study, before)),
        }
    }
    write!(
        text,
        "\n## {compared} on Linux {earlier} and on Linux {later}\n\n```\niolane {}\n```\n\n\
         [page](compare/compare.html) · [terminal](compare/terminal.txt)\n\n\
         ![The page of a comparison: changes, differences and charts](compare/page.png)\n",
        comparison().join(" ")
    )?;
    write!(
        text,
        "\n## iolane beside fio and SPDK\n\n```\niolane {}\n```\n\n\
         The same loads on the same drives in one guest, run in turn by iolane, fio, and SPDK's `spdk_nvme_perf` and `bdevperf`: one \
         drive by the kernel's paths, the other, equal one by the two user-space drivers. Peers print no figures about processors or \
         calls; their system calls are counted by the kernel.\n\n\
         [page]({PEERS}/report.html) · [summary]({PEERS}/summary.md) · [text]({PEERS}/terminal.txt)\n\n\
         ![The page: iolane's arms and those of fio and SPDK]({PEERS}/page.png)\n",
        words(PEERS_COMMAND).join(" ")
    )?;
    text.push_str(
        "\n## The live screen of a study\n\nThe screen fits the terminal: [wide](live-wide.txt), [narrow](live-narrow.txt). Captured with \
         `IOLANE_GALLERY=$PWD/docs/gallery cargo test -p iolane-cli --test live`.\n",
    );
    Ok(text)
}

/// The entry of a study in an earlier first page.
fn earlier_entry(study: &str, before: &str) -> String {
    let Some((_, rest)) = before.split_once(&format!("\n## {study}\n")) else { return String::new() };
    let end = rest.find("\n## ").unwrap_or(rest.len());
    format!("\n## {study}\n{}", &rest[..end])
}

#[cfg(test)]
mod tests {
    use super::*;

    fn of(study: &str, command: &[&str]) -> String {
        let document = serde_json::json!({
            "host": { "command_line": command, "kernel_release": "6.1.0", "lab": { "cpus": 10, "host_cpus": 11 } },
            "targets": [1, 2, 3],
        });
        entry(study, &document).unwrap()
    }

    #[test]
    fn an_entry_has_the_command_and_the_machine_of_its_results() {
        let entry = of("floe26", &["/usr/bin/iolane", "lab", "study-all"]);
        assert!(entry.contains("\n## floe26\n\n```\niolane lab study-all\n```\n"), "{entry}");
        assert!(
            entry.contains("Linux 6.1.0, a guest of 10 processors and 3 drives on 11 processors of the host."),
            "{entry}"
        );
    }

    #[test]
    fn an_entry_of_a_study_on_the_host_names_its_processors_and_its_target() {
        let document = serde_json::json!({
            "host": { "command_line": ["iolane", "study"], "kernel_release": "6.18", "cpus_online": "0-1", "lab": null },
            "targets": [{ "name": "scratch file in ." }],
        });
        let entry = entry("application", &document).unwrap();
        assert!(entry.contains("\n\nLinux 6.18, processors 0-1, `scratch file in .`. [page]"), "{entry}");
    }

    #[test]
    fn an_entry_without_runs_stays_as_it_was() {
        let entries: Vec<(&str, String)> = STUDIES.map(|study| (study, of(study, &["iolane", study]))).into();
        let before = index(&entries, "").unwrap();
        assert_eq!(index(&entries[1..], &before).unwrap(), before);
    }
}
