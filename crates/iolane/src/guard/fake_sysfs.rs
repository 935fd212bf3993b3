//! A sysfs tree of plain files, for tests of code that reads sysfs.

use std::fs;
use std::path::PathBuf;

use super::sysfs::Sysfs;

/// A sysfs tree with a disk of two partitions, an array on the first and a partition on the array.
pub(super) struct FakeSysfs(pub(super) PathBuf);

impl FakeSysfs {
    pub(super) fn new(test: &str) -> Self {
        let root = std::env::temp_dir().join(format!("iolane-sysfs-{test}-{}", std::process::id()));
        let fake = Self(root);
        fake.device("sda", "8:0");
        fake.device("sda/sda1", "8:1");
        fake.device("sda/sda2", "8:2");
        fake.device("md0", "9:0");
        fake.device("md0/md0p1", "259:0");
        fake.device("nvme0n1", "259:7");
        fake.link("devices/sda/sda1/holders/md0", "../../../md0");
        fake.link("devices/md0/slaves/sda1", "../../sda/sda1");
        fake.link("class/block/nvme0n1", "../../devices/nvme0n1");
        fake.link("dev/char/240:3", "../../devices/nvme0/ng0n1");
        fake
    }

    pub(super) fn device(&self, path: &str, number: &str) {
        let folder = self.0.join("devices").join(path);
        fs::create_dir_all(folder.join("holders")).unwrap();
        fs::write(folder.join("dev"), format!("{number}\n")).unwrap();
        fs::write(folder.join("size"), "2048\n").unwrap();
        if path.contains('/') {
            fs::write(folder.join("partition"), "1\n").unwrap();
        } else {
            fs::create_dir_all(folder.join("slaves")).unwrap();
        }
        self.link(&format!("dev/block/{number}"), &format!("../../devices/{path}"));
    }

    pub(super) fn link(&self, path: &str, to: &str) {
        let path = self.0.join(path);
        fs::create_dir_all(path.parent().unwrap()).unwrap();
        std::os::unix::fs::symlink(to, path).unwrap();
    }

    pub(super) fn sysfs(&self) -> Sysfs<'_> {
        Sysfs(self.0.to_str().unwrap())
    }
}

impl Drop for FakeSysfs {
    fn drop(&mut self) {
        let _ = fs::remove_dir_all(&self.0);
    }
}
