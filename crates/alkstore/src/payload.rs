//! Payloads become bytes here and nowhere else.

use serde::de::DeserializeOwned;
use serde::ser::Error as _;
use serde_json::Value;

use crate::Result;

/// serde_json reads no deeper than this; one level is left for its own counting.
const MAX_DEPTH: usize = 127;

/// Serializes a payload to the bytes that every engine stores and returns exactly.
///
/// # Errors
/// [`Error::Codec`](crate::Error::Codec) for a value nested more than 127 arrays and objects
/// deep: it could not be read back.
///
/// ```
/// let bytes = alkstore::encode_payload(&serde_json::json!({"order": 7}))?;
/// assert_eq!(bytes, br#"{"order":7}"#);
/// # Ok::<(), alkstore::Error>(())
/// ```
pub fn encode_payload(payload: &Value) -> Result<Vec<u8>> {
    if is_deeper_than(payload, MAX_DEPTH) {
        return Err(serde_json::Error::custom(format_args!(
            "nested more than {MAX_DEPTH} levels deep, which could not be read back"
        ))
        .into());
    }
    Ok(serde_json::to_vec(payload)?)
}

/// Checks a payload that arrives as JSON text, and returns its bytes as they are.
///
/// The order of keys and the digits of numbers, which a [`Value`] would not keep, survive.
///
/// # Errors
/// [`Error::Codec`](crate::Error::Codec) for what is not JSON, is nested more than 127 arrays and
/// objects deep, or holds a number beyond a double's range.
///
/// ```
/// let text = r#"{"b": 1, "a": 12345678901234567890123}"#;
/// assert_eq!(alkstore::encode_payload_text(text)?, text.as_bytes());
/// assert!(alkstore::encode_payload_text("{").is_err());
/// # Ok::<(), alkstore::Error>(())
/// ```
pub fn encode_payload_text(text: &str) -> Result<Vec<u8>> {
    serde_json::from_str::<Value>(text)?;
    Ok(text.as_bytes().to_vec())
}

pub(crate) fn decode_payload<T: DeserializeOwned>(bytes: &[u8]) -> Result<T> {
    Ok(serde_json::from_slice(bytes)?)
}

/// Walks with an explicit stack: a value may be deeper than the thread's stack allows.
fn is_deeper_than(value: &Value, limit: usize) -> bool {
    if !value.is_array() && !value.is_object() {
        return false;
    }
    let mut open = vec![(value, 1)];
    while let Some((value, depth)) = open.pop() {
        if depth > limit {
            return true;
        }
        let nested = |v: &&Value| v.is_array() || v.is_object();
        match value {
            Value::Array(items) => open.extend(items.iter().filter(nested).map(|v| (v, depth + 1))),
            Value::Object(map) => open.extend(map.values().filter(nested).map(|v| (v, depth + 1))),
            _ => {}
        }
    }
    false
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::Error;

    fn nested(levels: usize) -> Value {
        (0..levels).fold(Value::Null, |inner, _| Value::Array(vec![inner]))
    }

    #[test]
    fn what_is_accepted_can_be_read_back() {
        for levels in [0, 1, 100, 126, 127] {
            let bytes = encode_payload(&nested(levels)).unwrap();
            assert_eq!(decode_payload::<Value>(&bytes).unwrap(), nested(levels), "{levels}");
        }
        for levels in [128, 129, 5_000] {
            let value = nested(levels);
            assert!(matches!(encode_payload(&value), Err(Error::Codec(_))), "{levels}");
        }
    }

    #[test]
    fn text_is_accepted_if_it_can_be_read_back() {
        for good in [" {\"b\":1,\"a\":1e3} ", "null", "\"\\u0000\"", &"[".repeat(127)] {
            let text = format!("{good}{}", "]".repeat(good.matches('[').count()));
            let bytes = encode_payload_text(&text).unwrap();
            assert_eq!(bytes, text.as_bytes());
            assert!(decode_payload::<Value>(&bytes).is_ok(), "{good}");
        }
        for bad in ["", " ", "{} {}", "nul", "1e999", "\"\\ud800\"", "\u{feff}1"] {
            assert!(matches!(encode_payload_text(bad), Err(Error::Codec(_))), "{bad}");
        }
        let deep = format!("{}{}", "[".repeat(128), "]".repeat(128));
        assert!(matches!(encode_payload_text(&deep), Err(Error::Codec(_))));
    }

    #[test]
    fn doubles_survive_a_round_trip() {
        let mut bits = 0x3ff0_0000_0000_0001_u64;
        for _ in 0..20_000 {
            bits = bits.wrapping_mul(6_364_136_223_846_793_005).wrapping_add(1_442_695_040_888_963);
            let double = f64::from_bits(bits);
            if double.is_finite() {
                let value = serde_json::json!(double);
                let bytes = encode_payload(&value).unwrap();
                assert_eq!(decode_payload::<Value>(&bytes).unwrap(), value);
            }
        }
    }
}
