//! The command's contract: `run`, `probe` and `study` write documents that match docs/schema, with plausible figures,
//! for every path available here and every kind of workload. Runs are short; their performance is not judged.

mod common;

use std::fs;

use common::{
    Ended, Folder, ODD_BYTES, SHORT, assert_refused, assert_valid, command, finish, iolane, measuring_threads, pid,
    schema, wait_until,
};
use iolane_study::plan::{BUILT_IN, BuiltIn};
use iolane_study::rows::parquet;
use serde_json::Value;

/// Every path of the registry that reaches files, and whether it is available here.
fn probed(folder: &Folder) -> Vec<(String, bool)> {
    let document = iolane(folder, ["probe", "--json", "-"]).done().json();
    assert_valid("probe", &document);
    let paths = document["paths"].as_array().unwrap().iter();
    paths.map(|path| (path["path"].as_str().unwrap().to_owned(), path["available"] == true)).collect()
}

/// Makes a short run on a scratch file and checks its record.
#[track_caller]
fn run(folder: &Folder, arguments: &[&str]) -> Value {
    let ended = iolane(folder, ["run", "--json", "-"].iter().chain(&SHORT).chain(arguments));
    checked(ended)
}

/// Makes a short run on targets and checks its record.
#[track_caller]
fn run_on_targets(folder: &Folder, arguments: &[&str]) -> Value {
    let times = ["--runtime", "200ms", "--warmup", "50ms"];
    checked(iolane(folder, ["run", "--json", "-"].iter().chain(&times).chain(arguments)))
}

#[track_caller]
fn checked(ended: Ended) -> Value {
    let record = ended.done().json();
    assert_valid("run", &record);
    assert_sane(&record);
    record
}

#[track_caller]
fn assert_sane(record: &Value) {
    let result = &record["result"];
    let figure = |key: &str| result[key].as_f64().unwrap_or_else(|| panic!("no {key}: {record:#}"));
    assert!(figure("ios") > 0.0, "{record:#}");
    assert_eq!((figure("errors"), figure("short")), (0.0, 0.0), "{record:#}");
    let latency = &result["latency_ns"];
    let rising: Vec<u64> =
        ["min", "p50", "p90", "p99", "p99_9", "p99_99", "max"].map(|key| latency[key].as_u64().unwrap()).into();
    assert!(rising.is_sorted(), "{latency}");
    let mean = latency["mean"].as_f64().unwrap();
    assert!(rising[0] as f64 <= mean && mean <= rising[6] as f64, "{latency}");
    if record["workload"]["repeats"] == 1 {
        let expected = figure("ios") / figure("elapsed_s");
        assert!((figure("iops") / expected - 1.0).abs() < 0.001, "{record:#}");
        assert!(figure("bytes_per_s") <= figure("iops") * record["workload"]["block_bytes"].as_f64().unwrap() * 1.001);
    }
    let submit = &result["submit_ns"];
    assert!(submit["p50"].as_u64().unwrap() <= submit["p99"].as_u64().unwrap(), "{submit}");
}

/// The range of system calls per read at depth 1.
fn syscalls_per_io(path: &str) -> std::ops::RangeInclusive<f64> {
    match path.split(['+', ',']).next().unwrap() {
        _ if path.contains("+sqpoll") => 0.0..=0.1,
        "psync" => 1.0..=1.0,
        // io_submit and io_getevents.
        "libaio" => 1.0..=2.1,
        "io_uring" if !path.contains("poll") => 0.9..=1.1,
        // The C library's helper threads: the read, and futex calls.
        "posix_aio" => 1.0..=20.0,
        _ => 0.0..=2.1,
    }
}

#[test]
fn every_path_that_probe_offers_runs_and_its_record_is_as_the_schema_says() {
    let folder = Folder::new();
    let mut ran = 0;
    for (path, available) in probed(&folder) {
        if !available {
            common::skipped("contract of a path", &format!("{path} is not available here"));
            continue;
        }
        let record = run(&folder, &["--path", &path]);
        assert_eq!((&record["schema"], &record["path"]), (&"iolane.run/1".into(), &path.as_str().into()));
        if let Some(calls) = record["result"]["syscalls_per_io"].as_f64() {
            let plausible = syscalls_per_io(&path);
            assert!(plausible.contains(&calls), "{path}: {calls} system calls per I/O, not in {plausible:?}");
        } else {
            assert_eq!(path, "posix_aio", "only a path that cannot count its own calls may have none: {record:#}");
        }
        assert_eq!(record["proof"]["polled"], path.contains("iopoll") || path.contains("hybrid"));
        ran += 1;
    }
    assert!(ran > 0);
    assert!(folder.names().is_empty(), "{:?}", folder.names());
}

#[test]
fn made_up_devices_have_records_too() {
    let folder = Folder::new();
    for path in ["null", "sim"] {
        let record = run(&folder, &["--path", path, "--depth", "8"]);
        assert_eq!((&record["target"]["kind"], &record["host"]["device"]), (&path.into(), &Value::Null));
        let probe = iolane(&folder, ["probe", path, "--json", "-"]).done().json();
        assert_valid("probe", &probe);
    }
}

#[test]
fn a_study_is_written_whole_and_accounts_for_every_path() {
    let folder = Folder::new();
    let paths = probed(&folder);
    let arguments =
        ["study", "--runtime", "200ms", "--warmup", "20ms", "--repeat", "2", "--size", "16m", "--json", "copy.json"];
    let ended = iolane(&folder, arguments).done();
    assert_eq!(folder.names(), ["copy.json", "results"]);
    let mut results = fs::read_dir(folder.join("results/survey")).unwrap().map(|entry| entry.unwrap().file_name());
    assert!(results.all(|name| ["report.html", "study.json", "records.parquet"].iter().any(|known| name == *known)));
    let text = fs::read_to_string(folder.join("results/survey/study.json")).unwrap();
    assert_eq!(text, fs::read_to_string(folder.join("copy.json")).unwrap());
    let study: Value = serde_json::from_str(&text).unwrap();
    assert_valid("study", &study);

    let too_wide: Vec<&str> = ended.stdout.lines().filter(|line| line.chars().count() > 100).collect();
    assert!(too_wide.is_empty(), "{too_wide:#?}");
    let (table, not_taken) = ended.stdout.split_once("Not measured:").unwrap();
    let named = |list: &str, path: &str| study[list].as_array().unwrap().iter().any(|entry| entry["path"] == path);
    for (path, available) in &paths {
        assert_eq!(named("arms", path), *available, "{path}: {study:#}");
        assert!(*available || named("skipped", path), "{path}: {study:#}");
        let words = |text: &str| text.split([' ', '\n']).any(|word| word.trim_end_matches(',') == path);
        assert!(if *available { words(table) } else { words(not_taken) }, "{path}: {}", ended.stdout);
    }
    for skipped in study["skipped"].as_array().unwrap() {
        // The text wraps reasons; their first words stay on one line.
        let reason: Vec<&str> = skipped["reason"].as_str().unwrap().split(' ').take(3).collect();
        assert!(not_taken.contains(&reason.join(" ")), "{skipped}: {not_taken}");
    }
    for arm in study["arms"].as_array().unwrap() {
        let iops = &arm["iops"];
        let [low, value, high] = ["low", "value", "high"].map(|key| iops[key].as_f64().unwrap());
        assert!(0.0 < low && low <= value && value <= high, "{arm}");
        assert!(arm["p50_ns"].as_u64() <= arm["p99_ns"].as_u64(), "{arm}");
        assert_eq!(arm["iops_repeats"].as_array().unwrap().len(), 2);
    }
    let records = fs::read(folder.join("results/survey").join(study["records"]["file"].as_str().unwrap())).unwrap();
    assert_eq!(study["records"]["crc32"], parquet::checksum(&records));
}

#[test]
fn a_path_that_chooses_is_recorded_with_what_it_chose_and_why() {
    let folder = Folder::new();
    folder.file("target", ODD_BYTES);
    let words = "run --path auto --target target --threads 2 --runtime 50ms --json run.json";
    let shown = iolane(&folder, words.split(' ')).done().stdout;
    assert!(shown.contains("\n  choice        ") && shown.contains(" in the first of 2 queues: "), "{shown}");
    let record: serde_json::Value =
        serde_json::from_str(&std::fs::read_to_string(folder.join("run.json")).unwrap()).unwrap();
    assert_valid("run", &record);
    let choices = record["choices"].as_array().unwrap();
    assert_eq!(choices.len(), 2);
    for changes in choices.iter().map(|choices| choices["changes"].as_array().unwrap()) {
        let after: Vec<f64> = changes.iter().map(|change| change["after_s"].as_f64().unwrap()).collect();
        assert!(!after.is_empty() && after.is_sorted(), "{after:?}");
        assert_eq!(changes[0]["reason"], "the first, nothing is measured yet");
    }
    let fixed = iolane(&folder, "run --path psync --target target --runtime 50ms --json -".split(' ')).done().json();
    assert!(fixed.get("choices").is_none());
}

#[test]
fn what_a_run_learns_of_the_paths_is_kept_for_the_next() {
    let folder = Folder::new();
    folder.file("target", 1 << 20);
    let run = "run --path auto --target target --runtime 400ms --path-memory paths --json -";
    let reasons = |ended: Ended| -> Vec<String> {
        let choices = &ended.done().json()["choices"][0]["changes"];
        choices.as_array().unwrap().iter().map(|change| change["reason"].as_str().unwrap().to_owned()).collect()
    };
    let is_remembered = |reason: &String| reason.contains("another queue has measured this load");
    assert!(!reasons(iolane(&folder, run.split(' '))).iter().any(is_remembered));
    assert!(fs::read_to_string(folder.join("paths")).unwrap().contains("\npath io_uring"));
    let second = reasons(iolane(&folder, run.split(' ')));
    assert!(second.get(1).is_some_and(is_remembered), "{second:?}");
    let fixed = iolane(&folder, "run --path psync --target target --path-memory paths".split(' '));
    assert_refused(&fixed, 2, &["only a path that chooses", "use --path auto"]);
    fs::write(folder.join("paths"), "something else\n").unwrap();
    assert_refused(&iolane(&folder, run.split(' ')), 2, &["path memory paths, line 1", "remove the file"]);
}

#[test]
fn what_each_built_in_study_would_do_is_as_the_schema_says() {
    let folder = Folder::new();
    for BuiltIn { name, .. } in BUILT_IN {
        for scale in [&[][..], &["--full"]] {
            let words = ["study", name, "--dry-run", "--json", "-", "--size", "16m"];
            let ended = iolane(&folder, words.iter().chain(scale)).done();
            let plan = ended.json();
            assert_valid("plan", &plan);
            assert_eq!(plan["name"], *name);
        }
    }
    assert_valid("plan", &iolane(&folder, ["study", "--dry-run", "--json", "-"]).done().json());
    assert!(folder.names().is_empty(), "{:?}", folder.names());
}

#[test]
fn a_published_study_is_reported_as_the_schema_says() {
    let folder = Folder::new();
    let short = ["--runtime", "20ms", "--warmup", "0s", "--repeat", "1", "--size", "16m", "--json", "-"];
    // The smallest built-in study.
    let ended = iolane(&folder, ["study", "floe26"].iter().chain(&short));
    let study = ended.json();
    assert_valid("study", &study);
    assert!(!study["figures"].as_array().unwrap().is_empty(), "{study:#}");
    assert_eq!((&study["name"], &study["scale"]), (&"floe26".into(), &"scaled".into()));
}

#[test]
fn every_access_runs_and_is_recorded_as_asked_for() {
    let folder = Folder::new();
    for access in ["read", "write", "rw", "randread", "randwrite", "randrw"] {
        let record = run(&folder, &["--rw", access, "--depth", "4"]);
        assert_eq!(record["workload"]["rw"], access);
    }
    let record = run(&folder, &["--rw", "randrw", "--read-percent", "70"]);
    assert_eq!(record["workload"]["read_percent"], 70);
}

#[test]
fn block_sizes_and_offset_patterns_run_and_are_recorded_as_asked_for() {
    let folder = Folder::new();
    for sizes in ["512", "4k-64k", "4k/70:64k/30"] {
        let record = run(&folder, &["--bs", sizes, "--depth", "4"]);
        assert_eq!(record["workload"]["block_sizes"], sizes);
    }
    for pattern in ["zipf:1.2", "pareto:0.2", "hot:90/10", "zoned:50/5:50/95"] {
        assert_eq!(run(&folder, &["--offsets", pattern])["workload"]["offsets"], pattern);
    }
    for pattern in ["skip:64k", "skip:-8k", "skip:1m/64k"] {
        assert_eq!(run(&folder, &["--rw", "read", "--offsets", pattern])["workload"]["offsets"], pattern);
    }
    let writes = &run(&folder, &["--rw", "randwrite", "--durable", "--data", "compress:50+dedupe:40/5"])["workload"];
    assert_eq!((&writes["durable"], &writes["data"]), (&true.into(), &"compress:50+dedupe:40/5".into()));
    let part = &run(&folder, &["--align", "8k", "--start", "1m"])["workload"];
    assert_eq!((&part["align_bytes"], &part["start_bytes"]), (&8192.into(), &(1 << 20).into()));
}

#[test]
fn threads_batches_cpus_and_repeats_run_and_are_recorded_as_asked_for() {
    let folder = Folder::new();
    assert_eq!(run(&folder, &["--threads", "2"])["workload"]["threads"], 2);
    let record = run(&folder, &["--depth", "8", "--batch-complete", "4", "--cpus", "0"]);
    assert_eq!((&record["workload"]["batch_complete"], &record["workload"]["cpus"]), (&4.into(), &"0".into()));
    let calls = record["result"]["syscalls_per_io"].as_f64().unwrap();
    assert!(calls < 0.3, "batches of 4 take a call for 4: {calls}");
    let record = run(&folder, &["--repeat", "3", "--path", "psync"]);
    let result = &record["result"];
    assert_eq!(
        (record["workload"]["repeats"].as_u64(), result["iops_repeats"].as_array().unwrap().len()),
        (Some(3), 3)
    );
    let [low, value, high] = [&result["iops_interval"][0], &result["iops"], &result["iops_interval"][1]]
        .map(|figure| figure.as_f64().unwrap());
    assert!(low <= value && value <= high, "{result}");
}

#[test]
fn requests_that_are_submitted_one_by_one_take_a_call_each() {
    let folder = Folder::new();
    let one_by_one = ["--depth", "16", "--batch-submit", "1", "--batch-complete-max", "1"];
    for (path, least, most) in [("io_uring,plain", 1.0, 2.0), ("libaio", 1.0, 2.0), ("libaio,getevents", 1.99, 2.01)] {
        let record = run(&folder, &[&["--path", path], &one_by_one[..]].concat());
        let calls = record["result"]["syscalls_per_io"].as_f64().unwrap();
        assert!((least..=most).contains(&calls), "{path}: {calls} calls per I/O");
        assert_eq!(record["workload"]["batch_submit"], 1);
    }
    let together = run(&folder, &["--path", "libaio,getevents", "--depth", "16", "--batch-complete", "16"]);
    let calls = together["result"]["syscalls_per_io"].as_f64().unwrap();
    assert!(calls < 0.2, "16 requests take one call to submit and one to complete: {calls}");
}

#[test]
fn the_page_cache_is_taken_where_it_is_asked_for() {
    let folder = Folder::new();
    for path in ["psync", "libaio", "io_uring"] {
        let ended = iolane(&folder, ["run", "--json", "-", "--direct", "false", "--path", path].iter().chain(&SHORT));
        // libaio blocks without O_DIRECT; it may warn or refuse.
        match ended.code {
            Some(3 | 2) if path == "libaio" => assert_eq!(ended.stderr.lines().count(), 1, "{ended:#?}"),
            _ => assert_eq!(checked(ended)["target"]["direct"], false),
        }
    }
}

#[test]
fn a_rate_is_kept_and_fsync_is_counted() {
    let folder = Folder::new();
    let record = run(&folder, &["--rate", "500", "--depth", "4"]);
    let (ios, elapsed_s) = (record["result"]["ios"].as_f64().unwrap(), record["result"]["elapsed_s"].as_f64().unwrap());
    assert!(ios <= 500.0 * elapsed_s + 5.0, "{ios} in {elapsed_s} s");
    let record = run(&folder, &["--rw", "randwrite", "--fsync", "8"]);
    let (ios, syncs) = (record["result"]["ios"].as_u64().unwrap(), record["result"]["syncs"].as_u64().unwrap());
    assert!(syncs.abs_diff(ios / 8) <= 1, "{syncs} syncs for {ios} writes");
    let record = run(&folder, &["--rw", "randwrite", "--fdatasync", "8"]);
    let max = |requests: &str| record["result"][requests]["max"].as_u64();
    assert!(max("sync_latency_ns") > Some(0) && max("commit_latency_ns") >= max("sync_latency_ns"), "{record:#}");
    let record = run(&folder, &["--rw", "randwrite"]);
    assert!(record["result"]["commit_latency_ns"].is_null(), "no write is made durable: {record:#}");
}

#[test]
fn a_rate_of_next_to_nothing_starts_one_request_alone() {
    let folder = Folder::new();
    let ended = iolane(&folder, ["run", "--json", "-", "--rate", "1e-300"].iter().chain(&SHORT)).done();
    let record = ended.json();
    assert_valid("run", &record);
    assert!(record["result"]["ios"].as_u64() <= Some(1), "{record:#}");
}

#[test]
fn what_a_study_is_told_twice_it_does_once() {
    let folder = Folder::new();
    let twice = ["study", "--path", "psync", "--path", "libaio", "--path", "posix-sio", "--depth", "1,1"];
    let short = ["--runtime", "200ms", "--repeat", "1", "--size", "1m", "--json", "-"];
    let study = iolane(&folder, twice.iter().chain(&short)).done().json();
    assert_valid("study", &study);
    assert_eq!(study["arms"].as_array().unwrap().len(), 2, "{study:#}");
}

#[test]
fn several_targets_have_a_thread_each_and_are_all_recorded() {
    let folder = Folder::new();
    folder.file("one", ODD_BYTES);
    folder.file("two", ODD_BYTES + 4096);
    let before = folder.contents();
    let record = run_on_targets(&folder, &["--target", "one", "--target", "two", "--depth", "2"]);
    let targets = record["targets"].as_array().unwrap();
    let names: Vec<&str> = targets.iter().map(|target| target["name"].as_str().unwrap()).collect();
    assert_eq!(names, ["one", "two"]);
    assert_eq!(record["workload"]["threads"], 2);
    assert!(before == folder.contents(), "reading changed them");
}

#[test]
fn verify_passes_on_a_scratch_file_and_on_a_file_it_writes_itself() {
    let folder = Folder::new();
    run(&folder, &["--verify", "--depth", "4"]);
    run(&folder, &["--verify", "--rw", "randrw", "--bs", "4k-16k", "--depth", "8", "--threads", "2"]);
    folder.file("file", ODD_BYTES);
    let mine = ["--target", "file", "--allow-writes", "file", "--verify"];
    run_on_targets(&folder, &[&mine[..], &["--rw", "randrw", "--depth", "4"]].concat());
    run_on_targets(&folder, &[&mine[..], &["--rw", "rw"]].concat());
}

#[test]
fn verify_reads_back_what_was_written_and_a_later_run_verifies_it() {
    let folder = Folder::new();
    let bytes = 64 * 4096;
    folder.file("file", bytes);
    let mine = ["--target", "file", "--allow-writes", "file", "--verify", "--seed", "9"];
    // The two short phases alone write the file more than once.
    let written = run_on_targets(&folder, &[&mine[..], &["--rw", "write", "--depth", "4"]].concat());
    assert_eq!(written["result"]["verified"], 64);
    let read = run_on_targets(&folder, &["--target", "file", "--verify", "--seed", "9", "--rw", "read"]);
    assert_eq!(read["result"]["verified"], read["result"]["ios"]);
    let page = iolane(&folder, ["run", "--verify", "--rw", "randwrite"].iter().chain(&SHORT)).done().stdout;
    assert!(page.contains(" blocks read back after the load, no mismatch\n"), "{page}");
}

#[test]
fn verify_shows_what_should_have_been_read_and_what_was() {
    let folder = Folder::new();
    let file = folder.file("file", 64 * 4096);
    let arguments = ["run", "--target", "file", "--allow-writes", "file", "--verify", "--rw", "randrw"];
    let mut child = command(&folder, arguments.iter().chain(&["--runtime", "50s"])).spawn().unwrap();
    wait_until("it measures", || measuring_threads(pid(&child)) > 0);
    let foreign = vec![0xa5; 64 * 4096];
    wait_until("it has seen what another program wrote", || {
        fs::write(&file, &foreign).unwrap();
        child.try_wait().unwrap().is_some()
    });
    let ended = finish(child);
    assert_eq!((ended.code, ended.stderr.lines().count()), (Some(1), 1), "{ended:#?}");
    for part in ["iolane: verify: target offset ", "expected 0x", "found 0x"] {
        assert!(ended.stderr.contains(part), "{part}: {}", ended.stderr);
    }
    assert_eq!(folder.names(), ["file"]);
}

#[test]
fn without_json_a_run_tells_people_within_100_columns() {
    let folder = Folder::new();
    let ended = iolane(&folder, ["run", "--path", "psync", "--json", "record.json"].iter().chain(&SHORT)).done();
    for word in ["IOPS", "bandwidth", "latency", "cores", "system calls"] {
        assert!(ended.stdout.contains(word), "{}", ended.stdout);
    }
    assert!(ended.stdout.lines().all(|line| line.chars().count() <= 100), "{}", ended.stdout);
    let record = serde_json::from_str(&fs::read_to_string(folder.join("record.json")).unwrap()).unwrap();
    assert_valid("run", &record);
}

#[test]
fn probe_without_json_names_every_path_within_100_columns() {
    let folder = Folder::new();
    let ended = iolane(&folder, ["probe"]).done();
    assert!(ended.stdout.lines().all(|line| line.chars().count() <= 100), "{}", ended.stdout);
    for (path, _) in probed(&folder) {
        let named = ended.stdout.split([' ', '\n']).any(|word| word.trim_end_matches(',') == path);
        assert!(named, "{path}: {}", ended.stdout);
    }
}

#[test]
fn what_a_machine_offers_is_probed_where_no_file_can_be_made_too() {
    let folder = Folder::new();
    let mut probe = command(&folder, ["probe", "--host"]);
    let ended = finish(probe.current_dir("/proc").env("TMPDIR", folder.path()).spawn().unwrap());
    assert_eq!(ended.code, Some(0), "{ended:#?}");
    assert!(ended.stderr.contains("this folder takes no scratch file; one in"), "{ended:#?}");
    assert!(folder.names().is_empty(), "{:?}", folder.names());
    // Nor is it there: the reason is the one of this folder.
    let mut probe = command(&folder, ["probe"]);
    let refused = finish(probe.current_dir("/proc").env("TMPDIR", "/proc").spawn().unwrap());
    assert_eq!((refused.code, refused.stderr.lines().count()), (Some(3), 1), "{refused:#?}");
}

#[test]
fn what_a_run_cost_has_a_value_and_its_source_or_null_and_why() {
    let folder = Folder::new();
    let record = run(&folder, &["--path", "psync", "--repeat", "2"]);
    let telemetry = record["telemetry"].as_object().unwrap();
    for (name, figure) in telemetry {
        let told = if figure["value"].is_null() { &figure["unavailable"] } else { &figure["source"] };
        assert!(told.as_str().is_some_and(|told| told.len() > 3), "{name}: {figure}");
    }
    for counted in ["cycles", "instructions", "cache_references", "cache_misses", "frequency_hz"] {
        assert_ne!(telemetry[counted]["value"].as_f64(), Some(0.0), "{counted} cannot be 0: {telemetry:#?}");
    }
    let threads = telemetry["threads"]["value"].as_array().unwrap();
    let worker = threads.iter().find(|thread| thread["name"] == "iolane-0").unwrap();
    let (worker_s, all_s) = (worker["cpu_s"].as_f64().unwrap(), telemetry["cpu_s"]["value"].as_f64().unwrap());
    assert!(worker_s > 0.0 && worker_s <= all_s + 0.005, "{worker_s} of {all_s}");
    assert!(telemetry["memory_bytes"]["value"].as_u64().unwrap() > 1 << 20);
    // An unavailable figure is reported once, and not among the warnings.
    let warnings = record["warnings"].as_array().unwrap();
    assert!(!warnings.iter().any(|warning| warning.as_str().unwrap().contains("unavailable")), "{warnings:?}");

    let record = run(&folder, &["--path", "psync", "--unwatched"]);
    assert!(record["telemetry"]["memory_bytes"]["unavailable"].as_str().unwrap().contains("not watched"));
    assert!(record["result"]["iops"].as_f64().unwrap() > 0.0);
}

#[test]
fn the_machine_is_shown_within_100_columns_with_what_to_do_about_each_thing_that_distorts() {
    let folder = Folder::new();
    let ended = iolane(&folder, ["probe", "--host", "--json", "machine.json"]).done();
    assert!(ended.stdout.lines().all(|line| line.chars().count() <= 100), "{}", ended.stdout);
    let document = serde_json::from_str(&fs::read_to_string(folder.join("machine.json")).unwrap()).unwrap();
    assert_valid("probe", &document);
    let findings = document["findings"].as_array().unwrap();
    assert!(findings.len() > 20, "{findings:#?}");
    for finding in findings {
        let fact = finding["fact"].as_str().unwrap();
        assert!(ended.stdout.contains(fact), "{fact}: {}", ended.stdout);
        let todo = format!("  {fact}: ");
        assert_eq!(ended.stdout.contains(&todo), finding["remedy"].is_string(), "{fact}: {}", ended.stdout);
    }
    assert!(document["paths"].as_array().is_some_and(|paths| !paths.is_empty()));
    assert!(iolane(&folder, ["probe", "null", "--json", "-"]).done().json()["findings"].is_null());
}

#[test]
fn results_replace_results_and_go_through_symbolic_links_and_pipes() {
    let folder = Folder::new();
    folder.file("old.json", 10);
    std::os::unix::fs::symlink("old.json", folder.join("link.json")).unwrap();
    iolane(&folder, ["probe", "--json", "link.json"]).done();
    assert!(fs::symlink_metadata(folder.join("link.json")).unwrap().is_symlink());
    assert_valid("probe", &serde_json::from_str(&fs::read_to_string(folder.join("old.json")).unwrap()).unwrap());

    let ended = iolane(&folder, ["probe", "--json", "/dev/stderr"]).done();
    assert_valid("probe", &serde_json::from_str(&ended.stderr).unwrap());
    // A named pipe: if it were replaced by a file, its reader would wait forever.
    rustix::fs::mknodat(rustix::fs::CWD, folder.join("pipe"), rustix::fs::FileType::Fifo, 0o600.into(), 0).unwrap();
    let writer = command(&folder, ["probe", "--json", "pipe"]).spawn().unwrap();
    let text = finish(common::command_of("cat", &folder, ["pipe"]).spawn().unwrap()).stdout;
    finish(writer).done();
    assert_valid("probe", &serde_json::from_str(&text).unwrap());
    assert_eq!(folder.names(), ["link.json", "old.json", "pipe"]);
}

#[test]
fn what_the_schemas_share_they_say_alike() {
    let [run, probe, study, plan] = ["run", "probe", "study", "plan"].map(schema);
    assert_eq!(study["properties"]["skipped"], plan["properties"]["skipped"]);
    for shared in ["target", "host"] {
        assert_eq!(run["$defs"][shared], probe["$defs"][shared]);
        assert_eq!(run["$defs"][shared], study["$defs"][shared]);
    }
    let [advice, observed] = ["advice", "observed"].map(schema);
    assert_eq!(advice["properties"]["process"]["properties"], observed["properties"]);
}

/// runs.json stands alone, so that a validator needs no other file.
#[test]
fn the_schema_of_several_jobs_holds_that_of_one() {
    let (runs, run) = (schema("runs"), schema("run"));
    let mut expected = run["$defs"].as_object().unwrap().clone();
    let parts = run.as_object().unwrap().iter().filter(|(name, _)| !matches!(&***name, "$schema" | "$defs"));
    expected.insert("run".into(), parts.map(|(name, part)| (name.clone(), part.clone())).collect());
    assert_eq!(runs["$defs"].as_object(), Some(&expected));
    assert_eq!(runs["properties"]["jobs"]["items"]["$ref"], "#/$defs/run");
}

#[test]
fn the_schemas_are_themselves_valid_and_refuse_what_is_not_so() {
    for name in ["run", "runs", "probe", "study", "plan", "nvme", "calibrate", "predict", "advice", "observed"] {
        jsonschema::draft202012::meta::validate(&schema(name)).unwrap_or_else(|error| panic!("{name}: {error}"));
    }
    let folder = Folder::new();
    let good = run(&folder, &["--path", "psync"]);
    let validator = jsonschema::draft202012::new(&schema("run")).unwrap();
    let spoilt = |pointer: &str, value: Value| {
        let mut record = good.clone();
        *record.pointer_mut(pointer).unwrap() = value;
        assert!(!validator.is_valid(&record), "{pointer}");
    };
    spoilt("/result/iops", Value::Null);
    spoilt("/result/ios", (-1).into());
    spoilt("/schema", "iolane.run/2".into());
    spoilt("/target/kind", "tape".into());
    spoilt("/result/latency_ns", Value::Null);
}
