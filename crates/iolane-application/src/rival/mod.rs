//! How programs without iolane reach a file: one after the other, in threads of tokio's pool, or through compio's ring. Each is a
//! [`Queue`], so that an application is the same program on all of them.

mod calls;
mod compio_ring;
mod std_fs;
mod tokio_pool;

use std::fmt;
use std::fs::File;
use std::str::FromStr;

use iolane::{Error, IoPath, Queue, Result, Target};

/// A way that programs without iolane take.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Hash)]
pub enum Rival {
    /// `std::fs`: one call after the other, in the program's own thread.
    Std,
    /// `tokio`: the same calls, each in a thread of the runtime's pool, as `tokio::fs` makes them.
    Tokio,
    /// `compio`: an async runtime on io_uring.
    Compio,
}

impl Rival {
    /// Its name in results.
    pub fn name(self) -> &'static str {
        match self {
            Self::Std => "std",
            Self::Tokio => "tokio",
            Self::Compio => "compio",
        }
    }

    /// The path of iolane whose system calls it makes.
    pub fn path(self) -> IoPath {
        IoPath::new(match self {
            Self::Std | Self::Tokio => "psync",
            Self::Compio => "io_uring",
        })
    }

    /// Opens a queue on it.
    ///
    /// # Errors
    /// `Unavailable` for a target without a descriptor, and where the runtime does not start.
    pub(crate) fn open(self, target: &Target, depth: usize) -> Result<Box<dyn Queue>> {
        let fd = target.require_fd(self.name())?;
        let file = fd.try_clone_to_owned().map_err(|error| Error::system(self.name(), error))?;
        let file = File::from(file);
        Ok(match self {
            Self::Std => Box::new(std_fs::StdFs::new(file, depth)),
            Self::Tokio => Box::new(tokio_pool::TokioPool::new(file, depth)?),
            Self::Compio => Box::new(compio_ring::CompioRing::new(file, depth)?),
        })
    }
}

impl fmt::Display for Rival {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.pad(self.name())
    }
}

impl FromStr for Rival {
    type Err = Error;

    fn from_str(text: &str) -> Result<Self> {
        let all = [Self::Std, Self::Tokio, Self::Compio];
        let found = all.into_iter().find(|rival| rival.name() == text);
        found.ok_or_else(|| Error::usage(text, "no program is compared under that name"))
    }
}

#[cfg(test)]
mod tests {
    use std::time::Duration;

    use iolane::{Pages, Pool, Request};

    use super::*;

    #[test]
    fn each_rival_writes_syncs_and_reads_what_it_wrote_at_any_depth() {
        let folder = tempfile::tempdir().unwrap();
        for rival in [Rival::Std, Rival::Tokio, Rival::Compio] {
            let name = folder.path().join(rival.name());
            let target = Target::options().create(1 << 20).write_unguarded().open(&name).unwrap();
            let pool = Pool::new(8, 4096, Pages::Base).unwrap();
            let mut queue = match rival.open(&target, 4) {
                Ok(queue) => queue,
                Err(error) if rival == Rival::Compio => {
                    eprintln!("SKIPPED: compio: {error}");
                    continue;
                }
                Err(error) => panic!("{rival}: {error}"),
            };
            let mut done = Vec::new();
            let mut writes: Vec<Request> = (0..8)
                .map(|block| {
                    let mut buffer = pool.take().unwrap();
                    buffer.fill(block as u8 + 1);
                    Request::write(block, block * 4096, buffer)
                })
                .collect();
            assert_eq!(queue.submit(&mut writes), 4, "{rival}");
            while done.len() < 8 {
                queue.turn(&mut writes, 1, &mut done).unwrap();
            }
            queue.submit(&mut vec![Request::fdatasync(99)]);
            queue.drain(&mut done).unwrap();
            assert!(done.iter().all(|completion| completion.result.is_ok()), "{rival}: {done:?}");
            let mut reads: Vec<Request> = done
                .drain(..8)
                .map(|written| Request::read(written.tag, written.tag * 4096, written.buffer.unwrap()))
                .collect();
            done.clear();
            while done.len() < 8 {
                queue.submit(&mut reads);
                queue.reap_within(1, Duration::from_secs(60), &mut done).unwrap();
            }
            assert!(done.iter().all(|read| read.buffer.as_ref().unwrap()[0] == read.tag as u8 + 1), "{rival}");
            assert_eq!(queue.in_flight(), 0);
            // Dropped with requests in flight, it waits for them.
            let mut reads: Vec<Request> =
                done.drain(..4).map(|read| Request::read(0, 0, read.buffer.unwrap())).collect();
            queue.submit(&mut reads);
            queue.flush().unwrap();
            drop(queue);
            drop(done);
            let all: Vec<_> = (0..9).map_while(|_| pool.take()).collect();
            assert_eq!(all.len(), 8, "{rival}");
        }
    }
}
