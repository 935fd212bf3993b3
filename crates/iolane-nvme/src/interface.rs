//! The paths `nvme` (polled) and `nvme+int` (interrupts), and their targets, such as `pci:0000:00:04.0`. Registered in the crate's
//! root; the queue is in `queue`.

use std::sync::{Arc, Mutex, MutexGuard, PoisonError, Weak};

use iolane_core::capability::check_depth;
use iolane_core::scheme::{Device, SCHEMES, Scheme};
use iolane_core::{
    Capabilities, CompletionMode, Error, Interface, IoPath, PathOptions, Queue, QueueConfig, Result, SyscallUse,
    Target, TargetKind,
};

use crate::controller::{Controller, ControllerOptions};
use crate::identity::Namespace;
use crate::name::{SCHEME, TargetName};
use crate::pci::{Bdf, Pci};
use crate::queue::{NvmeQueue, NvmeQueueConfig, atomic_writes, operations};
use crate::vfio::VfioDevice;

pub(crate) struct Nvme;

impl Interface for Nvme {
    fn name(&self) -> &'static str {
        "nvme"
    }

    fn summary(&self) -> &'static str {
        "iolane's own NVMe driver in this process, over VFIO: no kernel, no system call"
    }

    fn own_target(&self) -> Option<TargetKind> {
        Some(CONTROLLER)
    }

    /// Files and devices of the kernel too, so that `probe` and a survey list what the path would need there.
    fn reaches(&self, kind: TargetKind) -> bool {
        !kind.is_simulated()
    }

    /// It polls unless interrupts are asked for.
    fn polls_completions(&self, path: &IoPath) -> bool {
        path.completion != CompletionMode::Interrupt
    }

    /// Waiting for an interrupt takes a system call, if the completion is not there yet.
    fn syscall_use(&self, path: &IoPath) -> SyscallUse {
        if self.polls_completions(path) { SyscallUse::None } else { SyscallUse::Varies }
    }

    /// The IOMMU lets the controller reach nothing else.
    fn requires_registered_memory(&self, _path: &IoPath) -> bool {
        true
    }

    fn paths(&self) -> Vec<IoPath> {
        let path = IoPath::new(self.name());
        vec![path.clone(), path.interrupts()]
    }

    fn validate(&self, path: &IoPath) -> Result<()> {
        let refuse = |cause: &str, remedy: &str| Err(Error::usage(format!("path {path}"), cause).remedy(remedy));
        if path.polls_submissions() {
            return refuse("it has no kernel thread that could poll", "leave +sqpoll out");
        }
        match path.completion {
            CompletionMode::Iopoll => return refuse("it polls already", "write nvme"),
            CompletionMode::Hybrid => return refuse("it sleeps with interrupts or polls", "write nvme or nvme+int"),
            CompletionMode::Default | CompletionMode::Interrupt => {}
        }
        if path.options != PathOptions::default() {
            return refuse("it has no options; its buffers are always registered", "leave the options out");
        }
        Ok(())
    }

    fn probe(&self, path: &IoPath, target: &Target) -> Result<Capabilities> {
        self.validate(path)?;
        let opened = opened(path, target)?;
        let controller = opened.controller()?;
        let interrupts = path.completion == CompletionMode::Interrupt;
        let identity = controller.identity();
        let atomic_writes = atomic_writes(&controller, opened.namespace);
        Ok(Capabilities::new(controller.depth_max(), operations(&controller, opened.namespace))
            .atomic_writes(atomic_writes)
            .event_fd(interrupts)
            .unregistered_memory(Some("refused: the IOMMU limits the controller to registered pools"))
            .note(Some(format!("{}, firmware {}", identity.model, identity.firmware))))
    }

    fn open(&self, path: &IoPath, target: &Target, config: &QueueConfig) -> Result<Box<dyn Queue>> {
        self.validate(path)?;
        let opened = opened(path, target)?;
        let controller = opened.controller()?;
        check_depth(path, config.depth, controller.depth_max())?;
        if config.pools.is_empty() {
            return Err(Error::usage(
                format!("{path} on {}", target.name()),
                "no pool is given, and the IOMMU limits the controller to registered pools",
            )
            .remedy("give the queue the pool that its buffers come from (QueueConfig::pool)"));
        }
        let config = NvmeQueueConfig {
            depth: config.depth,
            pools: &config.pools,
            writable: target.writable(),
            interrupts: path.completion == CompletionMode::Interrupt,
            event_fd: config.event_fd,
        };
        Ok(Box::new(NvmeQueue::open(&controller, opened.namespace, config)?))
    }
}

/// The state that a target keeps.
struct OpenedNamespace {
    name: String,
    bdf: Bdf,
    options: ControllerOptions,
    namespace: Namespace,
    /// `None` from [`release`] to the next use.
    controller: Mutex<Option<Arc<Controller>>>,
}

impl OpenedNamespace {
    /// The controller, opened again if it was released.
    fn controller(&self) -> Result<Arc<Controller>> {
        let mut held = self.held();
        if let Some(controller) = &*held {
            return Ok(controller.clone());
        }
        let controller = controller(self.bdf, self.options, &self.name)?;
        let now = controller.namespace(self.namespace.identifier)?;
        if now != self.namespace {
            return Err(Error::failed(
                &self.name,
                "its namespace was changed while another program had the controller",
            )
            .remedy("open the target again"));
        }
        Ok(held.insert(controller).clone())
    }

    fn held(&self) -> MutexGuard<'_, Option<Arc<Controller>>> {
        self.controller.lock().unwrap_or_else(PoisonError::into_inner)
    }
}

/// Closes the controllers of these targets, so that another program can open them. The next probe or queue opens them again; other
/// targets are left as they are.
///
/// # Errors
/// `Failed` if a queue, or a target that is not listed, keeps one open.
pub fn release(targets: &[Target]) -> Result<()> {
    let opened: Vec<&OpenedNamespace> = targets.iter().filter_map(Target::state_of).collect();
    opened.iter().for_each(|opened| *opened.held() = None);
    let controllers = CONTROLLERS.lock().unwrap_or_else(PoisonError::into_inner);
    let is_open =
        |bdf: Bdf| controllers.iter().any(|(known, controller)| *known == bdf && controller.strong_count() > 0);
    match opened.iter().find(|opened| is_open(opened.bdf)) {
        Some(opened) => Err(Error::failed(&opened.name, "a queue or another target keeps its controller open")),
        None => Ok(()),
    }
}

fn opened<'a>(path: &IoPath, target: &'a Target) -> Result<&'a OpenedNamespace> {
    target.state_of::<OpenedNamespace>().ok_or_else(|| {
        Error::unavailable(format!("{path} on {}", target.name()), "it needs an NVMe controller bound to vfio-pci")
            .remedy("run `iolane nvme bind BDF`, then name it pci:BDF")
    })
}

/// The controller and the namespace identifier of an opened target; `None` for other targets.
pub fn namespace_of(target: &Target) -> Option<(Bdf, u32)> {
    target.state_of::<OpenedNamespace>().map(|opened| (opened.bdf, opened.namespace.identifier))
}

#[linkme::distributed_slice(SCHEMES)]
static PCI: Scheme = Scheme { kind: "nvme", ..Scheme::new(SCHEME, open) };

/// The kind of a namespace whose controller is bound to no kernel driver of its own.
pub const CONTROLLER: TargetKind = TargetKind::Own(&PCI);

fn open(rest: &str, name: &str) -> Result<Device> {
    let TargetName { bdf, namespace, options } = TargetName::parse_rest(rest, name)?;
    let controller = controller(bdf, options, name)?;
    let identifier = active_namespace(&controller.namespaces()?, namespace, name)?;
    let namespace = controller.namespace(identifier)?;
    let (bytes, block_bytes) = (namespace.bytes, namespace.block_bytes);
    let controller = Mutex::new(Some(controller));
    let state = Box::new(OpenedNamespace { name: name.into(), bdf, options, namespace, controller });
    Ok(Device { bytes, block_bytes, state })
}

/// The requested namespace, or the first of the active ones.
fn active_namespace(active: &[u32], asked: Option<u32>, name: &str) -> Result<u32> {
    let Some(first) = active.first() else {
        return Err(
            Error::unavailable(name, "the controller has no active namespace").remedy("make one (nvme create-ns)")
        );
    };
    let identifier = asked.unwrap_or(*first);
    if active.contains(&identifier) {
        return Ok(identifier);
    }
    let those: Vec<String> = active.iter().map(|identifier| format!("ns={identifier}")).collect();
    Err(Error::unavailable(name, format!("the controller has no active namespace {identifier}"))
        .remedy(format!("name one it has: {}", those.join(", "))))
}

/// The controllers that this process has open. A group can be opened only once, so all threads share the controller.
static CONTROLLERS: Mutex<Vec<(Bdf, Weak<Controller>)>> = Mutex::new(Vec::new());

fn controller(bdf: Bdf, options: ControllerOptions, name: &str) -> Result<Arc<Controller>> {
    let mut controllers = CONTROLLERS.lock().unwrap_or_else(PoisonError::into_inner);
    controllers.retain(|(_, controller)| controller.strong_count() > 0);
    let open = controllers.iter().find(|(known, _)| *known == bdf).and_then(|(_, controller)| controller.upgrade());
    if let Some(controller) = open {
        if controller.options() != options {
            return Err(Error::usage(name, "the controller is already open with other settings")
                .remedy("use the same settings for all of its targets"));
        }
        return Ok(controller);
    }
    require_nvme(&Pci::new("/sys"), bdf)?;
    let controller = Controller::start(VfioDevice::open(&bdf.to_string())?, options)?;
    controllers.push((bdf, Arc::downgrade(&controller)));
    Ok(controller)
}

/// Refuses a device other than an NVMe controller. A missing device is reported by VFIO.
fn require_nvme(pci: &Pci, bdf: Bdf) -> Result<()> {
    match pci.device(bdf).map(|device| device.is_nvme()) {
        Some(Ok(false)) => Err(Error::unavailable(
            format!("{SCHEME}:{bdf}"),
            "it is not an NVMe controller (its PCI class is not 010802)",
        )
        .remedy("`iolane nvme list` shows the controllers")),
        _ => Ok(()),
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_namespace_that_is_asked_for_has_to_be_there_and_the_first_one_stands_in() {
        assert_eq!(active_namespace(&[2, 7], None, "pci:x").unwrap(), 2);
        assert_eq!(active_namespace(&[2, 7], Some(7), "pci:x").unwrap(), 7);
        for identifier in [1, 99, u32::MAX] {
            let error = active_namespace(&[2, 7], Some(identifier), "pci:x").unwrap_err().to_string();
            let expected = "the controller has no active namespace";
            assert_eq!(error, format!("pci:x: {expected} {identifier}; name one it has: ns=2, ns=7"));
        }
        assert!(active_namespace(&[], Some(1), "pci:x").unwrap_err().to_string().contains("create-ns"));
    }

    #[test]
    fn a_device_of_another_kind_is_named_as_such() {
        let machine = crate::fake_machine::FakeMachine::new("kind");
        machine.controller("0000:00:04.0", "nvme0", 1);
        let pci = Pci::new(machine.path("sys"));
        require_nvme(&pci, "00:04.0".parse().unwrap()).unwrap();
        require_nvme(&pci, "00:05.0".parse().unwrap()).unwrap();
        std::fs::write(machine.path("sys/bus/pci/devices/0000:00:04.0/class"), "0x020000\n").unwrap();
        let error = require_nvme(&pci, "00:04.0".parse().unwrap()).unwrap_err().to_string();
        assert!(error.starts_with("pci:0000:00:04.0: it is not an NVMe controller"), "{error}");
    }
}
