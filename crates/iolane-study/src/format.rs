//! Formats numbers and units for people: three digits, a prefix, a space, a unit. Messages, tables, pages and the
//! terminal all call it; it computes nothing.

use std::time::Duration;

use crate::plan::{Factor, IOPS, Metric};
use crate::stats::Estimate;

/// A metric's value with its unit: `182 k IOPS`, `85.2 us`, `5 %`.
pub fn quantity(metric: Metric, value: f64) -> String {
    quantity_of(metric, value, IOPS)
}

/// The same of a load that counts something else than I/Os: `4.2 k keys/s`, `6.3 CPU-s per million keys`.
pub fn quantity_of(metric: Metric, value: f64, rate_unit: &str) -> String {
    let things = rate_unit.strip_suffix("/s").unwrap_or("I/Os");
    match metric {
        Metric::Iops => counted(value, rate_unit),
        Metric::BytesPerS => bytes_per_s(value),
        Metric::MeanNs | Metric::LatencyNs(..) | Metric::SubmitP50Ns => time(value),
        Metric::ServiceP50Ns | Metric::ServiceP99Ns => time(value),
        Metric::SyscallsPerIo => format!("{} calls per I/O", number(value)),
        Metric::ContextSwitchesPerIo => format!("{} context switches per I/O", number(value)),
        Metric::InterruptsPerIo => format!("{} interrupts per I/O", number(value)),
        Metric::Cores => format!("{} cores", number(value)),
        Metric::CpuSPerMillionIos => format!("{} CPU-s per million {things}", number(value)),
        Metric::CacheMissRate => format!("{} %", number(value * 100.0)),
        Metric::CyclesPerIo => counted(value, "cycles per I/O"),
        Metric::InstructionsPerIo => counted(value, "instructions per I/O"),
        Metric::IosPerJoule => counted(value, &format!("{things} per joule")),
        Metric::IosPerJouleAboveIdle => counted(value, &format!("{things} per joule above idle")),
        Metric::Watts => format!("{} W", number(value)),
        Metric::WattsAboveIdle => format!("{} W above idle", number(value)),
    }
}

/// Three significant digits, or two below 0.1, without trailing zeros: `182`, `12.3`, `1.05`, `0.076`, `0.5`.
pub fn number(value: f64) -> String {
    let exact = value.to_string();
    if exact.len() <= 4 {
        return exact;
    }
    match value.abs() {
        size if size >= 99.95 => format!("{value:.0}"),
        size if size >= 9.995 => format!("{value:.1}"),
        size if size >= 0.0995 => format!("{value:.2}"),
        size if size >= 1e-6 => format!("{value:.*}", (1.0 - size.log10().floor()) as usize),
        _ => "0".into(),
    }
}

/// A ratio: `0.85x`, or `~0.98x` if it shows no difference.
pub fn times(ratio: Estimate) -> String {
    let sign = if ratio.shows_difference() { "" } else { "~" };
    format!("{sign}{}x", number(ratio.value))
}

/// A range of two formatted values; the unit appears once if both have the same.
pub fn range(low: &str, high: &str) -> String {
    match (low.split_once(' '), high.split_once(' ')) {
        (Some((number, unit)), Some((_, other))) if unit == other => format!("{number} to {high}"),
        _ => format!("{low} to {high}"),
    }
}

/// A range for a table's cell: `80.1-90 us`.
pub fn short_range(low: &str, high: &str) -> String {
    range(low, high).replacen(" to ", "-", 1)
}

/// A range of numbers that may be large, for a table's cell: `61.2-63.9 k`, `0.98-1.05 M`.
pub fn short_count_range(low: f64, high: f64) -> String {
    let (scaled, prefix) = scale(high);
    if low > 0.0 && low < high / 100.0 {
        return short_range(&count(low), &count(high));
    }
    // Both use the prefix of the larger value.
    let factor = if scaled == 0.0 { 1.0 } else { high / scaled };
    format!("{}-{} {prefix}", number(low / factor), number(scaled)).trim_end().into()
}

/// A range next to its middle value; without the unit where all three have the same.
pub fn range_beside(value: &str, low: &str, high: &str) -> String {
    let [value, low_parts, high_parts] = [value, low, high].map(|text| text.split_once(' '));
    match (value, low_parts, high_parts) {
        (Some((_, unit)), Some((low, of_low)), Some((high, of_high))) if unit == of_low && unit == of_high => {
            format!("{low} to {high}")
        }
        _ => range(low, high),
    }
}

/// A position along a factor: `at depth 16`, `with 5 threads`.
pub fn place(factor: Factor, shown: &str) -> String {
    let counted = |what: &str| if shown == "1" { format!("1 {what}") } else { format!("{shown} {what}s") };
    match factor {
        Factor::Path | Factor::Rw | Factor::Offsets => format!("for {shown}"),
        Factor::ReadPercent => format!("at {shown} % reads"),
        Factor::Rate => format!("at {shown}/s"),
        Factor::BatchSubmit => format!("in submissions of {shown}"),
        Factor::BatchComplete => format!("waiting for {}", counted("completion")),
        Factor::BatchCompleteMax => format!("taking {}", counted("completion")),
        Factor::FsyncEvery => format!("with an fsync every {shown}"),
        Factor::FdatasyncEvery => format!("with an fdatasync every {shown}"),
        Factor::Bs => format!("at {shown}"),
        Factor::Application => format!("in {shown}"),
        Factor::Depth => format!("at depth {shown}"),
        Factor::Threads => format!("with {}", counted("thread")),
        Factor::Drives => format!("on {}", counted("drive")),
        Factor::Cores => format!("on {}", counted("core")),
    }
}

/// A count of things: `182 k IOPS`.
fn counted(value: f64, things: &str) -> String {
    match scale(value) {
        (scaled, "") => format!("{} {things}", number(scaled)),
        (scaled, prefix) => format!("{} {prefix} {things}", number(scaled)),
    }
}

/// A number with a decimal prefix: `182 k`.
pub fn count(value: f64) -> String {
    counted(value, "").trim_end().into()
}

/// A data rate, with decimal prefixes: `82.5 MB/s`.
pub fn bytes_per_s(value: f64) -> String {
    let (scaled, prefix) = scale(value);
    format!("{} {prefix}B/s", number(scaled))
}

/// A capacity, with binary prefixes: `512 B`, `4 KiB`, `1.82 TiB`.
pub fn bytes(bytes: u64) -> String {
    let value = bytes as f64;
    let units = [(4, "TiB"), (3, "GiB"), (2, "MiB"), (1, "KiB")];
    // A value that would round to 1000 uses the next unit.
    let unit = units.into_iter().find(|(power, _)| value >= 999.5 * 1024f64.powi(power - 1));
    match unit {
        Some((power, unit)) => format!("{} {unit}", number(value / 1024f64.powi(power))),
        None => format!("{bytes} B"),
    }
}

/// A duration that people wait for: `200 ms`, `45 s`, `8 min 5 s`, `3 h 20 min`.
pub fn duration(duration: Duration) -> String {
    let seconds = duration.as_secs_f64().round() as u64;
    match seconds {
        _ if duration.is_zero() => "0 s".into(),
        _ if duration < Duration::from_secs(1) => time(duration.as_secs_f64() * 1e9),
        ..100 => format!("{seconds} s"),
        100..7200 => format!("{} min {} s", seconds / 60, seconds % 60),
        _ => format!("{} h {} min", seconds / 3600, seconds % 3600 / 60),
    }
}

/// Splits a value into a number below 1000 and a decimal prefix.
fn scale(value: f64) -> (f64, &'static str) {
    match value.abs() {
        // A value that would round to 1000 uses the next prefix.
        size if size >= 999.5e6 => (value / 1e9, "G"),
        size if size >= 999.5e3 => (value / 1e6, "M"),
        size if size >= 999.5 => (value / 1e3, "k"),
        _ => (value, ""),
    }
}

/// A duration: `85.2 us`.
pub fn time(nanoseconds: f64) -> String {
    match nanoseconds.abs() {
        size if size >= 999.5e6 => format!("{} s", number(nanoseconds / 1e9)),
        size if size >= 999.5e3 => format!("{} ms", number(nanoseconds / 1e6)),
        size if size >= 999.5 => format!("{} us", number(nanoseconds / 1e3)),
        _ => format!("{} ns", number(nanoseconds)),
    }
}

/// The text with a capital first letter, for headings.
pub fn capital(text: &str) -> String {
    let mut letters = text.chars();
    letters.next().map_or(String::new(), |first| first.to_uppercase().chain(letters).collect())
}

/// Words as a line that a POSIX shell reads back.
pub fn shell_line(words: &[impl AsRef<str>]) -> String {
    words.iter().map(|word| quoted(word.as_ref())).collect::<Vec<String>>().join(" ")
}

fn quoted(word: &str) -> String {
    let is_plain = |c: char| c.is_ascii_alphanumeric() || "+-_./:,=@%".contains(c);
    if !word.is_empty() && word.chars().all(is_plain) {
        return word.into();
    }
    format!("'{}'", word.replace('\'', r"'\''"))
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_command_can_be_pasted_into_a_shell() {
        let words = ["iolane", "io_uring+sqpoll,fixedbufs", "it's", "", "$(reboot)"];
        assert_eq!(shell_line(&words), r"iolane io_uring+sqpoll,fixedbufs 'it'\''s' '' '$(reboot)'");
    }

    #[test]
    fn a_range_has_its_unit_once_and_none_beside_a_value_of_the_same() {
        assert_eq!(range("80.1 us", "90 us"), "80.1 to 90 us");
        assert_eq!(range("980 us", "1.2 ms"), "980 us to 1.2 ms");
        assert_eq!(range_beside("85.2 us", "80.1 us", "90 us"), "80.1 to 90");
        assert_eq!(range_beside("85.2 us", "80.1 us", "1.2 ms"), "80.1 us to 1.2 ms");
        assert_eq!(range_beside("1.05 ms", "980 us", "990 us"), "980 to 990 us");
    }

    #[test]
    fn numbers_have_as_many_digits_as_they_need() {
        let shown = [0.0, 1e-9, 0.000_45, 0.0762, 0.099, 0.1, 0.996, 1.046, 12.34, 171.3, -0.051_2].map(number);
        assert_eq!(shown, ["0", "0", "0.00045", "0.076", "0.099", "0.1", "1.00", "1.05", "12.3", "171", "-0.051"]);
    }

    #[test]
    fn capacities_have_binary_prefixes() {
        let shown =
            [0, 512, 1000, 1024, 4096, 1 << 30, 960_197_124_096, 2_000_398_934_016, 1_073_217_536, 1 << 50].map(bytes);
        let expected =
            ["0 B", "512 B", "0.98 KiB", "1 KiB", "4 KiB", "1 GiB", "894 GiB", "1.82 TiB", "1.00 GiB", "1024 TiB"];
        assert_eq!(shown, expected);
    }

    #[test]
    fn durations_have_the_two_largest_units() {
        let shown =
            [0.0, 0.05, 0.2, 45.0, 99.0, 485.0, 12_000.0].map(|seconds| duration(Duration::from_secs_f64(seconds)));
        assert_eq!(shown, ["0 s", "50 ms", "200 ms", "45 s", "99 s", "8 min 5 s", "3 h 20 min"]);
    }

    #[test]
    fn ranges_say_their_unit_once() {
        assert_eq!(range("85.2 us", "90 us"), "85.2 to 90 us");
        assert_eq!(range("850 ns", "1.2 us"), "850 ns to 1.2 us");
        assert_eq!(range("0.5x", "2x"), "0.5x to 2x");
        assert_eq!(short_range("85.2 us", "90 us"), "85.2-90 us");
        assert_eq!(short_range("850 ns", "1.2 us"), "850 ns-1.2 us");
        let counts = [(61_234.0, 63_900.0), (980_000.0, 1_050_000.0), (12.0, 950.0), (0.0, 0.0), (26.0, 8640.0)];
        let shown = counts.map(|(low, high)| short_count_range(low, high));
        assert_eq!(shown, ["61.2-63.9 k", "0.98-1.05 M", "12-950", "0-0", "26-8.64 k"]);
    }

    #[test]
    fn every_metric_has_its_unit() {
        let shown = [
            (Metric::Iops, 182_400.0, "182 k IOPS"),
            (Metric::Iops, 950.0, "950 IOPS"),
            (Metric::BytesPerS, 6.8e9, "6.8 GB/s"),
            (Metric::P50, 85_230.0, "85.2 us"),
            (Metric::MeanNs, 999_500.0, "1.00 ms"),
            (Metric::SubmitP50Ns, 850.0, "850 ns"),
            (Metric::P99, 2e9, "2 s"),
            (Metric::SyscallsPerIo, 1.02, "1.02 calls per I/O"),
            (Metric::Cores, 1.98, "1.98 cores"),
            (Metric::CacheMissRate, 0.05, "5 %"),
            (Metric::CyclesPerIo, 310.0, "310 cycles per I/O"),
            (Metric::IosPerJoule, 4_200.0, "4.2 k I/Os per joule"),
            (Metric::Watts, 65.0, "65 W"),
        ];
        for (metric, value, text) in shown {
            assert_eq!(quantity(metric, value), text);
        }
    }
}
