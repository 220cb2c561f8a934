//! The tools that a request offers to the model, checked, and what its choice among them means.

use std::collections::HashSet;

use serde_json::{Value, json};
use taper_formats::{Choice, Tool};
use taper_openapi::chat::{FunctionName, ToolChoice, ToolDefinition, ToolMode};

use super::error::ApiError;

/// OpenAI's limit.
const MAX_TOOLS: usize = 128;
const MAX_NAME: usize = 64;

/// What the model may call.
#[derive(Debug, Clone, PartialEq)]
pub struct Toolbox {
    /// Those that may be called.
    pub tools: Vec<Tool>,
    /// All of them as the client sent them, for the chat template.
    pub definitions: Value,
    pub choice: Choice,
    /// One answer may call several.
    pub parallel: bool,
}

impl Toolbox {
    /// Whether the answer must be a call.
    pub fn is_forced(&self) -> bool {
        self.choice != Choice::Auto
    }

    /// Whether the rules of its tools must be kept even where the model chooses.
    pub fn is_strict(&self) -> bool {
        self.tools.iter().any(|tool| tool.strict)
    }
}

/// The tools of a request. `None` without any, or where none may be called.
pub fn toolbox(
    tools: Option<&[ToolDefinition]>,
    tool_choice: Option<&ToolChoice>,
    parallel_tool_calls: Option<bool>,
) -> Result<Option<Toolbox>, ApiError> {
    let definitions = tools.unwrap_or_default();
    if definitions.is_empty() {
        return match tool_choice {
            None | Some(ToolChoice::Mode(ToolMode::None | ToolMode::Auto)) => Ok(None),
            Some(_) => {
                Err(ApiError::invalid_param("tool_choice", "`tool_choice` asks for a call, but `tools` is empty"))
            }
        };
    }
    if definitions.len() > MAX_TOOLS {
        let message = format!("`tools` has {} items; at most {MAX_TOOLS} are taken", definitions.len());
        return Err(ApiError::invalid_param("tools", message));
    }
    let mut names = HashSet::new();
    let tools: Vec<_> = definitions
        .iter()
        .enumerate()
        .map(|(index, tool)| checked(index, tool, &mut names))
        .collect::<Result<_, _>>()?;
    let (choice, allowed) = match tool_choice {
        Some(ToolChoice::Mode(ToolMode::None)) => return Ok(None),
        None | Some(ToolChoice::Mode(ToolMode::Auto)) => (Choice::Auto, None),
        Some(ToolChoice::Mode(ToolMode::Required)) => (Choice::Required, None),
        Some(ToolChoice::Named { function }) => (Choice::Named(known(function, &names)?), None),
        Some(ToolChoice::Allowed { allowed_tools }) => {
            let allowed = allowed_tools.tools.iter().map(|tool| known(&tool.function, &names));
            let allowed = allowed.collect::<Result<Vec<_>, _>>()?;
            match (allowed_tools.mode, allowed.is_empty()) {
                (ToolMode::None, _) => return Ok(None),
                (_, true) => {
                    let message = "`tool_choice.allowed_tools.tools` is empty; name the tools that may be called";
                    return Err(ApiError::invalid_param("tool_choice", message));
                }
                (ToolMode::Auto, _) => (Choice::Auto, Some(allowed)),
                // The others are left out, so any of those that stay.
                (ToolMode::Required, _) => (Choice::Required, Some(allowed)),
            }
        }
    };
    let tools = match allowed {
        Some(allowed) => tools.into_iter().filter(|tool| allowed.contains(&tool.name)).collect(),
        None => tools,
    };
    let parallel = parallel_tool_calls != Some(false);
    Ok(Some(Toolbox { tools, definitions: json!(definitions), choice, parallel }))
}

fn known(function: &FunctionName, names: &HashSet<&str>) -> Result<String, ApiError> {
    if names.contains(function.name.as_str()) {
        return Ok(function.name.clone());
    }
    let message = format!("`tool_choice` names {:?}, which is not among `tools`", function.name);
    Err(ApiError::invalid_param("tool_choice", message))
}

fn checked<'a>(index: usize, tool: &'a ToolDefinition, names: &mut HashSet<&'a str>) -> Result<Tool, ApiError> {
    let function = &tool.function;
    let refused = |field: &str, what: String| {
        let param = format!("tools[{index}].function.{field}");
        let message = format!("`{param}` {what}");
        Err(ApiError::invalid_param(&param, message))
    };
    let name = function.name.as_str();
    let is_plain = |c: char| c.is_ascii_alphanumeric() || "_-.".contains(c);
    if name.is_empty() || name.len() > MAX_NAME || !name.chars().all(is_plain) {
        let rule = format!("it must have 1 to {MAX_NAME} letters, digits, `_`, `-` or `.`");
        return refused("name", format!("is {name:?}; {rule}"));
    }
    if !names.insert(name) {
        return refused("name", format!("is {name:?}, which another tool is named, too"));
    }
    let parameters = function.parameters.clone().unwrap_or_else(|| json!({ "type": "object", "properties": {} }));
    if !parameters.is_object() {
        return refused("parameters", "must be a JSON schema of type object".to_owned());
    }
    Ok(Tool {
        name: name.to_owned(),
        description: function.description.clone(),
        parameters,
        strict: function.strict == Some(true),
    })
}
