//! Taking controllers and giving them back on a fake machine, with a kill between any two steps.

use super::*;
use crate::fake_machine::FakeMachine;

const DRIVE: &str = "0000:00:04.0";

fn machine(test: &str) -> FakeMachine {
    let machine = FakeMachine::new(test);
    machine.controller(DRIVE, "nvme0", 1);
    machine
}

fn take(machine: &FakeMachine) -> Result<()> {
    let bindings = machine.bindings();
    let device = bindings.pci().device(DRIVE.parse().unwrap()).unwrap();
    bindings.lock()?.take(&device)
}

fn give_back(machine: &FakeMachine) -> Result<Returned> {
    let bindings = machine.bindings();
    let record = bindings.record(DRIVE.parse().unwrap()).unwrap().expect("it is recorded");
    bindings.lock()?.give_back(&record)
}

fn is_recorded(machine: &FakeMachine) -> bool {
    !machine.bindings().records().unwrap().is_empty()
}

#[test]
fn what_was_taken_is_recorded_and_given_back_as_it_was() {
    let machine = machine("back");
    let _kernel = machine.start_kernel(&[]);
    take(&machine).unwrap();
    assert_eq!(machine.driver(DRIVE).as_deref(), Some(VFIO_DRIVER));
    let record = &machine.bindings().records().unwrap()[0];
    assert_eq!((record.bdf.to_string().as_str(), record.driver.as_deref()), (DRIVE, Some("nvme")));
    assert_eq!((record.driver_override.as_deref(), record.unfinished), (None, false));
    assert_eq!((record.model.as_deref(), record.namespaces), (Some("Fake drive"), 1));
    assert_eq!(give_back(&machine).unwrap(), Returned::ToDriver("nvme".into()));
    assert_eq!((machine.driver(DRIVE).as_deref(), machine.driver_override(DRIVE)), (Some("nvme"), None));
    assert!(!is_recorded(&machine));
}

#[test]
fn a_driver_override_of_before_is_put_back() {
    let machine = machine("override");
    let _kernel = machine.start_kernel(&[]);
    let file = machine.path(&format!("sys/bus/pci/devices/{DRIVE}/driver_override"));
    fs::write(&file, "nvme\n").unwrap();
    take(&machine).unwrap();
    assert_eq!(machine.driver_override(DRIVE).as_deref(), Some(VFIO_DRIVER));
    give_back(&machine).unwrap();
    assert_eq!(machine.driver_override(DRIVE).as_deref(), Some("nvme"));
}

#[test]
fn what_vfio_does_not_take_goes_back_to_its_driver() {
    let machine = machine("unwilling");
    let _kernel = machine.start_kernel(&[VFIO_DRIVER]);
    let error = take(&machine).unwrap_err().to_string();
    assert!(error.starts_with("taking 0000:00:04.0: vfio-pci did not take it; nvme has it again"), "{error}");
    assert_eq!((machine.driver(DRIVE).as_deref(), machine.driver_override(DRIVE)), (Some("nvme"), None));
    assert!(!is_recorded(&machine));
}

#[test]
fn what_its_driver_does_not_take_back_stays_recorded_until_it_does() {
    let machine = machine("stays");
    {
        let _kernel = machine.start_kernel(&["nvme"]);
        take(&machine).unwrap();
        let error = give_back(&machine).unwrap_err().to_string();
        assert!(error.contains("nvme did not take it"), "{error}");
    }
    assert!(machine.bindings().records().unwrap()[0].unfinished);
    let _kernel = machine.start_kernel(&[]);
    assert_eq!(give_back(&machine).unwrap(), Returned::ToDriver("nvme".into()));
    assert!(!is_recorded(&machine));
}

/// A kill leaves the record, and the device as the steps so far made it.
#[test]
fn a_bind_that_was_killed_between_any_two_steps_is_undone() {
    for steps in 0..4 {
        let machine = machine(&format!("killed-{steps}"));
        let _kernel = machine.start_kernel(&[]);
        let (bindings, bdf) = (machine.bindings(), DRIVE.parse().unwrap());
        let device = bindings.pci().device(bdf).unwrap();
        let record = Record {
            bdf,
            driver: device.driver().unwrap(),
            driver_override: None,
            model: None,
            namespaces: 1,
            taken_unix_s: 0,
            unfinished: true,
        };
        bindings.lock().unwrap().write(&record).unwrap();
        if steps > 0 {
            device.set_driver_override(Some(VFIO_DRIVER)).unwrap();
        }
        if steps > 1 {
            device.unbind().unwrap();
            assert!(wait_until(VFIO_TIME_MAX, || device.is_bound_to(None)));
        }
        if steps > 2 {
            bindings.pci().probe_drivers(bdf).unwrap();
            assert!(wait_until(VFIO_TIME_MAX, || device.is_bound_to(Some(VFIO_DRIVER))));
        }
        assert_eq!(give_back(&machine).unwrap(), Returned::ToDriver("nvme".into()), "{steps}");
        assert_eq!((machine.driver(DRIVE).as_deref(), machine.driver_override(DRIVE)), (Some("nvme"), None));
        assert!(!is_recorded(&machine), "{steps}");
    }
}

#[test]
fn a_drive_that_was_pulled_or_given_to_another_driver_is_dropped_from_the_records() {
    let machine = machine("pulled");
    let _kernel = machine.start_kernel(&[]);
    take(&machine).unwrap();
    let device = machine.path(&format!("sys/bus/pci/devices/{DRIVE}"));
    fs::remove_file(device.join("driver")).unwrap();
    std::os::unix::fs::symlink(machine.path("sys/bus/pci/drivers/ahci"), device.join("driver")).unwrap();
    assert_eq!(give_back(&machine).unwrap(), Returned::LeftTo("ahci".into()));
    fs::remove_file(device.join("driver")).unwrap();
    take(&machine).unwrap();
    fs::remove_dir_all(device).unwrap();
    assert_eq!(give_back(&machine).unwrap(), Returned::Gone);
    assert!(!is_recorded(&machine));
}

#[test]
fn what_had_no_driver_is_given_back_to_nobody() {
    let machine = machine("nobody");
    let _kernel = machine.start_kernel(&[]);
    fs::remove_file(machine.path(&format!("sys/bus/pci/devices/{DRIVE}/driver"))).unwrap();
    take(&machine).unwrap();
    assert_eq!(machine.driver(DRIVE).as_deref(), Some(VFIO_DRIVER));
    assert_eq!(give_back(&machine).unwrap(), Returned::ToNobody);
    assert_eq!(machine.driver(DRIVE), None);
}

#[test]
fn one_process_at_a_time_takes_and_gives_back() {
    let machine = machine("lock");
    let bindings = machine.bindings();
    let locked = bindings.lock().unwrap();
    assert!(bindings.try_lock().unwrap().is_none());
    // As a child of this process has it until its exec.
    let child = locked.file.try_clone().unwrap();
    drop(locked);
    assert!(bindings.try_lock().unwrap().is_some());
    drop(child);
    assert!(bindings.try_lock().unwrap().is_some());
}

#[test]
fn a_damaged_record_is_named_and_other_files_are_left_alone() {
    let machine = machine("damaged");
    let bindings = machine.bindings();
    drop(bindings.lock().unwrap());
    fs::write(machine.path("run/iolane/nvme/0000:00:04.0.part"), "{").unwrap();
    assert!(bindings.records().unwrap().is_empty());
    fs::write(machine.path("run/iolane/nvme/0000:00:04.0.json"), "{").unwrap();
    let error = bindings.records().unwrap_err().to_string();
    assert!(error.contains("0000:00:04.0.json: it is damaged") && error.contains("remove it"), "{error}");
}

#[test]
fn without_vfio_pci_and_modprobe_the_remedy_names_both() {
    let machine = machine("modprobe");
    machine.bindings().require_vfio().unwrap();
    fs::remove_dir_all(machine.path("sys/bus/pci/drivers/vfio-pci")).unwrap();
    let error = machine.bindings().require_vfio().unwrap_err().to_string();
    assert!(error.starts_with("driver vfio-pci: it is not loaded (modprobe cannot be run: no such file"), "{error}");
    assert!(error.contains("modprobe vfio-pci"), "{error}");
}

#[test]
fn a_group_node_is_given_away_and_one_that_is_missing_is_named() {
    let machine = machine("owner");
    let bindings = machine.bindings();
    let device = bindings.pci().device(DRIVE.parse().unwrap()).unwrap();
    let mode = |path: &Path| std::os::unix::fs::MetadataExt::mode(&fs::metadata(path).unwrap()) & 0o777;
    bindings.set_owner(&device, Owner::default()).unwrap();
    assert_eq!(mode(&machine.path("dev/vfio/1")), 0o600);
    let ours = std::os::unix::fs::MetadataExt::gid(&fs::metadata(machine.path("dev/vfio/1")).unwrap());
    bindings.set_owner(&device, Owner { user: None, group: Some(ours) }).unwrap();
    assert_eq!(mode(&machine.path("dev/vfio/1")), 0o660);
    fs::remove_file(machine.path("dev/vfio/1")).unwrap();
    assert!(bindings.set_owner(&device, Owner::default()).unwrap_err().to_string().contains("dev/vfio/1"));
}
