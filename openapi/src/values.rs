//! Request fields whose JSON has more than one shape: what each shape is, and what it stands for.

use std::collections::BTreeMap;

use serde::de::Error;
use serde::{Deserialize, Deserializer};
use serde_json::Number;

use crate::schema::schema_of;

/// Text that ends the answer where it occurs.
#[derive(Debug, Clone, PartialEq, Eq, Deserialize)]
#[serde(untagged, expecting = "expected a string or an array of strings")]
pub enum Stop {
    One(String),
    Many(Vec<String>),
}

impl Stop {
    /// The strings, one or many.
    pub fn into_vec(self) -> Vec<String> {
        match self {
            Self::One(text) => vec![text],
            Self::Many(texts) => texts,
        }
    }
}

schema_of!(Stop, {
    "description": "One string, or several: at most 32, unless the server's setting --max-stop says otherwise.",
    "oneOf": [
        { "type": "string", "minLength": 1 },
        { "type": "array", "items": { "type": "string", "minLength": 1 }, "maxItems": 32 },
    ],
});

/// The seed of a request's random stream.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Seed {
    /// Any negative number: a seed is drawn, as llama-server does for -1.
    Random,
    Fixed(u64),
}

impl<'de> Deserialize<'de> for Seed {
    fn deserialize<D: Deserializer<'de>>(deserializer: D) -> Result<Self, D::Error> {
        let number = Number::deserialize(deserializer)?;
        match (number.as_u64(), number.as_i64()) {
            (Some(seed), _) => Ok(Self::Fixed(seed)),
            (None, Some(_)) => Ok(Self::Random),
            (None, None) => Err(D::Error::custom(format!("{number} is not a whole number of 64 bits"))),
        }
    }
}

schema_of!(Seed, {
    "description": "A whole number of 64 bits, signed or unsigned; a negative one draws a seed.",
    "type": "integer",
    "minimum": i64::MIN,
    "maximum": u64::MAX,
});

/// What is added to the logits of some tokens.
#[derive(Debug, Clone, PartialEq, Deserialize)]
#[serde(
    untagged,
    expecting = "expected an object from token ids to numbers, or an array of [token id or text, number or false]"
)]
pub enum LogitBias {
    /// From token id, in decimal, to bias (OpenAI).
    Map(BTreeMap<String, f64>),
    /// Token or text, and bias (llama-server).
    Pairs(Vec<(BiasTarget, Bias)>),
}

/// What a bias is for.
#[derive(Debug, Clone, PartialEq, Eq, Deserialize)]
#[serde(untagged)]
pub enum BiasTarget {
    TokenId(TokenId),
    /// Every token of this text.
    Text(String),
}

/// The bias of one token.
#[derive(Debug, Clone, Copy, PartialEq, Deserialize)]
#[serde(untagged)]
pub enum Bias {
    Add(f64),
    /// `false` bans the token; `true` has no meaning and is for the server to refuse.
    Allowed(bool),
}

schema_of!(LogitBias, {
    "description": "Either an object from token id (in decimal) to a bias from -100 to 100 (OpenAI), or an array of \
                    pairs: a token id or a text, and a bias or `false`, which bans (llama-server).",
    "oneOf": [
        {
            "type": "object",
            "propertyNames": { "type": "string", "pattern": "^(0|[1-9][0-9]{0,8})$" },
            "additionalProperties": { "type": "number", "minimum": -100, "maximum": 100 },
        },
        {
            "type": "array",
            "items": {
                "type": "array",
                "prefixItems": [
                    { "oneOf": [{ "type": "integer", "minimum": 0, "maximum": u32::MAX }, { "type": "string" }] },
                    {
                        "oneOf": [
                            { "type": "number", "minimum": -100, "maximum": 100 },
                            { "type": "boolean", "enum": [false] },
                        ],
                    },
                ],
                "items": false,
                "minItems": 2,
                "maxItems": 2,
            },
        },
    ],
});

/// The samplers in their order: the names and letters are for the server to read.
#[derive(Debug, Clone, PartialEq, Eq, Deserialize)]
#[serde(untagged, expecting = "expected an array of names of samplers, or a string of their letters")]
pub enum Samplers {
    Names(Vec<String>),
    Letters(String),
}

schema_of!(Samplers, {
    "description": "Either an array of names or a string of letters: penalties e, dry d, top_n_sigma s, top_k k, typ_p y, \
                    top_p p, min_p m, xtc x, temperature t. A sampler that is not there is not used; one that is there \
                    twice is used twice.",
    "oneOf": [
        {
            "type": "array",
            "items": {
                "type": "string",
                "enum": [
                    "penalties", "dry", "top_n_sigma", "top_k", "typ_p", "top_p", "min_p", "xtc", "temperature",
                ],
            },
            "maxItems": 32,
        },
        { "type": "string", "pattern": "^[edskypmxt]{0,32}$" },
    ],
});

/// A token id as a client sends it: any whole number, for the server to compare with the vocabulary.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct TokenId(pub i64);

impl<'de> Deserialize<'de> for TokenId {
    fn deserialize<D: Deserializer<'de>>(deserializer: D) -> Result<Self, D::Error> {
        let number = Number::deserialize(deserializer)?;
        let id = number.as_i64().or_else(|| whole(number.as_f64()?));
        id.map(Self).ok_or_else(|| D::Error::custom(format!("{number} is not a whole number of 64 bits")))
    }
}

schema_of!(TokenId, {
    "description": "A token id; below the vocabulary size of the model.",
    "type": "integer",
    "minimum": 0,
    "maximum": u32::MAX,
});

/// A float that is an integer: `5.0` is one to JSON Schema, and to clients that know only floats, but not to serde.
pub(crate) fn whole(number: f64) -> Option<i64> {
    const EXACT: f64 = 9_007_199_254_740_992.0; // 2^53: up to it every whole f64 is one integer.
    (number.fract() == 0.0 && number.abs() <= EXACT).then_some(number as i64)
}
