//! A machine made of files, for tests of code that reads and writes sysfs: PCI devices, their drivers and IOMMU groups, and
//! optionally a kernel that binds and unbinds as the files ask.

use std::fs;
use std::os::unix::fs::symlink;
use std::path::{Path, PathBuf};
use std::sync::Arc;
use std::sync::atomic::{AtomicBool, Ordering};
use std::thread::JoinHandle;
use std::time::Duration;

use crate::binding::Bindings;
use crate::pci::{Bdf, Pci};

pub(crate) struct FakeMachine(PathBuf);

impl FakeMachine {
    pub(crate) fn new(test: &str) -> Self {
        let root = std::env::temp_dir().join(format!("iolane-machine-{test}-{}", std::process::id()));
        let machine = Self(root);
        for driver in ["nvme", "vfio-pci", "pcieport", "ahci"] {
            machine.file(&format!("sys/bus/pci/drivers/{driver}/unbind"), "");
        }
        machine.file("sys/bus/pci/drivers_probe", "");
        machine.file("dev/vfio/vfio", "");
        machine
    }

    pub(crate) fn path(&self, path: &str) -> PathBuf {
        self.0.join(path)
    }

    pub(crate) fn pci(&self) -> Pci {
        Pci::new(self.path("sys"))
    }

    pub(crate) fn bindings(&self) -> Bindings {
        Bindings::beneath(&self.0)
    }

    fn file(&self, path: &str, text: &str) {
        let path = self.path(path);
        fs::create_dir_all(path.parent().unwrap()).unwrap();
        fs::write(path, text).unwrap();
    }

    fn device_path(bdf: &str) -> String {
        format!("sys/bus/pci/devices/{bdf}")
    }

    pub(crate) fn device(&self, bdf: &str, class: u32, driver: Option<&str>, group: Option<u32>) {
        let device = Self::device_path(bdf);
        for (name, text) in [
            ("class", format!("{class:#08x}\n")),
            ("vendor", "0x1b36\n".into()),
            ("device", "0x0010\n".into()),
            ("driver_override", "(null)\n".into()),
        ] {
            self.file(&format!("{device}/{name}"), &text);
        }
        if let Some(driver) = driver {
            set_driver(&self.0, bdf, Some(driver));
        }
        if let Some(group) = group {
            let members = self.path(&format!("sys/kernel/iommu_groups/{group}/devices"));
            fs::create_dir_all(&members).unwrap();
            symlink(self.path(&device), members.join(bdf)).unwrap();
            symlink(members.parent().unwrap(), self.path(&device).join("iommu_group")).unwrap();
            self.file(&format!("dev/vfio/{group}"), "");
        }
    }

    /// A controller bound to the nvme driver, in IOMMU group 1, with this many namespaces of 1 MiB.
    pub(crate) fn controller(&self, bdf: &str, name: &str, namespaces: u32) {
        self.device(bdf, 0x01_08_02, Some("nvme"), Some(1));
        let controller = format!("{}/nvme/{name}", Self::device_path(bdf));
        self.file(&format!("{controller}/model"), "Fake drive                 \n");
        self.file(&format!("{controller}/state"), "live\n");
        for number in 1..=namespaces {
            self.file(&format!("{controller}/{name}n{number}/size"), "2048\n");
            self.file(&format!("sys/class/block/{name}n{number}/size"), "2048\n");
        }
    }

    pub(crate) fn driver(&self, bdf: &str) -> Option<String> {
        self.pci().device(bdf.parse().unwrap()).unwrap().driver().unwrap()
    }

    pub(crate) fn driver_override(&self, bdf: &str) -> Option<String> {
        self.pci().device(bdf.parse().unwrap()).unwrap().driver_override().unwrap()
    }

    /// Starts a kernel that binds and unbinds as the files ask; drivers of these names never bind a device.
    pub(crate) fn start_kernel(&self, unwilling: &'static [&'static str]) -> FakeKernel {
        let stop = Arc::new(AtomicBool::new(false));
        let (root, stopped) = (self.0.clone(), stop.clone());
        let thread = std::thread::spawn(move || {
            while !stopped.load(Ordering::Relaxed) {
                obey(&root, unwilling);
                std::thread::sleep(Duration::from_millis(1));
            }
        });
        FakeKernel { stop, thread: Some(thread) }
    }
}

impl Drop for FakeMachine {
    fn drop(&mut self) {
        let _ = fs::remove_dir_all(&self.0);
    }
}

pub(crate) struct FakeKernel {
    stop: Arc<AtomicBool>,
    thread: Option<JoinHandle<()>>,
}

impl Drop for FakeKernel {
    fn drop(&mut self) {
        self.stop.store(true, Ordering::Relaxed);
        self.thread.take().unwrap().join().unwrap();
    }
}

fn set_driver(root: &Path, bdf: &str, driver: Option<&str>) {
    let link = root.join(FakeMachine::device_path(bdf)).join("driver");
    let _ = fs::remove_file(&link);
    if let Some(driver) = driver {
        symlink(root.join("sys/bus/pci/drivers").join(driver), link).unwrap();
    }
}

/// The text written to a file since the last call.
fn told(path: &Path) -> Option<Bdf> {
    let bdf = fs::read_to_string(path).ok()?.trim().parse().ok()?;
    fs::write(path, "").unwrap();
    Some(bdf)
}

fn obey(root: &Path, unwilling: &[&str]) {
    let bus = root.join("sys/bus/pci");
    for driver in ["nvme", "vfio-pci"] {
        if let Some(bdf) = told(&bus.join("drivers").join(driver).join("unbind")) {
            set_driver(root, &bdf.to_string(), None);
        }
    }
    if let Some(bdf) = told(&bus.join("drivers_probe")) {
        let text = fs::read_to_string(root.join(FakeMachine::device_path(&bdf.to_string())).join("driver_override"));
        let driver = match text.as_deref().unwrap_or_default().lines().next().unwrap_or_default() {
            "" | "(null)" => "nvme",
            named => named,
        };
        if !unwilling.contains(&driver) {
            set_driver(root, &bdf.to_string(), Some(driver));
        }
    }
}
