//! A target that was dropped, with its queues, is closed at once: another program may write to it, and lock it. One test in a process of its
//! own, since a process that is being started shares every descriptor of the one that starts it.

use iolane::guard::WritePermit;
use iolane::{Pages, Pool, QueueConfig, Request, Target, interfaces, open_queue, probe};

mod example_programs;
use example_programs::Folder;

#[test]
fn a_dropped_target_is_closed_on_every_path() {
    let folder = Folder::new("closing");
    let file = folder.file("file", &[7; 1 << 16]);
    let open = || Target::options().direct(false).open(&file).unwrap();
    let is_closed = |after: &str| {
        // Asks the kernel how often the file is open.
        let permit = WritePermit::request(&file);
        assert!(permit.is_ok(), "{after}: {}", permit.unwrap_err());
    };
    is_closed("nothing");
    let paths = interfaces().flat_map(|interface| interface.paths().into_iter().chain(interface.option_variants()));
    for path in paths {
        let probed = probe(&path, &open());
        is_closed(&format!("a probe of {path}"));
        // Not every path works here and on a file; what matters is that its probe has closed it.
        if probed.is_err() {
            continue;
        }
        let target = open();
        let pool = Pool::new(1, 4096, Pages::Base).unwrap();
        let mut queue = open_queue(&path, &target, &QueueConfig::new(1).pool(&pool)).unwrap();
        queue.submit(&mut [Request::read(0, 0, pool.take().unwrap())].into());
        queue.drain(&mut Vec::new()).unwrap();
        drop((queue, target));
        is_closed(&path.to_string());
    }
}
