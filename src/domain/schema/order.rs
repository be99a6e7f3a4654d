//! The order of an answer's members, which the validator's own maps do not keep.

use std::{collections::HashMap, fmt};

use serde::de::{self, Deserialize, Deserializer, MapAccess, SeqAccess, Visitor};

/// Where each member of an answer stands among its siblings.
#[derive(Default)]
pub(super) struct Order {
    /// For an object its members by name, for an array by index.
    children: HashMap<String, (usize, Order)>,
}

impl Order {
    /// Reads text that is known to be JSON.
    pub(super) fn of(text: &str) -> Self {
        serde_json::from_str(text).unwrap_or_default()
    }

    /// What sorts a place, given as a JSON pointer, into the order of the document.
    pub(super) fn key(&self, pointer: &str) -> Vec<usize> {
        let mut key = Vec::new();
        let mut at = self;
        for step in pointer.split('/').skip(1) {
            let step = step.replace("~1", "/").replace("~0", "~");
            let Some((position, child)) = at.children.get(&step) else {
                break;
            };
            key.push(*position);
            at = child;
        }
        key
    }
}

impl<'de> Deserialize<'de> for Order {
    fn deserialize<D: Deserializer<'de>>(deserializer: D) -> Result<Self, D::Error> {
        deserializer.deserialize_any(Reader)
    }
}

struct Reader;

impl<'de> Visitor<'de> for Reader {
    type Value = Order;

    fn expecting(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str("any JSON value")
    }

    fn visit_unit<E>(self) -> Result<Order, E> {
        Ok(Order::default())
    }

    fn visit_bool<E>(self, _: bool) -> Result<Order, E> {
        Ok(Order::default())
    }

    fn visit_i64<E>(self, _: i64) -> Result<Order, E> {
        Ok(Order::default())
    }

    fn visit_u64<E>(self, _: u64) -> Result<Order, E> {
        Ok(Order::default())
    }

    fn visit_f64<E>(self, _: f64) -> Result<Order, E> {
        Ok(Order::default())
    }

    fn visit_str<E: de::Error>(self, _: &str) -> Result<Order, E> {
        Ok(Order::default())
    }

    fn visit_seq<A: SeqAccess<'de>>(self, mut seq: A) -> Result<Order, A::Error> {
        let mut order = Order::default();
        while let Some(child) = seq.next_element::<Order>()? {
            let at = order.children.len();
            order.children.insert(at.to_string(), (at, child));
        }
        Ok(order)
    }

    fn visit_map<A: MapAccess<'de>>(self, mut map: A) -> Result<Order, A::Error> {
        let mut order = Order::default();
        while let Some((name, child)) = map.next_entry::<String, Order>()? {
            let at = order.children.len();
            order.children.insert(name, (at, child));
        }
        Ok(order)
    }
}
