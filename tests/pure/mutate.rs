//! Makes wrong files out of right ones: bytes and JSON trees, changed where readers look.
//!
//! `TAPER_FUZZ_CASES=1000000` makes a long run of the short one that every build does.

use proptest::prelude::*;
use serde_json::{Value, json};

/// How many inputs each property is tried on.
pub fn cases() -> u32 {
    std::env::var("TAPER_FUZZ_CASES").ok().map_or(2000, |cases| cases.parse().expect("TAPER_FUZZ_CASES is a number"))
}

/// Runs `property` on inputs of `strategy`; a long run says what memory it took.
pub fn check<S: Strategy>(name: &str, strategy: S, property: impl Fn(S::Value)) {
    let config = ProptestConfig { cases: cases(), failure_persistence: None, ..ProptestConfig::default() };
    let mut runner = proptest::test_runner::TestRunner::new(config);
    let result = runner.run(&strategy, |input| {
        property(input);
        Ok(())
    });
    if let Err(error) = result {
        panic!("{error}");
    }
    if std::env::var_os("TAPER_FUZZ_CASES").is_some() {
        let status = std::fs::read_to_string("/proc/self/status").unwrap_or_default();
        let peak = status.lines().find(|line| line.starts_with("VmHWM")).unwrap_or("VmHWM: unknown");
        println!("{name}: {} cases, {peak}", cases());
    }
}

/// One change of bytes. Places are scaled to the length, or name one of the places that are worth changing.
#[derive(Debug, Clone)]
pub enum ByteChange {
    Flip { at: Place, bits: u8 },
    Number { at: Place, bytes: usize, value: u64 },
    Cut { at: Place },
    Remove { at: Place, len: usize },
    Insert { at: Place, bytes: Vec<u8> },
    Repeat { at: Place, len: usize },
}

/// A place in a file.
#[derive(Debug, Clone, Copy)]
pub enum Place {
    Anywhere(u32),
    Field(u16),
}

impl Place {
    fn resolve(self, len: usize, fields: &[usize]) -> usize {
        match self {
            Place::Field(index) if !fields.is_empty() => fields[index as usize % fields.len()].min(len),
            Place::Field(index) => index as usize % (len + 1),
            Place::Anywhere(at) => ((u64::from(at) * (len as u64 + 1)) >> 32) as usize,
        }
    }
}

fn place() -> impl Strategy<Value = Place> {
    prop_oneof![any::<u32>().prop_map(Place::Anywhere), any::<u16>().prop_map(Place::Field)]
}

/// Numbers at which something overflows, wraps, or is just too many.
fn number() -> impl Strategy<Value = u64> {
    prop_oneof![
        (0u32..64, -2i64..3).prop_map(|(bit, off)| (1u64 << bit).wrapping_add_signed(off)),
        0u64..40,
        any::<u64>(),
        Just(u64::MAX),
        Just(f32::NAN.to_bits().into()),
        Just(f64::INFINITY.to_bits()),
    ]
}

/// Some changes of bytes.
pub fn byte_changes() -> impl Strategy<Value = Vec<ByteChange>> {
    let change = prop_oneof![
        2 => (place(), any::<u8>()).prop_map(|(at, bits)| ByteChange::Flip { at, bits }),
        4 => (place(), prop_oneof![Just(4usize), Just(8)], number())
            .prop_map(|(at, bytes, value)| ByteChange::Number { at, bytes, value }),
        1 => place().prop_map(|at| ByteChange::Cut { at }),
        1 => (place(), 1usize..64).prop_map(|(at, len)| ByteChange::Remove { at, len }),
        1 => (place(), prop::collection::vec(any::<u8>(), 1..32))
            .prop_map(|(at, bytes)| ByteChange::Insert { at, bytes }),
        1 => (place(), 1usize..128).prop_map(|(at, len)| ByteChange::Repeat { at, len }),
    ];
    prop::collection::vec(change, 1..5)
}

/// `bytes` with these changes; `fields` are the places worth changing.
pub fn changed_bytes(bytes: &[u8], fields: &[usize], changes: &[ByteChange]) -> Vec<u8> {
    let mut bytes = bytes.to_vec();
    for change in changes {
        let place = |at: &Place| at.resolve(bytes.len(), fields);
        match change {
            ByteChange::Flip { at, bits } => {
                let at = place(at);
                bytes.iter_mut().skip(at).take(1).for_each(|byte| *byte ^= bits);
            }
            ByteChange::Number { at, bytes: width, value } => {
                let at = place(at);
                bytes.iter_mut().skip(at).zip(&value.to_le_bytes()[..*width]).for_each(|(to, from)| *to = *from);
            }
            ByteChange::Cut { at } => bytes.truncate(place(at)),
            ByteChange::Remove { at, len } => {
                let at = place(at);
                bytes.drain(at..(at + len).min(bytes.len()));
            }
            ByteChange::Insert { at, bytes: new } => {
                let at = place(at);
                bytes.splice(at..at, new.iter().copied());
            }
            ByteChange::Repeat { at, len } => {
                let at = place(at);
                let piece = bytes[at..(at + len).min(bytes.len())].to_vec();
                bytes.splice(at..at, piece);
            }
        }
    }
    bytes
}

/// One change of a JSON tree, at the node with this number.
#[derive(Debug, Clone)]
pub enum JsonChange {
    Replace {
        node: u32,
        value: Value,
    },
    Remove {
        node: u32,
    },
    /// Puts a copy of one node in the place of another.
    Copy {
        from: u32,
        to: u32,
    },
    Rename {
        node: u32,
        name: String,
    },
}

fn json_value() -> impl Strategy<Value = Value> {
    prop_oneof![
        4 => number().prop_map(Value::from),
        2 => any::<i64>().prop_map(Value::from),
        2 => prop_oneof![Just(1e308), Just(-1e308), Just(5e-324), Just(0.5), Just(-0.5), Just(1e19), Just(0.0)]
            .prop_map(Value::from),
        1 => Just(Value::Null),
        1 => any::<bool>().prop_map(Value::from),
        2 => prop_oneof![Just(""), Just("a"), Just("\u{0}"), Just("▁"), Just("(a*)*b"), Just("yarn"), Just("longrope"), Just("dynamic")]
            .prop_map(Value::from),
        1 => Just(Value::from("x".repeat(5000))),
        1 => prop::collection::vec(number(), 0..20).prop_map(Value::from),
        1 => Just(json!({})),
        1 => Just(json!({ "type": "Sequence", "normalizers": [], "pretokenizers": [] })),
    ]
}

/// Some changes of a JSON tree.
pub fn json_changes() -> impl Strategy<Value = Vec<JsonChange>> {
    let node = any::<u32>;
    let change = prop_oneof![
        6 => (node(), json_value()).prop_map(|(node, value)| JsonChange::Replace { node, value }),
        1 => node().prop_map(|node| JsonChange::Remove { node }),
        2 => (node(), node()).prop_map(|(from, to)| JsonChange::Copy { from, to }),
        1 => (node(), "[a-z_]{0,8}").prop_map(|(node, name)| JsonChange::Rename { node, name }),
    ];
    prop::collection::vec(change, 1..5)
}

/// `json` with these changes.
pub fn changed_json(json: &Value, changes: &[JsonChange]) -> Value {
    let mut json = json.clone();
    for change in changes {
        let count = count(&json);
        let nth = |node: u32| ((u64::from(node) * count as u64) >> 32) as usize;
        match change {
            JsonChange::Replace { node, value } => {
                at(&mut json, nth(*node), &mut |found| *found = value.clone());
            }
            JsonChange::Remove { node } => {
                at(&mut json, nth(*node), &mut |found| match found {
                    Value::Array(items) => drop(items.pop()),
                    Value::Object(map) => drop(map.keys().next().cloned().and_then(|key| map.remove(&key))),
                    other => *other = Value::Null,
                });
            }
            JsonChange::Copy { from, to } => {
                let mut copy = Value::Null;
                at(&mut json, nth(*from), &mut |found| copy = found.clone());
                // A tree may double; a few times is enough.
                if count < 5000 {
                    at(&mut json, nth(*to), &mut |found| *found = copy.clone());
                }
            }
            JsonChange::Rename { node, name } => {
                at(&mut json, nth(*node), &mut |found| {
                    if let Value::Object(map) = found
                        && let Some(key) = map.keys().next_back().cloned()
                        && let Some(value) = map.remove(&key)
                    {
                        map.insert(name.clone(), value);
                    }
                });
            }
        }
    }
    json
}

fn count(json: &Value) -> usize {
    1 + match json {
        Value::Array(items) => items.iter().map(count).sum(),
        Value::Object(map) => map.values().map(count).sum(),
        _ => 0,
    }
}

/// Shows the node with this number; says how many nodes the tree had, if it was not among them.
fn at(json: &mut Value, nth: usize, change: &mut dyn FnMut(&mut Value)) -> Option<usize> {
    if nth == 0 {
        change(json);
        return None;
    }
    let mut passed = 1;
    let children: Vec<&mut Value> = match json {
        Value::Array(items) => items.iter_mut().collect(),
        Value::Object(map) => map.values_mut().collect(),
        _ => Vec::new(),
    };
    for child in children {
        passed += at(child, nth - passed, change)?;
        if passed > nth {
            break;
        }
    }
    Some(passed)
}

/// JSON text with changes of both kinds.
pub fn changed_text(json: &Value, tree: &[JsonChange], text: &Option<Vec<ByteChange>>) -> Vec<u8> {
    let bytes = changed_json(json, tree).to_string().into_bytes();
    match text {
        Some(changes) => changed_bytes(&bytes, &[], changes),
        None => bytes,
    }
}

/// Changes of a tree, and now and then of its text.
pub fn text_changes() -> impl Strategy<Value = (Vec<JsonChange>, Option<Vec<ByteChange>>)> {
    (json_changes(), prop::option::weighted(0.2, byte_changes()))
}
