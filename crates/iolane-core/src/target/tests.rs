//! Tests of opening targets.

use super::*;

fn error(name: &str) -> String {
    Target::open(name).unwrap_err().to_string()
}

#[test]
fn what_cannot_be_a_target_is_named_with_its_cause() {
    assert!(error("/no/such/thing").contains("no such file"));
    assert!(error("/dev/null/under").contains("no such file"));
    assert!(error("/proc").contains("directory"));
    assert!(error("/dev/zero").contains("character device"));
}

#[test]
fn a_durable_file_has_the_flag_of_the_kernel_and_others_do_not() {
    let path = std::env::temp_dir().join(format!("iolane-durable-{}", std::process::id()));
    std::fs::write(&path, [1; 4096]).unwrap();
    for durable in [true, false] {
        let target = Target::options().write_unguarded().direct(false).durable(durable).open(&path).unwrap();
        let flags = rustix::fs::fcntl_getfl(target.fd().unwrap()).unwrap();
        assert_eq!((flags.contains(OFlags::DSYNC), target.durable()), (durable, durable));
    }
    std::fs::remove_file(&path).unwrap();
}

#[test]
fn requests_of_a_target_may_wait_for_its_device_however_it_was_opened() {
    // It is opened with O_NONBLOCK, with which requests to a device whose driver may wait, such as dm-crypt, end with EAGAIN.
    let path = std::env::temp_dir().join(format!("iolane-waits-{}", std::process::id()));
    std::fs::write(&path, [1; 4096]).unwrap();
    for options in [Target::options().direct(false), Target::options().write_unguarded().direct(false)] {
        let flags = rustix::fs::fcntl_getfl(options.open(&path).unwrap().fd().unwrap()).unwrap();
        assert!(!flags.contains(OFlags::NONBLOCK), "{flags:?}");
    }
    std::fs::remove_file(&path).unwrap();
}

#[test]
fn an_empty_file_is_refused() {
    let path = std::env::temp_dir().join(format!("iolane-empty-{}", std::process::id()));
    std::fs::write(&path, "").unwrap();
    let error = Target::options().direct(false).open(&path).unwrap_err().to_string();
    std::fs::remove_file(&path).unwrap();
    assert!(error.contains("it is empty"), "{error}");
}

#[test]
fn a_file_that_cannot_be_created_in_its_size_is_removed_and_an_existing_one_stays() {
    let path = std::env::temp_dir().join(format!("iolane-create-{}", std::process::id()));
    let create = |bytes| Target::options().direct(false).create(bytes).open(&path);
    assert!(create(1 << 62).is_err());
    assert!(!path.exists());
    drop(create(4096).unwrap());
    let error = create(4096).unwrap_err().to_string();
    assert!(path.exists() && error.contains("it exists already"), "{error}");
    std::fs::remove_file(&path).unwrap();
}

#[test]
fn a_file_that_was_never_written_has_unwritten_parts() {
    let path = std::env::temp_dir().join(format!("iolane-holes-{}", std::process::id()));
    let target = Target::options().direct(false).create(1 << 20).open(&path).unwrap();
    let before = target.has_unwritten_parts();
    std::fs::write(&path, vec![1; 1 << 20]).unwrap();
    let after = target.has_unwritten_parts();
    std::fs::remove_file(&path).unwrap();
    assert_eq!((before, after), (true, false));
}

#[test]
fn a_fifo_is_refused_and_does_not_block() {
    let path = std::env::temp_dir().join(format!("iolane-fifo-{}", std::process::id()));
    rustix::fs::mkfifoat(rustix::fs::CWD, &path, Mode::RUSR).unwrap();
    let error = Target::options().direct(false).open(&path).unwrap_err().to_string();
    std::fs::remove_file(&path).unwrap();
    assert!(error.contains("neither a file nor a block device"), "{error}");
}

#[test]
fn a_file_that_the_caller_opened_is_a_target_with_the_modes_of_its_descriptor() {
    let path = std::env::temp_dir().join(format!("iolane-from-file-{}", std::process::id()));
    std::fs::write(&path, []).unwrap();
    let open = |flags| rustix::fs::open(&path, flags, Mode::empty()).unwrap();
    let reading = Target::from_file(open(OFlags::RDONLY), "mine").unwrap();
    let durable = Target::from_file(open(OFlags::RDWR | OFlags::DSYNC), "mine").unwrap();
    let writing_only = Target::from_file(open(OFlags::WRONLY), "mine").unwrap_err();
    let appending = Target::from_file(open(OFlags::RDWR | OFlags::APPEND), "mine").unwrap_err().to_string();
    assert!(appending.starts_with("target mine: it is open with O_APPEND"), "{appending}");
    let waiting = Target::from_file(open(OFlags::RDWR | OFlags::NONBLOCK), "mine").unwrap();
    assert!(!rustix::fs::fcntl_getfl(waiting.fd().unwrap()).unwrap().contains(OFlags::NONBLOCK));
    let folder = Target::from_file(std::fs::File::open("/").unwrap(), "root").unwrap_err();
    std::fs::remove_file(&path).unwrap();
    assert_eq!((reading.name(), reading.kind(), reading.bytes()), ("mine", TargetKind::File, 0));
    assert!(!reading.writable() && !reading.durable() && !reading.direct());
    assert!(durable.writable() && durable.durable());
    assert_eq!(writing_only.to_string(), "target mine: it is open for writing only; open it for reading and writing");
    assert_eq!(folder.kind(), ErrorKind::Unavailable, "{folder}");
}
