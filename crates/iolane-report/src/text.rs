//! Characters that must not reach a reader from results of unknown origin. Pictures and the summary use it.

/// Whether a character changes the direction of the text around it (Unicode Standard Annex 9).
pub(crate) fn is_bidi_control(c: char) -> bool {
    matches!(c, '\u{061c}' | '\u{200e}' | '\u{200f}' | '\u{202a}'..='\u{202e}' | '\u{2066}'..='\u{2069}')
}
