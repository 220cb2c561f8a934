//! The fallback: Hermes' way, for models whose template does not know tools, asked for in words.

use serde_json::json;

use super::hermes;
use crate::format::Format;
use crate::reasoning;
use crate::tool::Tool;

pub(crate) static PLAIN: Format = Format {
    name: "plain",
    families: "any other: SmolLM2, Gemma 2 and 3, Phi",
    reasoning: &reasoning::NONE,
    syntaxes: hermes::SYNTAXES,
    tokens: hermes::TOKENS,
    ..Format::DEFAULT
};

/// What tells a model whose template does not know tools how to call them. It belongs into the system message.
pub fn instructions(tools: &[Tool]) -> String {
    let described = tools.iter().map(|tool| {
        let (name, description, parameters) = (&tool.name, &tool.description, &tool.parameters);
        json!({"name": name, "description": description, "parameters": parameters}).to_string()
    });
    let described = described.collect::<Vec<_>>().join("\n");
    format!(
        "You can call functions. Their names, descriptions and parameters, one in each line:\n{described}\n\n\
         To call a function, write its name and arguments as JSON between tags, one call in each pair of tags:\n\
         <tool_call>\n{{\"name\": \"the function's name\", \"arguments\": {{\"the parameter's name\": \"its value\"}}}}\n\
         </tool_call>\n\
         Call only functions that are listed. If none is needed, answer in plain text."
    )
}
