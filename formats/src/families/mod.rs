//! The formats: a file each, or one for the variants of one maker.

mod apertus;
mod cohere;
mod deepseek;
mod functionary;
mod gemma;
mod gigachat;
mod glm;
mod granite;
mod hermes;
mod kimi;
mod lfm2;
mod lists;
mod llama;
mod minicpm;
mod minimax;
mod mistral;
mod olmo;
mod openai;
mod plain;
mod qwen3_xml;
mod seed_oss;
mod solar;

pub use plain::instructions;

use crate::format::Format;
use crate::shapes::Keys;

/// Name and arguments as most families call them.
static KEYS: Keys = Keys { name: &["name"], arguments: &["arguments", "parameters"], id: &[] };

/// The special ones first: a template is of the first format whose signs it holds.
static ALL: [&Format; 39] = [
    &openai::OPENAI,
    &kimi::KIMI_K3,
    &kimi::KIMI_K2,
    &deepseek::DEEPSEEK_V4,
    &deepseek::DEEPSEEK_V32,
    &deepseek::DEEPSEEK_V3,
    &deepseek::DEEPSEEK_V31,
    &gemma::GEMMA4,
    &gemma::FUNCTIONGEMMA,
    &minimax::MINIMAX_M2,
    &minimax::MINIMAX_M1,
    &seed_oss::SEED_OSS,
    &qwen3_xml::QWEN3_XML,
    &glm::HY3,
    &glm::LING3,
    &glm::GLM47,
    &glm::GLM45,
    &minicpm::MINICPM5,
    &cohere::COHERE_COMMAND3,
    &cohere::COHERE_COMMAND_R,
    &apertus::APERTUS,
    &solar::SOLAR_OPEN,
    &mistral::MISTRAL,
    &mistral::MISTRAL_LIST,
    &granite::GRANITE,
    &granite::GRANITE4,
    &lists::NEMOTRON_V2,
    &lists::APRIEL,
    &lists::FIREFUNCTION_V2,
    &gigachat::GIGACHAT31,
    &gigachat::GIGACHAT3,
    &functionary::FUNCTIONARY_V31,
    &lfm2::LFM2,
    &olmo::OLMO3,
    &hermes::HERMES,
    &llama::LLAMA4_PYTHONIC,
    &llama::PYTHONIC,
    &llama::LLAMA3_JSON,
    &plain::PLAIN,
];

/// All formats. The last one is the fallback.
pub fn all() -> &'static [&'static Format] {
    &ALL
}

/// Other names by which vLLM knows a format.
const ALIASES: [(&str, &str); 2] = [("qwen3_coder", "qwen3_xml"), ("llama4_json", "llama3_json")];

/// The format of this name.
pub fn by_name(name: &str) -> Option<&'static Format> {
    let name = ALIASES.iter().find(|(alias, _)| *alias == name).map_or(name, |(_, name)| name);
    ALL.into_iter().find(|format| format.name == name)
}
