//! What an x86 boot image (bzImage) says of itself, and the kernel inside it: Documentation/arch/x86/boot.rst, "The
//! Real-Mode Kernel Header".

use object::Endianness;
use object::elf::FileHeader64;
use object::read::elf::{FileHeader, ProgramHeader};

use crate::compression;

/// Offsets in the image.
const SETUP_SECTORS: usize = 0x1f1;
const MAGIC: usize = 0x202;
const PROTOCOL: usize = 0x206;
/// Points to the version's text, counted from 0x200.
const VERSION_POINTER: usize = 0x20e;
const PAYLOAD_OFFSET: usize = 0x248;
const PAYLOAD_LENGTH: usize = 0x24c;

/// The first protocol that tells of its payload.
const PROTOCOL_WITH_PAYLOAD: u64 = 0x0208;

/// The release that an image names, such as `6.1.0-56-amd64`; `None` if it is no boot image.
pub(crate) fn release(image: &[u8]) -> Option<String> {
    check_magic(image)?;
    let start = number(image, VERSION_POINTER, 2)? + 0x200;
    let text = image.get(start..)?.split(|byte| *byte == 0 || *byte == b' ').next()?;
    std::str::from_utf8(text).ok().filter(|text| !text.is_empty() && text.len() < 100).map(str::to_owned)
}

/// The kernel out of its image, so that a guest need not unpack it, which takes translated processors half of their way
/// up; or the image as it is, where the kernel is packed in an unknown way or cannot be entered directly.
pub(crate) fn ready_to_run(image: Vec<u8>) -> Vec<u8> {
    payload(&image)
        .and_then(|payload| compression::of(payload)?.undo(payload).ok())
        .filter(|kernel| has_direct_entry(kernel))
        .unwrap_or(image)
}

fn payload(image: &[u8]) -> Option<&[u8]> {
    check_magic(image)?;
    if (number(image, PROTOCOL, 2)? as u64) < PROTOCOL_WITH_PAYLOAD {
        return None;
    }
    // 0 means 4, for the sake of very old loaders.
    let setup_sectors = match number(image, SETUP_SECTORS, 1)? {
        0 => 4,
        sectors => sectors,
    };
    let start = (setup_sectors + 1) * 512 + number(image, PAYLOAD_OFFSET, 4)?;
    image.get(start..start.checked_add(number(image, PAYLOAD_LENGTH, 4)?)?)
}

/// Whether the kernel has the note by which QEMU finds its entry point (PVH: XEN_ELFNOTE_PHYS32_ENTRY).
fn has_direct_entry(kernel: &[u8]) -> bool {
    const XEN_ELFNOTE_PHYS32_ENTRY: u32 = 18;
    let Ok(header) = FileHeader64::<Endianness>::parse(kernel) else { return false };
    let Ok(endian) = header.endian() else { return false };
    let Ok(segments) = header.program_headers(endian, kernel) else { return false };
    let mut notes = segments.iter().filter_map(|segment| segment.notes(endian, kernel).ok().flatten());
    notes.any(|mut notes| {
        std::iter::from_fn(|| notes.next().ok().flatten())
            .any(|note| note.name() == b"Xen" && note.n_type(endian).0 == XEN_ELFNOTE_PHYS32_ENTRY)
    })
}

fn check_magic(image: &[u8]) -> Option<()> {
    (image.get(MAGIC..MAGIC + 4)? == b"HdrS").then_some(())
}

/// A little-endian number of `length` bytes.
fn number(image: &[u8], offset: usize, length: usize) -> Option<usize> {
    let bytes = image.get(offset..offset + length)?;
    Some(bytes.iter().rev().fold(0, |number, byte| number << 8 | usize::from(*byte)))
}

#[cfg(test)]
mod tests {
    use proptest::prelude::*;

    use super::*;

    /// An image with nothing but a header and a payload.
    fn image(release: &str, payload: &[u8]) -> Vec<u8> {
        let mut image = vec![0; 0x400];
        let text = format!("{release} (build@debian) #1 SMP\0");
        let fields: [(usize, &[u8]); 7] = [
            (SETUP_SECTORS, &[1]),
            (MAGIC, b"HdrS"),
            (PROTOCOL, &0x020fu16.to_le_bytes()),
            (VERSION_POINTER, &0x80u16.to_le_bytes()),
            (PAYLOAD_OFFSET, &16u32.to_le_bytes()),
            (PAYLOAD_LENGTH, &(payload.len() as u32).to_le_bytes()),
            (0x280, text.as_bytes()),
        ];
        for (offset, bytes) in fields {
            image[offset..offset + bytes.len()].copy_from_slice(bytes);
        }
        image.extend([0; 16]);
        image.extend(payload);
        image
    }

    #[test]
    fn the_release_stands_in_the_image() {
        assert_eq!(release(&image("6.1.0-56-amd64", b"")).as_deref(), Some("6.1.0-56-amd64"));
        assert_eq!(release(b"MZ"), None);
        assert_eq!(release(&[0; 4096]), None);
    }

    #[test]
    fn the_payload_is_found_and_nothing_beyond_the_image() {
        assert_eq!(payload(&image("6.1.0", b"packed")), Some(&b"packed"[..]));
        let mut cut = image("6.1.0", b"packed");
        cut.pop();
        assert_eq!(payload(&cut), None);
    }

    #[test]
    fn an_image_whose_kernel_cannot_be_entered_stays_as_it_is() {
        let image = image("6.1.0", b"packed in a way of its own");
        assert_eq!(ready_to_run(image.clone()), image);
    }

    proptest! {
        #[test]
        fn no_image_makes_the_parser_panic(cut in 0usize..0x420, at in 0usize..0x410, byte: u8) {
            let mut image = image("6.1.0", b"\x1f\x8b");
            image[at] = byte;
            image.truncate(cut);
            let _ = release(&image);
            let _ = ready_to_run(image);
        }
    }
}
