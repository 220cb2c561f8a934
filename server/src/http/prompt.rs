//! From what a client wants continued to token ids: a conversation through the chat template, a text, or ids as they are.
//!
//! Templates and tokenizers take their time; callers run this off the async threads.

use serde_json::{Map, Value, json};
use taper_openapi::chat::{ContentPart, Message, MessageContent, Role};
use taper_openapi::completions::Prompt;
use uuid::Uuid;

use super::error::ApiError;
use super::request::{at_most, token_ids};
use crate::settings::RequestLimits;
use crate::text::{ChatInput, ChatTemplate, DecodeOptions, EncodeOptions, Tokenizer};

/// A conversation to write out.
pub struct Conversation {
    /// As the template sees them.
    messages: Vec<Value>,
    kwargs: Map<String, Value>,
    add_generation_prompt: bool,
    /// What stands at the end of the last message, if the answer is to go on with it.
    open_end: Option<String>,
}

/// How a conversation is written out, as the request says it.
#[derive(Default)]
pub struct ConversationOptions {
    pub kwargs: Option<Value>,
    pub add_generation_prompt: Option<bool>,
    pub continue_final_message: Option<bool>,
}

impl Conversation {
    /// Checks the messages.
    pub fn new(messages: Vec<Message>, options: ConversationOptions, limits: &RequestLimits) -> Result<Self, ApiError> {
        if messages.is_empty() {
            return Err(ApiError::invalid_param("messages", "`messages` is empty; it must have at least one message"));
        }
        at_most("messages", messages.len(), limits.messages, "max-messages")?;
        let kwargs = match options.kwargs {
            None => Map::new(),
            Some(Value::Object(kwargs)) => kwargs,
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
        let open_end = if go_on { Some(mark_end(messages.last_mut())?) } else { None };
        let add_generation_prompt = options.add_generation_prompt.unwrap_or(!go_on) && !go_on;
        Ok(Self { messages, kwargs, add_generation_prompt, open_end })
    }

    /// The prompt that `template` makes of it.
    pub fn render(&self, template: &ChatTemplate) -> Result<String, ApiError> {
        let Self { messages, kwargs, add_generation_prompt, open_end } = self;
        if let Some(index) = messages.iter().position(|message| message.get("tool_calls").is_some())
            && !template.source().contains("tool_calls")
        {
            let param = format!("messages[{index}].tool_calls");
            let message =
                format!("`{param}` cannot be told to this model: its chat template does not write tool calls");
            return Err(ApiError::unsupported(param, message));
        }
        let input = ChatInput { messages, tools: None, add_generation_prompt: *add_generation_prompt, kwargs };
        let mut prompt = template.render(&input)?;
        if let Some(mark) = open_end {
            // Whatever the template writes after the last message would close it.
            let Some(end) = prompt.find(mark.as_str()) else {
                let message = "the chat template does not write the last message as it is, so it cannot be continued";
                return Err(ApiError::invalid_param("continue_final_message", message));
            };
            prompt.truncate(end);
        }
        Ok(prompt)
    }

    /// The prompt's tokens.
    pub fn encode(
        &self,
        template: &ChatTemplate,
        tokenizer: &Tokenizer,
        add_special: Option<bool>,
    ) -> Result<Vec<u32>, ApiError> {
        let prompt = self.render(template)?;
        Ok(match add_special {
            Some(true) => tokenizer.encode(&prompt, EncodeOptions { add_special: true, parse_special: true })?,
            _ => tokenizer.encode_chat(&prompt)?,
        })
    }
}

/// Puts a mark at the end of the message's text, by which that end is found in the prompt; text of the template's own
/// may look like the message's.
fn mark_end(message: Option<&mut Value>) -> Result<String, ApiError> {
    if let Some(Value::String(text)) = message.and_then(|message| message.get_mut("content"))
        && !text.trim_end().is_empty()
    {
        let mark = Uuid::new_v4().simple().to_string();
        text.truncate(text.trim_end().len());
        text.push_str(&mark);
        return Ok(mark);
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

/// The text of a message; parts are joined by line breaks, as vLLM and llama-server do.
fn text_of(index: usize, content: MessageContent) -> Result<String, ApiError> {
    let parts = match content {
        MessageContent::Text(text) => return Ok(text),
        MessageContent::Parts(parts) => parts,
    };
    let refused = |at: usize, kind: &str| {
        let param = format!("messages[{index}].content[{at}]");
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
    Ok(texts.collect::<Result<Vec<_>, _>>()?.join("\n"))
}

/// A prompt of a text completion: its tokens, and its text if answers begin with it.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct TextPrompt {
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
) -> Result<Vec<TextPrompt>, ApiError> {
    let options = EncodeOptions { add_special: add_special.unwrap_or(true), parse_special: true };
    let of_text = |text: String| {
        Ok::<_, ApiError>(TextPrompt { tokens: tokenizer.encode(&text, options)?, text: echo.then_some(text) })
    };
    let of_ids = |ids: Vec<_>| {
        let tokens = token_ids("prompt", &ids, tokenizer.vocab_size())?;
        let shown = DecodeOptions { skip_special: true, starts_text: true };
        let text = echo.then(|| tokenizer.decode(&tokens, shown));
        Ok::<_, ApiError>(TextPrompt { tokens, text })
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
