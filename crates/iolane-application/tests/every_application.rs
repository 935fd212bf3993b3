//! Every application, on paths of iolane and on every rival: each does work, checks what it reads, and notices what was overwritten.

use std::path::Path;
use std::sync::atomic::AtomicBool;
use std::time::Duration;

use iolane::{IoPath, Target};
use iolane_application::{Application, By, Job, Layout, Measured, Prepared, check, run};

const BYTES: u64 = 32 << 20;
static NEVER: AtomicBool = AtomicBool::new(false);

/// A file that is gone when the test is over.
fn target(folder: &Path) -> Target {
    let target = Target::options().create(BYTES).write_unguarded();
    target.open(folder.join("target")).unwrap()
}

fn folder() -> tempfile::TempDir {
    tempfile::tempdir_in(env!("CARGO_TARGET_TMPDIR")).unwrap()
}

fn prepared(target: &Target, applications: &[Application]) -> Prepared {
    let layout = Layout::of(target, 0, None).unwrap();
    let mut shares = Vec::new();
    let prepared = Prepared::make(target, layout, applications, &NEVER, |share| shares.push(share)).unwrap();
    assert!(shares.is_sorted() && shares.last() == Some(&1.0), "{shares:?}");
    prepared
}

fn job<'a>(application: Application, by: By, target: &'a Target, prepared: &'a Prepared) -> Job<'a> {
    Job {
        application,
        by,
        target,
        prepared,
        depth: 8,
        threads: if application.has_database() { 2 } else { 1 },
        rate: application.has_rate().then_some(500.0),
        warmup: Duration::from_millis(20),
        runtime: Duration::from_millis(150),
        seed: 1,
    }
}

fn ways(application: Application) -> impl Iterator<Item = By> {
    let paths = ["psync", "io_uring,fixedbufs,fixedfiles", "auto"];
    let paths = paths.map(|path| By::Path(path.parse().unwrap()));
    paths.into_iter().chain(application.rivals().iter().map(|rival| By::Rival(*rival)))
}

#[test]
fn every_application_works_on_every_way_that_reaches_the_target() {
    let folder = folder();
    let target = target(folder.path());
    let prepared = prepared(&target, &Application::all().collect::<Vec<_>>());
    for application in Application::all() {
        let mut ran = 0;
        for by in ways(application) {
            if let Err(error) = check(application, &by, &target, 8) {
                eprintln!("{application} by {by:?} cannot run here: {error}");
                continue;
            }
            // On a machine that is busy no operation may end within a short run.
            let lengths = [150, 2_000, 20_000].map(Duration::from_millis);
            let mut runs = lengths.into_iter().map(|runtime| {
                let job = Job { runtime, ..job(application, by.clone(), &target, &prepared) };
                let measured = run(&job, &NEVER).unwrap_or_else(|error| panic!("{application} by {by:?}: {error}"));
                measured.expect("nothing stopped it")
            });
            let measured = runs.find(|measured| measured.operations > 0).expect("an operation ends within 20 s");
            let Measured { operations, bytes, latency, span, .. } = measured;
            assert!(operations > 0 && bytes >= operations, "{application} by {by:?}: {operations}, {bytes} bytes");
            assert!((1..=operations).contains(&latency.len()), "{application} by {by:?}: {}", latency.len());
            assert!(span.seconds() >= 0.15);
            ran += 1;
        }
        assert!(ran >= 2, "{application} ran {ran} ways");
    }
}

#[test]
fn what_was_overwritten_is_noticed_and_ends_the_run() {
    let folder = folder();
    let target = target(folder.path());
    let reads = [Application::MultiGet, Application::Decompress, Application::MemoryMap, Application::Merge];
    let prepared = prepared(&target, &reads);
    std::fs::write(folder.path().join("target"), vec![0x5a; BYTES as usize]).unwrap();
    for application in reads {
        let error = run(&job(application, By::Path(IoPath::new("psync")), &target, &prepared), &NEVER).unwrap_err();
        assert!(error.to_string().contains("let nothing else write to the target"), "{application}: {error}");
    }
}

#[test]
fn a_run_that_is_stopped_measures_nothing() {
    let folder = folder();
    let target = target(folder.path());
    let prepared = prepared(&target, &[Application::MultiGet]);
    let stop = AtomicBool::new(true);
    let job = job(Application::MultiGet, By::Path(IoPath::new("psync")), &target, &prepared);
    assert!(run(&Job { runtime: Duration::from_secs(3600), ..job }, &stop).unwrap().is_none());
    let layout = Layout::of(&target, 0, None).unwrap();
    assert!(Prepared::make(&target, layout, &[Application::MultiGet], &stop, |_| ()).is_err());
}

#[test]
fn a_target_that_may_not_be_written_or_keeps_nothing_is_refused_with_the_remedy() {
    let folder = folder();
    let writable = target(folder.path());
    let name = folder.path().join("target");
    let target = Target::open(&name).unwrap();
    let error = check(Application::MultiGet, &By::Path(IoPath::new("psync")), &target, 8).unwrap_err().to_string();
    assert!(error.contains("add --allow-writes"), "{error}");
    for (name, cause) in [("null", "it keeps nothing"), ("sim:16m", "its time is virtual")] {
        let simulated = Target::options().write_unguarded().open(name).unwrap();
        let error =
            check(Application::MultiGet, &By::Path(IoPath::new("null")), &simulated, 8).unwrap_err().to_string();
        assert!(error.contains(cause) && error.contains("name a file or a drive"), "{error}");
    }
    for depth in [0, 1025] {
        let by = By::Path(IoPath::new("psync"));
        let error = check(Application::MultiGet, &by, &writable, depth).unwrap_err().to_string();
        assert!(error.contains("its depth is between 1 and 1024"), "{error}");
    }
}
