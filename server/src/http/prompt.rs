//! From what a client wants continued to token ids: a conversation through the chat template, a text, or ids as they are.
//!
//! Templates and tokenizers take their time; callers run this off the async threads.

use std::sync::Arc;

use serde_json::{Map, Value, json};
use taper_openapi::chat::{ContentPart, Message, MessageContent, Prediction, Role};
use taper_openapi::completions::Prompt;
use uuid::Uuid;

use super::dialect::Dialect;
use super::error::ApiError;
use super::request::{at_most, token_ids};
use super::service::Service;
use super::tools::Toolbox;
use crate::settings::RequestLimits;
use crate::text::{ChatInput, ChatTemplate, DecodeOptions, EncodeOptions, Tokenizer};

/// A conversation to write out.
pub struct Conversation {
    /// As the template sees them.
    messages: Vec<Value>,
    kwargs: Map<String, Value>,
    add_generation_prompt: bool,
    /// What stands at the end of the last message, if the answer is to go on with it.
    open_end: Option<OpenEnd>,
    /// As the client sent them, for a template that writes them out.
    tools: Option<Value>,
}

/// The end of a message that an answer goes on with.
struct OpenEnd {
    /// By which it is found in the prompt.
    mark: String,
    /// It breaks off within thoughts.
    is_in_thoughts: bool,
}

/// How a conversation is written out, as the request says it.
pub struct ConversationOptions<'a> {
    pub kwargs: Option<Value>,
    pub add_generation_prompt: Option<bool>,
    pub continue_final_message: Option<bool>,
    pub toolbox: Option<&'a Toolbox>,
    pub reasoning_effort: Option<String>,
}

impl Conversation {
    /// Checks the messages.
    pub fn new(
        messages: Vec<Message>,
        options: ConversationOptions,
        dialect: &Dialect,
        limits: &RequestLimits,
    ) -> Result<Self, ApiError> {
        if messages.is_empty() {
            return Err(ApiError::invalid_param("messages", "`messages` is empty; it must have at least one message"));
        }
        at_most("messages", messages.len(), limits.messages, "max-messages")?;
        let kwargs = match options.kwargs {
            None => effort_variables(options.reasoning_effort.as_deref()),
            Some(Value::Object(kwargs)) => {
                let mut all = effort_variables(options.reasoning_effort.as_deref());
                all.extend(kwargs);
                all
            }
            Some(_) => {
                let message = "`chat_template_kwargs` must be an object of variables for the chat template";
                return Err(ApiError::invalid_param("chat_template_kwargs", message));
            }
        };
        let go_on = options.continue_final_message == Some(true);
        if go_on && options.add_generation_prompt == Some(true) {
            let message = "`continue_final_message` and `add_generation_prompt` exclude each other";
            return Err(ApiError::invalid_param("continue_final_message", message));
        }
        let mut messages: Vec<Value> = messages
            .into_iter()
            .enumerate()
            .map(|(i, message)| template_message(i, message))
            .collect::<Result<_, _>>()?;
        if !dialect.knows_tools {
            messages.iter_mut().for_each(write_calls_as_text);
            if let Some(toolbox) = options.toolbox {
                instruct(&mut messages, &taper_formats::instructions(&toolbox.tools));
            }
        }
        let open_end = if go_on { Some(mark_end(messages.last_mut(), dialect)?) } else { None };
        let tools = options.toolbox.filter(|_| dialect.knows_tools).map(|toolbox| toolbox.definitions.clone());
        let add_generation_prompt = options.add_generation_prompt.unwrap_or(!go_on) && !go_on;
        Ok(Self { messages, kwargs, add_generation_prompt, open_end, tools })
    }

    /// The prompt that `template` makes of it.
    pub fn render(&self, template: &ChatTemplate) -> Result<String, ApiError> {
        let Self { messages, kwargs, add_generation_prompt, open_end, tools } = self;
        if let Some(index) = messages.iter().position(|message| message.get("tool_calls").is_some())
            && !template.sources().contains("tool_calls")
        {
            let param = format!("messages[{index}].tool_calls");
            let message =
                format!("`{param}` cannot be told to this model: its chat template does not write tool calls");
            return Err(ApiError::unsupported(param, message));
        }
        let input =
            ChatInput { messages, tools: tools.as_ref(), add_generation_prompt: *add_generation_prompt, kwargs };
        let mut prompt = template.render(&input)?;
        if let Some(OpenEnd { mark, .. }) = open_end {
            // Whatever the template writes after the last message would close it.
            let Some(end) = prompt.find(mark.as_str()) else {
                let message = "the chat template does not write the last message as it is, so it cannot be continued";
                return Err(ApiError::invalid_param("continue_final_message", message));
            };
            prompt.truncate(end);
        }
        Ok(prompt)
    }

    /// The prompt's tokens, and whether the answer begins within thoughts.
    pub fn encode(&self, service: &Service, add_special: Option<bool>) -> Result<(Vec<u32>, bool), ApiError> {
        let (prompt, tokenizer) = (self.render(&service.template)?, &service.tokenizer);
        let is_open = match &self.open_end {
            Some(end) => end.is_in_thoughts,
            None => service.dialect.reasoning.starts_in_reasoning(&prompt),
        };
        let tokens = match add_special {
            Some(true) => tokenizer.encode(&prompt, EncodeOptions { add_special: true, parse_special: true })?,
            _ => tokenizer.encode_chat(&prompt)?,
        };
        Ok((tokens, is_open))
    }
}

/// What templates are told of the effort to think: those that know it by name, and those that can only turn thoughts on or
/// off, under two names.
fn effort_variables(effort: Option<&str>) -> Map<String, Value> {
    let Some(effort) = effort else { return Map::new() };
    let thinks = effort != "none";
    let variables = [
        ("reasoning_effort", Value::from(effort)),
        ("enable_thinking", Value::from(thinks)),
        ("thinking", Value::from(thinks)),
    ];
    variables.into_iter().map(|(name, value)| (name.to_owned(), value)).collect()
}

/// Puts instructions into the system message, which is made if there is none.
fn instruct(messages: &mut Vec<Value>, instructions: &str) {
    match messages.first_mut().filter(|message| message["role"] == "system") {
        Some(system) => {
            let text = system["content"].as_str().unwrap_or_default();
            system["content"] = format!("{text}\n\n{instructions}").into();
        }
        None => messages.insert(0, json!({ "role": "system", "content": instructions })),
    }
}

/// For a template that knows no tools: calls become the text that such a model is told to call with, and results what the
/// user says.
fn write_calls_as_text(message: &mut Value) {
    if let Some(calls) = message.as_object_mut().and_then(|fields| fields.remove("tool_calls")) {
        let calls = calls.as_array().into_iter().flatten().map(|call| {
            let function = &call["function"];
            format!(
                "<tool_call>\n{}\n</tool_call>",
                json!({ "name": function["name"], "arguments": function["arguments"] })
            )
        });
        let text = message["content"].as_str().filter(|text| !text.is_empty()).map(str::to_owned);
        message["content"] = text.into_iter().chain(calls).collect::<Vec<_>>().join("\n").into();
    }
    if message["role"] == "tool" || message["role"] == "function" {
        let result = message["content"].as_str().unwrap_or_default();
        message["content"] = format!("<tool_response>\n{result}\n</tool_response>").into();
        message["role"] = "user".into();
    }
}

/// Puts a mark at the end of the message's text, by which that end is found in the prompt; text of the template's own
/// may look like the message's.
fn mark_end(message: Option<&mut Value>, dialect: &Dialect) -> Result<OpenEnd, ApiError> {
    if let Some(Value::String(text)) = message.and_then(|message| message.get_mut("content"))
        && !text.trim_end().is_empty()
    {
        let mark = Uuid::new_v4().simple().to_string();
        text.truncate(text.trim_end().len());
        let is_in_thoughts = dialect.reasoning.leaves_open(text);
        text.push_str(&mark);
        return Ok(OpenEnd { mark, is_in_thoughts });
    }
    let message = "`continue_final_message` needs a last message with text";
    Err(ApiError::invalid_param("continue_final_message", message))
}

/// A message as chat templates expect it: text as one string, tool arguments as an object.
fn template_message(index: usize, message: Message) -> Result<Value, ApiError> {
    let mut fields = message.other;
    // Templates know `system`; `developer` is OpenAI's newer name for it.
    let role = if message.role == Role::Developer { Role::System } else { message.role };
    fields.insert("role".to_owned(), json!(role));
    let content = match message.content {
        Some(content) => Some(text_of(index, content)?),
        None if message.role == Role::Assistant => None,
        None => {
            let param = format!("messages[{index}].content");
            return Err(ApiError::invalid_param(&param, format!("`{param}` is missing; it must be a text")));
        }
    };
    fields.insert("content".to_owned(), json!(content.unwrap_or_default()));
    if let Some(calls) = message.tool_calls {
        let calls = calls.into_iter().map(|call| {
            let arguments = serde_json::from_str(&call.function.arguments)
                .ok()
                .filter(Value::is_object)
                .unwrap_or(Value::String(call.function.arguments));
            let function = json!({ "name": call.function.name, "arguments": arguments });
            json!({ "id": call.id, "type": call.kind, "function": function })
        });
        fields.insert("tool_calls".to_owned(), calls.collect());
    }
    let texts = [
        ("name", message.name),
        ("reasoning_content", message.reasoning_content),
        ("refusal", message.refusal),
        ("tool_call_id", message.tool_call_id),
    ];
    for (name, text) in texts {
        if let Some(text) = text {
            fields.insert(name.to_owned(), Value::String(text));
        }
    }
    Ok(Value::Object(fields))
}

/// What a client predicts of the answer, as far as an answer could be so long. Its control tokens are text.
pub fn predicted_tokens(prediction: Option<Prediction>, service: &Service) -> Result<Arc<[u32]>, ApiError> {
    /// Few tokens are longer.
    const BYTES_PER_TOKEN: usize = 16;
    let Some(Prediction { content, .. }) = prediction else { return Ok(Arc::default()) };
    let mut text = text_parts("prediction.content", content)?.concat();
    text.truncate(text.floor_char_boundary(service.max_model_len.saturating_mul(BYTES_PER_TOKEN)));
    Ok(service.tokenizer.encode(&text, EncodeOptions { add_special: false, parse_special: false })?.into())
}

/// The text of a message; parts are joined by line breaks, as vLLM and llama-server do.
fn text_of(index: usize, content: MessageContent) -> Result<String, ApiError> {
    Ok(text_parts(&format!("messages[{index}].content"), content)?.join("\n"))
}

/// The parts of what is in `field`, all of which must be text.
fn text_parts(field: &str, content: MessageContent) -> Result<Vec<String>, ApiError> {
    let parts = match content {
        MessageContent::Text(text) => return Ok(vec![text]),
        MessageContent::Parts(parts) => parts,
    };
    let refused = |at: usize, kind: &str| {
        let param = format!("{field}[{at}]");
        let message = format!("`{param}` has type {kind:?}; this server reads text only");
        Err(ApiError::unsupported(param, message))
    };
    let texts = parts.into_iter().enumerate().map(|(at, part)| match part {
        ContentPart::Text { text } => Ok(text),
        ContentPart::Refusal { refusal } => Ok(refusal),
        ContentPart::ImageUrl { .. } => refused(at, "image_url"),
        ContentPart::InputAudio { .. } => refused(at, "input_audio"),
        ContentPart::File { .. } => refused(at, "file"),
    });
    texts.collect()
}

/// A prompt: its tokens, and its text if answers begin with it.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct ReadyPrompt {
    pub tokens: Vec<u32>,
    pub text: Option<String>,
}

/// The prompts of a text completion.
pub fn text_prompts(
    prompt: Prompt,
    tokenizer: &Tokenizer,
    add_special: Option<bool>,
    echo: bool,
    limits: &RequestLimits,
) -> Result<Vec<ReadyPrompt>, ApiError> {
    let options = EncodeOptions { add_special: add_special.unwrap_or(true), parse_special: true };
    let of_text = |text: String| {
        Ok::<_, ApiError>(ReadyPrompt { tokens: tokenizer.encode(&text, options)?, text: echo.then_some(text) })
    };
    let of_ids = |ids: Vec<_>| {
        let tokens = token_ids("prompt", &ids, tokenizer.vocab_size())?;
        let shown = DecodeOptions { skip_special: true, starts_text: true };
        let text = echo.then(|| tokenizer.decode(&tokens, shown));
        Ok::<_, ApiError>(ReadyPrompt { tokens, text })
    };
    let prompts = match prompt {
        Prompt::Text(text) => vec![of_text(text)?],
        Prompt::Tokens(ids) => vec![of_ids(ids)?],
        Prompt::Texts(texts) => {
            at_most("prompt", texts.len(), limits.prompts, "max-prompts")?;
            texts.into_iter().map(of_text).collect::<Result<_, _>>()?
        }
        Prompt::TokenLists(lists) => {
            at_most("prompt", lists.len(), limits.prompts, "max-prompts")?;
            lists.into_iter().map(of_ids).collect::<Result<_, _>>()?
        }
    };
    if prompts.is_empty() {
        return Err(ApiError::invalid_param("prompt", "`prompt` is empty; it must have at least one prompt"));
    }
    Ok(prompts)
}
