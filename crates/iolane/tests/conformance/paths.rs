//! The paths that the suite runs over: all that the registry lists, with the option variants that interfaces declare, or
//! those named by `IOLANE_CONFORMANCE_PATHS`.

use iolane::{Interface, IoPath, TargetKind};

/// Every path, in the registry's order.
///
/// # Panics
/// If `IOLANE_CONFORMANCE_PATHS` names something that is not a path of a registered interface.
pub(crate) fn all() -> Vec<IoPath> {
    match std::env::var("IOLANE_CONFORMANCE_PATHS") {
        Ok(text) if !text.trim().is_empty() => named(&text),
        _ => iolane::interfaces().flat_map(of_interface).collect(),
    }
}

fn of_interface(interface: &dyn Interface) -> Vec<IoPath> {
    [interface.paths(), interface.option_variants()].concat()
}

/// The paths of a list. An interface's name alone stands for all its paths.
fn named(text: &str) -> Vec<IoPath> {
    let named = iolane::paths_of(text).unwrap_or_else(|error| panic!("IOLANE_CONFORMANCE_PATHS: {error}"));
    let mut paths: Vec<IoPath> = Vec::new();
    for path in named {
        let is_name = path == IoPath::new(path.interface());
        for path in if is_name { of_interface(interface_of(&path)) } else { vec![path] } {
            if !paths.contains(&path) {
                paths.push(path);
            }
        }
    }
    paths
}

/// The interface of a path that [`all`] gave.
pub(crate) fn interface_of(path: &IoPath) -> &'static dyn Interface {
    iolane::interface_of(path).expect("paths are of registered interfaces")
}

/// Whether a path is meant for targets of this kind: a target of an interface's own is for it only.
pub(crate) fn belongs_to(path: &IoPath, kind: TargetKind) -> bool {
    match interface_of(path).own_target() {
        Some(own) => own == kind,
        None => kind.has_descriptor(),
    }
}

#[test]
fn a_list_of_paths_takes_interfaces_whole_and_keeps_options_with_their_path() {
    let text = |paths: Vec<IoPath>| paths.iter().map(ToString::to_string).collect::<Vec<_>>();
    assert_eq!(text(named("psync, null")), ["psync", "psync+iopoll", "null"]);
    assert_eq!(
        text(named("libaio,io_uring+sqpoll,fixedbufs,fixedfiles")),
        ["libaio", "libaio,getevents", "io_uring+sqpoll,fixedbufs,fixedfiles"]
    );
}
