//! Tries at random to write to drives while the kernel has them in use: as file systems, over several drives or with a journal apart,
//! as swap, RAIDs, volumes and caches, behind loop devices, exported to others, and open in programs (`ways`). The guard must refuse
//! exactly what is in use, by any of its names, and no other byte may change, except where the use itself may write.
//!
//! `IOLANE_GUARD_DRIVES="/dev/nvme0n1 /dev/nvme1n1"` names two drives, of 256 MiB at least, which lose everything; without, the test
//! prints SKIPPED. Both are read as a whole after each use, so that small ones are faster. `IOLANE_GUARD_ATTEMPTS=1000` makes as many
//! attempts, each with a seed of its own, and `IOLANE_GUARD_SEED=7` begins with that one. It takes root, and tools: a way whose script
//! fails is skipped. `cargo xtask campaign uses` runs it in guests.

mod ways;

use std::fs::{self, File};
use std::io::{ErrorKind, Seek, SeekFrom};
use std::ops::Range;
use std::os::unix::fs::{FileExt, OpenOptionsExt, symlink};
use std::path::{Path, PathBuf};
use std::process::{Command, Stdio};
use std::time::{Duration, Instant};

use anyhow::{Context, Result, bail, ensure};
use iolane::guard::WritePermit;
use iolane::{Pages, Pool};
use rand_core::{Rng, SeedableRng};
use rand_xoshiro::Xoshiro256PlusPlus;
use ways::{WAYS, Way};

#[macro_use]
#[path = "../guard_fixtures/mod.rs"]
mod guard_fixtures;
use guard_fixtures::{BLOCK_BYTES, Scratch, setting, skip, write};

const MIB: u64 = 1 << 20;
/// Where the first partition begins, how long it is, and where the second begins, which goes to the end of the drive.
const FIRST: (u64, u64) = (MIB, 127 * MIB);
const SECOND: u64 = 128 * MIB;
/// What is written at the end of a drive and of its first partition, which no use reaches.
const CANARY_BYTES: u64 = MIB;
/// Where exports are configured, once it is mounted.
const NVMET: &str = "/sys/kernel/config/nvmet/subsystems";
/// What a use that was ended may take until the kernel lets the drive go.
const LET_GO: Duration = Duration::from_secs(30);

/// What an attempt is made on.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
enum Part {
    Whole,
    First,
    Second,
}

/// A drive, and what it has to hold.
struct Drive {
    name: String,
    bytes: u64,
    is_partitioned: bool,
    /// Where each canary begins, and what it holds.
    canaries: [(u64, Vec<u8>); 2],
    /// Of each MiB before the last canary, when it was last read.
    digests: Vec<u64>,
}

impl Drive {
    fn new(name: &str) -> Result<Self> {
        let file = File::options().read(true).write(true).open(name).context(name.to_owned())?;
        let bytes = (&file).seek(SeekFrom::End(0))?;
        ensure!(bytes >= 2 * SECOND, "{name} has {bytes} bytes, and {} are needed", 2 * SECOND);
        let canaries = [SECOND - CANARY_BYTES, bytes - CANARY_BYTES].map(|begin| (begin, vec![0xa5; MIB as usize]));
        for (begin, content) in &canaries {
            file.write_all_at(content, *begin)?;
        }
        file.sync_all()?;
        let drive = Self { name: name.into(), bytes, is_partitioned: false, canaries, digests: Vec::new() };
        Ok(Self { digests: drive.read_digests()?, ..drive })
    }

    /// Its partitions as the kernel has them; no table is written.
    fn partition(&mut self, wanted: bool) -> Result<()> {
        if wanted != self.is_partitioned {
            let sectors = |number, (begin, bytes): (u64, u64)| format!("{number} {} {}", begin / 512, bytes / 512);
            let (first, second) = (sectors(1, FIRST), sectors(2, (SECOND, self.bytes - SECOND)));
            let name = &self.name;
            shell(&match wanted {
                true => format!("addpart {name} {first}; addpart {name} {second}"),
                false => format!("delpart {name} 1; delpart {name} 2"),
            })?;
            self.is_partitioned = wanted;
        }
        Ok(())
    }

    fn part(&self, part: Part) -> String {
        match part {
            Part::Whole => self.name.clone(),
            Part::First => format!("{}p1", self.name),
            Part::Second => format!("{}p2", self.name),
        }
    }

    /// `/dev/nvme0` of `/dev/nvme0n1`.
    fn controller(&self) -> &str {
        self.name.rsplit_once('n').map_or(&self.name, |(controller, _)| controller)
    }

    /// `/dev/ng0n1` of `/dev/nvme0n1`; kernels before 5.13 have none.
    fn generic(&self) -> Option<String> {
        let name = self.name.replace("/nvme", "/ng");
        Path::new(&name).exists().then_some(name)
    }

    /// Past the cache of the drive, in which a write would be seen that never came to it.
    fn open_direct(&self) -> Result<File> {
        File::options().read(true).custom_flags(libc::O_DIRECT).open(&self.name).context(self.name.clone())
    }

    fn check_canaries(&self) -> Result<()> {
        let file = self.open_direct()?;
        let pool = Pool::new(1, MIB as usize, Pages::Base)?;
        for (begin, content) in &self.canaries {
            let mut buffer = pool.take().context("a buffer")?;
            file.read_exact_at(&mut buffer, *begin)?;
            let changed = buffer.iter().zip(content).position(|(found, held)| found != held);
            ensure!(
                changed.is_none(),
                "byte {} of {} changed, and nobody wrote it",
                begin + changed.unwrap_or(0) as u64,
                self.name
            );
        }
        Ok(())
    }

    /// Compares the whole drive with what it has to hold, except where a use may have changed it.
    fn check(&mut self, may_have_changed: &Range<u64>) -> Result<()> {
        self.check_canaries()?;
        let found = self.read_digests()?;
        let first_canary = self.canaries[0].0;
        let begins = (0..).step_by(MIB as usize);
        let changed = begins.zip(found.iter().zip(&self.digests)).find(|(begin, (found, held))| {
            found != held && *begin != first_canary && !may_have_changed.contains(begin)
        });
        if let Some((begin, _)) = changed {
            bail!("the MiB from byte {begin} of {} on changed, and nobody wrote it", self.name);
        }
        self.digests = found;
        Ok(())
    }

    fn read_digests(&self) -> Result<Vec<u64>> {
        let file = self.open_direct()?;
        let pool = Pool::new(1, MIB as usize, Pages::Base)?;
        let mut buffer = pool.take().context("a buffer")?;
        let end = self.canaries[1].0;
        let digest_at = |begin| {
            let read = &mut buffer[..MIB.min(end - begin) as usize];
            file.read_exact_at(read, begin)?;
            Ok(digest(read))
        };
        (0..end).step_by(MIB as usize).map(digest_at).collect()
    }

    /// Where the canary is that a part of the drive may write, by the drive.
    fn canary(&mut self, part: Part) -> &mut (u64, Vec<u8>) {
        &mut self.canaries[usize::from(part != Part::First)]
    }

    fn begin(&self, part: Part) -> u64 {
        match part {
            Part::Whole => 0,
            Part::First => FIRST.0,
            Part::Second => SECOND,
        }
    }
}

/// Differs for bytes that differ in one word, since no step maps two digests to one; for others it is equal in one case of 2^64. It is
/// cheap, because guests run translated.
fn digest(bytes: &[u8]) -> u64 {
    let (words, _) = bytes.as_chunks::<8>();
    let step = |digest: u64, word: &[u8; 8]| {
        (digest ^ u64::from_ne_bytes(*word)).wrapping_mul(0x9e37_79b9_7f4a_7c15).rotate_left(29)
    };
    words.iter().fold(0, step)
}

/// Runs a script whose commands all have to succeed.
fn shell(script: &str) -> Result<()> {
    shell_with(script, &[])
}

fn shell_with(script: &str, variables: &[(&str, &str)]) -> Result<()> {
    let mut command = Command::new("sh");
    command.args(["-e", "-c", script]).envs(variables.iter().copied()).stdin(Stdio::null());
    let output = command.output().context("sh")?;
    let said = String::from_utf8_lossy(&output.stderr).trim().replace('\n', "; ");
    ensure!(
        output.status.success(),
        "{}",
        if said.is_empty() { format!("`{script}`: {}", output.status) } else { said }
    );
    Ok(())
}

/// A use of a drive or of its first partition.
struct Use<'a> {
    way: &'static Way,
    part: Part,
    /// Whether it uses each of the drives.
    uses: [bool; 2],
    variables: [(&'static str, &'a str); 6],
}

impl Use<'_> {
    fn begin(&self) -> Result<()> {
        shell_with(self.way.begin, &self.variables)
    }

    fn end(&self) -> Result<()> {
        shell_with(self.way.end, &self.variables).with_context(|| format!("ending {}", self.way.name))
    }

    /// What is asked for.
    fn parts(&self) -> &'static [Part] {
        match self.part {
            Part::Whole => &[Part::Whole],
            _ => &[Part::Whole, Part::First, Part::Second],
        }
    }

    /// Where it may have written to a drive.
    fn may_have_changed(&self, index: usize, drive: &Drive) -> Range<u64> {
        let begin = drive.begin(self.part);
        begin..begin + if self.uses[index] { self.way.changes_mib * MIB } else { 0 }
    }
}

/// What came of the attempts.
#[derive(Default)]
struct Outcomes {
    permitted: u64,
    refused: u64,
}

impl Outcomes {
    /// Tries to write to a part of a drive by each of its names; it is refused exactly if it is in use.
    fn attempt(
        &mut self,
        drive: &mut Drive,
        part: Part,
        is_in_use: bool,
        place: &Path,
        random: &mut impl Rng,
    ) -> Result<()> {
        let device = PathBuf::from(drive.part(part));
        let link = place.with_extension("by-id");
        let _ = fs::remove_file(&link);
        symlink(&device, &link)?;
        let generic = drive.generic().filter(|_| part == Part::Whole).map(PathBuf::from);
        for name in [device, link].into_iter().chain(generic) {
            let byte = random.next_u64() as u8;
            let block = random.next_u64() % (CANARY_BYTES / BLOCK_BYTES) * BLOCK_BYTES;
            let part_begin = drive.begin(part);
            let (canary_begin, content) = drive.canary(part);
            let outcome = write(&name, *canary_begin + block - part_begin, byte, true);
            match (outcome.map_err(std::io::Error::from), is_in_use) {
                (Ok(()), false) => {
                    self.permitted += 1;
                    content[block as usize..][..BLOCK_BYTES as usize].fill(byte);
                }
                (Err(refused), true) if refused.kind() == ErrorKind::ResourceBusy => self.refused += 1,
                (Ok(()), true) => bail!("{} is in use, and was written", name.display()),
                (Err(refused), _) => bail!("{refused}"),
            }
        }
        drive.check_canaries()
    }

    /// Uses one of the drives, or its first partition, tries to write to both drives while it is used and afterwards, and compares both.
    /// `false` if it cannot be used so here.
    fn use_once(
        &mut self,
        way: &'static Way,
        drives: &mut [Drive; 2],
        place: &Path,
        random: &mut impl Rng,
    ) -> Result<bool> {
        let is_on_partition = way.of_partitions && random.next_u64().is_multiple_of(2);
        let used = (random.next_u64() % 2) as usize;
        for drive in drives.iter_mut() {
            drive.partition(is_on_partition)?;
        }
        let part = if is_on_partition { Part::First } else { Part::Whole };
        let names = [drives[used].part(part), drives[1 - used].part(part)];
        let generic = drives[used].generic().unwrap_or_else(|| "/no/generic/device".into());
        let controller = drives[used].controller().to_owned();
        let one = Use {
            way,
            part,
            uses: [0, 1].map(|index| index == used || way.uses_other),
            variables: [
                ("USED", &names[0]),
                ("OTHER", &names[1]),
                ("GENERIC", &generic),
                ("CONTROLLER", &controller),
                ("FOLDER", place.to_str().context("a folder's name")?),
                ("NVMET", NVMET),
            ],
        };
        let was_used = self.try_use(&one, drives, place, random)?;
        for (index, drive) in drives.iter_mut().enumerate() {
            drive.check(&one.may_have_changed(index, drive))?;
        }
        Ok(was_used)
    }

    fn try_use(&mut self, one: &Use<'_>, drives: &mut [Drive; 2], place: &Path, random: &mut impl Rng) -> Result<bool> {
        if let Err(why) = one.begin() {
            skip(&format!("guard {}", one.way.name), &format!("{why:#}"));
            // What was begun of it.
            let _ = one.end();
            return Ok(false);
        }
        for (drive, is_used) in drives.iter_mut().zip(one.uses) {
            for part in one.parts() {
                self.attempt(drive, *part, is_used && *part != Part::Second, place, random)?;
            }
        }
        one.end()?;
        for drive in drives.iter_mut() {
            wait_until_free(&drive.part(Part::Whole))?;
            for part in one.parts() {
                self.attempt(drive, *part, false, place, random)?;
            }
        }
        Ok(true)
    }
}

/// Waits until the kernel has let go of what was in use.
fn wait_until_free(name: &str) -> Result<()> {
    let deadline = Instant::now() + LET_GO;
    while let Err(refused) = WritePermit::options().erase(true).request(name) {
        ensure!(Instant::now() < deadline, "{refused}");
        std::thread::sleep(Duration::from_millis(50));
    }
    Ok(())
}

#[test]
fn a_drive_that_the_kernel_has_in_use_is_refused_in_whatever_way_and_nothing_else() -> Result<()> {
    let Ok(names) = std::env::var("IOLANE_GUARD_DRIVES") else {
        skip("guard drives in use", "no drive is named; set IOLANE_GUARD_DRIVES to two that lose everything");
        return Ok(());
    };
    let [first, second] = names.split(' ').collect::<Vec<_>>()[..] else {
        bail!("IOLANE_GUARD_DRIVES={names}: not two drives")
    };
    let folder = Scratch::new("drives");
    // It may be mounted already.
    let _ = shell("mount -t configfs none /sys/kernel/config");
    let first_seed = setting("IOLANE_GUARD_SEED", 1);
    let mut drives = [Drive::new(first)?, Drive::new(second)?];
    let mut outcomes = Outcomes::default();
    let (mut unavailable, mut made) = (Vec::new(), 0);
    for seed in first_seed..first_seed + setting("IOLANE_GUARD_ATTEMPTS", WAYS.len() as u64) {
        // Each in turn, so that as many attempts as there are ways try each once.
        let way = &WAYS[(seed % WAYS.len() as u64) as usize];
        if unavailable.contains(&way.name) {
            continue;
        }
        let place = folder.path(&format!("use-{seed}"));
        fs::create_dir(&place)?;
        let used = outcomes.use_once(way, &mut drives, &place, &mut Xoshiro256PlusPlus::seed_from_u64(seed));
        match used.with_context(|| format!("{}, seed {seed}; alone: cargo xtask campaign uses 1 {seed}", way.name))? {
            true => made += 1,
            false => unavailable.push(way.name),
        }
    }
    let Outcomes { permitted, refused } = outcomes;
    println!(
        "guard: {made} uses in {} of {} ways, {permitted} writes permitted, {refused} refused",
        WAYS.len() - unavailable.len(),
        WAYS.len()
    );
    Ok(())
}
