//! Peers of a study: which targets they may open for writing.

mod common;

use common::{Folder, command, finish};

#[test]
fn a_peer_that_opens_for_writing_to_read_needs_a_permit() {
    let folder = Folder::new();
    folder.file("data", 1 << 20);
    let plan = |path: &str, more: &[&str]| {
        let words = ["study", "--target", "data", "--path", path, "--peer", "bdevperf", "--cpus", "0", "--depth", "4"];
        let mut command = command(&folder, words.iter().chain(&["--dry-run", "--json", "-"]).chain(more));
        finish(command.env("IOLANE_PEER_BDEVPERF", "/bin/true").spawn().unwrap()).done().json()
    };
    let refused = plan("io_uring", &[]);
    let [skipped] = &refused["skipped"].as_array().unwrap()[..] else { panic!("{refused:#}") };
    let reason = "it opens targets for writing even if it only reads, and writing to the target is not allowed";
    assert_eq!(
        (skipped["reason"].as_str(), skipped["remedy"].as_str()),
        (Some(reason), Some("add --allow-writes data"))
    );
    for planned in [plan("io_uring", &["--allow-writes", "data"]), plan("libaio", &[])] {
        assert_eq!(planned["skipped"].as_array().unwrap().len(), 0, "{planned:#}");
    }
}
