//! fio's options for where requests go, as a pattern of offsets: the distribution of random ones, and what sequential ones
//! leave out.

use iolane::Result;
use iolane_measure::workload::{Access, OffsetPattern};

use crate::fio::options::Options;

pub(super) fn translate(options: &Options<'_>, access: Access, notes: &mut Vec<String>) -> Result<OffsetPattern> {
    let modifier = options.text("rw")?.and_then(|rw| rw.split_once(':')).map(|(_, modifier)| modifier);
    let zones = zones(options, access)?;
    if access.is_random() {
        // fio draws a new offset only after that many requests.
        return match modifier.map(str::trim) {
            None | Some("" | "1") => {
                let moves_on = options.flag("random_sequence_stride")? == Some(true);
                let pattern = options.parsed("random_distribution", |text| parse_distribution(text, moves_on))?;
                Ok(pattern.unwrap_or(OffsetPattern::UNIFORM))
            }
            Some(_) => {
                let cause = "iolane draws a new offset for each random request";
                Err(options.refuse("rw", cause, "leave out what follows the colon, or use larger blocks"))
            }
        };
    }
    let Some(modifier) = modifier else { return Ok(zones.unwrap_or(OffsetPattern::UNIFORM)) };
    if zones.is_some() {
        return Err(options.refuse("zonemode", "rw skips bytes already", "use one of them"));
    }
    let (sign, bytes) = modifier.strip_prefix('-').map_or((1, modifier), |bytes| (-1, bytes));
    let bytes = options.kb_base.number(bytes).and_then(|bytes| i64::try_from(bytes).map_err(|_| "2^63 or more".into()));
    match bytes.map_err(|cause| options.refuse("rw", &cause, "see fio(1) for how it is written"))? {
        0 => Ok(OffsetPattern::UNIFORM),
        bytes => {
            if sign < 0 {
                notes.push(
                    "the first request reads or writes the last block; fio begins a block or more before it".into(),
                );
            }
            OffsetPattern::skip(sign * bytes, None)
        }
    }
}

/// fio's zonemode=strided: sequential access to zonesize bytes, then a gap of zoneskip bytes.
fn zones(options: &Options<'_>, access: Access) -> Result<Option<OffsetPattern>> {
    let refuse = |option: &str, cause: &str, remedy: &str| Err(options.refuse(option, cause, remedy));
    match options.text("zonemode")? {
        None | Some("none") => return Ok(None),
        Some("strided") => {}
        Some("zbd") => return refuse("zonemode", "iolane has no zoned block devices", "use zonemode=strided or none"),
        Some(_) => return refuse("zonemode", "expected none, strided or zbd", "use one of them"),
    }
    if access.is_random() {
        return refuse("zonemode", "iolane has zones for sequential access only", "leave it out");
    }
    let (size, skip) = (options.number_or_none("zonesize")?, options.number_or_none("zoneskip")?.unwrap_or(0));
    let Some(size) = size.filter(|size| *size > 0) else {
        return refuse("zonemode", "zonemode=strided needs zonesize", "set zonesize=");
    };
    // What a zone holds beyond zonesize is left out, too.
    let rest = match options.number_or_none("zonerange")? {
        Some(range) if range < size => {
            return refuse("zonerange", "a zone is not smaller than zonesize", "use a larger one");
        }
        range => range.map_or(0, |range| range - size),
    };
    match i64::try_from(skip.saturating_add(rest)) {
        Ok(0) => Ok(None),
        Ok(bytes) => OffsetPattern::skip(bytes, Some(size)).map(Some),
        Err(_) => refuse("zoneskip", "2^63 bytes or more", "use a smaller one"),
    }
}

/// `moves_on` is fio's random_sequence_stride.
fn parse_distribution(text: &str, moves_on: bool) -> Result<OffsetPattern, String> {
    let (name, value) = text.split_once(':').map_or((text, None), |(name, value)| (name, Some(value)));
    // fio's defaults (FIO_DEF_ZIPF and FIO_DEF_PARETO in its options.c).
    let value = match (name, value) {
        ("random", None) => return Ok(OffsetPattern::UNIFORM),
        ("zipf", value) => value.unwrap_or("1.1"),
        ("pareto", value) => value.unwrap_or("0.2"),
        ("zoned", Some(zones)) => return parse_zones(zones),
        ("sequence", Some(blocks)) => return parse_sequence(blocks, moves_on),
        _ => return Err("expected random, zipf, pareto, zoned or sequence".into()),
    };
    let number = value.parse::<f64>().map_err(|_| format!("`{value}` is not a number"))?;
    let pattern = if name == "zipf" { OffsetPattern::zipf(number) } else { OffsetPattern::pareto(number) };
    pattern.map_err(|error| error.cause().to_owned())
}

/// The numbers of blocks; fio moves on by as many blocks as there are.
fn parse_sequence(text: &str, moves_on: bool) -> Result<OffsetPattern, String> {
    let number = |block: &str| block.parse::<u32>().map_err(|_| format!("`{block}` is not the number of a block"));
    let blocks = text.split(',').map(number).collect::<Result<Vec<u32>, String>>()?;
    let advance = if moves_on { blocks.len() as u32 } else { 0 };
    OffsetPattern::sequence(&blocks, advance).map_err(|error| error.cause().to_owned())
}

/// fio's zones, ACCESS/SPACE in percent; those without a percentage share what is left equally.
fn parse_zones(text: &str) -> Result<OffsetPattern, String> {
    if text.contains(',') {
        return Err("iolane has the same zones for reads and writes".into());
    }
    let percent = |text: &str| match text {
        "" => Ok(None),
        text => text.parse::<u8>().map(Some).map_err(|_| format!("`{text}` is not a percentage")),
    };
    let mut zones = Vec::new();
    for zone in text.split(':') {
        let (access, space) = zone.split_once('/').unwrap_or((zone, ""));
        zones.push((percent(access)?, percent(space)?));
    }
    let access = filled(zones.iter().map(|(access, _)| *access))?;
    let space = filled(zones.iter().map(|(_, space)| *space))?;
    let shares: Vec<(u8, u8)> = access.into_iter().zip(space).collect();
    OffsetPattern::zoned(&shares).map_err(|error| error.cause().to_owned())
}

/// Percentages, with what is left up to 100 spread over those that are missing.
fn filled(percentages: impl Iterator<Item = Option<u8>> + Clone) -> Result<Vec<u8>, String> {
    let given: u32 = percentages.clone().flatten().map(u32::from).sum();
    let missing = percentages.clone().filter(Option::is_none).count() as u32;
    let left = 100u32.checked_sub(given).ok_or("the percentages exceed 100")?;
    if missing > 0 && !left.is_multiple_of(missing) {
        return Err(format!("{left} % cannot be spread equally over {missing} zones"));
    }
    Ok(percentages.map(|percent| percent.unwrap_or_else(|| (left / missing) as u8)).collect())
}
