//! Lists of mounts: no bytes make the parser panic, and what it takes, it takes again as the kernel would write it.
#![no_main]

use iolane_core::mountinfo::{Mount, escape, parse};
use libfuzzer_sys::fuzz_target;

fuzz_target!(|bytes: &[u8]| {
    let Some(mounts) = parse(bytes) else { return };
    let written: Vec<u8> = mounts.iter().flat_map(line).collect();
    assert_eq!(parse(&written).as_ref(), Some(&mounts), "{}", String::from_utf8_lossy(&written));
});

fn line(mount: &Mount) -> Vec<u8> {
    let Mount { id, number: (major, minor), point, kind, source } = mount;
    let start = format!("{id} 1 {major}:{minor} / ");
    let [point, kind, source] = [point, kind, source].map(|name| escape(name));
    [start.as_bytes(), &point, b" rw shared:1 - ", &kind, b" ", &source, b" rw\n"].concat()
}
