//! What waits that were opened here lately ask.

use std::collections::{HashMap, VecDeque};

use crate::domain::{JsonText, WaitId};

/// The forms of waits that were opened here lately: where an answer comes soon, it need not go to the store to learn what is asked. A
/// form never changes.
#[derive(Debug, Default)]
pub(super) struct Recent {
    forms: HashMap<WaitId, JsonText>,
    /// Oldest first.
    order: VecDeque<WaitId>,
    bytes: usize,
}

impl Recent {
    const FORMS: usize = 4_096;
    const BYTES: usize = 16 << 20;

    /// Remembers what a wait asks; the oldest go first where there is no room.
    pub(super) fn add(&mut self, id: WaitId, schema: &JsonText) {
        if self.forms.insert(id, schema.clone()).is_some() {
            return;
        }
        self.order.push_back(id);
        self.bytes += schema.as_str().len();
        while self.order.len() > Self::FORMS || self.bytes > Self::BYTES {
            let Some(oldest) = self.order.pop_front() else {
                return;
            };
            let gone = self.forms.remove(&oldest);
            self.bytes -= gone.map_or(0, |schema| schema.as_str().len());
        }
    }

    /// The schema of a wait's form, if it is remembered.
    pub(super) fn schema(&self, id: WaitId) -> Option<JsonText> {
        self.forms.get(&id).cloned()
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::domain::Timestamp;

    fn id(n: usize) -> WaitId {
        WaitId::new(Timestamp::from_micros(n as i64 * 1_000), [0; 10])
    }

    #[test]
    fn the_oldest_go_first_by_number_and_by_bytes() {
        let small = JsonText::new("true").expect("JSON");
        let mut recent = Recent::default();
        for n in 0..=Recent::FORMS {
            recent.add(id(n), &small);
            recent.add(id(n), &small);
        }
        assert!(recent.schema(id(0)).is_none() && recent.schema(id(1)).is_some());
        assert_eq!(recent.bytes, 4 * Recent::FORMS);
        let large = JsonText::new(&format!("\"{}\"", "x".repeat(Recent::BYTES / 2))).expect("JSON");
        recent.add(id(10_000), &large);
        recent.add(id(10_001), &large);
        assert!(recent.schema(id(10_000)).is_none());
        assert_eq!(recent.schema(id(10_001)), Some(large));
        assert!(recent.bytes <= Recent::BYTES);
    }
}
