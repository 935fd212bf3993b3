//! The protocol between host and guest: frames on one virtio serial port, each a kind, a length and a payload. `session` is
//! the host's end, `guest` the other one. The host trusts no input: an invalid frame is an error, never a panic or a large
//! allocation.

use std::io::{self, Read, Write};
use std::path::PathBuf;

use serde::{Deserialize, Serialize};

/// The name of the port in the guest's `/sys/class/virtio-ports/*/name`.
pub const PORT_NAME: &str = "org.iolane.lab";

/// Longer output is sent in several frames.
pub const PAYLOAD_BYTES_MAX: usize = 64 << 10;

/// Kind and payload length, little endian.
const HEADER_BYTES: usize = 5;

#[derive(Debug, Clone, PartialEq, Eq)]
pub enum Frame {
    /// The guest is up, and the first command is about to start.
    Hello {
        /// As printed by `uname -r`.
        release: String,
    },
    Stdout(Vec<u8>),
    Stderr(Vec<u8>),
    /// A request of the running command to the host; see [`crate::guest::EVENTS_FILE`].
    Event(String),
    Ended(Ended),
    /// A file follows, in [`Frame::Data`] that add up to its length.
    File(FileHeader),
    Data(Vec<u8>),
    /// All commands ran, all files were sent.
    Done,
    /// Process 1 failed, with this reason.
    Trouble(String),
    /// To the guest: interrupt the running command, as Ctrl-C does.
    Interrupt,
}

#[derive(Debug, Clone, Copy, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "snake_case")]
pub enum Ended {
    Code(i32),
    Signal(i32),
}

/// A file that the guest sends.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
pub struct FileHeader {
    /// The same on the host and in the guest.
    pub path: PathBuf,
    pub bytes: u64,
}

impl Frame {
    fn kind(&self) -> u8 {
        match self {
            Self::Hello { .. } => 1,
            Self::Stdout(_) => 2,
            Self::Stderr(_) => 3,
            Self::Event(_) => 4,
            Self::Ended(_) => 5,
            Self::File(_) => 6,
            Self::Data(_) => 7,
            Self::Done => 8,
            Self::Trouble(_) => 9,
            Self::Interrupt => 10,
        }
    }

    fn payload(&self) -> io::Result<Vec<u8>> {
        Ok(match self {
            Self::Hello { release: text } | Self::Event(text) | Self::Trouble(text) => text.clone().into_bytes(),
            Self::Stdout(bytes) | Self::Stderr(bytes) | Self::Data(bytes) => bytes.clone(),
            Self::Ended(ended) => serde_json::to_vec(ended)?,
            Self::File(header) => serde_json::to_vec(header)?,
            Self::Done | Self::Interrupt => Vec::new(),
        })
    }

    /// Writes it with one call.
    ///
    /// # Errors
    /// If the payload is longer than [`PAYLOAD_BYTES_MAX`], or writing fails.
    pub fn write(&self, to: &mut impl Write) -> io::Result<()> {
        let payload = self.payload()?;
        if payload.len() > PAYLOAD_BYTES_MAX {
            return Err(bad(format!("a payload of {} bytes is too long", payload.len())));
        }
        let mut frame = Vec::with_capacity(HEADER_BYTES + payload.len());
        frame.push(self.kind());
        frame.extend((payload.len() as u32).to_le_bytes());
        debug_assert_eq!(frame.len(), HEADER_BYTES, "`read` expects the payload right behind the header");
        frame.extend(payload);
        to.write_all(&frame)
    }

    /// Reads the next one; `None` at the end of the stream.
    ///
    /// # Errors
    /// If reading fails, the stream ends within a frame, or the bytes are no frame.
    pub fn read(from: &mut impl Read) -> io::Result<Option<Self>> {
        let mut header = [0; HEADER_BYTES];
        if from.read(&mut header[..1])? == 0 {
            return Ok(None);
        }
        from.read_exact(&mut header[1..])?;
        let [kind, length @ ..] = header;
        let length = u32::from_le_bytes(length) as usize;
        if length > PAYLOAD_BYTES_MAX {
            return Err(bad(format!("a payload of {length} bytes is announced")));
        }
        debug_assert!(length <= PAYLOAD_BYTES_MAX, "the peer decides how much is allocated");
        let mut payload = vec![0; length];
        from.read_exact(&mut payload)?;
        Self::parse(kind, payload).map(Some)
    }

    fn parse(kind: u8, payload: Vec<u8>) -> io::Result<Self> {
        let text = |payload| String::from_utf8(payload).map_err(|_| bad("a text is not UTF-8".into()));
        Ok(match kind {
            1 => Self::Hello { release: text(payload)? },
            2 => Self::Stdout(payload),
            3 => Self::Stderr(payload),
            4 => Self::Event(text(payload)?),
            5 => Self::Ended(serde_json::from_slice(&payload)?),
            6 => Self::File(serde_json::from_slice(&payload)?),
            7 => Self::Data(payload),
            8 => Self::Done,
            9 => Self::Trouble(text(payload)?),
            10 => Self::Interrupt,
            other => return Err(bad(format!("there is no frame of kind {other}"))),
        })
    }
}

fn bad(what: String) -> io::Error {
    io::Error::new(io::ErrorKind::InvalidData, what)
}

#[cfg(test)]
mod tests {
    use proptest::prelude::*;

    use super::*;

    fn frames() -> impl Strategy<Value = Frame> {
        let bytes = proptest::collection::vec(any::<u8>(), 0..300);
        prop_oneof![
            ".*".prop_map(|release| Frame::Hello { release }),
            bytes.clone().prop_map(Frame::Stdout),
            bytes.clone().prop_map(Frame::Stderr),
            ".*".prop_map(Frame::Event),
            any::<i32>().prop_map(|code| Frame::Ended(Ended::Code(code))),
            any::<i32>().prop_map(|signal| Frame::Ended(Ended::Signal(signal))),
            ("/[a-z/]*", any::<u64>()).prop_map(|(path, bytes)| Frame::File(FileHeader { path: path.into(), bytes })),
            bytes.prop_map(Frame::Data),
            Just(Frame::Done),
            ".*".prop_map(Frame::Trouble),
            Just(Frame::Interrupt),
        ]
    }

    proptest! {
        #[test]
        fn frames_come_out_as_they_went_in(sent in proptest::collection::vec(frames(), 0..20)) {
            let mut stream = Vec::new();
            sent.iter().for_each(|frame| frame.write(&mut stream).unwrap());
            let mut stream = stream.as_slice();
            let received: Vec<Frame> = std::iter::from_fn(|| Frame::read(&mut stream).unwrap()).collect();
            prop_assert_eq!(received, sent);
        }

        #[test]
        fn garbage_is_an_error_or_a_frame_and_never_a_panic(garbage: Vec<u8>) {
            let mut stream = garbage.as_slice();
            while let Ok(Some(_)) = Frame::read(&mut stream) {}
        }
    }

    #[test]
    fn a_stream_that_depths_within_a_frame_is_an_error() {
        let mut stream = Vec::new();
        Frame::Event("unplug".into()).write(&mut stream).unwrap();
        for length in 1..stream.len() {
            assert!(Frame::read(&mut &stream[..length]).is_err(), "cut after {length} bytes");
        }
    }

    #[test]
    fn an_announced_length_is_not_believed() {
        let error = Frame::read(&mut [2, 0xff, 0xff, 0xff, 0xff].as_slice()).unwrap_err();
        assert!(error.to_string().contains("4294967295"), "{error}");
    }
}
