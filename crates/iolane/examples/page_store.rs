//! Writes pages to a file, makes them durable, and reads them back, on the first path of a list that works here.
//! Shows what an engine adds to a queue: the choice of a path at start, short transfers, errors by kind, and an end in order.
//! Run: cargo run --release --example page_store -- FILE [PATH,PATH,...]      FILE is created.

use std::error::Error;
use std::fmt;
use std::process::ExitCode;

use iolane::{
    Buffer, Completion, IoError, IoErrorKind, IoPath, Operations, Pages, Pool, Queue, QueueConfig, Request, Target,
    open_first, paths_of,
};

const PAGE_BYTES: usize = 16384;
const PAGES: u64 = 256;
const DEPTH: u32 = 32;
/// Most short transfers that are repeated: a disk that is full may be short each time.
const REPEATS_MAX: u64 = 8 * PAGES;
const NEEDED: Operations = Operations::READ.with(Operations::WRITE).with(Operations::FDATASYNC);

/// A queue, its buffers, and the requests that wait for room in it.
struct Store<'a> {
    target: &'a Target,
    pool: Pool,
    queue: Box<dyn Queue>,
    waiting: Vec<Request>,
    completions: Vec<Completion>,
}

/// Why a page was not transferred.
enum Trouble {
    /// The data is lost or cannot be read: this page only.
    Page(u64, IoError),
    /// It is transferred in part only: the end of the file, or of the space.
    Short(u64),
    /// The device or the queue is gone: every page.
    Device(String),
}

impl fmt::Display for Trouble {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            Self::Page(page, error) => write!(f, "page {page}: {error}"),
            Self::Short(page) => write!(f, "page {page}: it is transferred in part only"),
            Self::Device(cause) => f.write_str(cause),
        }
    }
}

impl<'a> Store<'a> {
    /// Opens the first path that works: which do depends on the kernel, its settings and the target.
    fn open(target: &'a Target, paths: &[IoPath]) -> Result<Self, Box<dyn Error>> {
        let pool = Pool::new(DEPTH as usize, PAGE_BYTES, Pages::Base)?;
        let config = QueueConfig::new(DEPTH).pool(&pool);
        let opened = open_first(paths, NEEDED, target, &config)?;
        // For a log: each says what is missing and what to do about it.
        opened.passed_over.iter().for_each(|reason| eprintln!("page_store: {reason}"));
        println!("{} on {}", opened.path, target.name());
        Ok(Self { target, pool, queue: opened.queue, waiting: Vec::new(), completions: Vec::new() })
    }

    /// Carries out one request for each page, and calls `done` with its buffer. Stops at the first trouble, with nothing left in
    /// flight.
    fn each_page(
        &mut self,
        request: impl FnMut(u64, Buffer) -> Request,
        done: impl FnMut(u64, &Buffer),
    ) -> Result<(), Trouble> {
        let ended = self.transfer_pages(request, done);
        if ended.is_err() {
            self.waiting.clear();
            let _ = self.queue.drain(&mut self.completions);
            self.completions.clear();
        }
        ended
    }

    fn transfer_pages(
        &mut self,
        mut request: impl FnMut(u64, Buffer) -> Request,
        mut done: impl FnMut(u64, &Buffer),
    ) -> Result<(), Trouble> {
        let (mut next, mut left, mut repeats) = (0, PAGES, 0);
        while left > 0 {
            // As many requests as there are buffers; a full queue leaves the others in `waiting`.
            while next < PAGES
                && let Some(buffer) = self.pool.take()
            {
                self.waiting.push(request(next, buffer));
                next += 1;
            }
            self.queue.submit(&mut self.waiting);
            self.queue.reap(1, &mut self.completions).map_err(|error| Trouble::Device(error.to_string()))?;
            for Completion { tag: page, result, buffer, .. } in self.completions.drain(..) {
                let buffer = buffer.ok_or_else(|| Trouble::Device("a transfer without a buffer".into()))?;
                match result {
                    Ok(bytes) if bytes as usize == PAGE_BYTES => {
                        done(page, &buffer);
                        left -= 1;
                    }
                    // Some bytes were transferred: a page is repeated whole, which is safe at a fixed offset.
                    Ok(1..) if repeats < REPEATS_MAX => {
                        repeats += 1;
                        self.waiting.push(request(page, buffer));
                    }
                    Ok(_) => return Err(Trouble::Short(page)),
                    Err(error) => {
                        return Err(match error.kind() {
                            IoErrorKind::Media | IoErrorKind::NoSpace => Trouble::Page(page, error),
                            _ => Trouble::Device(error.to_string()),
                        });
                    }
                }
            }
        }
        Ok(())
    }

    /// Makes the pages durable that were written before. After a failed sync nothing is known of them: the kernel may have
    /// dropped them (fsync(2)), so that a second sync proves nothing.
    fn sync(&mut self) -> Result<(), Trouble> {
        // Every write has completed, so that the queue has room; a sync that it did not take would not be there.
        if self.queue.submit(&mut vec![Request::fdatasync(0)]) != 1 {
            return Err(Trouble::Device("the queue took no sync".into()));
        }
        self.queue.drain(&mut self.completions).map_err(|error| Trouble::Device(error.to_string()))?;
        let synced = self.completions.drain(..).try_for_each(|completion| completion.result.map(|_| ()));
        synced.map_err(|error| Trouble::Device(format!("sync of {}: {error}", self.target.name())))
    }
}

/// The number of pages that do not hold what was written.
pub(crate) fn write_and_read(target: &Target, paths: &[IoPath]) -> Result<u64, Box<dyn Error>> {
    let mut store = Store::open(target, paths)?;
    let at = |page: u64| page * PAGE_BYTES as u64;
    let write = |page: u64, mut buffer: Buffer| {
        buffer.fill(page as u8);
        Request::write(page, at(page), buffer)
    };
    let read = |page: u64, buffer: Buffer| Request::read(page, at(page), buffer);
    let mut wrong = 0;
    let check = |page: u64, buffer: &Buffer| wrong += u64::from(buffer.iter().any(|byte| *byte != page as u8));
    let written = store.each_page(write, |_, _| {}).and_then(|()| store.sync());
    written.and_then(|()| store.each_page(read, check)).map_err(|trouble| trouble.to_string())?;
    Ok(wrong)
    // Dropping the queue cancels what is in flight, and waits until the kernel has let go of every buffer.
}

fn run() -> Result<(), Box<dyn Error>> {
    let mut arguments = std::env::args().skip(1);
    let name = arguments.next().ok_or("usage: page_store FILE [PATH,PATH,...]")?;
    let paths = paths_of(&arguments.next().unwrap_or("io_uring,libaio,psync".into()))?;
    // A file that exists is never written over.
    let target = Target::options().create(PAGES * PAGE_BYTES as u64).open(&name)?;
    let wrong = write_and_read(&target, &paths)?;
    println!("{PAGES} pages written, synced and read, {wrong} of them wrong");
    if wrong == 0 { Ok(()) } else { Err("the file does not hold what was written".into()) }
}

fn main() -> ExitCode {
    run().map_or_else(
        |error| {
            eprintln!("page_store: {error}");
            ExitCode::FAILURE
        },
        |()| ExitCode::SUCCESS,
    )
}
