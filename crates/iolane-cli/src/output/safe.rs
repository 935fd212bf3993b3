//! Text that must not control the terminal. Names of devices and files, results from elsewhere, what peers and guests print: all
//! of it may hold escape sequences. `print` and `screen` pass everything through here.

use std::borrow::Cow;

/// What stands for a character that is not shown.
pub(crate) const REPLACEMENT: char = '?';

/// Whether a terminal only shows it: no control character (C0, DEL and C1, which begin escape sequences), and none that changes
/// the direction of text.
pub(crate) fn is_harmless(c: char) -> bool {
    !c.is_control() && !is_bidirectional_control(c)
}

/// A text for a terminal. Line ends and tabs stay.
pub(crate) fn safe(text: &str) -> Cow<'_, str> {
    replaced(text, |_, into| into.push(REPLACEMENT))
}

/// JSON for a terminal: the same document, with the notation of JSON for such characters, which only its strings hold.
pub(crate) fn safe_json(json: &str) -> Cow<'_, str> {
    replaced(json, |c, into| into.push_str(&format!("\\u{:04x}", u32::from(c))))
}

fn replaced(text: &str, replace: impl Fn(char, &mut String)) -> Cow<'_, str> {
    let may_stay = |c: char| is_harmless(c) || matches!(c, '\n' | '\t');
    if text.chars().all(may_stay) {
        return text.into();
    }
    let mut safe = String::with_capacity(text.len());
    for c in text.chars() {
        if may_stay(c) { safe.push(c) } else { replace(c, &mut safe) }
    }
    safe.into()
}

/// A stream of bytes for a terminal, in pieces that may end within a character.
#[derive(Debug, Default)]
pub(crate) struct SafeStream {
    /// The beginning of a character.
    rest: Vec<u8>,
}

impl SafeStream {
    /// The text of the next bytes. What is not UTF-8 is replaced.
    pub(crate) fn take(&mut self, bytes: &[u8]) -> String {
        self.rest.extend_from_slice(bytes);
        let whole = self.rest.len() - incomplete_bytes(&self.rest);
        let text = safe(&String::from_utf8_lossy(&self.rest[..whole])).into_owned();
        self.rest.drain(..whole);
        text
    }
}

/// Bytes at the end that the next ones may complete to a character.
fn incomplete_bytes(bytes: &[u8]) -> usize {
    let last = bytes.utf8_chunks().last().map(|chunk| chunk.invalid()).unwrap_or_default();
    match std::str::from_utf8(last) {
        Err(error) if error.error_len().is_none() => last.len(),
        _ => 0,
    }
}

/// Unicode Standard Annex 9, table 4 and section 2.6.
fn is_bidirectional_control(c: char) -> bool {
    matches!(c, '\u{061c}' | '\u{200e}' | '\u{200f}' | '\u{202a}'..='\u{202e}' | '\u{2066}'..='\u{2069}')
}

#[cfg(test)]
mod tests {
    use proptest::prelude::*;

    use super::*;

    fn is_shown(text: &str) -> bool {
        text.chars().all(|c| is_harmless(c) || matches!(c, '\n' | '\t'))
    }

    #[test]
    fn escape_sequences_are_no_longer_any() {
        assert_eq!(safe("QEMU\x1b]0;title\x07 \u{9b}2J\x7fok\n"), "QEMU?]0;title? ?2J?ok\n");
        assert_eq!(safe("a\u{202e}b\tc"), "a?b\tc");
        assert_eq!(safe_json("\"\u{9b}2J\u{7f}\"\n"), "\"\\u009b2J\\u007f\"\n");
    }

    proptest! {
        #[test]
        fn no_text_controls_the_terminal_and_harmless_text_stays(text in "(\\PC|[\\x00-\\x9f]|\\u{202e}){0,60}") {
            prop_assert!(is_shown(&safe(&text)));
            let harmless: String = text.chars().filter(|c| is_harmless(*c)).collect();
            prop_assert_eq!(safe(&harmless), harmless.as_str());
        }

        #[test]
        fn json_stays_the_same_document(text in "(\\PC|[\\x00-\\x9f]|\\u{202e}){0,60}") {
            let json = serde_json::to_string_pretty(&[&text]).unwrap();
            let safe = safe_json(&json);
            prop_assert!(is_shown(&safe));
            prop_assert_eq!(serde_json::from_str::<Vec<String>>(&safe).unwrap(), [text]);
        }

        #[test]
        fn pieces_of_a_stream_are_shown_as_the_whole(bytes: Vec<u8>, text in "(\\PC|[\\x00-\\x9f]){0,20}", cut: prop::sample::Index) {
            let whole = [bytes, text.into_bytes(), b"\n".to_vec()].concat();
            let (one, other) = whole.split_at(cut.index(whole.len()));
            let mut stream = SafeStream::default();
            let shown = stream.take(one) + &stream.take(other);
            prop_assert!(is_shown(&shown));
            let text = String::from_utf8_lossy(&whole);
            prop_assert_eq!(shown, safe(&text));
        }
    }
}
