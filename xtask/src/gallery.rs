//! `cargo xtask gallery [PLACE...]`: runs the four studies in the lab and on a scratch file, and keeps what they made in
//! docs/gallery: each page, its summary, pictures of it, the terminal's output, and the command. Nothing there is typed.
//! The runs stay in target/gallery, from which `cargo xtask gallery pages` renews everything but the terminal's output.

use std::fmt::Write as _;
use std::path::{Path, PathBuf};
use std::process::{Command, Stdio};

use anyhow::{Context, Result, bail, ensure};

use crate::child::{cargo, program, root, succeeds};
use crate::packages::{self, CHROMIUM, QEMU};

const STUDIES: [&str; 4] = ["systor22", "ijraset24", "hotstorage23", "floe26"];

/// Where the gallery is, from the repository's root.
const FOLDER: &str = "docs/gallery";

/// Where the runs stay that it was made from.
const RUNS: &str = "target/gallery";

/// The study that is compared between two kernels, and their places.
const COMPARED: (&str, [&str; 2]) = ("systor22", ["linux-6.1", "linux-7.2"]);

/// Where the studies are run.
struct Place {
    /// The name of its folder.
    name: &'static str,
    /// As a heading.
    title: &'static str,
    /// What stands before `study` in the command.
    words: &'static [&'static str],
    /// What stands behind the study's name.
    options: &'static [&'static str],
}

const PLACES: [Place; 3] = [
    Place {
        name: "linux-6.1",
        title: "In the lab: Linux 6.1, two emulated NVMe drives",
        words: &["lab", "run", "--kernel", "6.1", "--nvme", "2", "--cpus", "2", "--"],
        options: &["--time", "90s"],
    },
    Place {
        name: "linux-7.2",
        title: "In the lab: Linux 7.2, two emulated NVMe drives",
        words: &["lab", "run", "--kernel", "7.2", "--nvme", "2", "--cpus", "2", "--"],
        options: &["--time", "90s"],
    },
    Place {
        name: "scratch",
        title: "On a scratch file, with modelled power",
        words: &[],
        options: &["--time", "60s", "--power-model", "idle=40W,core=15W"],
    },
];

/// What stands for every page again, without a run.
const PAGES: &str = "pages";

/// A picture of a page: its name, and the window's size in pixels.
const PICTURES: [(&str, &str); 2] = [("wide", "1280,1600"), ("narrow", "500,2000")];

pub(crate) fn run(names: &[String]) -> Result<bool> {
    let is_known = |name: &&String| *name == PAGES || PLACES.iter().any(|place| place.name == **name);
    if let Some(unknown) = names.iter().find(|name| !is_known(name)) {
        let known = PLACES.map(|place| place.name).join(", ");
        bail!("there is no place `{unknown}`; there are {known}, and {PAGES}");
    }
    let packages = [CHROMIUM, QEMU];
    if let Some(missing) = packages::install(&packages).first() {
        bail!("the gallery needs the Debian package {}", missing.name);
    }
    ensure!(succeeds(&mut cargo(&["build", "--release", "-q"]))?, "the program could not be built: see above");
    let is_wanted = |place: &&Place| names.is_empty() || names.iter().any(|name| name == place.name);
    for place in PLACES.iter().filter(is_wanted) {
        for study in STUDIES {
            measure(place, study).with_context(|| format!("{study}, {}", place.name))?;
        }
    }
    for place in &PLACES {
        for study in STUDIES.iter().filter(|study| results(place.name, study).exists()) {
            show(place, study).with_context(|| format!("{study}, {}", place.name))?;
        }
    }
    compare()?;
    std::fs::write(root().join(FOLDER).join("README.md"), index()?)?;
    Ok(true)
}

/// The command as a person types it.
fn command(place: &Place, study: &str) -> Vec<String> {
    let words = place.words.iter().copied().chain(["study", study]).chain(place.options.iter().copied());
    words.map(str::to_owned).collect()
}

/// Where a study's results stay: in `results`, where they go by themselves.
fn results(place: &str, study: &str) -> PathBuf {
    root().join(RUNS).join(place).join("results").join(study)
}

/// The program under the name by which a person calls it, since pages tell the command.
fn iolane() -> Command {
    let folders = std::env::var("PATH").unwrap_or_default();
    let mut iolane = program("iolane");
    iolane.env("PATH", format!("{}:{folders}", root().join("target/release").display()));
    iolane
}

/// Runs one study; its results and what the terminal showed stay.
fn measure(place: &Place, study: &str) -> Result<()> {
    let (work, old) = (root().join(RUNS).join(place.name), results(place.name, study));
    std::fs::create_dir_all(&work)?;
    if old.exists() {
        std::fs::remove_dir_all(&old)?;
    }
    let words = command(place, study);
    eprintln!("$ iolane {}", words.join(" "));
    let output = iolane().args(&words).current_dir(&work).stderr(Stdio::inherit()).output()?;
    // 1 is a study that gave up an arm: the page says so.
    ensure!(matches!(output.status.code(), Some(0 | 1)), "it ended with {}", output.status);
    let kept = root().join(FOLDER).join(place.name).join(study);
    std::fs::create_dir_all(&kept)?;
    std::fs::write(kept.join("terminal.txt"), &output.stdout)?;
    Ok(())
}

/// The page of a study's results, its digest, and pictures of it.
fn show(place: &Place, study: &str) -> Result<()> {
    let kept = root().join(FOLDER).join(place.name).join(study);
    std::fs::create_dir_all(&kept)?;
    let page = kept.join("report.html");
    let mut report = iolane();
    report.arg("report").arg(results(place.name, study)).arg("--md").arg(kept.join("summary.md"));
    ensure!(succeeds(report.arg("--out").arg(&page))?, "no report could be made: see above");
    PICTURES.iter().try_for_each(|(name, size)| photograph(&page, &kept.join(format!("{name}.png")), size))
}

/// The command that compares, as a person types it.
fn comparison() -> Vec<String> {
    let (study, places) = COMPARED;
    let [before, after] = places.map(|place| format!("{place}/results/{study}"));
    ["compare".into(), before, after, "--html".into(), "compare.html".into()].into()
}

/// One study on two kernels, on one page.
fn compare() -> Result<()> {
    let (study, places) = COMPARED;
    if !places.iter().all(|place| results(place, study).exists()) {
        return Ok(());
    }
    let (work, kept) = (root().join(RUNS), root().join(FOLDER).join("compare"));
    let output = iolane().current_dir(&work).args(comparison()).stderr(Stdio::inherit()).output()?;
    ensure!(matches!(output.status.code(), Some(0 | 1)), "the comparison ended with {}", output.status);
    std::fs::create_dir_all(&kept)?;
    std::fs::write(kept.join("terminal.txt"), &output.stdout)?;
    let page = kept.join("compare.html");
    std::fs::copy(work.join("compare.html"), &page)?;
    PICTURES.iter().try_for_each(|(name, size)| photograph(&page, &kept.join(format!("{name}.png")), size))
}

/// A picture of a page as a browser shows it.
fn photograph(page: &Path, picture: &Path, size: &str) -> Result<()> {
    let profile = tempfile::tempdir()?;
    let mut browser = program("chromium");
    browser
        .args(["--headless=new", "--no-sandbox", "--disable-gpu", "--hide-scrollbars", "--timeout=8000"])
        .arg(format!("--user-data-dir={}", profile.path().display()))
        .arg(format!("--window-size={size}"))
        .arg(format!("--screenshot={}", picture.display()))
        .arg(format!("file://{}", page.display()))
        .stderr(Stdio::null());
    ensure!(succeeds(&mut browser)? && picture.exists(), "chromium made no picture of {}", page.display());
    Ok(())
}

/// The gallery's first page, of whatever is in it.
fn index() -> Result<String> {
    let mut text = String::from(
        "# Gallery\n\nThe four published studies, as run on one machine with two processors by `cargo xtask gallery`. Each entry has \
         the command, the page, its summary, and the terminal's output. A page is one HTML file: download it and open it.\n\n\
         The lab emulates its drives in software. The differences between paths are those of the emulation, not of a real \
         drive. The pages show the published figures next to the measured ones.\n",
    );
    for place in &PLACES {
        let made = |study: &&&str| root().join(FOLDER).join(place.name).join(study).join("report.html").exists();
        let studies: Vec<&&str> = STUDIES.iter().filter(made).collect();
        if studies.is_empty() {
            continue;
        }
        write!(text, "\n## {}\n", place.title)?;
        for study in studies {
            let folder = format!("{}/{study}", place.name);
            let command = command(place, study).join(" ");
            write!(
                text,
                "\n### {study}\n\n```\niolane {command}\n```\n\n[page]({folder}/report.html) · [summary]({folder}/summary.md) · \
                 [terminal]({folder}/terminal.txt) · [on a narrow screen]({folder}/narrow.png)\n\n\
                 ![The page of {study}: the recommendation and the first charts]({folder}/wide.png)\n"
            )?;
        }
    }
    if root().join(FOLDER).join("compare/compare.html").exists() {
        let (study, command) = (COMPARED.0, comparison().join(" "));
        write!(
            text,
            "\n## {study} on both kernels\n\n```\niolane {command}\n```\n\n\
             [page](compare/compare.html) · [terminal](compare/terminal.txt) · [on a narrow screen](compare/narrow.png)\n\n\
             ![The page of a comparison: changes, differences and charts](compare/wide.png)\n"
        )?;
    }
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
            command(&PLACES[0], "floe26").join(" "),
            "lab run --kernel 6.1 --nvme 2 --cpus 2 -- study floe26 --time 90s"
        );
    }
}
