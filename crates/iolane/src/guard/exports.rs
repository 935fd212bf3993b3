//! What this machine's kernel exports to others as an NVMe target (nvmet), as its configuration lists it. The kernel opens an
//! exported device without a claim. Called by `in_use`. Source: drivers/nvme/target/configfs.c.

use std::ffi::{OsStr, OsString};
use std::fs;
use std::io;
use std::os::unix::ffi::OsStringExt;
use std::path::{Path, PathBuf};

use iolane_core::open_files::OpenFile;

use super::refusal::{Refusal, shown};
use super::sysfs::try_names_in;

/// A device or a file that a subsystem exports.
#[derive(Debug, PartialEq, Eq)]
pub(super) struct Export {
    pub(super) subsystem: String,
    /// Its name in the configuration. For a controller that is passed through, one entry for each of its namespaces.
    pub(super) device: OsString,
    /// What turns it off if a 0 is written to it.
    pub(super) switch: PathBuf,
}

impl Export {
    /// The refusal of what it exports, named so.
    pub(super) fn refusal(&self, exported: &str) -> Refusal {
        let cause = format!("NVMe target {} exports {exported}", self.subsystem);
        Refusal::in_use(cause, format!("turn that off first (echo 0 > {})", self.switch.display()))
    }
}

/// Every enabled export. `sys` is the root of sysfs, below which configfs is mounted.
pub(super) fn read_exports(sys: &Path) -> Result<Vec<Export>, Refusal> {
    let mut exports = Vec::new();
    for subsystem in subsystems(sys)? {
        let unreadable = |error| Refusal::unreadable(&subsystem, error);
        for namespace in try_names_in(&subsystem.join("namespaces")).map_err(unreadable)? {
            let export = read(&subsystem, &subsystem.join("namespaces").join(namespace)).map_err(unreadable)?;
            exports.extend(export);
        }
        if let Some(controller) = passed_through(&subsystem)? {
            let names = namespaces_of(sys, &controller.device).map_err(unreadable)?;
            let device = |name: String| Path::new("/dev").join(name).into_os_string();
            exports.extend(names.into_iter().map(|name| Export {
                subsystem: controller.subsystem.clone(),
                device: device(name),
                switch: controller.switch.clone(),
            }));
        }
    }
    Ok(exports)
}

/// Refuses a controller, given by the kernel's name, that is exported as a whole. Its namespaces need not have block devices. An export
/// whose name leads nowhere here may be any controller.
pub(super) fn require_not_passed_through(sys: &Path, controller: &str) -> Result<(), Refusal> {
    let number = fs::read_to_string(sys.join("class/nvme").join(controller).join("dev")).unwrap_or_default();
    let number = OpenFile::of_sysfs(&number, OpenFile::Character);
    for subsystem in subsystems(sys)? {
        let Some(export) = passed_through(&subsystem)? else { continue };
        let path = Path::new(&export.device);
        let leads_to = OpenFile::at(path);
        if path.file_name() == Some(controller.as_ref()) || (leads_to.is_some() && leads_to == number) {
            return Err(export.refusal("it"));
        }
        if leads_to.is_none() {
            return Err(export.refusal(&format!("{}, which may be it", shown(&export.device))));
        }
    }
    Ok(())
}

/// The folders of the configuration, one for each subsystem.
fn subsystems(sys: &Path) -> Result<Vec<PathBuf>, Refusal> {
    let folder = sys.join("kernel/config/nvmet/subsystems");
    match try_names_in(&folder) {
        Ok(names) => Ok(names.iter().map(|name| folder.join(name)).collect()),
        // Without the module there are none; with it they are just not visible.
        Err(error) if is_absent(&error) && !sys.join("module/nvmet").exists() => Ok(Vec::new()),
        Err(error) => Err(Refusal::unreadable(&folder, error)),
    }
}

/// The controller that a subsystem passes through.
fn passed_through(subsystem: &Path) -> Result<Option<Export>, Refusal> {
    match read(subsystem, &subsystem.join("passthru")) {
        // A kernel without passthrough (before 5.9, or built without).
        Err(error) if is_absent(&error) => Ok(None),
        read => read.map_err(|error| Refusal::unreadable(subsystem, error)),
    }
}

fn is_absent(error: &io::Error) -> bool {
    error.kind() == io::ErrorKind::NotFound
}

/// The export in a folder of the configuration; `None` if it is not enabled.
fn read(subsystem: &Path, folder: &Path) -> io::Result<Option<Export>> {
    let switch = folder.join("enable");
    if fs::read(&switch)?.trim_ascii() != b"1" {
        return Ok(None);
    }
    let device = fs::read(folder.join("device_path"))?.trim_ascii_end().to_vec();
    let subsystem = shown(subsystem.file_name().unwrap_or_default());
    Ok(Some(Export { subsystem, device: OsString::from_vec(device), switch }))
}

/// The disks of the namespaces of a controller (`/dev/nvme0`). With multipath the controller has a hidden disk for each path
/// (`nvme0c1n1`), and the disk in /dev is named without its part (`nvme0n1`).
fn namespaces_of(sys: &Path, controller: &OsStr) -> io::Result<Vec<String>> {
    let name = Path::new(controller).file_name().unwrap_or_default();
    let names = try_names_in(&sys.join("class/nvme").join(name))?;
    Ok(names.iter().filter_map(|name| disk_of_path(name.to_str()?)).collect())
}

fn disk_of_path(name: &str) -> Option<String> {
    let (subsystem, rest) = name.strip_prefix("nvme")?.split_once(['c', 'n'])?;
    let namespace = rest.rsplit('n').next()?;
    let is_number = |text: &str| !text.is_empty() && text.bytes().all(|byte| byte.is_ascii_digit());
    (is_number(subsystem) && is_number(namespace)).then(|| format!("nvme{subsystem}n{namespace}"))
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::guard::fake_sysfs::FakeSysfs;

    impl FakeSysfs {
        fn file(&self, path: &str, text: &str) {
            let path = self.0.join(path);
            fs::create_dir_all(path.parent().unwrap()).unwrap();
            fs::write(path, text).unwrap();
        }
    }

    #[test]
    fn enabled_namespaces_and_controllers_passed_through_are_listed_and_disabled_ones_are_not() {
        let fake = FakeSysfs::new("exports");
        let of = |path: &str| format!("kernel/config/nvmet/subsystems/{path}");
        for (path, device, enabled) in [
            ("a/namespaces/1", "/dev/sda1\n", "1\n"),
            ("a/namespaces/2", "/dev/sda2\n", "0\n"),
            ("b/passthru", "/dev/nvme0\n", "1\n"),
        ] {
            fake.file(&of(&format!("{path}/device_path")), device);
            fake.file(&of(&format!("{path}/enable")), enabled);
        }
        fs::create_dir_all(fake.0.join(of("b/namespaces"))).unwrap();
        for entry in ["nvme0c1n1", "nvme0n2", "hwmon0", "ng0n2", "power"] {
            fake.file(&format!("class/nvme/nvme0/{entry}/dev"), "");
        }
        let exports = read_exports(&fake.0).unwrap();
        let found: Vec<_> = exports.iter().map(|e| (e.subsystem.as_str(), e.device.to_str().unwrap())).collect();
        assert_eq!(found, [("a", "/dev/sda1"), ("b", "/dev/nvme0n1"), ("b", "/dev/nvme0n2")]);
        assert_eq!(exports[0].switch, fake.0.join(of("a/namespaces/1/enable")));
    }

    #[test]
    fn a_controller_that_is_passed_through_is_refused_by_every_name() {
        let fake = FakeSysfs::new("whole-exports");
        let whole = "kernel/config/nvmet/subsystems/a/passthru";
        fake.file(&format!("{whole}/enable"), "1\n");
        fake.file("class/nvme/nvme7/dev", "1:7\n");
        let cause = |device: &str, controller: &str| {
            fake.file(&format!("{whole}/device_path"), device);
            require_not_passed_through(&fake.0, controller).err().map(|refusal| refusal.cause)
        };
        assert_eq!(cause("/dev/nvme7\n", "nvme7").as_deref(), Some("NVMe target a exports it"));
        // /dev/full has that number.
        assert_eq!(cause("/dev/full\n", "nvme7").as_deref(), Some("NVMe target a exports it"));
        assert_eq!(cause("/dev/full\n", "nvme8"), None);
        let unknown = "NVMe target a exports /dev/nowhere/nvme, which may be it";
        assert_eq!(cause("/dev/nowhere/nvme\n", "nvme8").as_deref(), Some(unknown));
        fake.file(&format!("{whole}/enable"), "0\n");
        assert_eq!(cause("/dev/nvme7\n", "nvme7"), None);
    }

    #[test]
    fn a_configuration_that_cannot_be_read_refuses_and_a_machine_without_one_exports_nothing() {
        let fake = FakeSysfs::new("no-exports");
        assert_eq!(read_exports(&fake.0).unwrap(), []);
        fake.file("module/nvmet/refcnt", "1\n");
        assert!(read_exports(&fake.0).unwrap_err().cause.contains("nvmet/subsystems"));
        fake.file("kernel/config/nvmet/subsystems/a/namespaces/1/enable", "1\n");
        assert!(read_exports(&fake.0).unwrap_err().cause.contains("subsystems/a"));
    }

    #[test]
    fn the_disk_of_a_path_is_named_without_the_path() {
        for (name, disk) in [
            ("nvme0n1", Some("nvme0n1")),
            ("nvme12c3n45", Some("nvme12n45")),
            ("nvme0", None),
            ("ng0n1", None),
            ("nvmecn1", None),
            ("nvme0n", None),
        ] {
            assert_eq!(disk_of_path(name).as_deref(), disk, "{name}");
        }
    }
}
