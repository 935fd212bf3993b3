//! `iolane advise` on results of a real study, on a short measurement and on a running process: its text, its JSON, the check of a path in use, and refusals in one line.

mod common;

use common::{Ended, Folder, ODD_BYTES, assert_valid, command, iolane, wait_until};

/// Results of two paths on a file.
fn study(folder: &Folder) {
    folder.file("target", ODD_BYTES);
    let words = "study --path psync,libaio --depth 1 --repeat 3 --runtime 50ms --warmup 0s --target target --out results/survey";
    iolane(folder, words.split(' ')).done();
}

#[test]
fn advice_names_a_path_with_all_others_and_its_settings_for_other_programs() {
    let folder = Folder::new();
    study(&folder);
    let text = iolane(&folder, ["advise"]).done().stdout;
    for words in
        ["Advice from results/survey (survey): 3 repeats", "for throughput: ", " lead ", "    fio     ioengine="]
    {
        assert!(text.contains(words), "`{words}` is not in {text}");
    }
    let document = iolane(&folder, ["advise", "--goal", "throughput", "--json", "-"]).done().json();
    assert_valid("advice", &document);
    let advice = document["advice"].as_array().unwrap();
    assert!(advice.len() == 1 && advice[0]["goal"] == "throughput", "{document:#}");
    assert_eq!(advice[0]["others"].as_array().unwrap().len(), 1);
}

#[test]
fn a_path_in_use_is_checked_for_one_goal() {
    let folder = Folder::new();
    study(&folder);
    let command = ["advise", "--goal", "throughput", "--check", "psync", "--min-gain", "100%", "--json", "check.json"];
    let ended = iolane(&folder, command);
    let document: serde_json::Value =
        serde_json::from_str(&std::fs::read_to_string(folder.join("check.json")).unwrap()).unwrap();
    assert_valid("advice", &document);
    let passed = document["check"]["passed"].as_bool().unwrap();
    assert_eq!(ended.code, Some(i32::from(!passed)), "{ended:#?}");
    assert_eq!((&document["check"]["path"], &document["check"]["least_gain"]), (&"psync".into(), &2.0.into()));
    assert!(ended.stdout.contains("Check of psync for throughput: "), "{}", ended.stdout);
}

#[test]
fn the_path_in_use_may_stand_in_a_file() {
    let folder = Folder::new();
    study(&folder);
    std::fs::write(folder.join("current.toml"), "path = \"psync\"\ngoal = \"throughput\"\nmin_gain_percent = 100\n")
        .unwrap();
    let checked = |more: &[&str]| {
        let command = ["advise", "--check", "current.toml", "--json", "check.json"];
        let ended = iolane(&folder, command.iter().chain(more).copied());
        let text = std::fs::read_to_string(folder.join("check.json")).unwrap();
        let document: serde_json::Value = serde_json::from_str(&text).unwrap();
        assert_eq!(ended.code, Some(i32::from(document["check"]["passed"] == false)), "{ended:#?}");
        (document["check"]["path"].clone(), document["check"]["goal"].clone(), document["check"]["least_gain"].clone())
    };
    assert_eq!(checked(&[]), ("psync".into(), "throughput".into(), 2.0.into()));
    // Options go before what the file says.
    assert_eq!(
        checked(&["--goal", "processor", "--min-gain", "50%"]),
        ("psync".into(), "processor".into(), 1.5.into())
    );
    let refused = iolane(&folder, ["advise", "--check", "current.toml", "--json", "./current.toml"]);
    assert!(refused.code == Some(2) && refused.stderr.contains("./current.toml: it is a target"), "{refused:#?}");
    assert_eq!(checked(&[]).0, "psync");
}

/// On a busy machine runs are repeated until the time is up, and advice lacks repeats: it says so then.
fn lacks_repeats(ended: &Ended) -> bool {
    let lacks = ended.code == Some(1);
    assert!(!lacks || ended.stderr.contains("of each arm, and advice takes 3"), "{ended:#?}");
    lacks
}

#[test]
fn what_is_not_measured_yet_is_measured_for_the_advice() {
    let folder = Folder::new();
    folder.file("target", ODD_BYTES);
    let words =
        "advise --target target --path psync,libaio --bs 8k --depth 1 --time 6s --goal throughput --json advice.json";
    let ended = iolane(&folder, words.split(' '));
    if lacks_repeats(&ended) {
        return;
    }
    let ended = ended.done();
    assert!(ended.stdout.contains("Advice from results/advice (survey): "), "{}", ended.stdout);
    assert!(ended.stdout.contains("\nrandread 8k\n"), "{}", ended.stdout);
    let document = std::fs::read_to_string(folder.join("advice.json")).unwrap();
    assert_valid("advice", &serde_json::from_str(&document).unwrap());
    // The results are those of a study.
    let again = iolane(&folder, ["advise", "results/advice", "--goal", "throughput"]).done();
    assert_eq!(again.stdout, ended.stdout);
}

/// A process that reads a file at random until it is dropped.
struct Reader(std::process::Child);

impl Reader {
    fn start(folder: &Folder) -> Self {
        folder.file("read", 1 << 20);
        let words = "run --target read --path libaio --depth 4 --bs 16k --warmup 0s --runtime 1h";
        let reader = Self(command(folder, words.split(' ')).spawn().unwrap());
        let io = format!("/proc/{}/io", reader.0.id());
        wait_until("the process reads", || {
            let text = std::fs::read_to_string(&io).unwrap_or_default();
            text.lines().any(|line| line.strip_prefix("read_bytes: ").is_some_and(|bytes| bytes != "0"))
        });
        reader
    }
}

impl Drop for Reader {
    fn drop(&mut self) {
        let _ = self.0.kill();
        let _ = self.0.wait();
    }
}

#[test]
fn the_load_of_a_running_process_is_shown_and_measured() {
    let folder = Folder::new();
    let reader = Reader::start(&folder);
    let pid = reader.0.id().to_string();
    let shown = iolane(&folder, ["advise", "--pid", &pid, "--watch", "100ms"]);
    if shown.code == Some(3) {
        // Its file is on no block device that this kernel shows, as in a container.
        assert!(shown.stderr.contains("no file open on a block device"), "{shown:#?}");
        return;
    }
    // Other programs share the drive, so that the process's load may be unknown.
    assert!(shown.code == Some(0) || shown.stderr.contains("of the bytes of "), "{shown:#?}");
    let is_known = shown.code == Some(0);
    let shown = shown.stdout;
    assert_eq!(shown.contains("advise --target TARGET"), is_known, "{shown}");
    for words in ["Process ", "(iolane), watched for ", "\n  path        libaio: ", " --bs ", "advise --target TARGET"]
    {
        assert!(shown.contains(words), "`{words}` is not in {shown}");
    }
    assert_valid("observed", &iolane(&folder, ["advise", "--pid", &pid, "--watch", "100ms", "--json", "-"]).json());
    let words = "--watch 100ms --target read --path psync,libaio --rw randread --bs 16k --depth 1 --threads 1 --time 6s --json advice.json";
    let measured = iolane(&folder, ["advise", "--pid", &pid].into_iter().chain(words.split(' ')));
    if measured.stderr.contains("of the bytes of ") || lacks_repeats(&measured) {
        return;
    }
    let measured = measured.done().stdout;
    assert!(measured.contains(" went on during the measurement and moved "), "{measured}");
    assert!(measured.contains("\nrandread 16k\n") && measured.contains("libaio (in use)"), "{measured}");
    let document: serde_json::Value =
        serde_json::from_str(&std::fs::read_to_string(folder.join("advice.json")).unwrap()).unwrap();
    assert_valid("advice", &document);
    assert_valid("observed", &document["process"]);
}

#[test]
fn results_without_advice_fail_with_what_they_lack() {
    let folder = Folder::new();
    folder.file("target", ODD_BYTES);
    let words = "study --path psync,libaio --depth 1 --repeat 2 --runtime 20ms --warmup 0s --target target --out few";
    iolane(&folder, words.split(' ')).done();
    let ended = iolane(&folder, ["advise", "few"]);
    assert_eq!(ended.code, Some(1), "{ended:#?}");
    assert!(
        ended.stdout.contains("No advice.")
            && ended.stderr.contains("it has 2 repeats of each arm, and advice takes 3"),
        "{ended:#?}"
    );
}

#[test]
fn a_process_that_cannot_be_watched_is_refused_in_one_line() {
    let folder = Folder::new();
    let no_process = u32::MAX.to_string();
    let own = std::process::id().to_string();
    for (arguments, code, says) in [
        (&["advise", "--pid", &no_process][..], 2, "there is no such process"),
        (&["advise", "--pid", &own, "--rw", "randread"], 2, "nothing is measured; add --target or --measure"),
        (&["advise", "--pid", &own, "--goal", "latency", "--check", "psync"], 2, "nothing is measured"),
        (&["advise", "--pid", &own, "--watch", "10ms"], 2, "--watch 100ms or longer"),
        (&["advise", "results/advice", "--pid", &own], 2, "cannot be used with"),
        (&["advise", "--watch", "1s"], 2, "--pid"),
        (&["advise", "--measure", "--rate-until", "p99=1ms"], 2, "a search of rates gives no advice"),
    ] {
        let ended = iolane(&folder, arguments);
        assert_eq!((ended.code, ended.stdout.as_str()), (Some(code), ""), "{ended:#?}");
        assert!(ended.stderr.contains(says), "{ended:#?}");
    }
    assert_eq!(folder.names(), Vec::<String>::new());
}

#[test]
fn what_cannot_be_advised_is_refused_in_one_line() {
    let folder = Folder::new();
    study(&folder);
    for (arguments, says) in [
        (&["advise", "nowhere"][..], "nowhere"),
        (&["advise", "--goal", "latency,throughput", "--check", "psync"], "one goal at a time"),
        (&["advise", "--check", "psync"], "name one with --goal"),
        (&["advise", "--time", "5s"], "nothing is measured"),
        (&["advise", "--measured", "elsewhere"], "nothing is measured"),
        (&["advise", "--check", "missing.toml"], "--check missing.toml: no such file"),
        (&["advise", "--goal", "throughput", "--check", "io_uring"], "it has libaio, psync"),
        (&["advise", "--goal", "commits", "--check", "psync"], "the load does not decide this goal"),
    ] {
        let ended = iolane(&folder, arguments);
        assert_eq!((ended.code, ended.stdout.as_str(), ended.stderr.lines().count()), (Some(2), "", 1), "{ended:#?}");
        assert!(ended.stderr.contains(says), "{ended:#?}");
    }
}
