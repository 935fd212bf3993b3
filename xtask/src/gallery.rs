//! `cargo xtask gallery [pages|peers]`: runs the four studies in the lab, one of them on two kernels, and iolane beside its peers,
//! and keeps what they made in docs/gallery: each page, its summary, a picture of it, the terminal's output, and the command. Nothing there is typed.
//! The runs stay in target/gallery, from which `cargo xtask gallery pages` renews everything but the terminal's output.

use std::fmt::Write as _;
use std::path::{Path, PathBuf};
use std::process::{Command, Stdio};

use anyhow::{Context, Result, bail, ensure};

use crate::child::{cargo, program, root, succeeds};
use crate::packages::{self, CHROMIUM, FIO, QEMU};

const STUDIES: [&str; 4] = ["systor22", "ijraset24", "hotstorage23", "floe26"];

/// The kernel that every study runs on.
const KERNEL: &str = "6.1";

/// The study that is compared with a later kernel, and that kernel.
const COMPARED: (&str, &str) = ("systor22", "7.2");

/// The study that other tools run too, and where it runs. It is the name of its folder as well.
const PEERS: &str = "peers";
const PEERS_COMMAND: &str = "lab run --kernel 6.1 --nvme 2 --cpus 2 -- study --target nvme0 --target pci:0000:00:05.0 \
     --path psync,libaio,io_uring,nvme --depth 1,16,128 --batch-submit 1 --batch-complete 1 \
     --allow-writes nvme0 --peer fio,spdk_nvme_perf,bdevperf --time 12m --out results/peers";

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
    let (studies_run, peers_run) = match names {
        [] => (true, true),
        [name] if name == PAGES => (false, false),
        [name] if name == PEERS => (false, true),
        _ => bail!("gallery takes no argument, or `{PAGES}`, or `{PEERS}`"),
    };
    let packages = [CHROMIUM, FIO, QEMU];
    if let Some(missing) = packages::install(&packages)?.first() {
        bail!("the gallery needs the Debian package {}", missing.name);
    }
    ensure!(succeeds(&mut cargo(&["build", "--release", "-q"]))?, "the program could not be built: see above");
    let compared = [(COMPARED.1, COMPARED.0)];
    let runs = STUDIES.iter().map(|study| (KERNEL, *study)).chain(compared);
    for (kernel, study) in runs.filter(|_| studies_run) {
        measure(kernel, study, &command(kernel, study)).with_context(|| format!("{study}, Linux {kernel}"))?;
    }
    match SPDK.iter().find(|name| !is_on_path(name)) {
        _ if !peers_run => {}
        None => measure(KERNEL, PEERS, &words(PEERS_COMMAND)).context("iolane beside its peers")?,
        Some(name) => eprintln!("{name} (SPDK) is not on PATH: the page of peers stays as it is"),
    }
    // A page whose runs are not on this machine stays as it is.
    let made: Vec<&str> = STUDIES.into_iter().chain([PEERS]).filter(|study| results(KERNEL, study).exists()).collect();
    ensure!(!made.is_empty(), "there are no runs in {RUNS}");
    for study in made {
        show(study).with_context(|| format!("the page of {study}"))?;
    }
    if studies_run || results(COMPARED.1, COMPARED.0).exists() {
        compare().context("the comparison")?;
    }
    std::fs::write(root().join(FOLDER).join("README.md"), index()?)?;
    Ok(true)
}

/// The command as a person types it.
fn command(kernel: &str, study: &str) -> Vec<String> {
    words(&format!("lab run --kernel {kernel} --nvme 2 --cpus 2 -- study {study} --time 90s"))
}

fn words(command: &str) -> Vec<String> {
    command.split_whitespace().map(str::to_owned).collect()
}

fn is_on_path(name: &str) -> bool {
    let folders = std::env::var_os("PATH").unwrap_or_default();
    std::env::split_paths(&folders).any(|folder| folder.join(name).is_file())
}

/// The folder in which a kernel's studies run.
fn work_folder(kernel: &str) -> String {
    format!("linux-{kernel}")
}

/// Where a study's results stay: in `results`, where they go by themselves.
fn results(kernel: &str, study: &str) -> PathBuf {
    root().join(RUNS).join(work_folder(kernel)).join("results").join(study)
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

/// Runs one study; its results stay, and the gallery keeps what the terminal showed on its own kernel.
fn measure(kernel: &str, study: &str, words: &[String]) -> Result<()> {
    let (work, old) = (root().join(RUNS).join(work_folder(kernel)), results(kernel, study));
    std::fs::create_dir_all(&work)?;
    if old.exists() {
        std::fs::remove_dir_all(&old)?;
    }
    eprintln!("$ iolane {}", words.join(" "));
    let output = iolane().args(words).current_dir(&work).stderr(Stdio::inherit()).output()?;
    // 1 is a study that gave up an arm: the page says so.
    ensure!(matches!(output.status.code(), Some(0 | 1)), "it ended with {}", output.status);
    if kernel == KERNEL {
        std::fs::write(kept(study)?.join("terminal.txt"), &output.stdout)?;
    }
    Ok(())
}

/// The page of a study's results, its summary, and a picture of it.
fn show(study: &str) -> Result<()> {
    let kept = kept(study)?;
    let page = kept.join("report.html");
    let mut report = iolane();
    report.arg("report").arg(results(KERNEL, study)).arg("--md").arg(kept.join("summary.md"));
    ensure!(succeeds(report.arg("--out").arg(&page))?, "no report could be made: see above");
    photograph(&page, &kept.join("page.png"))
}

/// The command that compares, as a person types it.
fn comparison() -> Vec<String> {
    let (study, later) = COMPARED;
    let [before, after] = [KERNEL, later].map(|kernel| format!("{}/results/{study}", work_folder(kernel)));
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

/// The gallery's first page.
fn index() -> Result<String> {
    let (compared, later) = COMPARED;
    let mut text = format!(
        "# Gallery\n\nThe four published studies, as `cargo xtask gallery` ran them on a machine with two processors: in the lab, \
         Linux {KERNEL}, two emulated NVMe drives. Each entry has the command, the page, its summary, and the terminal's output. A \
         page is one HTML file: download it and open it.\n\n\
         The lab emulates its drives in software. The differences between paths are those of the emulation, not of a real \
         drive. The pages show the published figures next to the measured ones.\n"
    );
    for study in STUDIES {
        let command = command(KERNEL, study).join(" ");
        write!(
            text,
            "\n## {study}\n\n```\niolane {command}\n```\n\n\
             [page]({study}/report.html) · [summary]({study}/summary.md) · [terminal]({study}/terminal.txt)\n\n\
             ![The page of {study}: the recommendation and the first charts]({study}/page.png)\n"
        )?;
    }
    write!(
        text,
        "\n## {compared} on Linux {KERNEL} and on Linux {later}\n\n```\niolane {}\n```\n\n\
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
         [page]({PEERS}/report.html) · [summary]({PEERS}/summary.md) · [terminal]({PEERS}/terminal.txt)\n\n\
         ![The page: iolane's arms and those of fio and SPDK]({PEERS}/page.png)\n",
        words(PEERS_COMMAND).join(" ")
    )?;
    text.push_str(
        "\n## The live screen of a study\n\nThe screen fits the terminal: [wide](live-wide.txt), [narrow](live-narrow.txt). Captured with \
         `IOLANE_GALLERY=$PWD/docs/gallery cargo test -p iolane-cli --test live`.\n",
    );
    Ok(text)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_command_is_what_a_person_would_type() {
        assert_eq!(
            command("6.1", "floe26").join(" "),
            "lab run --kernel 6.1 --nvme 2 --cpus 2 -- study floe26 --time 90s"
        );
    }
}
