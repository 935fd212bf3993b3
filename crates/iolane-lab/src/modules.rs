//! The kernel modules a guest needs, and the order in which they load: read from the modules themselves, since what
//! `depmod` would have written is not in a kernel's package.

use std::collections::{BTreeMap, HashSet};
use std::path::{Path, PathBuf};

use iolane_core::{Error, Result};
use object::{Object, ObjectSection};

use crate::{compression, files};

/// What a guest loads. A kernel may have any of them built in, or be too old for one that is optional.
#[derive(Clone, Copy)]
pub(crate) struct Wanted {
    pub(crate) name: &'static str,
    /// Whether a guest is of no use without it.
    pub(crate) required: bool,
}

const fn required(name: &'static str) -> Wanted {
    Wanted { name, required: true }
}

const fn optional(name: &'static str) -> Wanted {
    Wanted { name, required: false }
}

/// In this order, each after what it depends on. The checksums come before nvme, which asks for them by an alias that
/// only `modprobe` could resolve.
pub(crate) const WANTED: &[Wanted] = &[
    required("virtio_pci"),
    required("virtio_console"),
    optional("crct10dif_generic"),
    optional("crc64_rocksoft_generic"),
    required("nvme"),
    optional("null_blk"),
    optional("vfio_iommu_type1"),
    optional("vfio_pci"),
    optional("iommufd"),
];

/// What only a guest loads that asks for it ([`crate::Lab::modules`]): drives without FUA, file systems, what is built on drives, and
/// exports. The checksums come before the file systems, which ask for them by an alias, and what makes arrays before the arrays.
pub(crate) const ON_REQUEST: &[Wanted] = &[
    optional("virtio_blk"),
    optional("crc32c_generic"),
    optional("xxhash_generic"),
    optional("blake2b_generic"),
    optional("ext4"),
    optional("xfs"),
    optional("btrfs"),
    optional("overlay"),
    optional("loop"),
    optional("dm_mod"),
    optional("dm_crypt"),
    optional("dm_thin_pool"),
    optional("md_mod"),
    optional("raid0"),
    optional("raid1"),
    optional("bcache"),
    optional("configfs"),
    optional("nvmet"),
];

/// Everything that a kernel in the cache has.
pub(crate) fn all_wanted() -> Vec<Wanted> {
    [WANTED, ON_REQUEST].concat()
}

/// A module, not compressed.
#[derive(Debug, Clone, PartialEq)]
pub(crate) struct Module {
    pub(crate) name: String,
    pub(crate) bytes: Vec<u8>,
}

/// Finds what is wanted beneath `/lib/modules/RELEASE` or a folder like it, and all that it depends on.
///
/// # Errors
/// If a required module is neither there nor built in, or a module is damaged.
pub(crate) fn in_load_order(folder: &Path, wanted: &[Wanted]) -> Result<Vec<Module>> {
    let mut tree = Tree::index(folder);
    for wanted in wanted {
        let found = tree.load(wanted.name)?;
        if !found && wanted.required && !tree.built_in.contains(wanted.name) {
            let what = format!("module {} in {}", wanted.name, folder.display());
            return Err(Error::unavailable(what, "the kernel has none").remedy("choose another --kernel"));
        }
    }
    Ok(tree.loaded)
}

/// Those of a kernel's modules that every guest loads, those requested, and what they depend on, in load order.
pub(crate) fn selected<'a>(modules: &'a [Module], requested: &[&str]) -> Vec<&'a Module> {
    let mut names: HashSet<String> =
        WANTED.iter().map(|wanted| wanted.name).chain(requested.iter().copied()).map(String::from).collect();
    // Each comes after what it depends on.
    for module in modules.iter().rev() {
        if names.contains(&module.name) {
            names.extend(dependencies(&module.bytes).unwrap_or_default());
        }
    }
    modules.iter().filter(|module| names.contains(&module.name)).collect()
}

struct Tree {
    files: BTreeMap<String, PathBuf>,
    built_in: HashSet<String>,
    seen: HashSet<String>,
    loaded: Vec<Module>,
}

impl Tree {
    fn index(folder: &Path) -> Self {
        let mut files = BTreeMap::new();
        index(&folder.join("kernel"), &mut files);
        let built_in = std::fs::read_to_string(folder.join("modules.builtin")).unwrap_or_default();
        let built_in = built_in.lines().filter_map(|line| module_name(Path::new(line))).collect();
        Self { files, built_in, seen: HashSet::new(), loaded: Vec::new() }
    }

    /// Loads a module after what it depends on; says whether there is one of that name.
    fn load(&mut self, name: &str) -> Result<bool> {
        let Some(path) = self.files.get(name).cloned() else { return Ok(false) };
        if !self.seen.insert(name.into()) {
            return Ok(true);
        }
        let bytes = decompressed(&path)?;
        for needed in dependencies(&bytes).ok_or_else(|| damaged(&path, "it has no .modinfo section"))? {
            if !self.load(&needed)? && !self.built_in.contains(&needed) {
                return Err(damaged(&path, &format!("it needs module {needed}, which is not there")));
            }
        }
        self.loaded.push(Module { name: name.into(), bytes });
        Ok(true)
    }
}

fn damaged(path: &Path, cause: &str) -> Error {
    Error::failed(format!("module {}", path.display()), cause).remedy("is the kernel's package complete?")
}

fn index(folder: &Path, files: &mut BTreeMap<String, PathBuf>) {
    for path in files::list(folder) {
        if path.is_dir() {
            index(&path, files);
        } else if let Some(name) = module_name(&path) {
            files.insert(name, path);
        }
    }
}

/// `nvme_core` for `.../nvme-core.ko.xz`.
fn module_name(path: &Path) -> Option<String> {
    let (name, rest) = path.file_name()?.to_str()?.split_once(".ko")?;
    matches!(rest, "" | ".xz" | ".zst" | ".gz").then(|| name.replace('-', "_"))
}

fn decompressed(path: &Path) -> Result<Vec<u8>> {
    let bytes = files::read(path)?;
    match compression::of(&bytes) {
        Some(compression) => compression.undo(&bytes).map_err(|error| damaged(path, &error.to_string())),
        None => Ok(bytes),
    }
}

/// The names after `depends=` in the `.modinfo` section; `None` if that cannot be read.
fn dependencies(module: &[u8]) -> Option<Vec<String>> {
    let file = object::File::parse(module).ok()?;
    let info = file.section_by_name(".modinfo")?.data().ok()?;
    let entries = info.split(|byte| *byte == 0).filter_map(|entry| std::str::from_utf8(entry).ok());
    let needed = entries.filter_map(|entry| entry.strip_prefix("depends=")).flat_map(|list| list.split(','));
    Some(needed.filter(|name| !name.is_empty()).map(|name| name.replace('-', "_")).collect())
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn names_are_those_the_kernel_uses() {
        for (file, name) in [
            ("kernel/drivers/nvme/host/nvme-core.ko", Some("nvme_core")),
            ("nvme.ko.xz", Some("nvme")),
            ("null_blk.ko.zst", Some("null_blk")),
            ("modules.dep", None),
            ("nvme.ko.old", None),
        ] {
            assert_eq!(module_name(Path::new(file)).as_deref(), name, "{file}");
        }
    }

    #[test]
    fn a_guest_loads_what_it_asks_for_and_no_more_than_every_guest_does() {
        let modules = ["nvme", "ext4", "xfs"].map(|name| Module { name: name.into(), bytes: Vec::new() });
        let names = |requested: &[&str]| {
            selected(&modules, requested).iter().map(|found| found.name.clone()).collect::<Vec<_>>()
        };
        assert_eq!(names(&[]), ["nvme"]);
        assert_eq!(names(&["ext4", "not-there"]), ["nvme", "ext4"]);
    }

    #[test]
    fn a_required_module_that_is_not_there_is_named_unless_it_is_built_in() {
        let folder = tempfile::tempdir().unwrap();
        let wanted = [required("nvme"), optional("null_blk")];
        let error = in_load_order(folder.path(), &wanted).unwrap_err();
        assert!(error.to_string().starts_with("module nvme in "), "{error}");
        std::fs::write(folder.path().join("modules.builtin"), "kernel/drivers/nvme/host/nvme.ko\n").unwrap();
        assert_eq!(in_load_order(folder.path(), &wanted).unwrap(), []);
    }

    #[test]
    fn a_damaged_module_is_an_error_that_names_the_file() {
        let folder = tempfile::tempdir().unwrap();
        std::fs::create_dir_all(folder.path().join("kernel")).unwrap();
        for (file, bytes) in
            [("a.ko", &b"not ELF"[..]), ("a.ko.xz", b"not xz"), ("a.ko.zst", b"not zstd"), ("a.ko.gz", b"no")]
        {
            let path = folder.path().join("kernel").join(file);
            std::fs::write(&path, bytes).unwrap();
            let error = in_load_order(folder.path(), &[required("a")]).unwrap_err();
            assert!(error.to_string().contains(&path.display().to_string()), "{error}");
            std::fs::remove_file(path).unwrap();
        }
    }
}
