//! Undoing what kernels and modules are compressed with, told by how they begin.

use std::io::{self, Read};

/// How something is compressed.
#[derive(Debug, Clone, Copy, PartialEq)]
pub(crate) enum Compression {
    Xz,
    Zstd,
    Gzip,
}

/// How these bytes are compressed; `None` if they are not, or in a way that is not known.
pub(crate) fn of(bytes: &[u8]) -> Option<Compression> {
    const MAGIC: [(&[u8], Compression); 3] =
        [(b"\xfd7zXZ\0", Compression::Xz), (b"\x28\xb5\x2f\xfd", Compression::Zstd), (b"\x1f\x8b", Compression::Gzip)];
    MAGIC.iter().find(|(magic, _)| bytes.starts_with(magic)).map(|(_, compression)| *compression)
}

impl Compression {
    /// What was compressed; what stands behind it is left alone.
    pub(crate) fn undo(self, bytes: &[u8]) -> io::Result<Vec<u8>> {
        let mut undone = Vec::new();
        match self {
            Self::Xz => lzma_rust2::XzReader::new(bytes, false).read_to_end(&mut undone)?,
            Self::Zstd => {
                ruzstd::decoding::StreamingDecoder::new(bytes).map_err(io::Error::other)?.read_to_end(&mut undone)?
            }
            Self::Gzip => flate2::read::GzDecoder::new(bytes).read_to_end(&mut undone)?,
        };
        Ok(undone)
    }
}

#[cfg(test)]
mod tests {
    use proptest::prelude::*;

    use super::*;

    #[test]
    fn gzip_comes_out_as_it_went_in_whatever_stands_behind_it() {
        use std::io::Write;
        let mut encoder = flate2::write::GzEncoder::new(Vec::new(), flate2::Compression::fast());
        encoder.write_all(b"a kernel").unwrap();
        let mut bytes = encoder.finish().unwrap();
        bytes.extend([1, 2, 3, 4]);
        assert_eq!(of(&bytes), Some(Compression::Gzip));
        assert_eq!(Compression::Gzip.undo(&bytes).unwrap(), b"a kernel");
    }

    proptest! {
        #[test]
        fn damaged_bytes_are_an_error_or_other_bytes_and_never_a_panic(rest: Vec<u8>) {
            for magic in [&b"\xfd7zXZ\0"[..], b"\x28\xb5\x2f\xfd", b"\x1f\x8b"] {
                let bytes = [magic, &rest].concat();
                let _ = of(&bytes).unwrap().undo(&bytes);
            }
        }
    }
}
