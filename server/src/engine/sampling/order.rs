//! The samplers that a request may put in order, by llama.cpp's names and letters.

/// One sampler of the chain. What each does is said at its parameters ([`super::SamplingParams`]).
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum SamplerKind {
    /// Repetition, frequency and presence penalties.
    Penalties,
    Dry,
    TopNSigma,
    TopK,
    TypicalP,
    TopP,
    MinP,
    Xtc,
    /// Fixed or dynamic.
    Temperature,
}

/// Kind, name, letter, further spellings of the name.
type Row = (SamplerKind, &'static str, char, &'static [&'static str]);

/// In the order of the chain where nobody asks for another.
const TABLE: &[Row] = &[
    (SamplerKind::Penalties, "penalties", 'e', &[]),
    (SamplerKind::Dry, "dry", 'd', &[]),
    (SamplerKind::TopNSigma, "top_n_sigma", 's', &["top-n-sigma"]),
    (SamplerKind::TopK, "top_k", 'k', &["top-k"]),
    (SamplerKind::TypicalP, "typ_p", 'y', &["typical_p", "typical-p", "typical", "typ-p", "typ"]),
    (SamplerKind::TopP, "top_p", 'p', &["top-p", "nucleus"]),
    (SamplerKind::MinP, "min_p", 'm', &["min-p"]),
    (SamplerKind::Xtc, "xtc", 'x', &[]),
    (SamplerKind::Temperature, "temperature", 't', &["temp"]),
];

/// A list of samplers that cannot be read.
#[derive(Debug, Clone, PartialEq, Eq, thiserror::Error)]
pub enum OrderError {
    #[error("there is no sampler {0:?}; there are {names}", names = names())]
    Name(String),
    #[error("there is no sampler with the letter {0:?}; the letters are {letters}", letters = letters())]
    Letter(char),
    #[error("{0} samplers are too many; at most {MAX_SAMPLERS} can be chained")]
    TooMany(usize),
}

/// Samplers of a chain at most: each may be there more than once, but a chain is run for every token.
const MAX_SAMPLERS: usize = 16;

fn names() -> String {
    TABLE.iter().map(|(_, name, ..)| *name).collect::<Vec<_>>().join(", ")
}

fn letters() -> String {
    TABLE.iter().map(|(_, _, letter, _)| *letter).collect()
}

impl SamplerKind {
    /// llama.cpp's order.
    pub fn default_order() -> Vec<Self> {
        TABLE.iter().map(|(kind, ..)| *kind).collect()
    }

    /// The samplers of these names, in their order. One may be there several times, and one that is not is not used.
    ///
    /// # Errors
    /// With the first name that is no sampler's.
    pub fn from_names<'a>(names: impl IntoIterator<Item = &'a str>) -> Result<Vec<Self>, OrderError> {
        let kind = |name: &str| {
            let row = TABLE.iter().find(|(_, first, _, others)| *first == name || others.contains(&name));
            row.map(|(kind, ..)| *kind).ok_or_else(|| OrderError::Name(name.to_owned()))
        };
        bounded(names.into_iter().map(kind).collect::<Result<_, _>>()?)
    }

    /// The samplers of these letters, in their order: `kpt` is `top_k`, `top_p`, `temperature`.
    ///
    /// # Errors
    /// With the first letter that is no sampler's.
    pub fn from_letters(letters: &str) -> Result<Vec<Self>, OrderError> {
        let kind = |letter| {
            let row = TABLE.iter().find(|(_, _, known, _)| *known == letter);
            row.map(|(kind, ..)| *kind).ok_or(OrderError::Letter(letter))
        };
        bounded(letters.chars().map(kind).collect::<Result<_, _>>()?)
    }

    /// Its name.
    pub fn name(self) -> &'static str {
        TABLE.iter().find(|(kind, ..)| *kind == self).map(|(_, name, ..)| *name).expect("the table has every kind")
    }
}

fn bounded(order: Vec<SamplerKind>) -> Result<Vec<SamplerKind>, OrderError> {
    if order.len() > MAX_SAMPLERS { Err(OrderError::TooMany(order.len())) } else { Ok(order) }
}
