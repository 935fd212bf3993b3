//! What fio replaces in the options of a job file: `${VARIABLE}` from the environment, and `$pagesize`, `$mb_memory` and
//! `$ncpus` with simple arithmetic (fio(1), "Environment variables" and "Reserved keywords"). Called by `job_file`.

use std::fs::File;
use std::io::{self, Read};
use std::path::Path;

use iolane::units::CpuList;

/// Where included files, variables and the figures of a machine come from.
pub(super) trait Surroundings {
    /// At most `bytes_max` + 1 bytes of a file.
    fn file(&self, file: &Path, bytes_max: usize) -> io::Result<Vec<u8>>;

    /// The value of an environment variable; `None` if it is not set.
    ///
    /// # Errors
    /// If the value is not UTF-8.
    fn variable(&self, name: &str) -> Result<Option<String>, String>;

    fn keyword(&self, keyword: Keyword) -> u64;
}

/// fio's reserved keywords.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(super) enum Keyword {
    /// Bytes of a page.
    PageSize,
    /// Megabytes of memory.
    MbMemory,
    /// Processors that are online.
    Ncpus,
}

impl Keyword {
    /// In the order in which fio replaces them.
    const ALL: [(&str, Self); 3] =
        [("$pagesize", Self::PageSize), ("$mb_memory", Self::MbMemory), ("$ncpus", Self::Ncpus)];
}

/// This process and the machine that it runs on.
pub(super) struct ThisMachine;

impl Surroundings for ThisMachine {
    fn file(&self, file: &Path, bytes_max: usize) -> io::Result<Vec<u8>> {
        let mut bytes = Vec::new();
        File::open(file)?.take(bytes_max as u64 + 1).read_to_end(&mut bytes)?;
        Ok(bytes)
    }

    fn variable(&self, name: &str) -> Result<Option<String>, String> {
        match std::env::var(name) {
            Ok(value) => Ok(Some(value)),
            Err(std::env::VarError::NotPresent) => Ok(None),
            Err(std::env::VarError::NotUnicode(_)) => Err("its value is not UTF-8".into()),
        }
    }

    fn keyword(&self, keyword: Keyword) -> u64 {
        match keyword {
            Keyword::PageSize => rustix::param::page_size() as u64,
            Keyword::MbMemory => {
                let info = rustix::system::sysinfo();
                info.totalram.saturating_mul(info.mem_unit.into()) >> 20
            }
            Keyword::Ncpus => {
                let online = std::fs::read_to_string("/sys/devices/system/cpu/online").unwrap_or_default();
                let online = online.trim().parse::<CpuList>().map_or(0, |cpus| cpus.cpus().len());
                online.max(1) as u64
            }
        }
    }
}

/// None: for text that does not come from a file.
pub(super) struct Nowhere;

impl Surroundings for Nowhere {
    fn file(&self, _: &Path, _: usize) -> io::Result<Vec<u8>> {
        Err(io::ErrorKind::NotFound.into())
    }

    fn variable(&self, _: &str) -> Result<Option<String>, String> {
        Ok(None)
    }

    fn keyword(&self, keyword: Keyword) -> u64 {
        match keyword {
            Keyword::PageSize => 4096,
            Keyword::MbMemory => 1024,
            Keyword::Ncpus => 1,
        }
    }
}

/// Why a line is refused, and the remedy.
pub(super) type Refusal = (String, &'static str);

/// A line with its variables and keywords replaced, no longer than `bytes_max`.
///
/// # Errors
/// If a variable is not set, or fio would calculate with something that is not a whole number.
pub(super) fn substitute(line: &str, surroundings: &dyn Surroundings, bytes_max: usize) -> Result<String, Refusal> {
    let too_long = || (format!("it is longer than {bytes_max} bytes"), "use shorter values; fio has the same limit");
    let line = replace_variables(line, surroundings, bytes_max).and_then(|line| line.ok_or_else(too_long))?;
    let mut replaced = line.clone();
    for (word, keyword) in Keyword::ALL {
        replaced = replaced.replace(word, &surroundings.keyword(keyword).to_string());
    }
    if replaced.len() > bytes_max {
        return Err(too_long());
    }
    // fio calculates only where a keyword was replaced: `filename=/dev/a-b` is a name.
    match replaced.split_once('=') {
        Some((key, value)) if replaced != line && value.contains(['+', '-', '*', '/']) => {
            Ok(format!("{key}={}", calculate(value)?))
        }
        _ => Ok(replaced),
    }
}

/// `None` if the result is longer than `bytes_max`. As in fio, a value is not searched for further variables, and `${`
/// without a closing bracket is text.
fn replace_variables(line: &str, surroundings: &dyn Surroundings, bytes_max: usize) -> Result<Option<String>, Refusal> {
    let mut replaced = String::new();
    let mut rest = line;
    while let Some((before, after)) = rest.split_once("${") {
        let Some((name, after)) = after.split_once('}') else { break };
        let refused = |cause: String| (format!("`${{{name}}}`: {cause}"), "set it, or write the value instead");
        let value = surroundings.variable(name).map_err(refused)?;
        let value =
            value.ok_or_else(|| refused("this environment variable is not set; fio would insert nothing".into()))?;
        if value.contains(char::is_control) {
            return Err(refused("its value contains a control character".into()));
        }
        replaced.push_str(before);
        replaced.push_str(&value);
        if replaced.len() > bytes_max {
            return Ok(None);
        }
        rest = after;
    }
    replaced.push_str(rest);
    Ok(Some(replaced))
}

/// Whole numbers with `+`, `-`, `*` and `/`, as bc(1) calculates, to which fio hands them: products and quotients first, and
/// quotients without a remainder.
fn calculate(text: &str) -> Result<u64, Refusal> {
    let remedy = "use whole numbers with + - * /, without units and brackets, or write the value instead";
    let refused = |cause: &str| (format!("`{text}` cannot be calculated: {cause}"), remedy);
    let number = |text: &str| {
        let text = text.trim();
        let digits = !text.is_empty() && text.bytes().all(|byte| byte.is_ascii_digit());
        let number = text.parse::<i128>().ok().filter(|number| digits && *number <= i128::from(u64::MAX));
        number.ok_or_else(|| refused(&format!("`{text}` is not a whole number")))
    };
    let product = |text: &str| {
        let mut rest = text;
        let (mut value, mut operator) = (1i128, '*');
        loop {
            let end = rest.find(['*', '/']).unwrap_or(rest.len());
            let operand = number(&rest[..end])?;
            let result = if operator == '*' { value.checked_mul(operand) } else { value.checked_div(operand) };
            value = result.ok_or_else(|| refused("a division by 0, or a number that is too large"))?;
            match rest[end..].chars().next() {
                None => return Ok(value),
                Some(next) => (operator, rest) = (next, &rest[end + 1..]),
            }
        }
    };
    let mut rest = text;
    let (mut sum, mut sign) = (0i128, 1);
    loop {
        let end = rest.find(['+', '-']).unwrap_or(rest.len());
        let sum_next = product(&rest[..end])?.checked_mul(sign).and_then(|value| sum.checked_add(value));
        sum = sum_next.ok_or_else(|| refused("a number that is too large"))?;
        match rest[end..].chars().next() {
            None => break,
            Some(next) => (sign, rest) = (if next == '-' { -1 } else { 1 }, &rest[end + 1..]),
        }
    }
    u64::try_from(sum).map_err(|_| refused("the result is negative or larger than 2^64 - 1"))
}

#[cfg(test)]
mod tests {
    use super::*;
    use proptest::prelude::*;

    /// Variables `SIZE`, `EMPTY`, `NESTED`, `ODD` and `BEL`, and pages of 4096 bytes.
    struct Fixed;

    impl Surroundings for Fixed {
        fn file(&self, _: &Path, _: usize) -> io::Result<Vec<u8>> {
            Err(io::ErrorKind::NotFound.into())
        }

        fn variable(&self, name: &str) -> Result<Option<String>, String> {
            match name {
                "SIZE" => Ok(Some("64m".into())),
                "EMPTY" => Ok(Some(String::new())),
                "NESTED" => Ok(Some("${SIZE}".into())),
                "BEL" => Ok(Some("\u{7}".into())),
                "ODD" => Err("its value is not UTF-8".into()),
                _ => Ok(None),
            }
        }

        fn keyword(&self, keyword: Keyword) -> u64 {
            match keyword {
                Keyword::PageSize => 4096,
                Keyword::MbMemory => 8000,
                Keyword::Ncpus => 3,
            }
        }
    }

    fn of(line: &str) -> Result<String, String> {
        substitute(line, &Fixed, 100).map_err(|(cause, _)| cause)
    }

    #[test]
    fn variables_and_keywords_are_replaced_and_calculated_with_as_fio_does() {
        for (line, expected) in [
            ("size=${SIZE}", "size=64m"),
            ("filename=/a/${SIZE}-${SIZE}/b", "filename=/a/64m-64m/b"),
            ("name=a${EMPTY}b", "name=ab"),
            ("name=${NESTED}", "name=${SIZE}"),
            ("name=${SIZE", "name=${SIZE"),
            ("bs=$pagesize", "bs=4096"),
            ("numjobs=$ncpus", "numjobs=3"),
            ("size=8*$mb_memory", "size=64000"),
            ("size=$mb_memory*1024*1024", "size=8388608000"),
            ("size=$mb_memory/3+2*$ncpus-1", "size=2671"),
            ("size=10-3-2*$ncpus", "size=1"),
            ("name=a-b", "name=a-b"),
            ("size=8*8", "size=8*8"),
        ] {
            assert_eq!(of(line).as_deref(), Ok(expected), "{line}");
        }
    }

    #[test]
    fn what_cannot_be_replaced_is_refused_with_its_name() {
        for (line, part) in [
            ("size=${NONE}", "`${NONE}`: this environment variable is not set"),
            ("size=${}", "`${}`: "),
            ("size=${ODD}", "not UTF-8"),
            ("size=${BEL}", "control character"),
            ("size=$ncpus*4k", "`4k` is not a whole number"),
            ("size=($ncpus+1)*2", "`(3` is not a whole number"),
            ("size=-$ncpus", "`` is not a whole number"),
            ("size=1-$ncpus", "negative"),
            ("size=$ncpus/0", "division by 0"),
            ("size=$ncpus*18446744073709551615*18446744073709551615*18446744073709551615", "too large"),
            ("size=$ncpus*18446744073709551615", "larger than 2^64"),
            ("filename=/tmp/$ncpus", "`` is not a whole number"),
        ] {
            let refused = of(line).expect_err(line);
            assert!(refused.contains(part), "{line}: {refused}");
        }
        assert!(of(&"${SIZE}".repeat(50)).unwrap_err().contains("longer than 100"));
        assert!(of(&"$pagesize".repeat(26)).unwrap_err().contains("longer than 100"));
    }

    #[test]
    fn this_machine_has_pages_memory_and_processors() {
        let figure = |keyword| ThisMachine.keyword(keyword);
        assert!(figure(Keyword::PageSize) >= 4096 && figure(Keyword::MbMemory) > 0 && figure(Keyword::Ncpus) > 0);
        assert_eq!(ThisMachine.variable("A=B").unwrap(), None);
    }

    proptest! {
        #[test]
        fn no_text_makes_it_panic(text in "\\PC{0,40}|(\\$ncpus|\\$\\{SIZE\\}|[0-9]{1,20}|[-+*/=${} ]){0,12}") {
            let _ = substitute(&text, &Fixed, 100);
        }
    }
}
