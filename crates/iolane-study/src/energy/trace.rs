//! Reads an external meter's file: exports of Onset's HOBOware from a HOBO logger, and plain `time,watts`. Times are those of
//! the meter's clock; `align` corrects them. No input panics.

use std::io::Read;
use std::path::Path;

use iolane::{Error, Result};
use jiff::civil::Date;
use jiff::tz::TimeZone;

/// A day at ten samples per second takes 30 MiB.
const BYTES_MAX: u64 = 256 << 20;
/// The heading must be among the first lines.
const HEADING_LINES: usize = 20;

/// Times in seconds of the meter's clock, ascending, with watts.
pub type Samples = Vec<(f64, f64)>;

/// Reads a meter's file.
///
/// # Errors
/// `Usage` if it cannot be read, and as [`parse`].
pub fn read(file: &Path) -> Result<Samples> {
    let shown = file.display().to_string();
    let cannot = |error: std::io::Error| {
        Error::usage(&shown, iolane::error::describe(&error)).remedy("name the CSV file of the meter")
    };
    let opened = std::fs::File::open(file).map_err(cannot)?;
    let metadata = opened.metadata().map_err(cannot)?;
    if !metadata.is_file() || metadata.len() > BYTES_MAX {
        return Err(Error::usage(shown, "not a file of 256 MiB or less").remedy("cut it to the time of the study"));
    }
    let mut bytes = Vec::new();
    opened.take(BYTES_MAX).read_to_end(&mut bytes).map_err(cannot)?;
    parse(&String::from_utf8_lossy(&bytes), &shown)
}

/// Parses the content of a file; `file` is its name in error messages.
///
/// # Errors
/// `Usage`, with the line, for another format, and for times that do not ascend.
pub fn parse(text: &str, file: &str) -> Result<Samples> {
    let text = text.trim_start_matches('\u{feff}');
    let lines: Vec<(usize, &str)> =
        text.lines().enumerate().map(|(at, line)| (at + 1, line)).filter(|(_, line)| !line.trim().is_empty()).collect();
    let Some((columns, heading)) = columns(&lines) else {
        return Err(Error::usage(file, "no heading names a time column and a power column")
            .remedy("export CSV with active power from HOBOware, or write `time,watts`"));
    };
    let mut rows = Vec::new();
    for (number, line) in &lines[heading..] {
        if let Some(row) = columns.row(line).map_err(|cause| at_line(file, *number, &cause))? {
            rows.push((*number, row));
        }
    }
    let Some((first, _)) = rows.first() else { return Err(Error::usage(file, "it has no samples")) };
    let Some(time) = Time::of(&rows[0].1.0) else {
        return Err(at_line(file, *first, &format!("`{}` is not a time", shown(&rows[0].1.0))));
    };
    let read = |form: &Time| -> Result<Samples> {
        let mut samples: Samples = Vec::with_capacity(rows.len());
        for (number, (moment, watts)) in &rows {
            let at_s = form.seconds(moment);
            let at_s = at_s.ok_or_else(|| at_line(file, *number, &format!("`{}` is not a time", shown(moment))))?;
            if samples.last().is_some_and(|(last_s, _)| at_s <= *last_s) {
                let cause = format!("times must ascend: `{}` is not after the line before", shown(moment));
                return Err(
                    at_line(file, *number, &cause).remedy("export it with seconds, sorted, and of one recording")
                );
            }
            samples.push((at_s, *watts));
        }
        Ok(samples)
    };
    // If the date order is ambiguous, the reading with the shortest time span is the right one.
    let mut readings: Vec<Result<Samples>> = time.forms().iter().map(read).collect();
    let span = |samples: &Samples| samples.last().map_or(0.0, |(at_s, _)| *at_s) - samples[0].0;
    let best = (0..readings.len())
        .filter_map(|index| Some((index, span(readings[index].as_ref().ok()?))))
        .min_by(|a, b| a.1.total_cmp(&b.1))
        .map_or(0, |(index, _)| index);
    readings.swap_remove(best)
}

fn at_line(file: &str, number: usize, cause: &str) -> Error {
    Error::usage(format!("{file} line {number}"), cause)
}

fn shown(text: &str) -> String {
    iolane_measure::process::shown(text, 40)
}

/// The layout of a file.
struct Columns {
    delimiter: char,
    /// One column, or date and time of day.
    time: Vec<usize>,
    watts: usize,
    /// Watts per unit of the column.
    unit: f64,
}

impl Columns {
    /// Time and watts of a line; `None` without watts, as loggers write for other events.
    fn row(&self, line: &str) -> std::result::Result<Option<(String, f64)>, String> {
        let cells = cells(line, self.delimiter);
        let text = |column: &usize| cells.get(*column).map_or("", |cell| cell.trim());
        let watts = text(&self.watts);
        if watts.is_empty() {
            return Ok(None);
        }
        let moment: Vec<&str> = self.time.iter().map(text).collect();
        let number = number(watts, self.delimiter).filter(|watts| (0.0..=1e6).contains(&(watts * self.unit)));
        let number = number.ok_or_else(|| format!("`{}` is not a plausible power", shown(watts)))?;
        Ok(Some((moment.join(" "), number * self.unit)))
    }
}

/// A comma is the decimal separator unless it separates columns.
fn number(text: &str, delimiter: char) -> Option<f64> {
    let text = if delimiter == ',' { text.replace(',', "") } else { text.replace(',', ".") };
    text.parse().ok().filter(|number: &f64| number.is_finite())
}

/// The layout, and the index of the first line with samples.
fn columns(lines: &[(usize, &str)]) -> Option<(Columns, usize)> {
    for (index, (_, line)) in lines.iter().take(HEADING_LINES).enumerate() {
        for delimiter in ['\t', ';', ','] {
            let names = cells(line, delimiter);
            if let Some((time, (watts, unit))) = time_columns(&names).zip(power_column(&names))
                && !time.contains(&watts)
            {
                return Some((Columns { delimiter, time, watts, unit }, index + 1));
            }
            let is_number = |cell: &String| number(cell.trim(), delimiter).is_some();
            if index == 0 && names.len() >= 2 && names.iter().take(2).all(is_number) {
                return Some((Columns { delimiter, time: vec![0], watts: 1, unit: 1.0 }, 0));
            }
        }
    }
    None
}

fn time_columns(names: &[String]) -> Option<Vec<usize>> {
    let begins = |words: &[&str]| {
        names.iter().position(|name| {
            let name = name.trim().to_lowercase();
            words.iter().any(|word| name.starts_with(word))
        })
    };
    if let Some(both) = begins(&["date time", "datetime", "date/time", "date_time"]) {
        return Some(vec![both]);
    }
    let time = begins(&["time", "unix", "epoch", "seconds", "elapsed"]);
    match (begins(&["date"]), time) {
        (Some(date), Some(time)) => Some(vec![date, time]),
        (Some(only), None) | (None, Some(only)) => Some(vec![only]),
        (None, None) => None,
    }
}

/// The column of active power, and the watts per unit.
fn power_column(names: &[String]) -> Option<(usize, f64)> {
    let lower: Vec<String> = names.iter().map(|name| name.to_lowercase()).collect();
    let active = lower.iter().position(|name| name.contains("active power") && !name.contains("reactive"));
    let is_power = |name: &String| {
        let name = name.trim();
        let is_other = ["factor", "apparent", "reactive", "energy"].iter().any(|word| name.contains(word));
        !is_other && (name.contains("power") || name.contains("watt") || name == "w")
    };
    let column = active.or_else(|| lower.iter().position(is_power))?;
    let mut words = names[column].split(|c: char| !c.is_alphabetic());
    let unit = words.find_map(|word| match word {
        "mW" => Some(1e-3),
        "MW" => Some(1e6),
        word if word.eq_ignore_ascii_case("kW") => Some(1e3),
        word if word.eq_ignore_ascii_case("milliwatts") => Some(1e-3),
        word if word.eq_ignore_ascii_case("kilowatts") => Some(1e3),
        _ => None,
    });
    Some((column, unit.unwrap_or(1.0)))
}

/// The cells of a line; quoted cells may contain the delimiter, and doubled quotes are literal.
fn cells(line: &str, delimiter: char) -> Vec<String> {
    let (mut cells, mut cell, mut quoted) = (Vec::new(), String::new(), false);
    let mut characters = line.chars().peekable();
    while let Some(c) = characters.next() {
        match c {
            '"' if quoted && characters.peek() == Some(&'"') => {
                characters.next();
                cell.push('"');
            }
            '"' => quoted = !quoted,
            c if c == delimiter && !quoted => cells.push(std::mem::take(&mut cell)),
            c => cell.push(c),
        }
    }
    cells.push(cell);
    cells
}

/// The format of times.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
enum Time {
    /// Seconds from any origin, or milliseconds since 1970.
    Number,
    /// A date with its fields in this order, and a time of day.
    Date(Order),
}

#[derive(Debug, Clone, Copy, PartialEq, Eq)]
enum Order {
    YearMonthDay,
    MonthDayYear,
    DayMonthYear,
}

impl Time {
    fn of(text: &str) -> Option<Self> {
        let date = [Order::YearMonthDay, Order::MonthDayYear, Order::DayMonthYear].map(Self::Date);
        [Self::Number].into_iter().chain(date).find(|form| form.seconds(text).is_some())
    }

    /// All formats that such a text may have.
    fn forms(self) -> Vec<Self> {
        match self {
            Self::Number => vec![self],
            Self::Date(_) => [Order::YearMonthDay, Order::MonthDayYear, Order::DayMonthYear].map(Self::Date).to_vec(),
        }
    }

    fn seconds(self, text: &str) -> Option<f64> {
        match self {
            Self::Number => {
                let number: f64 = text.trim().parse().ok()?;
                let is_milliseconds = number > 1e11;
                (number.is_finite() && number.abs() < 1e14).then(|| if is_milliseconds { number / 1e3 } else { number })
            }
            Self::Date(order) => date_time(text, order),
        }
    }
}

/// `10/07/15 02:00:00 PM`, `2026-03-01T14:00:00.5+01:00`: seconds since 1970; UTC without a zone.
fn date_time(text: &str, order: Order) -> Option<f64> {
    let text = text.trim();
    let end = text.find(|c: char| c.is_whitespace() || c == 'T')?;
    let (date, time) = (&text[..end], text[end..].trim_start_matches(|c: char| c.is_whitespace() || c == 'T'));
    let parts: Vec<&str> = date.split(['/', '-', '.']).collect();
    let [a, b, c] = parts[..] else { return None };
    let [year, month, day] = match order {
        Order::YearMonthDay => [a, b, c],
        Order::MonthDayYear => [c, a, b],
        Order::DayMonthYear => [c, b, a],
    };
    let year = match (year.len(), digits(year)?) {
        (4, year) => i16::try_from(year).ok()?,
        (2, year) => 2000 + i16::try_from(year).ok()?,
        _ => return None,
    };
    let [month, day] = [month, day].map(|text| digits(text).and_then(|number| i8::try_from(number).ok()));
    let midnight = Date::new(year, month?, day?).ok()?.to_zoned(TimeZone::UTC).ok()?;
    Some(midnight.timestamp().as_second() as f64 + time_of_day(time)?)
}

fn digits(text: &str) -> Option<u32> {
    (text.len() <= 4 && text.bytes().all(|byte| byte.is_ascii_digit())).then(|| text.parse().ok())?
}

/// Seconds of the day, converted to UTC if there is a zone.
fn time_of_day(text: &str) -> Option<f64> {
    let upper = text.trim().to_ascii_uppercase();
    let (clock, half_day) = match (upper.strip_suffix("AM"), upper.strip_suffix("PM")) {
        (Some(clock), _) => (clock.trim(), Some(0.0)),
        (_, Some(clock)) => (clock.trim(), Some(12.0)),
        _ => (upper.as_str(), None),
    };
    let (clock, zone_s) = match clock.find(['Z', '+', '-']) {
        Some(at) => (clock[..at].trim(), zone(&clock[at..])?),
        None => (clock, 0.0),
    };
    let parts: Vec<&str> = clock.split(':').collect();
    let [hours, minutes, seconds] = match parts[..] {
        [hours, minutes] => [hours, minutes, "0"],
        [hours, minutes, seconds] => [hours, minutes, seconds],
        _ => return None,
    };
    let (hours, minutes) = (f64::from(digits(hours)?), f64::from(digits(minutes)?));
    let is_plain = seconds.bytes().all(|byte| byte.is_ascii_digit() || [b'.', b','].contains(&byte));
    let seconds: f64 = seconds.replace(',', ".").parse().ok().filter(|_| is_plain)?;
    let hours = match half_day {
        Some(noon) if (1.0..=12.0).contains(&hours) => hours % 12.0 + noon,
        Some(_) => return None,
        None => hours,
    };
    let fits = hours < 24.0 && minutes < 60.0 && seconds < 61.0;
    fits.then_some(hours * 3600.0 + minutes * 60.0 + seconds - zone_s)
}

/// The offset of `Z`, `+01:00`, `-0500` or `+02` in seconds.
fn zone(text: &str) -> Option<f64> {
    if text == "Z" {
        return Some(0.0);
    }
    let sign = if text.starts_with('-') { -1.0 } else { 1.0 };
    let numbers = text[1..].replace(':', "");
    let (hours, minutes) = match (numbers.len(), digits(&numbers)?) {
        (4, number) => (number / 100, number % 100),
        (1 | 2, number) => (number, 0),
        _ => return None,
    };
    Some(sign * (f64::from(hours) * 3600.0 + f64::from(minutes) * 60.0))
}

#[cfg(test)]
mod tests {
    use proptest::prelude::*;

    use super::*;

    const HOBO: &str = include_str!("../../tests/fixtures/energy/hobo-ux120-018.csv");

    fn parsed(text: &str) -> Samples {
        parse(text, "meter.csv").unwrap_or_else(|error| panic!("{error}"))
    }

    #[track_caller]
    fn refused(text: &str, says: &str) {
        let error = parse(text, "meter.csv").unwrap_err().to_string();
        assert!(error.contains(says) && error.lines().count() == 1, "{error}");
    }

    #[test]
    fn a_hobo_export_gives_its_active_power_and_leaves_out_its_other_events() {
        let samples = parsed(HOBO);
        assert_eq!(samples.len(), 6);
        assert_eq!(samples[0], (1_445_090_397.0, 41.2));
        assert_eq!(samples.iter().map(|(_, watts)| *watts).collect::<Vec<_>>(), [41.2, 41.3, 97.8, 98.1, 98.0, 41.4]);
        assert_eq!(samples[5].0 - samples[0].0, 5.0, "noon was not gone over");
    }

    #[test]
    fn other_delimiters_decimal_commas_and_columns_are_read() {
        let semicolons = "\u{feff}Titre : essai\n#;Date;Time, GMT+01:00;Active Power, kW (LGR S/N: 1)\n\
                          1;17.10.15;13:59:57;0,0412\n2;17.10.15;13:59:58;0,05";
        let samples = parsed(semicolons);
        assert_eq!(samples.iter().map(|(_, watts)| (watts * 10.0).round()).collect::<Vec<_>>(), [412.0, 500.0]);
        assert_eq!(parsed("Date Time\tPower (W)\n2026-03-01 00:00:00\t5\n2026-03-01 00:00:01,5\t6")[1].0 % 10.0, 1.5);
        assert_eq!(parsed("1,50\n2,51.5"), [(1.0, 50.0), (2.0, 51.5)]);
        for (heading, watts) in [("power_kw", 40.0), ("Power (KW)", 40.0), ("kilowatts", 40.0), ("Power mW", 0.00004)] {
            let samples = parsed(&format!("time,{heading}\n1,0.04\n2,0.05"));
            assert!((samples[0].1 / watts - 1.0).abs() < 1e-9, "{heading}: {samples:?}");
        }
        assert_eq!(
            parsed("unix_s,watts\n1772323200,50\n1772323201.5,51"),
            [(1_772_323_200.0, 50.0), (1_772_323_201.5, 51.0)]
        );
        assert_eq!(parsed("time,watts\n1772323200000,50\n1772323201500,51")[1].0, 1_772_323_201.5);
        assert_eq!(parsed("time,watts\n2026-03-01T01:00:00+01:00,50\n2026-03-01T00:00:01Z,51")[0].0, 1_772_323_200.0);
    }

    #[test]
    fn of_a_date_that_can_be_read_in_two_ways_the_one_without_a_jump_is_taken() {
        let midnight = |first: &str, second: &str| {
            let samples = parsed(&format!("Date Time,Power W\n{first} 11:59:59 PM,5\n{second} 12:00:00 AM,6"));
            samples[1].0 - samples[0].0
        };
        assert_eq!(midnight("10/07/15", "10/08/15"), 1.0);
        assert_eq!(midnight("07/10/15", "08/10/15"), 1.0);
        assert_eq!(midnight("02/28/16", "02/29/16"), 1.0);
        assert_eq!(midnight("15/12/31", "16/01/01"), 1.0);
    }

    #[test]
    fn time_that_does_not_go_on_is_refused_by_its_line() {
        refused("time,watts\n1,50\n2,50\n2,50", "meter.csv line 4: times must ascend: `2`");
        refused("time,watts\n3,50\n2,50", "line 3");
        refused("Date Time,Power W\n10/07/15 01:00,5\n10/07/15 01:00,5", "with seconds");
    }

    #[test]
    fn a_file_that_is_not_a_trace_is_refused_with_the_reason() {
        refused("", "no heading names a time column and a power column");
        refused("Date Time,\"Power Factor, PF\"\n", "a power column");
        refused("time,watts\n", "it has no samples");
        refused("time,watts\n1,many", "line 2: `many` is not a plausible power");
        refused("time,watts\n1,-4", "`-4` is not a plausible power");
        refused("time,watts\nsoon,4", "line 2: `soon` is not a time");
        refused("time,watts\n1,4\nlater,4", "line 3: `later` is not a time");
        assert!(read(Path::new("/nowhere.csv")).unwrap_err().to_string().contains("name the CSV file of the meter"));
        assert!(read(Path::new("/dev")).unwrap_err().to_string().contains("not a file"));
    }

    proptest! {
        #[test]
        fn no_text_makes_it_panic(text in "(.|\n){0,200}", cell in ".{0,30}") {
            let _ = parse(&text, "meter.csv");
            let _ = parse(&format!("Date Time;Active Power, W\n{cell};{cell}\n{cell};5"), "meter.csv");
            let _ = parse(&format!("date,time,watts\n{cell},{cell},5"), "meter.csv");
        }

        #[test]
        fn every_moment_comes_back_in_each_order(seconds in 946_684_800..4_102_444_800_i64, order in 0..3_usize) {
            let (format, order) = [
                ("%Y-%m-%dT%H:%M:%S", Order::YearMonthDay),
                ("%m/%d/%Y %H:%M:%S", Order::MonthDayYear),
                ("%d.%m.%Y %H:%M:%S", Order::DayMonthYear),
            ][order];
            let text = jiff::Timestamp::from_second(seconds).unwrap().strftime(format).to_string();
            prop_assert_eq!(Time::Date(order).seconds(&text), Some(seconds as f64), "{}", text);
        }
    }
}
