//! A minimal protobuf decoder for the tests of the cluster: fields by number, and frames of a watch.

use bytes::Bytes;

/// The value of a field.
#[derive(Debug, Clone, PartialEq, Eq)]
pub enum Value {
    Number(u64),
    Bytes(Bytes),
}

/// The fields of a message, in order.
pub fn fields(mut message: &[u8]) -> Vec<(u64, Value)> {
    let mut fields = Vec::new();
    while !message.is_empty() {
        let key = varint(&mut message);
        let value = match key & 7 {
            0 => Value::Number(varint(&mut message)),
            2 => {
                let length = usize::try_from(varint(&mut message)).unwrap();
                let (bytes, rest) = message.split_at(length);
                message = rest;
                Value::Bytes(Bytes::copy_from_slice(bytes))
            }
            other => panic!("wire type {other}"),
        };
        fields.push((key >> 3, value));
    }
    fields
}

fn varint(from: &mut &[u8]) -> u64 {
    let mut value = 0;
    for shift in (0..).step_by(7) {
        let (byte, rest) = from.split_first().unwrap();
        *from = rest;
        value |= u64::from(byte & 0x7f) << shift;
        if *byte < 0x80 {
            break;
        }
    }
    value
}

/// The first field at this path of numbers; empty if it is missing.
pub fn at(message: &[u8], path: &[u64]) -> Bytes {
    path.iter().fold(Bytes::copy_from_slice(message), |message, number| all(&message, *number).swap_remove(0))
}

pub fn text(message: &[u8], path: &[u64]) -> String {
    String::from_utf8(at(message, path).to_vec()).unwrap()
}

/// All fields with this number, or one empty value.
pub fn all(message: &[u8], number: u64) -> Vec<Bytes> {
    let bytes = |(found, value)| match value {
        Value::Bytes(bytes) if found == number => Some(bytes),
        _ => None,
    };
    let found: Vec<_> = fields(message).into_iter().filter_map(bytes).collect();
    if found.is_empty() { vec![Bytes::new()] } else { found }
}

/// Kind and message of an envelope.
pub fn unwrap(envelope: &[u8]) -> (String, Bytes) {
    let unknown = envelope.strip_prefix(b"k8s\0").expect("the magic");
    (text(unknown, &[1, 2]), at(unknown, &[2]))
}

/// The frames of a body: event type, kind of the object, and object.
pub fn frames(mut body: &[u8]) -> Vec<(String, String, Bytes)> {
    let mut frames = Vec::new();
    while let Some((length, rest)) = body.split_first_chunk::<4>() {
        let length = u32::from_be_bytes(*length) as usize;
        if rest.len() < length {
            break;
        }
        let (event, rest) = rest.split_at(length);
        let (kind, object) = unwrap(&at(event, &[2, 1]));
        frames.push((text(event, &[1]), kind, object));
        body = rest;
    }
    frames
}

/// The shape of a message: each path of field numbers, and whether it ends in a number. Only fields in `nested` are
/// decoded as messages.
pub fn shape(message: &[u8], nested: &[&[u64]]) -> Vec<(Vec<u64>, bool)> {
    fn walk(message: &[u8], path: &[u64], nested: &[&[u64]], to: &mut Vec<(Vec<u64>, bool)>) {
        for (number, value) in fields(message) {
            let path = [path, &[number]].concat();
            match value {
                Value::Number(_) => to.push((path, true)),
                Value::Bytes(bytes) => {
                    if nested.contains(&path.as_slice()) {
                        walk(&bytes, &path, nested, to);
                    }
                    to.push((path, false));
                }
            }
        }
    }
    let mut to = Vec::new();
    walk(message, &[], nested, &mut to);
    to
}
