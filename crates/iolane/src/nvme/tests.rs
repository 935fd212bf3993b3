use super::*;
use std::fs;
use std::os::unix::fs::symlink;

/// A machine made of files.
struct Machine(PathBuf);

impl Machine {
    fn new(test: &str) -> Self {
        Self(std::env::temp_dir().join(format!("iolane-nvme-{test}-{}", std::process::id())))
    }

    fn bindings(&self) -> Bindings {
        Bindings::beneath(&self.0)
    }

    fn device(&self, bdf: &str, class: &str, driver: &str, group: Option<u32>) -> PathBuf {
        let device = self.0.join("sys/bus/pci/devices").join(bdf);
        fs::create_dir_all(&device).unwrap();
        fs::write(device.join("class"), format!("0x{class}\n")).unwrap();
        fs::write(device.join("driver_override"), "(null)\n").unwrap();
        if !driver.is_empty() {
            symlink(Path::new("../../drivers").join(driver), device.join("driver")).unwrap();
        }
        if let Some(group) = group {
            let folder = self.0.join(format!("sys/kernel/iommu_groups/{group}"));
            fs::create_dir_all(folder.join("devices")).unwrap();
            symlink(&device, folder.join("devices").join(bdf)).unwrap();
            symlink(&folder, device.join("iommu_group")).unwrap();
        }
        device
    }

    fn takeable(&self, bdf: &str, others: &[&str]) -> String {
        let others: Vec<Bdf> = others.iter().map(|bdf| bdf.parse().unwrap()).collect();
        let taken = takeable(&self.bindings(), bdf.parse().unwrap(), &others);
        taken.map_or_else(|error| error.to_string(), |device| device.bdf().to_string())
    }

    fn record(&self, bdf: &str, unfinished: bool) {
        let folder = self.0.join("run/iolane/nvme");
        fs::create_dir_all(&folder).unwrap();
        let record = Record {
            bdf: bdf.parse().unwrap(),
            driver: Some("nvme".into()),
            driver_override: None,
            model: None,
            namespaces: 0,
            taken_unix_s: 0,
            unfinished,
        };
        fs::write(folder.join(format!("{bdf}.json")), serde_json::to_string(&record).unwrap()).unwrap();
    }
}

impl Drop for Machine {
    fn drop(&mut self) {
        let _ = fs::remove_dir_all(&self.0);
    }
}

#[test]
fn what_is_no_idle_nvme_controller_under_an_iommu_is_refused_with_the_reason() {
    let machine = Machine::new("refused");
    machine.device("0000:00:04.0", "010802", "nvme", Some(1));
    machine.device("0000:00:05.0", "010802", "nvme", None);
    machine.device("0000:00:06.0", "010802", "uio_pci_generic", Some(2));
    machine.device("0000:00:1f.2", "010601", "ahci", Some(3));
    machine.device("0000:00:07.0", "010802", "", Some(4));
    for (bdf, answer) in [
        ("0000:00:04.0", "0000:00:04.0"),
        ("0000:00:07.0", "0000:00:07.0"),
        ("0000:00:08.0", "taking 0000:00:08.0: there is no such PCI device; "),
        ("0000:00:05.0", "taking 0000:00:05.0: no IOMMU watches over it"),
        ("0000:00:06.0", "taking 0000:00:06.0: driver uio_pci_generic has it"),
        ("0000:00:1f.2", "taking 0000:00:1f.2: it is not an NVMe controller"),
    ] {
        let told = machine.takeable(bdf, &[]);
        assert!(told.starts_with(answer), "{told}");
    }
    assert!(machine.takeable("0000:00:05.0", &[]).contains("intel_iommu=on"));
}

#[test]
fn a_namespace_with_a_character_device_only_is_claimed_by_no_block_device_and_refused_while_it_is_open() {
    let machine = Machine::new("character");
    let folder = machine.device("0000:00:04.0", "010802", "nvme", Some(1));
    fs::create_dir_all(folder.join("nvme/nvme7/ng7n1")).unwrap();
    let device = machine.bindings().pci().device("00:04.0".parse().unwrap()).unwrap();
    // Only root sees what all processes have open.
    match claim(&device) {
        Ok(claims) => assert!(claims.is_empty()),
        Err(error) => assert!(error.to_string().contains("that cannot be looked into"), "{error}"),
    }
    let full = fs::File::open("/dev/full").unwrap();
    let mut child = std::process::Command::new("sleep").arg("60").stdin(full).spawn().unwrap();
    let openers = OpenFiles::scan().unwrap();
    child.kill().unwrap();
    child.wait().unwrap();
    let assert_refused = |node: &str, dev: &Path| {
        let told = require_closed(device.bdf(), device.nodes().unwrap(), &openers, dev).unwrap_err().to_string();
        assert!(told.contains(&format!("/{node}): ")) && told.contains(" has it open; end that process"), "{told}");
    };
    for (class, node) in [("nvme-generic", "ng7n1"), ("nvme", "nvme7")] {
        let dev = machine.0.join("dev").join(node);
        fs::create_dir_all(&dev).unwrap();
        assert!(require_closed(device.bdf(), device.nodes().unwrap(), &openers, &dev).is_ok());
        symlink("/dev/full", dev.join(node)).unwrap();
        assert_refused(node, &dev);
        // Nothing in /dev has that name, as in a container.
        let number = machine.0.join("sys/class").join(class).join(node);
        fs::create_dir_all(&number).unwrap();
        fs::write(number.join("dev"), "1:7\n").unwrap();
        assert_refused(node, &machine.0.join("nowhere"));
        fs::remove_dir_all(number).unwrap();
    }
    let partition = machine.0.join("sys/class/block/nvme7n1/nvme7n1p2");
    fs::create_dir_all(&partition).unwrap();
    fs::write(partition.join("partition"), "2\n").unwrap();
    let dev = machine.0.join("dev");
    symlink("/dev/full", dev.join("nvme7n1p2")).unwrap();
    assert_refused("nvme7n1p2", &dev);
}

#[test]
fn a_controller_whose_driver_or_namespaces_cannot_be_read_is_not_taken() {
    let machine = Machine::new("unreadable");
    let folder = machine.device("0000:00:04.0", "010802", "nvme", Some(1));
    // Root may read any file, so each is of a kind that has nothing to read.
    fs::write(folder.join("nvme"), "").unwrap();
    let device = machine.bindings().pci().device("00:04.0".parse().unwrap()).unwrap();
    let told = claim(&device).err().unwrap().to_string();
    assert!(told.contains("0000:00:04.0/nvme: "), "{told}");
    let listed = controller(&machine.bindings(), &device, None, &OpenFiles::default());
    assert!(listed.used_by[0].starts_with("its namespaces are unknown (reading "), "{listed:?}");
    let other = machine.device("0000:00:05.0", "020000", "", Some(1));
    fs::write(other.join("driver"), "").unwrap();
    assert!(machine.takeable("0000:00:04.0", &[]).contains("0000:00:05.0/driver: "));
    fs::remove_file(folder.join("driver")).unwrap();
    fs::write(folder.join("driver"), "").unwrap();
    assert!(machine.takeable("0000:00:04.0", &[]).contains("0000:00:04.0/driver: "));
}

#[test]
fn a_group_is_taken_whole_or_not_at_all() {
    let machine = Machine::new("groups");
    machine.device("0000:00:01.0", "060400", "pcieport", Some(1));
    machine.device("0000:01:00.0", "010802", "nvme", Some(1));
    machine.device("0000:01:00.1", "020000", "", Some(1));
    machine.device("0000:02:00.0", "010802", "nvme", Some(2));
    machine.device("0000:02:00.1", "010802", "nvme", Some(2));
    machine.device("0000:03:00.0", "010802", "nvme", Some(3));
    machine.device("0000:03:00.1", "020000", "igc", Some(3));
    assert_eq!(machine.takeable("0000:01:00.0", &[]), "0000:01:00.0");
    let alone = machine.takeable("0000:02:00.0", &["0000:02:00.0"]);
    let cause = "0000:02:00.1, which driver nvme has, is in its IOMMU group 2 too";
    assert!(alone.starts_with(&format!("taking 0000:02:00.0: {cause}; ")), "{alone}");
    assert_eq!(machine.takeable("0000:02:00.0", &["0000:02:00.0", "0000:02:00.1"]), "0000:02:00.0");
    assert!(machine.takeable("0000:03:00.0", &[]).contains("0000:03:00.1, which driver igc has"));
}

#[test]
fn a_group_of_which_another_program_bound_a_device_is_not_given_away() {
    let machine = Machine::new("given-away");
    machine.device("0000:01:00.0", "010802", "nvme", Some(1));
    machine.device("0000:01:00.1", "010802", "vfio-pci", Some(1));
    machine.device("0000:02:00.0", "010802", "vfio-pci", Some(2));
    let bindings = machine.bindings();
    let told = |bdf: &str| {
        let device = bindings.pci().device(bdf.parse().unwrap()).unwrap();
        require_own_group(&bindings, &device, &[bdf.parse().unwrap()]).map_err(|error| error.to_string())
    };
    let cause = "vfio-pci has 0000:01:00.1 of its IOMMU group, and not by `iolane nvme bind`; leave out --user";
    assert!(told("01:00.0").unwrap_err().contains(cause));
    assert!(told("02:00.0").unwrap_err().contains("vfio-pci has 0000:02:00.0 of its IOMMU group"));
    machine.record("0000:01:00.1", false);
    machine.record("0000:02:00.0", false);
    assert_eq!((told("01:00.0"), told("02:00.0")), (Ok(()), Ok(())));
}

#[test]
fn what_is_left_over_of_a_kill_is_given_back_and_what_is_finished_or_worked_on_is_left_alone() {
    let machine = Machine::new("left-over");
    let bindings = machine.bindings();
    machine.device("0000:00:04.0", "010802", "vfio-pci", Some(1));
    machine.record("0000:00:04.0", false);
    assert!(finish(&bindings).unwrap().is_empty());
    assert_eq!(bindings.records().unwrap().len(), 1);
    // This one was pulled out besides.
    machine.record("0000:00:05.0", true);
    let locked = bindings.lock().unwrap();
    assert!(finish(&bindings).unwrap().is_empty());
    drop(locked);
    let finished = finish(&bindings).unwrap();
    let outcomes: Vec<_> = finished.iter().map(|(bdf, result)| (bdf.to_string(), result.as_ref().ok())).collect();
    assert_eq!(outcomes, [("0000:00:05.0".into(), Some(&Returned::Gone))]);
    assert_eq!(bindings.records().unwrap().len(), 1);
}

#[test]
fn what_was_never_taken_is_left_where_it_is_and_what_others_took_is_not_given_back() {
    let machine = Machine::new("others");
    machine.device("0000:00:04.0", "010802", "nvme", Some(1));
    machine.device("0000:00:05.0", "010802", "vfio-pci", Some(2));
    let told = |bdf: &str| not_recorded(&machine.bindings(), bdf.parse().unwrap());
    assert_eq!(told("00:04.0").unwrap(), Restored::WasNotTaken(Some("nvme".into())));
    assert!(told("00:05.0").unwrap_err().to_string().contains("it was not `iolane nvme bind`"));
    assert!(told("00:06.0").unwrap_err().to_string().contains("no such PCI device"));
}

#[test]
fn a_controller_is_told_of_with_the_model_it_had_before_it_was_taken() {
    let machine = Machine::new("told");
    let folder = machine.device("0000:00:04.0", "010802", "vfio-pci", Some(1));
    fs::write(folder.join("vendor"), "0x1b36\n").unwrap();
    fs::write(folder.join("device"), "0x0010\n").unwrap();
    let bindings = machine.bindings();
    let device = bindings.pci().device("00:04.0".parse().unwrap()).unwrap();
    let told = |record| controller(&bindings, &device, record, &OpenFiles::default());
    machine.record("0000:00:04.0", false);
    let record = Record { model: Some("Fine drive".into()), ..bindings.records().unwrap().remove(0) };
    assert_eq!((told(None).taken, told(None).model, told(None).pci_id.as_deref()), (false, None, Some("1b36:0010")));
    assert_eq!((told(Some(&record)).taken, told(Some(&record)).model.as_deref()), (true, Some("Fine drive")));
    assert_eq!(told(None).vfio_node, Some(machine.0.join("dev/vfio/1")));
}
