//! Arms without a value, grouped by reason. Findings carry them, and sentences about a check list them.

use std::fmt;

use crate::plan::Arm;

#[derive(Debug, Clone, Default)]
pub(super) struct Missing<'a>(Vec<(String, Vec<&'a Arm>)>);

impl<'a> Missing<'a> {
    pub(super) fn is_empty(&self) -> bool {
        self.0.is_empty()
    }

    pub(super) fn add(&mut self, reason: String, arm: &'a Arm) {
        match self.0.iter_mut().find(|(known, _)| *known == reason) {
            Some((_, arms)) if arms.contains(&arm) => {}
            Some((_, arms)) => arms.push(arm),
            None => self.0.push((reason, vec![arm])),
        }
    }

    pub(super) fn merge(&mut self, other: &Self) {
        for (reason, arms) in &other.0 {
            arms.iter().for_each(|arm| self.add(reason.clone(), arm));
        }
    }
}

/// `iou+p (8 arms: the device has no poll queues), spdk (1 arm: ...)`
impl fmt::Display for Missing<'_> {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        for (index, (reason, arms)) in self.0.iter().enumerate() {
            let mut names: Vec<&str> = Vec::new();
            for arm in arms {
                if !names.contains(&arm.name.as_str()) {
                    names.push(&arm.name);
                }
            }
            let (names, plural) = (names.join(", "), if arms.len() == 1 { "" } else { "s" });
            let separator = if index == 0 { "" } else { ", " };
            write!(f, "{separator}{names} ({} arm{plural}: {reason})", arms.len())?;
        }
        Ok(())
    }
}
