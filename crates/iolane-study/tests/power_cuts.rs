//! Power cuts on a file system: a study's journal and its results are whole after one, also where results with joules replace them, and the
//! study goes on. In a guest the first test writes them to a file system on a drive whose writes and flushes QEMU records; on the host the
//! second replays the record up to many places, with any part of what the drive's cache held, mounts it, and finishes the study.
//! `cargo xtask campaign cuts` runs both. The third stops between the steps on any file system.
//!
//! * `IOLANE_CUTS_DEVICE`, `IOLANE_CUTS_FILE_SYSTEM`: the drive, which is overwritten and reads as zeroes before; `ext4` or `xfs`.
//! * `IOLANE_CUTS_FILES_LOG`: the record of such a drive.
//! * `IOLANE_CUTS`, `IOLANE_CUTS_SEED`: the number of cuts, and their seed.

use std::collections::BTreeSet;
use std::fs::{self, File};
use std::io::Write;
use std::os::unix::fs::FileExt;
use std::path::{Path, PathBuf};
use std::process::Command;
use std::sync::LazyLock;

use iolane::{Pages, Pool, Queue, QueueConfig, Request, Target, open_queue};
use iolane_measure::figures::RunFigure;
use iolane_measure::telemetry::Sourced;
use iolane_study::files::{self, MadeFolders};
use iolane_study::plan::{Arm, Scale, Study, built_in};
use iolane_study::results::{self, RECORDS_FILE, REPORT_FILE, SCHEMA, StudyReport};
use iolane_study::rows::journal::{self, Journal};
use iolane_study::rows::{Row, parquet};
use rand_core::{Rng, SeedableRng};
use rand_xoshiro::Xoshiro256PlusPlus;

#[path = "../../iolane/tests/power_cuts/log.rs"]
mod log;
use log::{Entry, LANDED, Log, Part};

type Outcome<T> = Result<T, Box<dyn std::error::Error>>;

/// The file system ends here, and the notes of what was acknowledged follow. XFS needs 300 MiB.
const FILE_SYSTEM_BYTES: u64 = 320 << 20;
const NOTE_BYTES: usize = 4096;
const NOTE_MAGIC: u64 = 0x6a6f_7572_6e61_6c21;

const STUDIES: u64 = 4;
const RUNS: u64 = 6;
/// Steps of a study that are acknowledged: its set-up, its runs, its results, and those that are made of them with joules.
const STEPS: u64 = RUNS + 3;

fn number(name: &str, usual: u64) -> u64 {
    std::env::var(name).map_or(usual, |text| text.parse().unwrap_or_else(|_| panic!("{name}: `{text}` is no number")))
}

static ARM: LazyLock<Arm> = LazyLock::new(|| {
    let plan = Study::parse(built_in("systor22").unwrap().text, "systor22").unwrap();
    plan.arms(Scale::Scaled).unwrap().swap_remove(0)
});

/// Each run of each study differs from all others.
fn row(study: u64, run: u64) -> Row {
    Row::new(ARM.clone(), (study * 100 + run) as u32)
}

fn rows(study: u64) -> Vec<Row> {
    (0..RUNS).map(|run| row(study, run)).collect()
}

/// The runs with what a meter gives each.
fn rows_with_joules(study: u64) -> Vec<Row> {
    let mut rows = rows(study);
    rows.iter_mut().for_each(|row| row.figures.set(RunFigure::Joules, Ok(Sourced::new(1.5, "meter"))));
    rows
}

/// Replaces results by those of these runs, which fill several blocks.
fn replace_results(folder: &Path, rows: &[Row]) -> Outcome<()> {
    let records = parquet::write(rows)?;
    let report: StudyReport = serde_json::from_value(serde_json::json!({
        "schema": SCHEMA, "name": "cuts", "title": "-".repeat(5_000), "complete": true, "repeats": 100 * STUDIES, "runtime_s": 1.0,
        "records": {"file": RECORDS_FILE, "rows": rows.len(), "crc32": parquet::checksum(&records)},
    }))?;
    Ok(results::replace(folder, &records, &report)?)
}

/// The results in a folder.
#[derive(Clone, Copy, PartialEq)]
enum Found {
    None,
    OfRuns,
    WithJoules,
}

/// The results of a study in its folder; an error for any but its own, whole.
fn find_results(folder: &Path, study: u64) -> Outcome<Found> {
    if !folder.join(REPORT_FILE).exists() {
        return Ok(Found::None);
    }
    match results::load(folder)?.rows {
        found if found == rows(study) => Ok(Found::OfRuns),
        found if found == rows_with_joules(study) => Ok(Found::WithJoules),
        _ => Err("results that were never written".into()),
    }
}

/// Does what is left of a study in a folder; `acknowledge` hears of each step.
fn go_on(folder: &Path, study: u64, mut acknowledge: impl FnMut(u64) -> Outcome<()>) -> Outcome<()> {
    let _made = MadeFolders::make(folder)?;
    for name in [RECORDS_FILE, REPORT_FILE, journal::FILE] {
        files::check_writable(&folder.join(name), &[])?;
    }
    if folder.join(journal::FILE).exists() || find_results(folder, study)? == Found::None {
        measure(folder, study, &mut acknowledge)?;
    }
    replace_results(folder, &rows_with_joules(study))?;
    acknowledge(STEPS)
}

/// Makes the runs of a study that its journal lacks, and replaces the journal by results.
fn measure(folder: &Path, study: u64, acknowledge: &mut impl FnMut(u64) -> Outcome<()>) -> Outcome<()> {
    let (mut journal, begun) = Journal::open::<u64>(folder)?;
    let done = match begun {
        Some(begun) if !begun.damaged.is_empty() => return Err(format!("lines {:?} are damaged", begun.damaged).into()),
        Some(begun) if begun.setup != study => return Err("the journal is of another study".into()),
        Some(begun) if !rows(study).starts_with(&begun.rows) => return Err("a run was never made".into()),
        Some(begun) => begun.rows.len() as u64,
        None => {
            journal.begin(&study)?;
            acknowledge(1)?;
            0
        }
    };
    for run in done..RUNS {
        journal.append(&row(study, run))?;
        acknowledge(run + 2)?;
    }
    replace_results(folder, &rows(study))?;
    journal.remove()?;
    acknowledge(RUNS + 2)
}

fn command(program: &str, arguments: &[&str]) -> Outcome<()> {
    let output = Command::new(program).args(arguments).output().map_err(|error| format!("{program}: {error}"))?;
    let told = String::from_utf8_lossy(&output.stderr);
    if output.status.success() { Ok(()) } else { Err(format!("{program} {arguments:?}: {}", told.trim()).into()) }
}

fn make_file_system(kind: &str, device: &str) -> Outcome<()> {
    let blocks = (FILE_SYSTEM_BYTES / 4096).to_string();
    match kind {
        // Linux 5.10 does not know the features that are left out.
        "ext4" => {
            let features = "^orphan_file,^metadata_csum_seed";
            command("mkfs.ext4", &["-q", "-F", "-b", "4096", "-E", "nodiscard", "-O", features, device, &blocks])
        }
        _ => command("mkfs.xfs", &["-q", "-f", "-K", "-d", &format!("size={FILE_SYSTEM_BYTES}"), device]),
    }
}

/// Writes how much was acknowledged behind the file system, past all caches of the kernel. No sync follows.
struct Notes {
    queue: Box<dyn Queue>,
    pool: Pool,
}

impl Notes {
    fn open(device: &str) -> Outcome<Self> {
        let target = Target::options().write_unguarded().open(device)?;
        let pool = Pool::new(1, NOTE_BYTES, Pages::Base)?;
        Ok(Self { queue: open_queue(&"psync".parse()?, &target, &QueueConfig::new(1).pool(&pool))?, pool })
    }

    fn acknowledge(&mut self, count: u64) -> Outcome<()> {
        let mut buffer = self.pool.take().ok_or("a note in flight")?;
        buffer.fill(0);
        buffer[..16].copy_from_slice(&[NOTE_MAGIC, count].map(u64::to_le_bytes).concat());
        self.queue.submit(&mut [Request::write(0, FILE_SYSTEM_BYTES, buffer)].into());
        let mut completions = Vec::new();
        self.queue.drain(&mut completions)?;
        completions.pop().ok_or("no completion")?.result?;
        Ok(())
    }
}

fn record(device: &str, kind: &str) -> Outcome<()> {
    make_file_system(kind, device)?;
    let place = Path::new("/mnt");
    fs::create_dir_all(place)?;
    rustix::mount::mount(device, place, kind, rustix::mount::MountFlags::empty(), None)?;
    // What mkfs wrote is on the drive before anything is acknowledged.
    File::open(place)?.sync_all()?;
    let mut notes = Notes::open(device)?;
    notes.acknowledge(0)?;
    for study in 0..STUDIES {
        go_on(&place.join(study.to_string()), study, |step| notes.acknowledge(study * STEPS + step))?;
    }
    // The record is complete up to a flush.
    Ok(rustix::mount::unmount(place, rustix::mount::UnmountFlags::empty())?)
}

#[test]
fn what_a_study_writes_is_recorded() {
    let (Ok(device), Ok(kind)) = (std::env::var("IOLANE_CUTS_DEVICE"), std::env::var("IOLANE_CUTS_FILE_SYSTEM")) else {
        return println!("SKIPPED recording for power cuts: IOLANE_CUTS_DEVICE names no drive");
    };
    if !fs::read_to_string("/proc/filesystems").unwrap().lines().any(|line| line.trim() == kind) {
        return println!("SKIPPED power cuts on {kind}: the kernel lacks it");
    }
    record(&device, &kind).unwrap_or_else(|error| panic!("{kind}: {error}"));
    println!("recorded {STUDIES} studies on {kind}");
}

/// A file system from a file, mounted; both are gone when this is dropped.
struct Mounted {
    folder: PathBuf,
}

impl Mounted {
    fn new(content: &[u8], kind: &str) -> Outcome<Self> {
        let this = Self { folder: std::env::temp_dir().join(format!("iolane-cuts-{}", std::process::id())) };
        fs::create_dir_all(this.place())?;
        let image = this.folder.join("image");
        let file = File::create(&image)?;
        file.set_len(content.len() as u64)?;
        // Holes stay holes.
        let blocks = content.chunks(4096).enumerate().filter(|(_, block)| block.iter().any(|byte| *byte != 0));
        for (number, block) in blocks {
            file.write_all_at(block, number as u64 * 4096)?;
        }
        let (image, place) = (image.display().to_string(), this.place().display().to_string());
        command("mount", &["-t", kind, "-o", "loop", &image, &place])?;
        Ok(this)
    }

    fn place(&self) -> PathBuf {
        self.folder.join("place")
    }
}

impl Drop for Mounted {
    fn drop(&mut self) {
        let _ = command("umount", &[&self.place().display().to_string()]);
        let _ = fs::remove_dir_all(&self.folder);
    }
}

/// The studies after a cut, of which this many steps were acknowledged: each is whole, in its journal or in its results, and goes on.
fn check_studies(place: &Path, acknowledged: u64) -> Outcome<()> {
    for study in 0..STUDIES {
        let steps = acknowledged.saturating_sub(study * STEPS).min(STEPS);
        check_study(&place.join(study.to_string()), study, steps)
            .map_err(|error| format!("study {study} after step {steps}: {error}"))?;
    }
    Ok(())
}

fn check_study(folder: &Path, study: u64, steps: u64) -> Outcome<()> {
    let found = find_results(folder, study)?;
    let has_journal = folder.join(journal::FILE).exists();
    if steps == STEPS && found != Found::WithJoules {
        return Err("the results with joules are not there".into());
    }
    if steps > RUNS + 1 && found == Found::None {
        return Err("the results are not there".into());
    }
    if steps > 0 && !has_journal && found == Found::None {
        return Err("neither the journal nor the results are there".into());
    }
    if has_journal {
        let (_, begun) = Journal::open::<u64>(folder)?;
        let found = begun.map_or(0, |begun| begun.rows.len() as u64 + 1);
        if found < steps.min(RUNS + 1) {
            return Err(format!("{found} steps are in the journal").into());
        }
    }
    go_on(folder, study, |_| Ok(()))?;
    if find_results(folder, study)? != Found::WithJoules {
        return Err("it did not end with its results".into());
    }
    match fs::read_dir(folder)?.flatten().find(|entry| entry.path().extension().is_some_and(|end| end == "next")) {
        Some(left) => Err(format!("{} is left", left.path().display()).into()),
        None => Ok(()),
    }
}

#[test]
fn a_study_goes_on_after_a_power_cut_with_all_that_was_acknowledged() {
    let (Ok(file), Ok(kind)) = (std::env::var("IOLANE_CUTS_FILES_LOG"), std::env::var("IOLANE_CUTS_FILE_SYSTEM"))
    else {
        return println!("SKIPPED power cuts of a study: IOLANE_CUTS_FILES_LOG names no record");
    };
    if !rustix::process::geteuid().is_root() {
        return println!("SKIPPED power cuts of a study: only root mounts file systems");
    }
    let log = Log::parse(fs::read(&file).unwrap());
    let note = |entry: &Entry| match entry {
        Entry::Write { at: FILE_SYSTEM_BYTES, data, .. } if data.len() == NOTE_BYTES => {
            let (words, _) = log.data(data).as_chunks::<8>();
            (u64::from_le_bytes(words[0]) == NOTE_MAGIC).then(|| u64::from_le_bytes(words[1]))
        }
        _ => None,
    };
    let notes: Vec<(usize, u64)> =
        log.entries.iter().enumerate().filter_map(|(index, entry)| Some((index, note(entry)?))).collect();
    assert_eq!(notes.last().map(|(_, count)| *count), Some(STUDIES * STEPS), "the record ends before the studies did");
    let mut random = Xoshiro256PlusPlus::seed_from_u64(number("IOLANE_CUTS_SEED", 1));
    let first = notes[0].0 + 1;
    let is_flush = |place: &usize| matches!(log.entries[*place - 1], Entry::Flush | Entry::Write { durable: true, .. });
    let flushes: Vec<usize> = (first + 1..log.entries.len()).filter(is_flush).collect();
    let known: Vec<usize> =
        flushes.iter().flat_map(|place| [*place - 1, *place]).chain(notes.iter().map(|note| note.0 + 1)).collect();
    let cuts = number("IOLANE_CUTS", 50) as usize;
    // Half of them where it matters most.
    let place = |random: &mut Xoshiro256PlusPlus| match random.next_u64() % 2 {
        0 => known[random.next_u64() as usize % known.len()],
        _ => first + random.next_u64() as usize % (log.entries.len() - first),
    };
    let mut places: Vec<usize> = (0..cuts).map(|_| place(&mut random)).collect();
    places.sort_unstable();
    let mut part = Part::new(&log, 0, FILE_SYSTEM_BYTES as usize);
    let mut failures = BTreeSet::new();
    for place in places {
        part.replay_to(place);
        let landed = LANDED[random.next_u64() as usize % LANDED.len()];
        let acknowledged = notes.iter().rfind(|(number, _)| *number < place).map_or(0, |(_, count)| *count);
        let checked = Mounted::new(&part.after_cut(landed, &mut random), &kind)
            .and_then(|mounted| check_studies(&mounted.place(), acknowledged));
        if let Err(error) = checked {
            failures.insert(format!("LOST cut after {place} entries, {landed:?} of the cache landed: {error}"));
        }
    }
    failures.iter().take(20).for_each(|failure| println!("{failure}"));
    println!("{cuts} cuts of {STUDIES} studies on {kind}: {} failed; {} flushes", failures.len(), flushes.len());
    std::io::stdout().flush().unwrap();
    assert!(failures.is_empty());
}

#[test]
fn a_study_goes_on_after_a_stop_at_any_step() {
    for last in 1..=STEPS {
        let place = tempfile::tempdir().unwrap();
        let stopped = go_on(&place.path().join("0"), 0, |step| if step < last { Ok(()) } else { Err("stop".into()) });
        assert_eq!(stopped.unwrap_err().to_string(), "stop");
        check_studies(place.path(), last).unwrap();
    }
}
