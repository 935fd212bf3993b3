//! Signatures on a device or in a file: the table of magic numbers of file systems, RAIDs, volume managers, partition tables, disk
//! images and databases, and the search for them. Called by `mod.rs` while the target is claimed; nothing here writes.

use std::io;
use std::os::fd::OwnedFd;

use iolane_core::error::describe;
use rustix::fs::Advice;

use super::refusal::{Reason, Refusal};
use super::sysfs::BlockDevice;

/// Refuses a device that carries a signature, itself or on one of its partitions, and one that cannot be read.
pub(super) fn check(claim: &OwnedFd, device: &BlockDevice) -> Result<(), Refusal> {
    // The partitions are read through the disk, whose page cache misses what was written through theirs, so it is dropped
    // first.
    let _ = rustix::fs::fadvise(claim, 0, None, Advice::DontNeed);
    check_part(claim, "it", 0, device.bytes()?)?;
    for partition in device.partitions()? {
        let phrase = format!("its partition {}", partition.name);
        check_part(claim, &phrase, partition.start()?, partition.bytes()?)?;
    }
    Ok(())
}

/// As [`check`], for a regular file of this size.
pub(super) fn check_file(file: &OwnedFd, bytes: u64) -> Result<(), Refusal> {
    check_part(file, "it", 0, bytes)
}

/// Checks `bytes` of the device from `start`.
fn check_part(fd: &OwnedFd, phrase: &str, start: u64, bytes: u64) -> Result<(), Refusal> {
    check_extent(phrase, bytes, &mut |offset, buffer| {
        let within = usize::try_from(bytes.saturating_sub(offset)).unwrap_or(usize::MAX).min(buffer.len());
        Ok(rustix::io::pread(fd, &mut buffer[..within], start.saturating_add(offset))?)
    })
}

const TO_ERASE: &str = "if all that is on it may be lost, allow that it is erased";

/// Refuses `bytes` that carry a signature or cannot be read; `phrase` names them in the message.
pub(super) fn check_extent(phrase: &str, bytes: u64, read: &mut ReadAt<'_>) -> Result<(), Refusal> {
    match find_signature(bytes, read) {
        Ok(None) => Ok(()),
        Ok(Some(name)) => Err(Refusal::new(Reason::HoldsData, format!("{phrase} carries {name}"), TO_ERASE)),
        Err(error) => {
            let cause = format!("what {phrase} carries cannot be read ({})", describe(&error));
            Err(Refusal::new(Reason::HoldsData, cause, TO_ERASE))
        }
    }
}

/// Reads some bytes at an offset, as pread(2) does.
pub(super) type ReadAt<'a> = dyn FnMut(u64, &mut [u8]) -> io::Result<usize> + 'a;

/// The place of a magic number.
enum Place {
    /// At any of these offsets.
    Start(&'static [u64]),
    /// This many bytes before the end, rounded down to a multiple of the second number.
    End(u64, u64),
}

impl Place {
    /// The offsets on a device of this size.
    fn offsets(&self, bytes: u64) -> Vec<u64> {
        match self {
            Start(offsets) => offsets.to_vec(),
            End(back, unit) => bytes.checked_sub(*back).map(|offset| offset / unit * unit).into_iter().collect(),
        }
    }
}

use Place::{End, Start};

/// A swap header is at the end of its page, whose size is that of the machine that wrote it.
const PAGE_ENDS: &[u64] = &[0xff6, 0x1ff6, 0x3ff6, 0x7ff6, 0xfff6];
const LUKS2_SECOND_HEADERS: &[u64] =
    &[0x4000, 0x8000, 0x1_0000, 0x2_0000, 0x4_0000, 0x8_0000, 0x10_0000, 0x20_0000, 0x40_0000];
const MD: &[u8] = b"\xfc\x4e\x2b\xa9";
const MD_BIG_ENDIAN: &[u8] = b"\xa9\x2b\x4e\xfc";

/// The signatures, from wipefs(8) and the documentation of each format. If a device may carry two at once, the more specific one
/// comes first.
const SIGNATURES: &[(&str, Place, &[u8])] = &[
    ("a LUKS encrypted volume", Start(&[0]), b"LUKS\xba\xbe"),
    ("a LUKS encrypted volume (second header)", Start(LUKS2_SECOND_HEADERS), b"SKUL\xba\xbe"),
    ("a BitLocker volume", Start(&[3]), b"-FVE-FS-"),
    ("an LVM2 physical volume", Start(&[0, 512, 1024, 1536]), b"LABELONE"),
    ("an md RAID member (1.1 or 1.2)", Start(&[0, 4096]), MD),
    ("an md RAID member (1.0)", End(8192, 4096), MD),
    ("an md RAID member (0.90)", End(65536, 65536), MD),
    ("an md RAID member (0.90)", End(65536, 65536), MD_BIG_ENDIAN),
    ("an Intel RAID member", End(1024, 512), b"Intel Raid ISM Cfg Sig."),
    ("an Intel RAID member", End(8192, 4096), b"Intel Raid ISM Cfg Sig."),
    ("a DDF RAID member", End(512, 512), b"\xde\x11\xde\x11"),
    ("a DDF RAID member", End(4096, 4096), b"\xde\x11\xde\x11"),
    ("a DDF RAID member", End(257 * 512, 512), b"\xde\x11\xde\x11"),
    ("a bcache device", Start(&[0x1018]), b"\xc6\x85\x73\xf6\x4e\x1a\x45\xca\x82\x65\xf5\x7f\x48\xba\x6d\x81"),
    ("a bcachefs file system", Start(&[0x1018]), b"\xc6\x85\x73\xf6\x66\xce\x90\xa9\xd9\x6a\x60\xcf\x80\x3d\xf7\xef"),
    ("a Ceph BlueStore device", Start(&[0]), b"bluestore block device"),
    ("a Stratis device", Start(&[0x204, 0x1204]), b"!Stra0tis\x86\xff\x02^\x41rh"),
    ("a VDO volume", Start(&[0]), b"dmvdo001"),
    ("a dm-verity hash tree", Start(&[0]), b"verity\0\0"),
    ("a dm-integrity device", Start(&[0]), b"integrt\0"),
    ("an Oracle ASM disk", Start(&[32]), b"ORCLDISK"),
    ("a VMFS volume", Start(&[0x10_0000]), b"\x0d\xd0\x01\xc0"),
    ("a btrfs file system", Start(&[0x1_0040]), b"_BHRfS_M"),
    ("an xfs file system", Start(&[0]), b"XFSB"),
    ("an external xfs log", Start(&[0]), b"\xfe\xed\xba\xbe"),
    ("an ext2, ext3 or ext4 file system", Start(&[0x438]), b"\x53\xef"),
    ("an f2fs file system", Start(&[1024, 5120]), b"\x10\x20\xf5\xf2"),
    ("an erofs file system", Start(&[1024]), b"\xe2\xe1\xf5\xe0"),
    ("a squashfs file system", Start(&[0]), b"hsqs"),
    ("an NTFS file system", Start(&[3]), b"NTFS    "),
    ("a ReFS file system", Start(&[0]), b"\0\0\0ReFS\0"),
    ("an exFAT file system", Start(&[3]), b"EXFAT   "),
    ("a FAT file system", Start(&[0x52]), b"FAT32   "),
    ("a FAT file system", Start(&[0x36]), b"FAT16   "),
    ("a FAT file system", Start(&[0x36]), b"FAT12   "),
    ("a FAT file system", Start(&[0x36]), b"FAT     "),
    ("an ISO 9660 file system", Start(&[0x8001]), b"CD001"),
    ("a UDF file system", Start(&[0x8001]), b"BEA01"),
    ("an APFS container", Start(&[32]), b"NXSB"),
    ("an HFS+ file system", Start(&[1024]), b"H+\0\x04"),
    ("an HFS+ file system", Start(&[1024]), b"HX\0\x05"),
    ("a nilfs2 file system", Start(&[1030]), b"\x34\x34"),
    ("a JFS file system", Start(&[0x8000]), b"JFS1"),
    ("a reiserfs file system", Start(&[0x2034, 0x1_0034]), b"ReIsEr"),
    ("a GFS2 file system", Start(&[0x1_0000]), b"\x01\x16\x19\x70"),
    ("an OCFS2 file system", Start(&[1024, 2048, 4096, 8192]), b"OCFSV2"),
    ("a swap area", Start(PAGE_ENDS), b"SWAPSPACE2"),
    ("a swap area", Start(PAGE_ENDS), b"SWAP-SPACE"),
    ("a hibernation image", Start(PAGE_ENDS), b"S1SUSPEND"),
    ("a hibernation image", Start(PAGE_ENDS), b"ULSUSPEND"),
    ("a hibernation image", Start(PAGE_ENDS), b"LINHIB0001"),
    ("a qcow disk image", Start(&[0]), b"QFI\xfb"),
    ("a VMDK disk image", Start(&[0]), b"KDMV"),
    ("a VDI disk image", Start(&[64]), b"\x7f\x10\xda\xbe"),
    ("a VHDX disk image", Start(&[0]), b"vhdxfile"),
    ("a VHD disk image", End(512, 512), b"conectix"),
    ("an SQLite database", Start(&[0]), b"SQLite format 3\0"),
    ("a redb database", Start(&[0]), b"redb\x1a\x0a\xa9\x0d\x0a"),
    ("an LMDB database", Start(&[16]), b"\xde\xc0\xef\xbe"),
    // The last eight bytes of the footer (table/block_based in RocksDB, table/format.h in LevelDB).
    ("a RocksDB table", End(8, 1), b"\xf7\xcf\xf4\x85\xb7\x41\xe2\x88"),
    ("a LevelDB table", End(8, 1), b"\x57\xfb\x80\x8b\x24\x75\x47\xdb"),
    ("a WiredTiger file", Start(&[0]), b"\x41\xd8\x01\x00\x01\x00"),
    ("a GPT partition table", Start(&[512, 4096]), b"EFI PART"),
    ("a GPT partition table (backup)", End(512, 512), b"EFI PART"),
    ("a GPT partition table (backup)", End(4096, 4096), b"EFI PART"),
    ("an Apple partition table", Start(&[512]), b"PM\0\0"),
    ("an SGI partition table", Start(&[0]), b"\x0b\xe5\xa9\x41"),
    ("a BSD partition table", Start(&[512]), b"\x57\x45\x56\x82"),
    ("a Sun partition table", Start(&[508]), b"\xda\xbe"),
    ("an MBR partition table or boot sector", Start(&[510]), b"\x55\xaa"),
];

/// The name of the first signature found on a device of this size, read by `read`.
fn find_signature(bytes: u64, read: &mut ReadAt<'_>) -> io::Result<Option<&'static str>> {
    if has_zfs_label(bytes, read)? {
        return Ok(Some("a ZFS pool member"));
    }
    for (name, place, magic) in SIGNATURES {
        for offset in place.offsets(bytes) {
            let mut buffer = vec![0; magic.len()];
            if read_fully(read, offset, &mut buffer)? == *magic {
                return Ok(Some(name));
            }
        }
    }
    Ok(None)
}

/// ZFS keeps four labels of 256 KiB, two at each end. The second half of each is a ring of uberblocks, any of which may be the
/// latest (ZFS On-Disk Specification, section 1.3).
fn has_zfs_label(bytes: u64, read: &mut ReadAt<'_>) -> io::Result<bool> {
    const LABEL: u64 = 256 << 10;
    const UBERBLOCK: u64 = 0x00ba_b10c;
    let end = bytes / LABEL * LABEL;
    let labels = [Some(0), Some(LABEL), end.checked_sub(2 * LABEL), end.checked_sub(LABEL)];
    let mut ring = vec![0; LABEL as usize / 2];
    for label in labels.into_iter().flatten() {
        let ring = read_fully(read, label + LABEL / 2, &mut ring)?;
        let starts =
            |block: &[u8]| block.starts_with(&UBERBLOCK.to_le_bytes()) || block.starts_with(&UBERBLOCK.to_be_bytes());
        if ring.chunks(1024).any(starts) {
            return Ok(true);
        }
    }
    Ok(false)
}

/// Fills the buffer up to the end of the device.
fn read_fully<'b>(read: &mut ReadAt<'_>, offset: u64, buffer: &'b mut [u8]) -> io::Result<&'b [u8]> {
    let mut filled = 0;
    while filled < buffer.len() {
        match read(offset + filled as u64, &mut buffer[filled..]) {
            Ok(0) => break,
            Ok(count) => filled += count,
            Err(error) if error.kind() == io::ErrorKind::Interrupted => {}
            Err(error) => return Err(error),
        }
    }
    Ok(&buffer[..filled])
}

#[cfg(test)]
mod tests {
    use super::*;
    use rustix::io::Errno;

    fn signature_of(image: &[u8]) -> Option<&'static str> {
        let mut read = |offset: u64, buffer: &mut [u8]| {
            let rest = image.get(offset as usize..).unwrap_or_default();
            let count = rest.len().min(buffer.len()).min(1000);
            buffer[..count].copy_from_slice(&rest[..count]);
            Ok(count)
        };
        find_signature(image.len() as u64, &mut read).unwrap()
    }

    fn image_with(bytes: usize, offset: usize, magic: &[u8]) -> Vec<u8> {
        let mut image = vec![0; bytes];
        image[offset..offset + magic.len()].copy_from_slice(magic);
        image
    }

    #[test]
    fn every_signature_is_found_wherever_it_may_stand() {
        let bytes = (5 << 20) + 0x1a00;
        for (name, place, magic) in SIGNATURES {
            let offsets = match place {
                Start(offsets) => offsets.to_vec(),
                End(back, unit) => vec![(bytes - back) / unit * unit],
            };
            for offset in offsets {
                assert_eq!(
                    signature_of(&image_with(bytes as usize, offset as usize, magic)),
                    Some(*name),
                    "at {offset}"
                );
            }
        }
    }

    #[test]
    fn signatures_at_the_end_are_found_on_a_device_of_odd_size() {
        // 200 KiB and 3 sectors of 512 bytes; md counts its places in units of 4 KiB and 64 KiB.
        let bytes = 200 * 1024 + 1536;
        for (offset, magic, name) in [
            (128 * 1024, MD, "an md RAID member (0.90)"),
            (192 * 1024, MD, "an md RAID member (1.0)"),
            (bytes - 512, b"EFI PART", "a GPT partition table (backup)"),
            (bytes - 257 * 512, b"\xde\x11\xde\x11", "a DDF RAID member"),
            (bytes - 1024, b"Intel Raid ISM Cfg Sig.", "an Intel RAID member"),
        ] {
            assert_eq!(signature_of(&image_with(bytes, offset, magic)), Some(name), "at {offset}");
        }
    }

    #[test]
    fn a_zfs_uberblock_is_found_in_any_label_and_either_byte_order() {
        let (bytes, label) = ((3 << 20) + 70_000, 256 << 10);
        for start in [0, label, (3 << 20) - 2 * label, (3 << 20) - label] {
            for slot in [0, 4, 127] {
                let offset = start + label / 2 + slot * 1024;
                for magic in [0x00ba_b10c_u64.to_le_bytes(), 0x00ba_b10c_u64.to_be_bytes()] {
                    assert_eq!(signature_of(&image_with(bytes, offset, &magic)), Some("a ZFS pool member"), "{offset}");
                }
            }
        }
    }

    #[test]
    fn a_blank_device_of_any_size_carries_no_signature() {
        for bytes in [0, 1, 511, 512, 4096, 65_535, 65_536, 300_000, 1 << 20] {
            assert_eq!(signature_of(&vec![0; bytes]), None, "{bytes}");
        }
    }

    #[test]
    fn a_device_that_cannot_be_read_is_not_taken_for_blank() {
        let fails_at = |bad: u64| {
            let mut read = move |offset: u64, buffer: &mut [u8]| match offset {
                offset if offset == bad => Err(Errno::IO.into()),
                _ => Ok(buffer.len()),
            };
            find_signature(1 << 20, &mut read)
        };
        assert!(fails_at(0).is_err());
        assert!(fails_at((1 << 20) - 512).is_err());
        assert_eq!(fails_at(7).unwrap(), None);
    }
}
