//! The model controller, driven by a small host that shares no queue code with the driver, so that model and driver cannot share
//! a mistake.

use std::os::fd::OwnedFd;
use std::sync::Arc;
use std::sync::atomic::Ordering;

use iolane_nvme::command::{Command, CompletionEntry, PSDT_SGL, Status, admin, feature, identify, log_page, nvm};
use iolane_nvme::memory::DmaPages;
use iolane_nvme::model::{Faults, Model, ModelConfig, NamespaceConfig};
use iolane_nvme::registers::*;
use iolane_nvme::transport::Transport;

const PAGE: u64 = 4096;
const ENTRIES: u32 = 8;

/// One pair of rings: submissions in the first page, completions in the second.
struct Rings {
    queue: u16,
    pages: DmaPages,
    tail: u32,
    head: u32,
    phase: bool,
}

impl Rings {
    fn new(transport: &Arc<dyn Transport>, queue: u16) -> Self {
        Self { queue, pages: DmaPages::new(transport, 8192).unwrap(), tail: 0, head: 0, phase: true }
    }

    fn push(&mut self, command: Command) {
        // SAFETY: a command is 64 bytes without padding.
        let words: [u64; 8] = unsafe { std::mem::transmute(command) };
        for (index, word) in words.into_iter().enumerate() {
            self.pages.word(self.tail as usize * 8 + index).store(word, Ordering::Relaxed);
        }
        self.tail = (self.tail + 1) % ENTRIES;
    }

    fn pop(&mut self) -> Option<CompletionEntry> {
        let word = |index| self.pages.word(512 + self.head as usize * 2 + index).load(Ordering::Acquire);
        let (high, low) = (word(1), word(0));
        let entry = CompletionEntry::from_dwords([low as u32, (low >> 32) as u32, high as u32, (high >> 32) as u32]);
        if entry.phase != self.phase {
            return None;
        }
        self.head = (self.head + 1) % ENTRIES;
        self.phase ^= self.head == 0;
        Some(entry)
    }
}

struct Host {
    model: Arc<Model>,
    registers: Registers,
    stride_bytes: usize,
    admin: Rings,
    io: Rings,
    /// 16 pages of data; the last two are for PRP lists.
    data: DmaPages,
    identifier: u16,
    transport: Arc<dyn Transport>,
}

impl Host {
    /// With the controller enabled, and no I/O queue yet.
    fn new(config: ModelConfig) -> Self {
        let stride_bytes = config.doorbell_stride_bytes;
        let model = Model::new(config);
        let transport: Arc<dyn Transport> = Arc::new(model.port());
        let mut host = Self {
            // SAFETY: the host keeps the transport, and its commands name its own pages or what the model has to refuse.
            registers: unsafe { transport.registers() },
            model,
            stride_bytes,
            admin: Rings::new(&transport, 0),
            io: Rings::new(&transport, 1),
            data: DmaPages::new(&transport, 16 * 4096).unwrap(),
            identifier: 0,
            transport,
        };
        host.enable();
        host
    }

    /// With an I/O queue.
    fn with_queue(config: ModelConfig) -> Self {
        let mut host = Self::new(config);
        assert!(host.create_queue(1).is_success());
        host
    }

    fn enable(&mut self) {
        self.set_bus_master(true).unwrap();
        let base = self.admin.pages.address();
        self.registers.write(AQA, (ENTRIES - 1) << 16 | (ENTRIES - 1));
        self.registers.write64(ASQ, base);
        self.registers.write64(ACQ, base + PAGE);
        self.registers.write(CC, CC_ENTRY_SIZES | CC_ENABLE);
        self.until(CSTS_READY);
    }

    fn set_bus_master(&self, on: bool) -> iolane_core::Result<()> {
        // SAFETY: commands name only pages of the host.
        unsafe { self.transport.set_bus_master(on) }
    }

    fn until(&self, status: u32) {
        for _ in 0..100 {
            if self.registers.read(CSTS) == status {
                return;
            }
            self.model.step();
        }
        panic!("CSTS is {:#x}, and should be {status:#x}", self.registers.read(CSTS));
    }

    fn doorbell(&self, queue: u16, completion: bool, value: u32) {
        self.registers.write(Registers::doorbell_offset(queue, completion, self.stride_bytes), value);
    }

    /// Carries a command out, and gives the rest time to go wrong.
    fn run(&mut self, queue: u16, command: Command) -> CompletionEntry {
        self.identifier += 1;
        let identifier = self.identifier;
        let rings = if queue == 0 { &mut self.admin } else { &mut self.io };
        rings.push(Command { identifier, ..command });
        let tail = rings.tail;
        self.doorbell(queue, false, tail);
        for _ in 0..20 {
            self.model.step();
        }
        let rings = if queue == 0 { &mut self.admin } else { &mut self.io };
        let entry = rings.pop().expect("a completion");
        assert_eq!((entry.identifier, entry.submission_queue), (identifier, rings.queue));
        let head = rings.head;
        self.doorbell(queue, true, head);
        entry
    }

    fn admin(&mut self, opcode: u8, namespace: u32, dwords: [u32; 2], data: [u64; 2]) -> CompletionEntry {
        let dwords = [dwords[0], dwords[1], 0, 0, 0, 0];
        self.run(0, Command { opcode, namespace, dwords, data, ..Command::default() })
    }

    fn create_queue(&mut self, queue: u16) -> Status {
        let (size, base) = ((ENTRIES - 1) << 16 | u32::from(queue), self.io.pages.address());
        let status = self.admin(admin::CREATE_COMPLETION_QUEUE, 0, [size, 3 | 1 << 16], [base + PAGE, 0]).status;
        assert!(status.is_success(), "{status:?}");
        self.admin(admin::CREATE_SUBMISSION_QUEUE, 0, [size, 1 | u32::from(queue) << 16], [base, 0]).status
    }

    /// Reads or writes blocks from `first` on.
    fn transfer(&mut self, opcode: u8, first: u32, blocks: u32, flags: u8, data: [u64; 2]) -> Status {
        let dwords = [first, 0, blocks - 1, 0, 0, 0];
        self.run(1, Command { opcode, flags, namespace: 1, dwords, data, ..Command::default() }).status
    }

    fn fill(&self, page: usize, seed: u64) {
        for word in 0..512 {
            self.data.word(page * 512 + word).store(seed << 32 | word as u64, Ordering::Relaxed);
        }
    }

    fn clear(&self) {
        self.data.clear();
    }

    fn page(&self, page: usize) -> Vec<u64> {
        (0..512).map(|word| self.data.word(page * 512 + word).load(Ordering::Relaxed)).collect()
    }

    fn address(&self, page: u64) -> u64 {
        self.data.address() + page * PAGE
    }

    /// A range of Dataset Management, in page 0.
    fn put_range(&self, index: usize, first: u64, blocks: u64) {
        self.data.word(index * 2).store(blocks << 32, Ordering::Relaxed);
        self.data.word(index * 2 + 1).store(first, Ordering::Relaxed);
    }

    fn byte(&self, offset: usize) -> u8 {
        (self.data.word(offset / 8).load(Ordering::Relaxed) >> (offset % 8 * 8)) as u8
    }
}

#[test]
fn one_driver_at_a_time_has_a_model() {
    let model = Model::new(ModelConfig::default());
    let port = model.port();
    let second = std::panic::catch_unwind(std::panic::AssertUnwindSafe(|| drop(model.port())));
    let text = second.unwrap_err().downcast::<&str>().unwrap();
    assert_eq!(*text, "a driver has the model already");
    drop(port);
    drop(model.port());
}

#[test]
fn it_says_what_it_is() {
    let namespaces =
        vec![NamespaceConfig { blocks: 1000, block_bytes: 512 }, NamespaceConfig { blocks: 50, block_bytes: 4096 }];
    let mut host = Host::new(ModelConfig {
        namespaces,
        queue_entries_max: 256,
        doorbell_stride_bytes: 8,
        ..ModelConfig::default()
    });
    let capabilities = ControllerCapabilities(host.registers.read64(CAP));
    assert_eq!((capabilities.queue_entries_max(), capabilities.doorbell_stride_bytes()), (256, 8));
    assert!(
        capabilities.contiguous_queues() && capabilities.nvm_command_set() && capabilities.page_bytes_min() == 4096
    );
    let data = [host.address(0), 0];
    assert!(host.admin(admin::IDENTIFY, 0, [identify::CONTROLLER, 0], data).status.is_success());
    assert_eq!((host.byte(77), host.byte(516), host.byte(512)), (5, 2, 0x66));
    assert!(host.admin(admin::IDENTIFY, 2, [identify::NAMESPACE, 0], data).status.is_success());
    assert_eq!((host.byte(0), host.byte(130)), (50, 12));
    assert!(host.admin(admin::IDENTIFY, 1, [identify::ACTIVE_NAMESPACES, 0], data).status.is_success());
    assert_eq!(host.page(0)[0], 2);
    assert_eq!(host.admin(admin::IDENTIFY, 3, [identify::NAMESPACE, 0], data).status, Status::INVALID_NAMESPACE);
    assert!(host.admin(admin::GET_LOG_PAGE, 0, [log_page::SMART | 127 << 16, 0], data).status.is_success());
    assert_eq!(host.byte(3), 100);
    assert_eq!(host.model.violations(), [""; 0]);
}

#[test]
fn features_are_kept_and_those_it_lacks_refused() {
    let mut host = Host::new(ModelConfig { queues_max: 4, ..ModelConfig::default() });
    let entry = host.admin(admin::SET_FEATURES, 0, [feature::NUMBER_OF_QUEUES, 9 << 16 | 9], [0; 2]);
    assert_eq!((entry.status, entry.result), (Status::SUCCESS, 3 << 16 | 3));
    assert!(host.admin(admin::SET_FEATURES, 0, [feature::INTERRUPT_COALESCING, 0x0102], [0; 2]).status.is_success());
    assert_eq!(host.admin(admin::GET_FEATURES, 0, [feature::INTERRUPT_COALESCING, 0], [0; 2]).result, 0x0102);
    assert_eq!(host.admin(admin::GET_FEATURES, 0, [feature::VOLATILE_WRITE_CACHE, 0], [0; 2]).result, 1);
    assert_eq!(host.admin(admin::SET_FEATURES, 0, [0x7f, 0], [0; 2]).status, Status::INVALID_FIELD);
    assert_eq!(host.admin(admin::DOORBELL_BUFFER_CONFIG, 0, [0; 2], [0; 2]).status, Status::INVALID_OPCODE);
    assert!(host.create_queue(1).is_success());
    let status = host.admin(admin::SET_FEATURES, 0, [feature::NUMBER_OF_QUEUES, 0], [0; 2]).status;
    assert_eq!(status, Status(0x00c), "too late");
}

#[test]
fn queues_are_made_and_deleted_in_order_or_refused() {
    let mut host = Host::new(ModelConfig { queues_max: 2, queue_entries_max: 8, vectors: 3, ..ModelConfig::default() });
    let base = host.io.pages.address();
    let size = 7 << 16;
    let mut create = |opcode, dwords, address| host.admin(opcode, 0, dwords, [address, 0]).status.0;
    let (completion, submission) = (admin::CREATE_COMPLETION_QUEUE, admin::CREATE_SUBMISSION_QUEUE);
    assert_eq!(create(completion, [size, 1], base), 0x101, "queue 0");
    assert_eq!(create(completion, [size | 3, 1], base), 0x101, "one queue more than it has");
    assert_eq!(create(completion, [8 << 16 | 1, 1], base), 0x102, "one entry more than it takes");
    assert_eq!(create(completion, [1, 1], base), 0x102, "one entry");
    assert_eq!(create(completion, [size | 1, 0], base), 0x002, "in pieces");
    assert_eq!(create(completion, [size | 1, 3 | 3 << 16], base), 0x108, "a vector that it does not have");
    assert_eq!(create(submission, [size | 1, 1 | 1 << 16], base), 0x100, "no completion queue");
    assert_eq!(create(completion, [size | 1, 1], base + PAGE), 0);
    assert_eq!(create(completion, [size | 1, 1], base + PAGE), 0x101, "twice");
    assert_eq!(create(submission, [size | 1, 1 | 1 << 16], base), 0);
    assert_eq!(create(admin::DELETE_COMPLETION_QUEUE, [1, 0], 0), 0x10c, "in use");
    assert_eq!(create(admin::DELETE_SUBMISSION_QUEUE, [2, 0], 0), 0x101);
    assert_eq!(create(admin::DELETE_SUBMISSION_QUEUE, [1, 0], 0), 0);
    assert_eq!(create(admin::DELETE_COMPLETION_QUEUE, [1, 0], 0), 0);
    assert_eq!(host.model.violations(), [""; 0]);
    assert_eq!(host.admin(completion, 0, [size | 1, 1], [base + 4, 0]).status.0, 0x013);
    assert_eq!(host.admin(completion, 0, [size | 1, 1], [1 << 20, 0]).status.0, 0x004);
    assert_eq!(host.model.violations().len(), 2, "{:?}", host.model.violations());
}

/// Writes 1 to 13 pages from page 0 on, reads them back, and compares.
fn write_and_read(host: &mut Host, pages: usize, flags: u8, data: impl Fn(&Host) -> [u64; 2]) {
    (0..pages).for_each(|page| host.fill(page, page as u64 + 7));
    let written: Vec<_> = (0..pages).map(|page| host.page(page)).collect();
    let pointer = data(host);
    assert_eq!(host.transfer(nvm::WRITE, 16, pages as u32 * 8, flags, pointer), Status::SUCCESS);
    host.clear();
    let pointer = data(host);
    assert_eq!(host.transfer(nvm::READ, 16, pages as u32 * 8, flags, pointer), Status::SUCCESS);
    assert!((0..pages).all(|page| host.page(page) == written[page]));
    assert_eq!(host.model.violations(), [""; 0]);
}

#[test]
fn what_was_written_is_read_back_through_every_kind_of_data_pointer() {
    let mut host = Host::with_queue(ModelConfig { sgl: true, ..ModelConfig::default() });
    write_and_read(&mut host, 1, 0, |host| [host.address(0), 0]);
    write_and_read(&mut host, 2, 0, |host| [host.address(0), host.address(1)]);
    write_and_read(&mut host, 13, 0, |host| {
        (1..13).for_each(|page| host.data.word(14 * 512 + page).store(host.address(page as u64), Ordering::Relaxed));
        [host.address(0), host.address(14) + 8]
    });
    // A list that begins with the last two entries of a page, and goes on in the next page.
    write_and_read(&mut host, 13, 0, |host| {
        host.data.word(14 * 512 + 510).store(host.address(1), Ordering::Relaxed);
        host.data.word(14 * 512 + 511).store(host.address(15), Ordering::Relaxed);
        (2..13)
            .for_each(|page| host.data.word(15 * 512 + page - 2).store(host.address(page as u64), Ordering::Relaxed));
        [host.address(0), host.address(14) + 510 * 8]
    });
    write_and_read(&mut host, 13, PSDT_SGL, |host| [host.address(0), 13 * 4096]);
    let mut first = [0; 8];
    host.model.read_disk(1, 16 * 512 + 8, &mut first);
    assert_eq!(u64::from_le_bytes(first), 7 << 32 | 1);
}

#[test]
fn a_transfer_may_begin_within_a_page_and_no_entry_but_the_first() {
    let mut host = Host::with_queue(ModelConfig::default());
    let [first, second] = [host.address(0) + 2048, host.address(1)];
    assert_eq!(host.transfer(nvm::READ, 0, 8, 0, [first, second]), Status::SUCCESS);
    assert_eq!(host.model.violations(), [""; 0]);
    assert_eq!(host.transfer(nvm::READ, 0, 8, 0, [first, second + 8]), Status(0x013));
    assert_eq!(host.transfer(nvm::READ, 0, 8, 0, [first + 2, second]), Status(0x013));
    assert_eq!(host.transfer(nvm::READ, 0, 64, 0, [first, host.address(14) + 4]), Status(0x013));
    host.data.word(14 * 512).store(host.address(1) + 512, Ordering::Relaxed);
    assert_eq!(host.transfer(nvm::READ, 0, 64, 0, [first, host.address(14)]), Status(0x013));
    assert_eq!(host.model.violations().len(), 4, "{:?}", host.model.violations());
}

#[test]
fn what_is_not_mapped_is_never_touched_and_noted() {
    let mut host = Host::with_queue(ModelConfig::default());
    let end = host.address(16);
    for [first, second] in [[0x1000, 0], [end, 0], [end - 4096 + 512, end], [host.data.base().addr().get() as u64, 0]] {
        assert_eq!(host.transfer(nvm::READ, 0, 8, 0, [first, second]), Status(0x004));
    }
    let pages = DmaPages::new(&host.transport, 4096).unwrap();
    let address = pages.address();
    assert_eq!(host.transfer(nvm::READ, 0, 8, 0, [address, 0]), Status::SUCCESS);
    drop(pages);
    assert_eq!(host.transfer(nvm::READ, 0, 8, 0, [address, 0]), Status(0x004), "unmapped");
    assert_eq!(host.model.violations().len(), 5, "{:?}", host.model.violations());
    // SAFETY: no command is in flight.
    assert!(unsafe { host.transport.unmap(address, 4096) }.is_err());
}

#[test]
fn io_commands_are_checked() {
    let namespaces = vec![NamespaceConfig { blocks: 1000, block_bytes: 512 }];
    let mut host = Host::with_queue(ModelConfig { namespaces, transfer_pages_log2: 1, ..ModelConfig::default() });
    let data = [host.address(0), host.address(1)];
    assert_eq!(host.transfer(nvm::READ, 999, 1, 0, data), Status::SUCCESS);
    assert_eq!(host.transfer(nvm::READ, 999, 2, 0, data), Status::LBA_OUT_OF_RANGE);
    assert_eq!(host.transfer(nvm::WRITE, 1000, 1, 0, data), Status::LBA_OUT_OF_RANGE);
    let command = Command { namespace: 2, data, opcode: nvm::READ, ..Command::default() };
    assert_eq!(host.run(1, command).status, Status::INVALID_NAMESPACE);
    assert_eq!(host.run(1, Command { opcode: 0x55, namespace: 1, ..command }).status, Status::INVALID_OPCODE);
    assert_eq!(host.run(1, Command { opcode: nvm::FLUSH, namespace: u32::MAX, ..command }).status, Status::SUCCESS);
    assert_eq!(host.model.violations(), [""; 0]);
    assert_eq!(host.transfer(nvm::READ, 0, 17, 0, data), Status::INVALID_FIELD, "more than MDTS allows");
    assert_eq!(host.transfer(nvm::READ, 0, 1, PSDT_SGL, [data[0], 512]), Status::INVALID_FIELD, "no SGL here");
    assert_eq!(host.model.violations().len(), 2, "{:?}", host.model.violations());
}

#[test]
fn zeroed_and_deallocated_blocks_read_as_zeroes() {
    let mut host = Host::with_queue(ModelConfig::default());
    host.model.write_disk(1, 0, &[7; 64 * 512]);
    assert_eq!(host.transfer(nvm::WRITE_ZEROES, 3, 20, 0, [0; 2]), Status::SUCCESS);
    host.put_range(0, 30, 1);
    host.put_range(1, 40, 2);
    let data = [host.address(0), 0];
    let manage = Command {
        opcode: nvm::DATASET_MANAGEMENT,
        namespace: 1,
        data,
        dwords: [1, 4, 0, 0, 0, 0],
        ..Command::default()
    };
    assert_eq!(host.run(1, manage).status, Status::SUCCESS);
    let mut disk = vec![0; 64 * 512];
    host.model.read_disk(1, 0, &mut disk);
    let zeroes: Vec<usize> = (0..64).filter(|block| disk[block * 512..][..512] == [0; 512]).collect();
    assert_eq!(zeroes, (3..23).chain([30, 40, 41]).collect::<Vec<_>>());
    host.put_range(1, 1 << 40, 1);
    assert_eq!(host.run(1, manage).status, Status::LBA_OUT_OF_RANGE);
    assert_eq!(host.model.violations(), [""; 0]);
}

impl Host {
    /// Makes doorbells shadowed; the pages are the first two of the data.
    fn shadow(&mut self) {
        let data = [self.address(0), self.address(1)];
        assert_eq!(self.admin(admin::DOORBELL_BUFFER_CONFIG, 0, [0; 2], data).status, Status::SUCCESS);
    }

    fn shadow_word(&self, page: usize, completion: bool, write: Option<u32>) -> u32 {
        let word = self.data.word(page * 512 + 1);
        let value = word.load(Ordering::Relaxed);
        let shift = if completion { 32 } else { 0 };
        if let Some(write) = write {
            word.store(value & !(0xffff_ffff << shift) | u64::from(write) << shift, Ordering::SeqCst);
        }
        (value >> shift) as u32
    }
}

#[test]
fn shadow_doorbells_wake_it_and_are_read_while_it_is_awake() {
    let mut host =
        Host::with_queue(ModelConfig { shadow_doorbells: true, shadow_awake_steps: 10, ..ModelConfig::default() });
    host.shadow();
    (0..20).for_each(|_| host.model.step());
    let flush = |identifier| Command { opcode: nvm::FLUSH, namespace: 1, identifier, ..Command::default() };
    host.io.push(flush(100));
    host.shadow_word(0, false, Some(1));
    (0..20).for_each(|_| host.model.step());
    assert!(host.io.pop().is_none(), "it is asleep");
    assert_eq!(host.shadow_word(1, false, None), 0, "and wants to be woken from entry 0 on");
    host.doorbell(1, false, 1);
    host.model.step();
    assert_eq!(host.io.pop().unwrap().identifier, 100);
    host.io.push(flush(101));
    host.shadow_word(0, false, Some(2));
    host.model.step();
    assert_eq!(host.io.pop().unwrap().identifier, 101, "it is awake");
    (0..20).for_each(|_| host.model.step());
    assert_eq!(host.shadow_word(1, false, None), 2);
    assert_eq!(host.model.violations(), [""; 0]);
}

#[test]
fn a_full_completion_queue_waits_for_its_reader() {
    for is_shadowed in [false, true] {
        let mut host = Host::with_queue(ModelConfig { shadow_doorbells: true, ..ModelConfig::default() });
        if is_shadowed {
            host.shadow();
        }
        let mut identifiers = Vec::new();
        for round in 0..10 {
            for index in 0..7 {
                host.io.push(Command {
                    opcode: nvm::FLUSH,
                    namespace: 1,
                    identifier: round * 7 + index,
                    ..Command::default()
                });
            }
            host.shadow_word(0, false, is_shadowed.then_some(host.io.tail));
            host.doorbell(1, false, host.io.tail);
            for taken in [3, 3, 8] {
                host.model.step();
                identifiers.extend((0..taken).map_while(|_| host.io.pop()).map(|entry| entry.identifier));
                host.shadow_word(0, true, is_shadowed.then_some(host.io.head));
                if !is_shadowed {
                    host.doorbell(1, true, host.io.head);
                }
            }
        }
        assert_eq!(identifiers, (0..70).collect::<Vec<_>>());
        assert_eq!(host.model.violations(), [""; 0]);
    }
}

fn count_of(descriptor: &OwnedFd) -> u64 {
    let mut bytes = [0; 8];
    rustix::io::read(descriptor, &mut bytes).map_or(0, |_| u64::from_ne_bytes(bytes))
}

#[test]
fn interrupts_come_with_completions_on_their_vector() {
    let mut host = Host::new(ModelConfig { vectors: 3, ..ModelConfig::default() });
    let descriptors = host.transport.interrupts(9).unwrap();
    assert_eq!(descriptors.len(), 3);
    assert!(host.create_queue(1).is_success());
    assert_eq!((count_of(&descriptors[0]), count_of(&descriptors[1])), (2, 0));
    host.transfer(nvm::FLUSH, 0, 1, 0, [0; 2]);
    assert_eq!((count_of(&descriptors[1]), count_of(&descriptors[2])), (1, 0));
}

#[test]
fn without_bus_mastering_nothing_moves() {
    let mut host = Host::with_queue(ModelConfig::default());
    host.set_bus_master(false).unwrap();
    host.io.push(Command { opcode: nvm::FLUSH, namespace: 1, ..Command::default() });
    host.doorbell(1, false, 1);
    (0..20).for_each(|_| host.model.step());
    assert!(host.io.pop().is_none());
    host.set_bus_master(true).unwrap();
    host.model.step();
    assert!(host.io.pop().is_some());
}

#[test]
fn a_reset_forgets_queues_and_a_shutdown_is_confirmed() {
    let mut host = Host::with_queue(ModelConfig::default());
    host.model.write_disk(1, 0, &[9; 512]);
    host.registers.write(CC, CC_ENTRY_SIZES | CC_ENABLE | CC_SHUTDOWN_NORMAL);
    host.until(CSTS_READY | CSTS_SHUTDOWN_COMPLETE);
    host.registers.write(CC, CC_ENTRY_SIZES);
    host.until(CSTS_SHUTDOWN_COMPLETE);
    host.admin = Rings::new(&host.transport, 0);
    host.io = Rings::new(&host.transport, 1);
    host.enable();
    assert!(host.create_queue(1).is_success(), "queue 1 was forgotten");
    let data = [host.address(0), 0];
    assert_eq!(host.transfer(nvm::READ, 0, 1, 0, data), Status::SUCCESS);
    assert_eq!(host.byte(0), 9, "the disk was not");
    assert_eq!(host.model.violations(), [""; 0]);
}

#[test]
fn wrong_doorbells_and_wrong_settings_are_violations() {
    let mut host = Host::with_queue(ModelConfig::default());
    host.doorbell(1, false, ENTRIES);
    host.doorbell(1, true, 3);
    host.model.step();
    assert_eq!(host.model.violations().len(), 2, "{:?}", host.model.violations());
    host.io.push(Command { opcode: 0x0c, identifier: 7, ..Command::default() });
    host.admin.push(Command { opcode: 0x0c, identifier: 7, ..Command::default() });
    host.admin.push(Command { opcode: 0x0c, identifier: 7, ..Command::default() });
    host.doorbell(0, false, host.admin.tail);
    host.model.step();
    assert_eq!(host.model.violations().len(), 3, "an identifier twice: {:?}", host.model.violations());
    host.registers.write(CC, 0);
    host.until(0);
    host.registers.write(CC, CC_ENTRY_SIZES | CC_ENABLE | 1 << 7);
    host.until(CSTS_FATAL);
    host.registers.write(CC, 0);
    host.until(0);
    host.registers.write64(ASQ, 0);
    host.registers.write(CC, CC_ENTRY_SIZES | CC_ENABLE);
    host.until(CSTS_FATAL);
    assert_eq!(host.model.violations().len(), 5, "{:?}", host.model.violations());
}

#[test]
fn an_abort_ends_a_command_that_was_never_answered() {
    let faults = Faults { missing_completion: 1 << 16, ..Faults::default() };
    let mut host = Host::with_queue(ModelConfig { faults, ..ModelConfig::default() });
    host.io.push(Command { opcode: nvm::FLUSH, namespace: 1, identifier: 77, ..Command::default() });
    host.doorbell(1, false, 1);
    (0..1000).for_each(|_| host.model.step());
    assert!(host.io.pop().is_none());
    assert_eq!(host.admin(admin::ABORT, 0, [78 << 16 | 1, 0], [0; 2]).result, 1, "no such command");
    assert_eq!(host.admin(admin::ABORT, 0, [77 << 16 | 1, 0], [0; 2]).result, 0);
    let entry = host.io.pop().unwrap();
    assert_eq!((entry.identifier, entry.status), (77, Status::ABORT_REQUESTED));
}

#[test]
fn a_fatal_error_ends_with_a_reset_and_a_device_that_is_gone_stays_so() {
    let mut host = Host::with_queue(ModelConfig::default());
    host.model.fail();
    assert_eq!(host.registers.read(CSTS), CSTS_READY | CSTS_FATAL);
    host.registers.write(CC, CC_ENTRY_SIZES);
    host.until(0);
    host.admin = Rings::new(&host.transport, 0);
    host.enable();
    host.model.vanish();
    host.registers.write(CC, CC_ENTRY_SIZES);
    host.model.step();
    assert_eq!(
        (host.registers.read(CC), host.registers.read(CSTS), host.registers.read64(CAP)),
        (GONE, GONE, u64::MAX)
    );
    assert!(host.set_bus_master(false).is_err());
}

/// Each entry that came, with the number of commands before it, of 200 commands under all faults that let a queue go on.
fn faulty_run(seed: u64) -> Vec<(u16, CompletionEntry)> {
    let faults = Faults {
        seed,
        wrong_identifier: 4000,
        duplicate_completion: 4000,
        wrong_submission_head: 4000,
        wrong_submission_queue: 4000,
        late_completion: 8000,
        late_steps_max: 20,
        missing_completion: 1000,
        failed_command: 4000,
        ..Faults::default()
    };
    let mut host = Host::with_queue(ModelConfig { faults, ..ModelConfig::default() });
    let mut seen = Vec::new();
    for identifier in 0..200 {
        host.io.push(Command { opcode: nvm::FLUSH, namespace: 1, identifier, ..Command::default() });
        host.doorbell(1, false, host.io.tail);
        (0..4).for_each(|_| host.model.step());
        while let Some(entry) = host.io.pop() {
            seen.push((identifier, CompletionEntry { phase: false, ..entry }));
        }
        host.doorbell(1, true, host.io.head);
    }
    seen
}

#[test]
fn faults_repeat_with_their_seed() {
    assert_eq!(faulty_run(1), faulty_run(1));
    assert_ne!(faulty_run(1), faulty_run(2));
    let seen = faulty_run(3);
    assert!(seen.iter().any(|(_, entry)| !entry.status.is_success()));
    assert!(seen.iter().any(|(_, entry)| u32::from(entry.submission_head) >= ENTRIES));
    assert!(seen.iter().any(|(_, entry)| entry.submission_queue != 1));
    assert!(seen.iter().any(|(_, entry)| entry.identifier >= 200));
    assert!(seen.windows(2).any(|two| two[0].1.identifier == two[1].1.identifier));
    assert!(seen.windows(2).any(|two| two[0].1.identifier > two[1].1.identifier));
}

#[test]
fn a_completion_of_the_wrong_phase_is_not_seen() {
    let faults = Faults { wrong_phase: 1 << 16, ..Faults::default() };
    let mut host = Host::with_queue(ModelConfig { faults, ..ModelConfig::default() });
    host.io.push(Command { opcode: nvm::FLUSH, namespace: 1, identifier: 5, ..Command::default() });
    host.doorbell(1, false, 1);
    host.model.step();
    assert!(host.io.pop().is_none());
    host.io.phase = false;
    assert_eq!(host.io.pop().unwrap().identifier, 5);
}

#[test]
fn a_lying_drive_answers_something_else_each_time() {
    let faults = Faults { seed: 4, false_identify: 1 << 16, ..Faults::default() };
    let mut host = Host::new(ModelConfig { faults, ..ModelConfig::default() });
    let data = [host.address(0), 0];
    let mut seen = Vec::new();
    for _ in 0..20 {
        assert!(host.admin(admin::IDENTIFY, 1, [identify::NAMESPACE, 0], data).status.is_success());
        seen.push(host.page(0));
    }
    seen.sort();
    seen.dedup();
    assert!(seen.len() > 10);
}

#[test]
fn a_thread_of_its_own_answers_without_being_asked() {
    let model = Model::spawn(ModelConfig::default());
    let transport: Arc<dyn Transport> = Arc::new(model.port());
    let admin = Rings::new(&transport, 0);
    // SAFETY: the transport lives to the end, and the queue has no command.
    let registers = unsafe { transport.registers() };
    // SAFETY: as above.
    unsafe { transport.set_bus_master(true) }.unwrap();
    registers.write(AQA, (ENTRIES - 1) << 16 | (ENTRIES - 1));
    registers.write64(ASQ, admin.pages.address());
    registers.write64(ACQ, admin.pages.address() + PAGE);
    registers.write(CC, CC_ENTRY_SIZES | CC_ENABLE);
    while registers.read(CSTS) != CSTS_READY {
        std::thread::yield_now();
    }
    assert!(model.counts().starts == 1 && model.violations().is_empty());
}
