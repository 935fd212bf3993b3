//! The values that an axis of a picture covers, and its ticks.

use crate::charts::{Axis, AxisKind, Chart, Unit};

/// From where to where an axis goes, as positions: values, or their decimal logarithms on a logarithmic axis.
#[derive(Debug, Clone, Copy)]
pub(super) struct AxisRange {
    kind: AxisKind,
    pub(super) low: f64,
    pub(super) high: f64,
}

impl AxisRange {
    pub(super) fn of_x(chart: &Chart) -> Self {
        if chart.x.kind == AxisKind::Category {
            let names = chart.x.categories.len().max(1);
            return Self { kind: AxisKind::Category, low: -0.5, high: names as f64 - 0.5 };
        }
        let measured = chart.series.iter().flat_map(|line| &line.points).map(|mark| mark.x);
        let published = chart.series.iter().flat_map(|line| &line.published).map(|point| point.x);
        Self::of(chart.x.kind, measured.chain(published))
    }

    pub(super) fn of_y(chart: &Chart) -> Self {
        let marks = chart.series.iter().flat_map(|line| &line.points);
        let measured = marks.flat_map(|mark| [Some(mark.y), mark.low, mark.high]).flatten();
        let published = chart.series.iter().flat_map(|line| &line.published).map(|point| point.y);
        match chart.y.unit {
            Unit::Share => Self { kind: AxisKind::Linear, low: 0.0, high: 1.02 },
            _ => Self::of(chart.y.kind, measured.chain(published)),
        }
    }

    fn of(kind: AxisKind, values: impl Iterator<Item = f64>) -> Self {
        let empty = Self { kind, low: 0.0, high: 0.0 };
        let positions = values.filter_map(|value| empty.position(value));
        let (low, high) =
            positions.fold((f64::INFINITY, f64::NEG_INFINITY), |(low, high), at| (low.min(at), high.max(at)));
        if low > high {
            return Self { high: 1.0, ..empty };
        }
        match kind {
            AxisKind::Log => {
                let margin = ((high - low) * 0.05).max(0.05);
                Self { low: low - margin, high: high + margin, ..empty }
            }
            // From zero on, so that lengths can be compared.
            AxisKind::Linear | AxisKind::Category => {
                let (low, high) = (low.min(0.0), high.max(0.0));
                let margin = if high > low { (high - low) * 0.06 } else { 1.0 };
                Self { low: if low < 0.0 { low - margin } else { 0.0 }, high: high + margin, ..empty }
            }
        }
    }

    /// `None` for what the axis has no position for: zero and less on a logarithmic one.
    pub(super) fn position(self, value: f64) -> Option<f64> {
        match self.kind {
            AxisKind::Log => (value > 0.0 && value.is_finite()).then(|| value.log10()),
            AxisKind::Linear | AxisKind::Category => value.is_finite().then_some(value),
        }
    }

    fn value(self, position: f64) -> f64 {
        match self.kind {
            AxisKind::Log => 10f64.powf(position),
            AxisKind::Linear | AxisKind::Category => position,
        }
    }

    /// How far along the axis a position is, 0 to 1.
    pub(super) fn share(self, position: f64) -> f64 {
        ((position - self.low) / (self.high - self.low)).clamp(0.0, 1.0)
    }

    /// The positions of at most `count_max` ticks.
    pub(super) fn ticks(self, count_max: usize, axis: &Axis) -> Vec<f64> {
        let count_max = count_max.max(2);
        let given: Vec<f64> = axis.ticks.iter().filter_map(|tick| self.position(*tick)).collect();
        let ticks = match (given.is_empty(), self.kind) {
            (false, _) => given,
            (true, AxisKind::Log) => self.decades(count_max),
            (true, _) => self.steps(count_max),
        };
        let closest = (self.high - self.low) / count_max as f64;
        let mut kept: Vec<f64> = Vec::new();
        for tick in ticks.into_iter().filter(|tick| (self.low..=self.high).contains(tick)) {
            if kept.last().is_none_or(|last| tick - last >= closest * 0.999) {
                kept.push(tick);
            }
        }
        kept
    }

    /// Powers of ten, and 2 and 5 times them where there is room.
    fn decades(self, count_max: usize) -> Vec<f64> {
        let decades = self.low.floor() as i32..=self.high.ceil() as i32;
        let has_room = (self.high - self.low) * 3.0 <= count_max as f64;
        let factors: &[f64] = if has_room { &[1.0, 2.0, 5.0] } else { &[1.0] };
        let ticks: Vec<f64> =
            decades.flat_map(|decade| factors.iter().map(move |factor| factor.log10() + f64::from(decade))).collect();
        if ticks.iter().filter(|tick| (self.low..=self.high).contains(*tick)).count() > 2 {
            return ticks;
        }
        // Values that are close to each other have none of these between them.
        let close = Self { kind: AxisKind::Linear, low: self.value(self.low), high: self.value(self.high) };
        close.steps(count_max).into_iter().filter_map(|value| self.position(value)).collect()
    }

    /// Steps of 1, 2 or 5 times a power of ten.
    fn steps(self, count_max: usize) -> Vec<f64> {
        let rough = (self.high - self.low) / count_max.min(10) as f64;
        let power = 10f64.powf(rough.log10().floor());
        let step = [1.0, 2.0, 5.0, 10.0].map(|factor| factor * power).into_iter().find(|step| *step >= rough);
        let step = step.unwrap_or(10.0 * power);
        let first = (self.low / step).ceil() as i64;
        (0..=count_max as i64).map(|index| (first + index) as f64 * step).collect()
    }

    /// The value at a position in its unit, without the last digits that logarithms and steps leave.
    pub(super) fn shown(self, unit: Unit, position: f64) -> String {
        let value = self.value(position);
        unit.shown(format!("{value:.9e}").parse().unwrap_or(value))
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn axis(ticks: &[f64]) -> Axis {
        Axis {
            label: String::new(),
            unit: Unit::Count,
            kind: AxisKind::Linear,
            categories: vec![],
            ticks: ticks.to_vec(),
        }
    }

    #[test]
    fn ticks_are_at_round_numbers_that_do_not_touch() {
        let linear = AxisRange::of(AxisKind::Linear, [3.0, 182_000.0].into_iter());
        assert_eq!(linear.ticks(10, &axis(&[])), (0..10).map(|step| f64::from(step) * 20_000.0).collect::<Vec<_>>());
        let log = AxisRange::of(AxisKind::Log, [90_000.0, 2e6].into_iter());
        let shown: Vec<String> =
            log.ticks(10, &axis(&[])).iter().map(|tick| log.shown(Unit::Nanoseconds, *tick)).collect();
        assert_eq!(shown, ["100 us", "200 us", "500 us", "1 ms", "2 ms"]);
        let close = AxisRange::of(AxisKind::Log, [0.00053, 0.0009].into_iter());
        assert!((3..=8).contains(&close.ticks(10, &axis(&[])).len()), "{:?}", close.ticks(10, &axis(&[])));
    }

    #[test]
    fn given_ticks_are_thinned_out_where_they_are_too_close() {
        let linear = AxisRange::of(AxisKind::Linear, [1.0, 128.0].into_iter());
        assert_eq!(linear.ticks(20, &axis(&[1.0, 4.0, 16.0, 128.0])), [1.0, 16.0, 128.0]);
    }

    #[test]
    fn values_without_a_logarithm_have_no_position_on_a_logarithmic_axis() {
        let log = AxisRange::of(AxisKind::Log, [0.0, -3.0, 10.0, 1000.0, f64::NAN].into_iter());
        assert!(log.low > 0.8 && log.high < 3.2);
        assert_eq!(log.position(0.0), None);
        let empty = AxisRange::of(AxisKind::Linear, [f64::NAN].into_iter());
        assert!(empty.low < empty.high);
    }
}
