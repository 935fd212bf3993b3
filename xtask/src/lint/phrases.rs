//! The check of prose: phrases listed in `phrases.txt` are found wherever people read, with what to write instead.
//! It reads text and knows no grammar: a phrase is found word by word, without regard to case and line ends.

use std::path::PathBuf;

use super::tree;

const LIST: &str = include_str!("phrases.txt");
const KINDS: [&str; 5] = ["md", "rs", "html", "snap", "toml"];

/// What others wrote, and what was captured from a run of an older version: it is renewed by running again.
const LEFT_OUT: [&str; 2] = ["/assets/", "docs/gallery/"];

/// A phrase to do without.
#[derive(Debug, PartialEq)]
struct Phrase<'a> {
    words: &'a str,
    instead: &'a str,
    allowed_in: Vec<&'a str>,
}

/// Each place with such a phrase, and what to write instead.
pub(super) fn find(files: &[PathBuf]) -> Vec<String> {
    let list = parse(LIST);
    let is_read = |file: &&PathBuf| {
        let shown = file.to_string_lossy();
        !LEFT_OUT.iter().any(|part| shown.contains(part))
            && file.extension().is_some_and(|extension| KINDS.iter().any(|kind| extension == *kind))
    };
    let read = files.iter().filter(is_read).flat_map(|file| {
        let found = tree::read(file).map(|text| find_in(&text, &list)).unwrap_or_default();
        found.into_iter().map(move |what| format!("{}:{what}", file.display()))
    });
    read.collect()
}

impl<'a> Phrase<'a> {
    fn parse(line: &'a str) -> Option<Self> {
        let mut parts = line.split('|').map(str::trim);
        let (words, instead, allowed) = (parts.next()?, parts.next()?, parts.next().unwrap_or_default());
        let allowed_in = allowed.split(',').map(str::trim).filter(|phrase| !phrase.is_empty()).collect();
        Some(Self { words, instead, allowed_in })
    }
}

fn parse(list: &str) -> Vec<Phrase<'_>> {
    let lines = list.lines().filter(|line| !line.starts_with('#') && !line.trim().is_empty());
    lines.filter_map(Phrase::parse).collect()
}

/// `12: "phrase"; write ...` for each place in a text.
fn find_in(text: &str, list: &[Phrase<'_>]) -> Vec<String> {
    let flat = Flat::of(text);
    let mut found: Vec<(usize, String)> = Vec::new();
    for phrase in list {
        let allowed: Vec<(usize, usize)> = phrase.allowed_in.iter().flat_map(|longer| flat.places(longer)).collect();
        for (start, end) in flat.places(phrase.words) {
            if !allowed.iter().any(|(from, to)| *from <= start && end <= *to) {
                let line = flat.line_of(start);
                found.push((line, format!("{line}: \"{}\"; write: {}", phrase.words, phrase.instead)));
            }
        }
    }
    found.sort();
    found.into_iter().map(|(_, what)| what).collect()
}

/// A text in lower case with one space between words; comment marks at the start of lines are gone.
struct Flat {
    text: String,
    /// Where each line begins in it.
    lines: Vec<usize>,
}

impl Flat {
    fn of(text: &str) -> Self {
        let (mut flat, mut lines) = (String::new(), Vec::new());
        for line in text.lines() {
            lines.push(flat.len());
            let line = line.trim_start().trim_start_matches(['/', '!', '#', '*', '>', '|']);
            for word in line.split_whitespace() {
                flat.push_str(&word.to_lowercase());
                flat.push(' ');
            }
        }
        Self { text: flat, lines }
    }

    /// Where a phrase stands as whole words.
    fn places(&self, phrase: &str) -> Vec<(usize, usize)> {
        let is_word = |c: char| c.is_alphanumeric() || c == '_';
        let found = self.text.match_indices(phrase).map(|(start, _)| (start, start + phrase.len()));
        let whole = found
            .filter(|&(start, end)| !self.text[..start].ends_with(is_word) && !self.text[end..].starts_with(is_word));
        whole.collect()
    }

    fn line_of(&self, position: usize) -> usize {
        self.lines.partition_point(|&start| start <= position)
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn found(text: &str) -> Vec<String> {
        find_in(text, &parse("blue moon | seldom |\nmade of | from | made of two, made of wood\n"))
    }

    #[test]
    fn a_phrase_is_found_with_its_line_and_what_to_write_instead() {
        assert_eq!(found("fine\nOnce in a Blue moon.\n"), ["2: \"blue moon\"; write: seldom"]);
    }

    #[test]
    fn a_phrase_is_found_across_lines_of_a_comment() {
        assert_eq!(found("/// what a blue\n    /// moon brings\n").len(), 1);
    }

    #[test]
    fn parts_of_words_and_longer_phrases_that_are_fine_are_left_alone() {
        assert!(found("blue moons; a crowd made of two; it is made of wood").is_empty());
        assert_eq!(found("a drive made of sand, made of wood").len(), 1);
    }

    #[test]
    fn every_line_of_the_list_has_a_phrase_and_something_better() {
        let list = parse(LIST);
        assert!(list.len() > 10);
        assert!(list.iter().all(|phrase| !phrase.words.is_empty() && !phrase.instead.is_empty()), "{list:?}");
    }
}
