//! Which paths the suite runs over: all that the registry lists, and option variants that have no row of their own there.

use iolane::IoPath;

/// Options one by one, of interfaces that are registered; a variant of an interface that is not is left out.
const VARIANTS: [&str; 7] = [
    "io_uring,fixedbufs",
    "io_uring,fixedfiles",
    "io_uring,defer",
    "io_uring,coop",
    "io_uring,plain",
    "io_uring+spoll,sqidle=20",
    "io_uring+spoll,share",
];

/// Every path, the registry's order first.
pub(crate) fn all() -> Vec<IoPath> {
    iolane::interfaces()
        .flat_map(|interface| {
            let variants = VARIANTS.iter().filter_map(|text| text.parse::<IoPath>().ok());
            let mut paths = interface.paths();
            paths.extend(variants.filter(|path| path.interface() == interface.name()));
            paths
        })
        .collect()
}

/// Whether a path reaches what the kernel has no file for: made-up devices, and controllers that it has no driver for.
pub(crate) fn is_apart(path: &IoPath) -> bool {
    matches!(path.interface(), "null" | "sim" | "nvme")
}

/// Whether a path moves nothing but memory that was registered with the queue.
pub(crate) fn registers_buffers(path: &IoPath) -> bool {
    path.options.fixed_buffers || path.interface() == "nvme"
}
