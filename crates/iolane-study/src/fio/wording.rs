//! Errors in the words of a job file: the checks of workloads and plans name options of the command line, which a job file
//! does not have. Called wherever an error is given the name of a job.

use iolane::Error;

/// How the value after an option is written in a job file.
#[derive(Clone, Copy, PartialEq, Eq)]
enum Value {
    /// Unchanged.
    Same,
    /// `true` is 1, `false` is 0.
    Switch,
    /// Left out, because the job file has another: fio's rate is that of a thread.
    Other,
    /// The option has none.
    None,
}

/// Options of `iolane run` with their name in a job file.
const OPTIONS: [(&str, &str, Value); 25] = [
    ("--align", "blockalign", Value::Same),
    ("--arrivals", "rate_process", Value::Same),
    ("--batch-complete", "iodepth_batch_complete_min", Value::Same),
    ("--batch-complete-max", "iodepth_batch_complete_max", Value::Same),
    ("--batch-submit", "iodepth_batch", Value::Same),
    ("--bs", "bs", Value::Same),
    ("--cpus", "cpus_allowed", Value::Same),
    ("--data", "buffer_compress_percentage", Value::None),
    ("--depth", "iodepth", Value::Same),
    ("--direct", "direct", Value::Switch),
    ("--durable", "sync", Value::None),
    ("--fdatasync", "fdatasync", Value::Same),
    ("--fsync", "fsync", Value::Same),
    ("--offsets", "random_distribution", Value::Same),
    ("--path", "ioengine", Value::Other),
    ("--rate", "rate_iops", Value::Other),
    ("--read-percent", "rwmixread", Value::Same),
    ("--rw", "rw", Value::Same),
    ("--seed", "randseed", Value::Same),
    ("--size", "size", Value::Same),
    ("--sqpoll-cpus", "sqthread_poll_cpu", Value::Same),
    ("--start", "offset", Value::Same),
    ("--target", "filename", Value::None),
    ("--threads", "numjobs", Value::Same),
    ("--verify", "verify", Value::None),
];

/// The error with the options of a job file.
pub(crate) fn in_words_of_fio(error: &Error) -> Error {
    Error::usage(rewritten(error.what()), rewritten(error.cause()))
        .with_kind(error.kind())
        .remedy(rewritten(error.remedy_text()))
}

/// Options that a job file does not have, such as `--allow-writes`, are unchanged.
fn rewritten(text: &str) -> String {
    let mut words: Vec<String> = Vec::new();
    let mut rest = text.split(' ').peekable();
    while let Some(word) = rest.next() {
        // `(--size,` is an option between punctuation.
        let start = word.find("--").unwrap_or(0);
        let length = word[start..].find(|c: char| c != '-' && !c.is_ascii_alphanumeric());
        let end = length.map_or(word.len(), |length| start + length);
        let Some((_, name, value)) = OPTIONS.iter().find(|(option, ..)| *option == &word[start..end]) else {
            words.push(word.into());
            continue;
        };
        let mut written = format!("{}{name}", &word[..start]);
        let takes_value = end == word.len() && *value != Value::None;
        if let Some(next) = rest.next_if(|next| takes_value && is_value(next)) {
            let (text, after) = next.split_at(next.trim_end_matches([',', ';', ')', '`']).len());
            match value {
                Value::Same => written.push_str(&format!("={text}")),
                Value::Switch => written.push_str(if text == "true" { "=1" } else { "=0" }),
                Value::Other | Value::None => {}
            }
            written.push_str(after);
        } else {
            written.push_str(&word[end..]);
        }
        words.push(written);
    }
    words.join(" ")
}

/// Whether a word after an option is its value, not the next word of the sentence.
fn is_value(word: &str) -> bool {
    let word = word.trim_end_matches([',', ';', ')', '`']);
    let is_name =
        ["read", "write", "randread", "randwrite", "rw", "randrw", "true", "false", "even", "poisson", "uniform"];
    word.starts_with(|c: char| c.is_ascii_digit()) || word.contains(':') || is_name.contains(&word)
}

#[cfg(test)]
mod tests {
    use iolane_measure::workload::{Access, Arrivals, BlockSizes, Rate, Workload};

    use super::*;

    #[test]
    fn options_and_their_values_are_those_of_a_job_file() {
        for (text, expected) in [
            ("--batch-submit 5 with --depth 4", "iodepth_batch=5 with iodepth=4"),
            (
                "use --batch-complete 4 or less, or a larger --depth",
                "use iodepth_batch_complete_min=4 or less, or a larger iodepth",
            ),
            ("use --rw rw or randrw", "use rw=rw or randrw"),
            ("use 1k, or --direct false", "use 1k, or direct=0"),
            ("--offsets zipf:1.2 with --rw rw", "random_distribution=zipf:1.2 with rw=rw"),
            ("a think time of 5 us with --rate 9", "a think time of 5 us with rate_iops"),
            ("--arrivals poisson without --rate", "rate_process=poisson without rate_iops"),
            ("--verify with --bs 63", "verify with bs=63"),
            ("use a smaller --size, or leave it out", "use a smaller size, or leave it out"),
            ("see `--cpus 0-3`; (--size)", "see `cpus_allowed=0-3`; (size)"),
            ("add --allow-writes good", "add --allow-writes good"),
            ("a--b -- --", "a--b -- --"),
            ("", ""),
        ] {
            assert_eq!(rewritten(text), expected);
        }
    }

    #[test]
    fn every_error_of_a_workload_names_options_of_a_job_file() {
        let base = Workload::default;
        let split: BlockSizes = "4k/50:6k/50".parse().unwrap();
        let rate = Some(Rate::new(9.0).unwrap());
        let invalid = [
            Workload { depth: 0, ..base() },
            Workload { batch_submit: Some(0), ..base() },
            Workload { batch_complete: Some(5), depth: 4, ..base() },
            Workload { batch_complete: Some(3), batch_complete_max: Some(2), depth: 4, ..base() },
            Workload { read_percent: Some(50), ..base() },
            Workload { read_percent: Some(101), access: Access::Rw, ..base() },
            Workload { fsync_every: Some(1), ..base() },
            Workload { fsync_every: Some(0), access: Access::Write, ..base() },
            Workload { size: Some(4095), ..base() },
            Workload { bytes_max: Some(4095), ..base() },
            Workload { think_us: Some(5), depth: 2, ..base() },
            Workload { think_us: Some(5), rate, ..base() },
            Workload { arrivals: Arrivals::Poisson, ..base() },
            Workload { access: Access::Rw, offsets: "zipf:1.2".parse().unwrap(), ..base() },
            Workload { verify: true, block_sizes: BlockSizes::fixed(63).unwrap(), ..base() },
            Workload { verify: true, block_sizes: split, ..base() },
        ];
        for workload in invalid {
            let error = workload.validate().expect_err("it is invalid");
            let written = in_words_of_fio(&error).to_string();
            assert!(!written.contains("--"), "{error} is written {written}");
        }
    }

    #[test]
    fn every_option_that_the_checks_of_a_run_name_has_a_name_in_a_job_file() {
        let measure = concat!(env!("CARGO_MANIFEST_DIR"), "/../iolane-measure/src/");
        for file in
            ["workload/definition.rs", "workload/block_sizes.rs", "workload/offsets.rs", "run/plan.rs", "placement.rs"]
        {
            let source = std::fs::read_to_string(format!("{measure}{file}")).unwrap();
            // Options are named in texts, not in comments.
            for line in source.lines().filter(|line| !line.trim_start().starts_with("//")) {
                let named = line.split("--").skip(1).map(|rest| {
                    let end = rest.find(|c: char| c != '-' && !c.is_ascii_lowercase()).unwrap_or(rest.len());
                    format!("--{}", &rest[..end])
                });
                for option in named.filter(|option| option.len() > 2) {
                    assert!(OPTIONS.iter().any(|(known, ..)| *known == option), "{option} in {file}: {line}");
                }
            }
        }
    }
}
