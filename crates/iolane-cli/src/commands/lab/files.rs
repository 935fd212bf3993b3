//! The files that the words of a command name: those that go into the guest, and those that come back.

use std::path::{Path, PathBuf};

use iolane_study::session::InstalledPeer;

/// Options whose value is a file or folder that a command writes.
const OUTPUT_OPTIONS: &[&str] = &["--out", "--json", "--fio"];
/// A larger file is a target, and would fill the guest's memory.
const INPUT_BYTES_MAX: u64 = 64 << 20;

/// Files and folders that a command writes: those that its options name, and `default`.
pub(super) fn outputs(words: &[String], default: Option<&Path>, folder: &Path) -> Vec<PathBuf> {
    let named = values_of(words, OUTPUT_OPTIONS).filter(|value| *value != "-").map(Path::new);
    named.chain(default).map(|output| normal(&folder.join(output))).collect()
}

/// The values of these options in a command, each in a word of its own or after `=`.
fn values_of<'a>(words: &'a [String], options: &'a [&str]) -> impl Iterator<Item = &'a str> {
    let apart = words.windows(2).filter(|pair| options.contains(&pair[0].as_str())).map(|pair| pair[1].as_str());
    let joined = words.iter().filter_map(|word| {
        let (option, value) = word.split_once('=')?;
        options.contains(&option).then_some(value)
    });
    apart.chain(joined)
}

/// The installed peers that a study runs. The study reports those that are missing.
pub(super) fn peers(words: &[String]) -> Vec<InstalledPeer> {
    let names = values_of(words, &["--peer"]).flat_map(|value| value.split(','));
    names.filter_map(|name| InstalledPeer::find(name).ok()).collect()
}

/// Their programs, and the paths of these in the guest.
pub(super) fn programs(peers: &[InstalledPeer]) -> Vec<(PathBuf, PathBuf)> {
    let place = |peer: &InstalledPeer| Path::new("/bin").join(peer.peer.name());
    peers.iter().map(|peer| (peer.installed.program.clone(), place(peer))).collect()
}

/// Existing files that a command names, except those that it writes.
pub(super) fn inputs(words: &[String], folder: &Path, outputs: &[PathBuf]) -> Vec<(PathBuf, PathBuf)> {
    let values = words.iter().map(|word| word.split_once('=').map_or(word.as_str(), |(_, value)| value));
    let paths = values.map(|value| normal(&folder.join(value)));
    let is_input = |path: &PathBuf| {
        let small_file = std::fs::metadata(path).is_ok_and(|found| found.is_file() && found.len() <= INPUT_BYTES_MAX);
        small_file && !outputs.contains(path)
    };
    paths.filter(is_input).map(|path| (path.clone(), path)).collect()
}

/// The path without `.` and `..`, as the guest resolves it.
pub(super) fn normal(path: &Path) -> PathBuf {
    let mut normal = PathBuf::new();
    for part in path.components() {
        match part {
            std::path::Component::ParentDir => drop(normal.pop()),
            std::path::Component::CurDir => {}
            other => normal.push(other),
        }
    }
    normal
}

#[cfg(test)]
mod tests {
    use super::*;

    fn words(line: &str) -> Vec<String> {
        line.split_whitespace().map(str::to_owned).collect()
    }

    #[test]
    fn what_a_command_writes_is_found_in_its_words() {
        let outputs =
            |line: &str, default: Option<&str>| outputs(&words(line), default.map(Path::new), Path::new("/home/me"));
        let found = outputs("study --out results --json=x.json", None);
        assert_eq!(found, [Path::new("/home/me/results"), Path::new("/home/me/x.json")]);
        assert_eq!(outputs("run --json -", None), Vec::<PathBuf>::new());
        assert_eq!(outputs("study --out ../up/./x", None), [Path::new("/home/up/x")]);
        assert_eq!(outputs("study x", Some("results/x")), [Path::new("/home/me/results/x")]);
    }

    #[test]
    fn files_that_a_command_reads_go_in_and_those_it_writes_do_not() {
        let written = [PathBuf::from("/proc/self/environ")];
        let found = inputs(&words("study /proc/self/status --json=/proc/self/environ nvme0"), Path::new("/"), &written);
        assert_eq!(found.len(), 1, "{found:?}");
        assert_eq!(found[0].0, Path::new("/proc/self/status"));
    }
}
