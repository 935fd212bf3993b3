//! `iolane run JOBFILE`: fio job files run as written, on scratch files and on targets that are guarded like any other;
//! unknown options are reported with their line, and a job file cannot cause anything but a report.

mod common;

use std::fs;
use std::io::{BufRead, BufReader};
use std::os::unix::ffi::OsStrExt;

use common::{Ended, Folder, ODD_BYTES, assert_valid, command, finish, iolane, measuring_threads, pid, wait_until};
use rustix::process::{Signal, kill_process};
use serde_json::Value;

/// Writes a job file and runs it.
#[track_caller]
fn run(folder: &Folder, job_file: impl AsRef<[u8]>, arguments: &[&str]) -> Ended {
    fs::write(folder.join("job.fio"), job_file).unwrap();
    iolane(folder, ["run", "job.fio"].iter().chain(arguments))
}

/// Asserts one line on standard error with all of `parts`, nothing on standard output, and this exit code.
#[track_caller]
fn assert_refused(ended: &Ended, code: i32, parts: &[&str]) {
    assert_eq!((ended.code, ended.stdout.as_str(), ended.stderr.lines().count()), (Some(code), "", 1), "{ended:#?}");
    for part in parts {
        assert!(ended.stderr.contains(part), "no {part:?} in {}", ended.stderr);
    }
}

fn warnings(record: &Value) -> String {
    record["warnings"].as_array().unwrap().iter().map(|warning| format!("{}\n", warning.as_str().unwrap())).collect()
}

#[test]
fn a_job_ends_with_the_bytes_that_fio_would_end_with() {
    let folder = Folder::new();
    let record =
        run(&folder, "[once]\nsize=4m\nbs=16k\ndirect=1\nioengine=libaio\niodepth=4\n", &["--json", "-"]).done().json();
    assert_valid("run", &record);
    assert_eq!((&record["schema"], &record["job"]), (&"iolane.run/1".into(), &"once".into()));
    assert_eq!((&record["result"]["ios"], &record["path"]), (&256.into(), &"libaio".into()));
    assert_eq!(record["workload"]["bytes_max"], 4 << 20);
    assert_eq!(folder.names(), ["job.fio"], "the scratch file has no name");
}

#[test]
fn jobs_run_side_by_side_until_a_stonewall_and_each_has_a_record() {
    let folder = Folder::new();
    let file = "[global]\nsize=1m\ndirect=1\nthread\n[a]\nrw=randread\nnorandommap\nruntime=200ms\ntime_based\n[b]\nrw=write\n\
                numjobs=2\ngroup_reporting\n[c]\nstonewall\nrw=randrw\nverify=crc32c\nthinktime=100us\nramp_time=10ms\n";
    let document = run(&folder, file, &["--json", "-"]).done().json();
    assert_valid("runs", &document);
    let jobs = document["jobs"].as_array().unwrap();
    assert_eq!(jobs.iter().map(|job| job["job"].as_str().unwrap()).collect::<Vec<_>>(), ["a", "b", "c"]);
    let beside = |other: &str| format!("it ran at the same time as [{other}]: CPU time");
    assert!(warnings(&jobs[0]).contains(&beside("b")) && warnings(&jobs[1]).contains(&beside("a")), "{document:#}");
    assert!(!warnings(&jobs[2]).contains("at the same time"), "{document:#}");
    assert_eq!((&jobs[1]["result"]["ios"], &jobs[1]["targets"].as_array().unwrap().len()), (&512.into(), &2));
    assert_eq!((&jobs[2]["workload"]["think_us"], &jobs[2]["result"]["ios"]), (&100.into(), &256.into()));
    assert!(warnings(&jobs[2]).contains("not fio's verify=crc32c"), "{document:#}");
}

#[test]
fn verified_writes_are_read_back_and_a_scan_verifies_them_in_a_job_of_its_own() {
    let folder = Folder::new();
    folder.file("disk", 4 << 20);
    let file = "[global]\nthread\nbs=64k\nverify=meta\nverify_pattern=0xaa555aa5\nfilename=disk\n[write]\nrw=write\n\
                fill_device=1\ndo_verify=0\n[scan]\nstonewall\nrw=read\n[random]\nstonewall\nrw=randwrite\nnorandommap\n\
                size=1m\n";
    let document = run(&folder, file, &["--allow-writes", "disk", "--json", "-"]).done().json();
    let jobs = document["jobs"].as_array().unwrap();
    jobs.iter().for_each(|job| assert_valid("run", job));
    let counts = jobs.iter().map(|job| (job["result"]["ios"].as_u64(), job["result"]["verified"].as_u64()));
    let expected = [(Some(64), None), (Some(64), Some(64)), (Some(16), jobs[2]["result"]["verified"].as_u64())];
    assert_eq!(counts.collect::<Vec<_>>(), expected);
    assert!((1..=16).contains(&expected[2].1.unwrap()), "{document:#}");
    assert!(warnings(&jobs[0]).contains("reads nothing back with do_verify=0"), "{document:#}");
    let other = run(&folder, "[scan]\nrw=read\nbs=64k\nverify=meta\nrandseed=5\nfilename=disk\n", &[]);
    assert_eq!(other.code, Some(1), "{other:#?}");
    assert!(other.stderr.contains("seed differs: expected 5, found 1"), "{other:#?}");
}

#[test]
fn jobs_that_end_with_their_bytes_do_as_many_requests_as_with_fio() {
    if !common::has("fio") {
        return common::skipped("requests of fio's", "fio is not installed");
    }
    let folder = Folder::new();
    folder.file("one", 3 << 20);
    folder.file("two", 3 << 20);
    let file = "[global]\ngroup_reporting\nstonewall\nnorandommap\n[whole]\nfilename=one\nbs=16k\n[odd]\nsize=50k\nbs=8k\n\
                [threads]\nsize=1m\nnumjobs=3\nrw=write\n[amount]\nsize=1m\nio_size=3m\nrw=randread\nioengine=libaio\niodepth=8\n\
                [targets]\nfilename=one:two\nnumjobs=2\nbs=64k\n[part]\nfilename=one:two\nnumjobs=2\nsize=1m\n\
                [units]\nkb_base=1000\nsize=1m\nbs=1kb\n[loops]\nsize=64k\nloops=3\n\
                [number]\nsize=1m\nnumber_ios=7\n[filesize]\nfilename=one\nfilesize=64k\n[percent]\nfilename=one\nsize=35%\n\
                [reads]\nsize=64k\nbs=8k,16k\nrw=randread\n[engine]\nioengine=null\nsize=8kib\nbs=512\n";
    let document = run(&folder, file, &["--json", "-"]).done().json();
    let ours =
        document["jobs"].as_array().unwrap().iter().map(|job| (job["job"].clone(), job["result"]["ios"].clone()));
    let words = ["--output-format=json", "job.fio"];
    let fio = finish(common::command_of("fio", &folder, words).spawn().unwrap()).done().json();
    let jobs = fio["jobs"].as_array().unwrap().iter();
    let theirs = jobs.map(|job| {
        let ios = |kind: &str| job[kind]["total_ios"].as_u64().unwrap();
        (job["jobname"].clone(), Value::from(ios("read") + ios("write")))
    });
    assert_eq!(ours.collect::<Vec<_>>(), theirs.collect::<Vec<_>>());
}

#[test]
fn people_get_a_page_for_each_job_within_100_columns() {
    let folder = Folder::new();
    let file = "[first]\nsize=1m\n[second]\nsize=1m\nstonewall\n";
    let ended = run(&folder, file, &["--json", "runs.json", "--repeat", "2"]).done();
    let (first, second) =
        (ended.stdout.find("[first]\npsync on ").unwrap(), ended.stdout.find("\n\n[second]\npsync on ").unwrap());
    assert!(first < second && ended.stdout.lines().all(|line| line.chars().count() <= 100), "{}", ended.stdout);
    let document: Value = serde_json::from_str(&fs::read_to_string(folder.join("runs.json")).unwrap()).unwrap();
    assert_eq!(document["schema"], "iolane.runs/1");
    assert_eq!(document["jobs"][1]["result"]["iops_repeats"].as_array().unwrap().len(), 2);
}

#[test]
fn a_target_is_written_only_if_it_is_permitted_by_name() {
    let folder = Folder::new();
    folder.file("good", ODD_BYTES);
    folder.file("other", ODD_BYTES);
    let file = "[a]\nfilename=good\nrw=write\nsize=64k\n[b]\nfilename=good\nrw=randrw\nsize=64k\n";
    let before = folder.contents();
    assert_refused(&run(&folder, file, &[]), 2, &["writing to good", "add --allow-writes good"]);
    assert_refused(&run(&folder, file, &["--allow-writes", "other"]), 2, &["writing to good"]);
    assert_refused(&run(&folder, file, &["--json", "good"]), 2, &["writing good", "it is a target"]);
    assert_eq!(folder.contents()["good".as_ref() as &std::ffi::OsStr], before["good".as_ref() as &std::ffi::OsStr]);
    let document = run(&folder, file, &["--allow-writes", "good", "--json", "-"]).done().json();
    assert_eq!(document["jobs"][0]["target"]["name"], "good");
    assert_ne!(folder.contents()["good".as_ref() as &std::ffi::OsStr], before["good".as_ref() as &std::ffi::OsStr]);
    // Another file takes its place, and is guarded as well.
    assert_refused(&run(&folder, file, &["--allow-writes", "good", "--target", "other"]), 2, &["writing to other"]);
    let file = "[a]\nfilename=good\nsize=64k\n";
    let record = run(&folder, file, &["--target", "other", "--json", "-"]).done().json();
    assert_eq!((&record["target"]["name"], &record["result"]["ios"]), (&"other".into(), &16.into()));
}

#[test]
fn what_cannot_be_had_is_named_with_its_place_before_anything_is_measured() {
    let folder = Folder::new();
    folder.file("good", ODD_BYTES);
    for (file, code, parts) in [
        (
            "[a]\nsize=1m\n[b]\nsize=1m\nstonewall\nturbo=9\n",
            2,
            &["job.fio line 6: `turbo=9`: this option is not supported", "remove it"][..],
        ),
        ("[a]\nfilename=missing\n", 3, &["target missing", "make the file first (dd", "leave filename out"]),
        ("[a]\nfilename=good\nsize=64m\n", 2, &["job [a]: size=64m", "good has"]),
        ("[a]\nfilename=good\ndirect=1\nbs=1000\n", 2, &["job [a]: bs=1000 on good"]),
        ("[a]\nfilename=good:good\nnumjobs=2\n", 2, &["target good", "the same"]),
        ("[a]\nsize=1m\ncpus_allowed=8000\n", 2, &["job [a]: cpus_allowed=8000"]),
        ("[a]\nsize=1m\ndirectory=missing\n", 3, &["scratch file of 1m in missing", "no such file"]),
        ("[a]\nsize=1m\nioengine=io_uring\niodepth=99999\n", 2, &["job [a]: io_uring", "99999"]),
    ] {
        let ended = run(&folder, file, &[]);
        assert_refused(&ended, code, parts);
    }
    assert_eq!(folder.names(), ["good", "job.fio"]);
}

#[test]
fn options_that_are_not_supported_are_ignored_only_if_asked_for() {
    let folder = Folder::new();
    let file = "[a]\nsize=64k\ndirect=1\nflow=2\n";
    assert_refused(&run(&folder, file, &[]), 2, &["job.fio line 4: `flow=2`", "or use --lenient"]);
    let record = run(&folder, file, &["--lenient", "--json", "-"]).done().json();
    assert!(warnings(&record).contains("ignored: `flow=2` (line 4): "), "{record:#}");
    assert_eq!(iolane(&folder, ["run", "--lenient"]).code, Some(2));
}

#[test]
fn only_the_sections_that_are_named_run() {
    let folder = Folder::new();
    let file = "[global]\nsize=64k\n[a]\nbs=16k\n[b]\nrw=${IOLANE_UNSET}\nturbo=9\n[c]\nbs=8k\n";
    assert_refused(&run(&folder, file, &[]), 2, &["line 6: `${IOLANE_UNSET}`"]);
    let document = run(&folder, file, &["--section", "c", "--section=a", "--json", "-"]).done().json();
    let ran =
        document["jobs"].as_array().unwrap().iter().map(|job| (job["job"].as_str().unwrap(), &job["result"]["ios"]));
    assert_eq!(ran.collect::<Vec<_>>(), [("a", &4.into()), ("c", &8.into())]);
    let unknown = run(&folder, file, &["--section", "d"]);
    assert_refused(&unknown, 2, &["--section d: job.fio has no job of that name; its jobs are a, b, c"]);
    assert_eq!(iolane(&folder, ["run", "--section", "a"]).code, Some(2));
}

#[test]
fn a_job_with_a_delay_starts_later() {
    let folder = Folder::new();
    let begun = std::time::Instant::now();
    let document = run(&folder, "[a]\nsize=64k\n[b]\nsize=64k\nstartdelay=300ms\n", &["--json", "-"]).done().json();
    assert!(begun.elapsed() >= std::time::Duration::from_millis(300));
    assert_eq!(document["jobs"][1]["result"]["ios"], 16);
}

#[test]
fn settings_can_come_from_other_files_and_the_environment() {
    let folder = Folder::new();
    fs::create_dir(folder.join("jobs")).unwrap();
    fs::write(folder.join("jobs/job.fio"), "[a]\nsize=${SIZE}\nnumjobs=$ncpus/$ncpus\ninclude common.inc\n").unwrap();
    fs::write(folder.join("jobs/common.inc"), "bs=16k\n").unwrap();
    let mut asked = command(&folder, ["run", "jobs/job.fio", "--json", "-"]);
    let record = finish(asked.env("SIZE", "64k").spawn().unwrap()).done().json();
    assert_eq!((&record["result"]["ios"], &record["workload"]["block_bytes"]), (&4.into(), &16384.into()));
    fs::write(folder.join("jobs/common.inc"), "bs=16q\n").unwrap();
    let refused = finish(asked.spawn().unwrap());
    assert_refused(&refused, 2, &["jobs/common.inc line 1: `bs=16q`"]);
}

#[test]
fn hostile_files_are_refused_in_a_line() {
    let folder = Folder::new();
    let long = [b"[a]\nname=".to_vec(), vec![b'x'; 5000]].concat();
    let large = b"[a]\nsize=1m\n".repeat(100_000);
    let many = b"[a]\nsize=1m\nnumjobs=4000\n".repeat(2);
    for (file, parts) in [
        (&b""[..], &["job file job.fio", "it contains no job"][..]),
        (b"\x7fELF\x02\x01\x01\0\0\0", &["job.fio line 1"]),
        (b"[a]\n\xff\xfe=1", &["job.fio line 2", "not UTF-8"]),
        (b"[a\x1b[2J]\nsize=1m", &["job.fio line 1", "control character"]),
        (b"[a]\nsize=99999999999999999999999", &["job.fio line 2", "size=9999"]),
        (b"[a]\nsize=1m\ninclude /dev/zero", &["job.fio line 3", "`include /dev/zero`", "larger than 1m"]),
        (b"[a]\nsize=1m\ninclude job.fio", &["job.fio line 3", "includes itself"]),
        (b"[a]\nsize=${IOLANE_UNSET}", &["job.fio line 2", "`${IOLANE_UNSET}`", "not set"]),
        (&long, &["job.fio line 2", "longer than 4095 bytes"]),
        (&large, &["job file job.fio", "larger than 1m"]),
        (&many, &["job.fio line 4", "more than 4096 threads"]),
    ] {
        assert_refused(&run(&folder, file, &[]), 2, parts);
    }
    assert_refused(
        &iolane(&folder, ["run", "missing.fio"]),
        2,
        &["job file missing.fio", "no such file", "check the name"],
    );
    assert_refused(&iolane(&folder, ["run", "/"]), 2, &["job file /", "is a directory"]);
    assert_refused(&iolane(&folder, ["run", "/dev/zero"]), 2, &["job file /dev/zero", "larger than 1m"]);
    let odd = std::ffi::OsStr::from_bytes(b"odd-\xff\n.fio");
    fs::write(folder.join(odd), "[a]\nnonsense").unwrap();
    let ended = iolane(&folder, ["run".as_ref(), odd]);
    assert_refused(&ended, 2, &["odd-\u{fffd}?.fio line 2: `nonsense`"]);
    assert_eq!(folder.names(), ["job.fio", "odd-\u{fffd}\n.fio"]);
}

#[test]
fn options_that_the_file_gives_cannot_be_given_beside_it() {
    let folder = Folder::new();
    for option in [
        ["--path", "psync"],
        ["--depth", "2"],
        ["--threads", "2"],
        ["--rw", "read"],
        ["--runtime", "1s"],
        ["--size", "1m"],
        ["--cpus", "0"],
    ] {
        let ended = run(&folder, "[a]\nsize=1m\n", &option);
        assert_eq!((ended.code, ended.stdout.as_str()), (Some(2), ""), "{ended:#?}");
        assert!(ended.stderr.contains("cannot be used with"), "{}", ended.stderr);
    }
    assert_refused(
        &run(&folder, "[a]\nsize=1m\n", &["--json", "job.fio"]),
        2,
        &["writing job.fio", "it is the job file"],
    );
}

#[test]
fn an_interrupt_keeps_what_the_jobs_before_measured() {
    let folder = Folder::new();
    fs::write(
        folder.join("job.fio"),
        "[first]\nsize=64k\n[long]\nstonewall\nsize=1m\nruntime=3m\ntime_based\n[never]\nstonewall\nsize=1m\n",
    )
    .unwrap();
    let mut child = command(&folder, ["run", "job.fio", "--json", "runs.json"]).spawn().unwrap();
    let mut lines = BufReader::new(child.stdout.take().unwrap()).lines();
    assert_eq!(lines.next().unwrap().unwrap(), "[first]");
    wait_until("the second job runs", || measuring_threads(pid(&child)) > 0);
    kill_process(pid(&child), Signal::INT).unwrap();
    let rest: Vec<String> = lines.map(Result::unwrap).collect();
    let ended = finish(child);
    assert_eq!(ended.code, Some(1), "{ended:#?}");
    assert!(rest.contains(&"[long]".into()) && !rest.contains(&"[never]".into()), "{rest:?}");
    let document: Value = serde_json::from_str(&fs::read_to_string(folder.join("runs.json")).unwrap()).unwrap();
    assert_eq!(document["jobs"].as_array().unwrap().len(), 2);
    assert!(warnings(&document["jobs"][1]).contains("interrupted"), "{document:#}");
}
