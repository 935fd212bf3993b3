//! The name that was probably meant by one that is not known.

/// Names at least this alike are suggested: one letter of six may be missing, doubled, swapped or wrong.
const SIMILARITY_MIN: f64 = 0.8;

/// `did you mean NAME? ` with the known name most like the given one, or nothing if none is like it. Punctuation does not
/// count: `iouring` is `io_uring`.
pub fn did_you_mean<'a>(given: &str, known: impl IntoIterator<Item = &'a str>) -> String {
    let letters = |name: &str| name.chars().filter(char::is_ascii_alphanumeric).collect::<String>();
    let given = letters(given);
    let alike = |name: &'a str| (strsim::normalized_damerau_levenshtein(&given, &letters(name)), name);
    let best = known.into_iter().map(alike).max_by(|a, b| a.0.total_cmp(&b.0));
    best.filter(|(alike, _)| *alike >= SIMILARITY_MIN)
        .map_or(String::new(), |(_, name)| format!("did you mean {name}? "))
}

#[cfg(test)]
mod tests {
    use super::did_you_mean;

    #[test]
    fn a_misspelt_name_suggests_the_known_one_and_an_unrelated_one_suggests_nothing() {
        let known = ["psync", "libaio", "io_uring", "io_uring_cmd", "posix_aio"];
        for (given, meant) in [
            ("iouring", "did you mean io_uring? "),
            ("io_urng", "did you mean io_uring? "),
            ("libiao", "did you mean libaio? "),
            ("posixaio", "did you mean posix_aio? "),
            ("io-uring-cmd", "did you mean io_uring_cmd? "),
            ("aio", ""),
            ("spdk", ""),
            ("", ""),
        ] {
            assert_eq!(did_you_mean(given, known), meant, "{given}");
        }
        assert_eq!(did_you_mean("psync", []), "");
    }
}
