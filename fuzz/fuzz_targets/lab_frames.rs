//! The channel between a guest and its host: no bytes make reading one panic, and each frame that is read is written as it was.
#![no_main]

use iolane_lab::channel::Frame;
use libfuzzer_sys::fuzz_target;

fuzz_target!(|bytes: &[u8]| {
    let mut rest = bytes;
    loop {
        let before = rest;
        let Ok(Some(frame)) = Frame::read(&mut rest) else { break };
        let mut written = Vec::new();
        if frame.write(&mut written).is_ok() {
            let again = Frame::read(&mut &written[..]).expect("it was just written");
            assert_eq!(again.as_ref(), Some(&frame), "{:?}", &before[..before.len() - rest.len()]);
        }
    }
});
