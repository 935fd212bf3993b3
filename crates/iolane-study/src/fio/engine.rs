//! The fio engine of a path, and the engine's options. `write` puts them into job files, the peer `fio` on its command
//! line.

use iolane::IoPath;
use iolane::path::{CompletionMode, PathOptions};

pub(crate) struct FioEngine {
    /// The value of `ioengine`.
    pub(crate) name: &'static str,
    /// Options with their values.
    pub(crate) options: Vec<(&'static str, &'static str)>,
}

/// # Errors
/// Why fio has no engine or option for the path, in one sentence.
pub(crate) fn engine(path: &IoPath) -> Result<FioEngine, String> {
    let polls = match path.completion {
        CompletionMode::Default | CompletionMode::Interrupt => false,
        CompletionMode::Iopoll => true,
        CompletionMode::Hybrid => return Err("fio has no option for hybrid polling".into()),
    };
    // `plain` is what fio does by default: it chooses the other set-up flags of the ring itself.
    // Its libaio fetches completions by io_getevents; only without a minimum does it read them in user space.
    let PathOptions { fixed_buffers, fixed_files, plain: _, defer, coop, share, sq_idle_ms, getevents: _, auto: _ } =
        path.options;
    for (option, is_set) in [("defer", defer), ("coop", coop), ("share", share), ("sqidle", sq_idle_ms.is_some())] {
        if is_set {
            return Err(format!("fio has no option for `{option}`"));
        }
    }
    let is_ring = matches!(path.interface(), "io_uring" | "io_uring_cmd");
    let has_ring_options = fixed_buffers || fixed_files || path.polls_submissions();
    let name = match path.interface() {
        _ if has_ring_options && !is_ring => None,
        "psync" if polls => Some("pvsync2"),
        "psync" => Some("psync"),
        "posix_aio" if !polls => Some("posixaio"),
        "libaio" if !polls => Some("libaio"),
        "null" if !polls => Some("null"),
        "io_uring" => Some("io_uring"),
        "io_uring_cmd" => Some("io_uring_cmd"),
        _ => None,
    };
    let name = name.ok_or_else(|| format!("fio has no engine for {path}"))?;
    let options = [
        (path.interface() == "io_uring_cmd", ("cmd_type", "nvme")),
        (polls, ("hipri", "1")),
        (path.polls_submissions(), ("sqthread_poll", "1")),
        (fixed_buffers, ("fixedbufs", "1")),
        (fixed_files, ("registerfiles", "1")),
    ];
    let options = options.into_iter().filter(|(is_set, _)| *is_set).map(|(_, option)| option).collect();
    Ok(FioEngine { name, options })
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn every_path_that_fio_has_is_one_engine() {
        for (path, expected) in [
            ("psync", "psync"),
            ("psync+iopoll", "pvsync2 hipri=1"),
            ("posix_aio", "posixaio"),
            ("libaio", "libaio"),
            ("io_uring,plain", "io_uring"),
            ("io_uring+int", "io_uring"),
            ("io_uring+iopoll", "io_uring hipri=1"),
            ("io_uring_cmd+iopoll,fixedbufs", "io_uring_cmd cmd_type=nvme hipri=1 fixedbufs=1"),
        ] {
            let FioEngine { name, options } = engine(&path.parse().unwrap()).unwrap();
            let options: String = options.iter().map(|(key, value)| format!(" {key}={value}")).collect();
            assert_eq!(format!("{name}{options}"), expected, "{path}");
        }
    }

    #[test]
    fn a_path_that_fio_does_not_have_is_refused_with_the_reason() {
        for (path, cause) in [
            ("nvme", "fio has no engine for nvme"),
            ("libaio+iopoll", "fio has no engine for libaio+iopoll"),
            ("libaio,fixedbufs", "fio has no engine for libaio,fixedbufs"),
            ("io_uring+hybrid", "fio has no option for hybrid polling"),
            ("io_uring,sqidle=50", "fio has no option for `sqidle`"),
            ("io_uring,defer", "fio has no option for `defer`"),
        ] {
            assert_eq!(engine(&path.parse().unwrap()).err().as_deref(), Some(cause));
        }
    }
}
