//! `--rate-until`: the highest rate that keeps a bound on latency, on a device whose answer is known, and its results.

mod common;

use std::fs;

use common::{Folder, ODD_BYTES, assert_refused, assert_valid, command, finish, iolane, pid, wait_until};
use rustix::process::Signal;
use serde_json::Value;

/// A simulated device that serves one request after another in 100 us, in virtual time.
const DEVICE: &str = "sim:16m,latency=100us,jitter=0us";

/// The answers in a folder of results.
fn answers(folder: &Folder, results: &str) -> (Value, Vec<Value>) {
    let report: Value = serde_json::from_slice(&fs::read(folder.join(results).join("study.json")).unwrap()).unwrap();
    assert_valid("study", &report);
    let answers = report["rate_until"]["answers"].as_array().unwrap().clone();
    (report, answers)
}

fn number(value: &Value) -> f64 {
    value.as_f64().unwrap_or_else(|| panic!("{value} is no number"))
}

#[test]
fn random_arrivals_wait_within_the_bound_up_to_the_rate_that_queueing_theory_says() {
    let folder = Folder::new();
    let ask = ["run", "--rate-until", "p99=1ms", "--arrivals", "poisson", "--path", "sim", "--target", DEVICE];
    let ended = iolane(&folder, ask).done();
    let (report, answers) = answers(&folder, "results/rate-until");
    // One server, constant service of 100 us: p99 of the time in the system passes 1 ms near 7,750 requests per second.
    let rate = &answers[0]["rate"];
    let (value, low, high) = (number(&rate["value"]), number(&rate["low"]), number(&rate["high"]));
    assert!((7000.0..8500.0).contains(&value) && low < 7750.0 && 7750.0 < high, "{rate}");
    assert_eq!((report["rate_until"]["bound"].as_str(), answers[0]["best"].as_bool()), (Some("p99=1ms"), Some(true)));
    assert!(ended.stdout.contains("sim at depth 1 keeps p99 within 1 ms up to "), "{}", ended.stdout);
    assert!(ended.stdout.contains("randread 4k, poisson arrivals\n"), "{}", ended.stdout);
    let page = fs::read_to_string(folder.join("results/rate-until/report.html")).unwrap();
    assert!(page.contains("latency counted from the scheduled start"), "the page says where latency begins");
    assert!(
        page.contains("The highest rate with p99 within 1 ms") && page.contains("bound: 1 ms"),
        "the page lacks it"
    );
    // The same seed, the same answer.
    let again = [&ask[..], &["--out", "again"]].concat();
    iolane(&folder, again).done();
    assert_eq!(self::answers(&folder, "again").1, answers);
    // Results are computed again from the rows alone.
    fs::remove_file(folder.join("again/report.html")).unwrap();
    iolane(&folder, ["report", "again"]).done();
    assert!(fs::read_to_string(folder.join("again/report.html")).unwrap().contains("bound: 1 ms"));
    let summary = iolane(&folder, ["report", "again", "--md", "-"]).done().stdout;
    assert!(summary.contains("sim at depth 1 keeps p99 within 1 ms up to "), "{summary}");
    assert!(summary.contains("| load | path | depth | highest rate |") && !summary.contains("best path"), "{summary}");
}

#[test]
fn each_path_of_a_list_has_its_answer_and_the_best_comes_first() {
    let folder = Folder::new();
    folder.file("file", ODD_BYTES);
    let load = ["--rw", "randrw", "--read-percent", "70", "--bs", "16k", "--offsets", "zipf:1.2", "--threads", "2"];
    let ask = ["run", "--rate-until", "p90=1s", "--path", "psync,null", "--runtime", "10ms", "--warmup", "0s"];
    let place = ["--repeat", "1", "--target", "file", "--allow-writes", "file", "--out", "found", "--json", "-"];
    let ended = iolane(&folder, [&ask[..], &load, &place].concat()).done();
    let (report, answers) = answers(&folder, "found");
    assert_eq!(ended.json(), report);
    // null reaches no file; it is left out with the reason.
    assert_eq!(answers.len(), 1);
    assert_eq!((answers[0]["path"].as_str(), answers[0]["depth"].as_u64()), (Some("psync"), Some(1)));
    assert_eq!(answers[0]["load"], "randrw 70/30 16k zipf:1.2, 2 threads");
    assert_eq!(report["skipped"][0]["path"], "null");
    let known = ["rate", "at_least", "below"].iter().filter(|key| !answers[0][**key].is_null()).count();
    assert_eq!(known, 1, "{}", answers[0]);
}

#[test]
fn a_log_is_bounded_by_the_latency_of_its_syncs() {
    let folder = Folder::new();
    folder.file("log", ODD_BYTES);
    let ask = ["run", "--rate-until", "sync_p90=10s", "--path", "psync", "--runtime", "10ms", "--warmup", "0s"];
    let load = ["--rw", "write", "--fdatasync", "1", "--repeat", "1", "--target", "log", "--allow-writes", "log"];
    let ended = iolane(&folder, [&ask[..], &load].concat()).done();
    assert!(ended.stdout.contains("sync_p90 within 10 s"), "{ended:#?}");
    let (report, answers) = answers(&folder, "results/rate-until");
    assert_eq!(
        (report["rate_until"]["bound"].as_str(), number(&answers[0]["bounded_share"])),
        (Some("sync_p90=10s"), 1.0)
    );
}

#[test]
fn a_bound_that_never_holds_or_cannot_be_read_is_said_so() {
    let folder = Folder::new();
    let ask = |bound| ["run", "--rate-until", bound, "--path", "sim", "--target", DEVICE];
    let ended = iolane(&folder, ask("p99=50us")).done();
    assert!(ended.stdout.contains("no rate keeps p99 within 50 us; the lowest that was tried is 10/s."), "{ended:#?}");
    let ended = iolane(&folder, [&ask("service_p99=50us")[..], &["--out", "service"]].concat()).done();
    assert!(ended.stdout.contains("latency counted from the actual start"), "{ended:#?}");
    let page = fs::read_to_string(folder.join("service/report.html")).unwrap();
    assert!(page.contains("latency counted from the actual start"), "the page says where latency begins");
    let before = folder.names();
    for (bound, why) in [
        ("p99", "it is not PERCENTILE=TIME"),
        ("p100=1ms", "percentile `p100`"),
        ("p99=0s", "less than a microsecond"),
        ("99=1ms", "write p50, p99 or p99.9"),
        ("p99=5", "the time has no unit"),
        ("sync_p99=5ms", "makes no fsync or fdatasync"),
        ("write_p99=5ms", "makes no write"),
    ] {
        assert_refused(&iolane(&folder, ask(bound)), 2, &[why]);
    }
    assert_refused(&iolane(&folder, ["run", "--out", "x"]), 2, &["required arguments"]);
    assert_refused(&iolane(&folder, ["run", "--rate-until", "p99=1ms", "--rate", "5"]), 2, &["--rate"]);
    assert_refused(&iolane(&folder, ["run", "--path", "psync,libaio"]), 2, &["iolane study --path psync,libaio"]);
    assert_eq!(folder.names(), before, "nothing was written");
}

#[test]
fn a_killed_search_continues_from_its_runs() {
    let folder = Folder::new();
    folder.file("file", ODD_BYTES);
    let ask = ["run", "--rate-until", "p50=1s", "--path", "psync", "--depth", "1", "--runtime", "50ms", "--out", "r"];
    let place = ["--warmup", "0s", "--repeat", "1", "--target", "file"];
    let child = command(&folder, [&ask[..], &place].concat()).spawn().unwrap();
    let journal = || fs::read_to_string(folder.join("r/journal.jsonl")).unwrap_or_default();
    // A line without its end is dropped when the search continues.
    let is_run = |line: &&str| line.contains("{\"run\"") && line.ends_with('\n');
    let runs = || journal().split_inclusive('\n').filter(is_run).count();
    wait_until("the second run is in the journal", || runs() >= 2);
    rustix::process::kill_process(pid(&child), Signal::KILL).unwrap();
    finish(child);
    let kept = runs();
    let other = [&ask[..2], &["p50=2s"], &ask[3..], &place].concat();
    assert_refused(&iolane(&folder, other), 2, &["the study that began there differs in its bound"]);
    let ended = iolane(&folder, [&ask[..], &place].concat()).done();
    assert!(ended.stderr.contains(&format!("study: continuing after {kept} runs")), "{}", ended.stderr);
    let (report, answers) = answers(&folder, "r");
    assert!(report["complete"].as_bool().unwrap() && answers[0]["runs"].as_u64().unwrap() > kept as u64);
    assert!(!folder.join("r/journal.jsonl").exists());
    assert_refused(&iolane(&folder, ["run", "--fresh"]), 2, &["required arguments"]);
}

#[test]
fn an_interrupted_search_names_no_best_path() {
    let folder = Folder::new();
    // Hours, if nobody interrupts it. Runs in virtual time are never rejected, however busy the machine is.
    let ask = ["run", "--rate-until", "p99=1ms", "--path", "sim", "--target", DEVICE, "--repeat", "9999", "--out", "r"];
    let child = command(&folder, ask).spawn().unwrap();
    let journal = || fs::read_to_string(folder.join("r/journal.jsonl")).unwrap_or_default();
    wait_until("the second run is in the journal", || journal().matches("{\"run\"").count() >= 2);
    rustix::process::kill_process(pid(&child), Signal::INT).unwrap();
    let ended = finish(child);
    assert_eq!(ended.code, Some(1), "{ended:#?}");
    assert!(ended.stdout.contains("note: 0 of 1 searches are complete; the same command continues"), "{ended:#?}");
    assert!(ended.stdout.contains("the search is not complete; so far sim at depth 1"), "{ended:#?}");
    let (_, answers) = answers(&folder, "r");
    assert_eq!((answers[0]["best"].as_bool(), answers[0]["complete"].as_bool()), (Some(false), Some(false)));
}

#[test]
fn a_search_whose_time_is_over_is_not_complete_and_continues_with_more_time() {
    let folder = Folder::new();
    let ask = |time| {
        let place = ["--path", "sim", "--target", DEVICE, "--depth", "1", "--repeat", "9999", "--out", "r"];
        iolane(&folder, [&["study", "--rate-until", "p99=1ms", "--time", time], &place[..]].concat())
    };
    let ended = ask("1s");
    assert_eq!(ended.code, Some(1), "{ended:#?}");
    assert!(ended.stdout.contains("note: 0 of 1 searches are complete; the same command continues"), "{ended:#?}");
    let (report, before) = answers(&folder, "r");
    assert!(report["complete"] == false && before[0]["complete"] == false, "{report}");
    let ended = ask("2s");
    assert!(ended.stderr.contains("study: continuing after "), "{ended:#?}");
    let (_, after) = answers(&folder, "r");
    assert!(after[0]["runs"].as_u64() > before[0]["runs"].as_u64(), "{before:?} {after:?}");
}

#[test]
fn two_searches_are_compared_by_their_highest_rates() {
    let folder = Folder::new();
    let search = |name: &str, device: &str, bound: &str| {
        let place = ["--path", "sim", "--target", device, "--depth", "1", "--runtime", "1s", "--out", name];
        iolane(&folder, [&["study", "--rate-until", bound], &place[..]].concat()).done();
    };
    search("fast", "sim:16m,latency=100us,jitter=0us", "p99=1ms");
    search("slow", "sim:16m,latency=200us,jitter=0us", "p99=1ms");
    let ended = iolane(&folder, ["compare", "fast", "slow", "--max-loss", "10%", "--json", "c.json"]);
    assert_eq!(ended.code, Some(1), "{ended:#?}");
    assert!(ended.stdout.contains("of 1 searches 0 find a higher rate and 1 a lower one"), "{ended:#?}");
    let json: Value = serde_json::from_slice(&fs::read(folder.join("c.json")).unwrap()).unwrap();
    assert_valid("compare", &json);
    let arm = &json["arms"][0];
    let rates = [0, 1].map(|index| arm["folders"][index]["iops"].as_f64().unwrap());
    assert!((rates[0] / 10e3 - 1.0).abs() < 0.1 && (rates[1] / 5e3 - 1.0).abs() < 0.1, "{rates:?}");
    assert_eq!((&json["compares"], &json["gate"]["passed"]), (&"highest_rate".into(), &false.into()));
    assert_eq!(json["gate"]["losses"][0]["figure"], "highest rate");
    iolane(&folder, ["compare", "fast", "fast", "--max-loss", "30%", "--html", "c.html"]).done();
    search("other", "sim:16m,latency=100us,jitter=0us", "p99=2ms");
    assert_refused(&iolane(&folder, ["compare", "fast", "other"]), 2, &["p99=1ms", "p99=2ms", "one bound"]);
}
