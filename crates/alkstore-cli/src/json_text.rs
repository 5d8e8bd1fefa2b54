//! JSON that arrives as text: checked, and kept as it is.

use anyhow::{Context, Result, anyhow};
use serde_json::Value;
use serde_json::value::RawValue;

/// A JSON text that was checked and is otherwise as it came, less the space around it.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(crate) struct JsonText(String);

impl JsonText {
    pub(crate) fn parse(text: &str) -> Result<Self> {
        let text = text.trim_matches([' ', '\t', '\r', '\n']);
        match serde_json::from_str::<Value>(text) {
            Ok(_) => Ok(Self(text.to_owned())),
            Err(error) => Err(fault(text, &error)).context("the payload is not valid JSON"),
        }
    }

    /// A top-level field as an event's key: text as it is, other plain values as written.
    ///
    /// `None` if the field is missing or null.
    pub(crate) fn key(&self, field: &str) -> Result<Option<String>> {
        let Ok(fields) =
            serde_json::from_str::<std::collections::HashMap<String, &RawValue>>(&self.0)
        else {
            return Err(anyhow!("the payload is not an object, so it has no field {field:?}"));
        };
        let Some(raw) = fields.get(field).map(|raw| raw.get()) else {
            return Ok(None);
        };
        let key = match raw.as_bytes().first() {
            Some(b'"') => serde_json::from_str(raw)?,
            Some(b'{' | b'[') => {
                return Err(anyhow!("field {field:?} holds neither a text nor a number: no key"));
            }
            _ if raw == "null" => return Ok(None),
            _ => raw.to_owned(),
        };
        alkstore::validate_local_name(&key)?;
        Ok(Some(key))
    }

    /// The text, for calls that store it as it is.
    pub(crate) fn into_text(self) -> String {
        self.0
    }

    /// As a value, for calls that take nothing else.
    pub(crate) fn value(&self) -> Result<Value> {
        serde_json::from_str(&self.0).map_err(|error| fault(&self.0, &error))
    }
}

/// What is wrong, and where, without serde_json's own line count.
fn fault(text: &str, error: &serde_json::Error) -> anyhow::Error {
    let told = error.to_string();
    let what = told.rsplit_once(" at line ").map_or(told.as_str(), |(what, _)| what);
    if text.contains('\n') {
        anyhow!("{what}, at line {} column {}", error.line(), error.column())
    } else {
        anyhow!("{what}, at column {}", error.column())
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn parse(text: &str) -> JsonText {
        JsonText::parse(text).unwrap()
    }

    #[test]
    fn text_is_checked_and_kept() {
        assert_eq!(parse(" {\"b\": 1, \"a\":  2}\r").0, "{\"b\": 1, \"a\":  2}");
        let chain = format!("{:#}", JsonText::parse("{\"a\": }").unwrap_err());
        assert_eq!(chain, "the payload is not valid JSON: expected value, at column 7");
        let chain = format!("{:#}", JsonText::parse("{\n\"a\": }").unwrap_err());
        assert!(chain.ends_with("expected value, at line 2 column 6"), "{chain}");
        for bad in ["", "  ", "{} {}", "nul", "\u{a0}1", &"[".repeat(200)] {
            assert!(JsonText::parse(bad).is_err(), "{bad}");
        }
    }

    #[test]
    fn a_field_becomes_the_key_as_written() {
        let key = |text: &str| parse(text).key("user");
        assert_eq!(key(r#"{"user": "a\u00fc"}"#).unwrap().as_deref(), Some("aü"));
        let big = r#"{"user": 123456789012345678901234567890}"#;
        assert_eq!(key(big).unwrap().as_deref(), Some("123456789012345678901234567890"));
        assert_eq!(key(r#"{"user": true}"#).unwrap().as_deref(), Some("true"));
        assert_eq!(key(r#"{"user": null}"#).unwrap(), None);
        assert_eq!(key(r#"{"id": {"user": 1}}"#).unwrap(), None);
        for bad in [r#"{"user": {}}"#, r#"{"user": [1]}"#, r#"{"user": " "}"#, "[1]", "7"] {
            assert!(key(bad).is_err(), "{bad}");
        }
    }
}
