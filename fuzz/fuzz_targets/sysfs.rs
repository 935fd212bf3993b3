//! NVMe controllers and their namespaces in sysfs, whatever is there: nothing makes the readers panic or wait for ever, and no namespace is
//! listed whose devices are not among those that processes may have open.
#![no_main]

use std::ffi::OsStr;
use std::fs;
use std::os::unix::ffi::OsStrExt;
use std::os::unix::fs::symlink;
use std::path::{Component, Path, PathBuf};

use iolane_nvme::pci::{Device, Pci};
use libfuzzer_sys::fuzz_target;

/// A tree has a line for each entry: `FOLDER/`, `FILE TEXT`, or `LINK -> TARGET`, with names below the root of the tree.
const LINES_MAX: usize = 64;
/// Folders within folders. Removing them has one descriptor open for each.
const DEPTH_MAX: usize = 10;

fuzz_target!(|bytes: &[u8]| {
    let tree = Tree::new();
    for line in bytes.split(|byte| *byte == b'\n').take(LINES_MAX) {
        tree.add(line);
    }
    let pci = Pci::new(&tree.0);
    let Ok(controllers) = pci.controllers() else { return };
    assert!(controllers.is_sorted_by_key(Device::bdf));
    for controller in &controllers {
        assert!(pci.device(controller.bdf()).is_some() && controller.is_nvme().is_ok_and(|is_nvme| is_nvme));
        read_attributes(controller);
        check_namespaces(controller);
    }
});

/// The folder of a tree, removed when dropped.
struct Tree(PathBuf);

impl Tree {
    fn new() -> Self {
        let root = std::env::temp_dir().join(format!("iolane-fuzz-sysfs-{}", std::process::id()));
        let _ = fs::remove_dir_all(&root);
        fs::create_dir(&root).expect("the folder for temporary files can be written");
        Self(root)
    }

    /// Adds the entry of a line; what cannot be made is left out, as a name that is too long.
    fn add(&self, line: &[u8]) {
        let space = line.iter().position(|byte| *byte == b' ').unwrap_or(line.len());
        let (name, rest) = line.split_at(space);
        let Some(path) = self.inside(name) else { return };
        let _ = path.parent().map(fs::create_dir_all);
        let _ = match rest.strip_prefix(b" -> ") {
            Some(target) => self.inside(target).map_or(Ok(()), |target| symlink(target, path)),
            None if name.ends_with(b"/") => fs::create_dir(path),
            None => fs::write(path, rest.trim_ascii_start()),
        };
    }

    /// A path below the root; `None` for a name that could lead out of it or is too deep.
    fn inside(&self, name: &[u8]) -> Option<PathBuf> {
        let name = Path::new(OsStr::from_bytes(name));
        let is_below = name.components().all(|part| matches!(part, Component::Normal(_)));
        let is_one = (1..=DEPTH_MAX).contains(&name.components().count());
        (is_below && is_one).then(|| self.0.join(name))
    }
}

impl Drop for Tree {
    fn drop(&mut self) {
        let _ = fs::remove_dir_all(&self.0);
    }
}

fn read_attributes(controller: &Device) {
    let _ = (controller.driver(), controller.driver_override(), controller.iommu_group(), controller.pci_id());
    let _ = (controller.model(), controller.is_live(), controller.vfio_name());
    let name = controller.bdf().to_string();
    for companion in controller.companions().into_iter().flatten() {
        assert_ne!(companion.name, name, "it is no companion of its own");
    }
}

fn check_namespaces(controller: &Device) {
    let (namespaces, nodes) = (controller.namespaces(), controller.nodes());
    let Ok(nodes) = nodes else { return };
    let namespaces = namespaces.expect("without them nothing is known of their devices");
    let is_node = |name: &str| nodes.iter().any(|(node, _)| node == name);
    for namespace in &namespaces {
        assert!(is_node(&namespace.name) && is_node(&namespace.generic_name()), "{namespace:?} is not in {nodes:?}");
    }
    if let Some(name) = controller.controller_name().expect("its namespaces were found by it") {
        assert!(is_node(&name), "{name} is not in {nodes:?}");
    }
}
