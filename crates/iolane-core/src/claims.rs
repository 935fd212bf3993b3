//! Which frames of a pool are held: a bit for each, claimed and released by any thread without a lock.
//! Knows nothing of their memory. `tests/claims.rs` tries every order of the steps of a few threads.

use crate::atomic::{AtomicU64, AtomicUsize, Ordering};

/// The frames of a pool that somebody holds.
pub(crate) struct Claims {
    frames: usize,
    /// One bit per frame, set while a buffer holds it.
    words: Box<[AtomicU64]>,
    /// The word where the next search begins; only a hint.
    hint: AtomicUsize,
}

impl Claims {
    /// Of this many frames, all of them free.
    pub(crate) fn new(frames: usize) -> Self {
        let words = (0..frames.div_ceil(64)).map(|_| AtomicU64::new(0)).collect();
        Self { frames, words, hint: AtomicUsize::new(0) }
    }

    pub(crate) fn frames(&self) -> usize {
        self.frames
    }

    /// Claims any free frame.
    pub(crate) fn claim_any(&self) -> Option<usize> {
        let words = self.words.len();
        let start = self.hint.load(Ordering::Relaxed);
        (0..words).map(|step| (start + step) % words).find_map(|word| {
            let mut bits = self.words[word].load(Ordering::Relaxed);
            loop {
                let frame = word * 64 + bits.trailing_ones() as usize;
                if bits == u64::MAX || frame >= self.frames {
                    return None;
                }
                match self.claim(frame) {
                    Ok(()) => {
                        self.hint.store(word, Ordering::Relaxed);
                        return Some(frame);
                    }
                    Err(now) => bits = now,
                }
            }
        })
    }

    /// Claims all of these frames, which exist, or none.
    pub(crate) fn claim_all(&self, first: usize, count: usize) -> bool {
        for frame in first..first + count {
            if self.claim(frame).is_err() {
                (first..frame).for_each(|frame| self.release(frame));
                return false;
            }
        }
        true
    }

    /// Sets the bit of a frame; if it was set already, returns its word as the error.
    fn claim(&self, frame: usize) -> Result<(), u64> {
        let bit = 1 << (frame % 64);
        // Acquire pairs with the Release in `release`: the new holder of a frame sees all that its last holder wrote.
        let before = self.words[frame / 64].fetch_or(bit, Ordering::Acquire);
        if before & bit == 0 { Ok(()) } else { Err(before | bit) }
    }

    /// Gives back a frame that the caller has claimed.
    pub(crate) fn release(&self, frame: usize) {
        let before = self.words[frame / 64].fetch_and(!(1 << (frame % 64)), Ordering::Release);
        debug_assert!(before & 1 << (frame % 64) != 0, "frame {frame} was held until now");
    }

    pub(crate) fn is_claimed(&self, frame: usize) -> bool {
        self.words[frame / 64].load(Ordering::Relaxed) & 1 << (frame % 64) != 0
    }

    pub(crate) fn all_free(&self) -> bool {
        self.words.iter().all(|word| word.load(Ordering::Relaxed) == 0)
    }
}
