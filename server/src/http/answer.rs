//! A whole answer, put together from its pieces; and the pieces as the deltas of a stream.

use taper_formats::Piece;
use taper_openapi::chat::{ChatDelta, ChatMessage, FunctionCall, FunctionCallDelta, ToolCall, ToolCallDelta, ToolType};
use taper_openapi::usage::FinishReason;

use super::generation::ScoredToken;
use crate::engine::sampling::TokenLogprobs;

/// An answer so far.
#[derive(Debug, Clone, Default)]
pub struct Answer {
    pub text: String,
    /// Empty where there are no thoughts, or where they are part of the text.
    reasoning: String,
    calls: Vec<ToolCall>,
    parse_error: Option<String>,
    /// `None` until it has ended.
    pub reason: Option<FinishReason>,
    /// Empty unless log probabilities were asked for.
    pub scored: Vec<ScoredToken>,
    pub prompt_logprobs: Vec<TokenLogprobs>,
}

impl Answer {
    /// Adds what has come.
    pub fn add(&mut self, pieces: Vec<Piece>, scored: Vec<ScoredToken>) {
        self.scored.extend(scored);
        for piece in pieces {
            match piece {
                Piece::Text(text) => self.text.push_str(&text),
                Piece::Reasoning(text) => self.reasoning.push_str(&text),
                Piece::CallBegin { id, name, .. } => self.calls.push(ToolCall {
                    id: id.unwrap_or_default(),
                    kind: ToolType::Function,
                    function: FunctionCall { name, arguments: String::new() },
                }),
                Piece::Arguments { delta, .. } => {
                    if let Some(call) = self.calls.last_mut() {
                        call.function.arguments.push_str(&delta);
                    }
                }
                Piece::CallEnd { .. } => {}
                Piece::Malformed { text, why } => {
                    self.text.push_str(&text);
                    self.parse_error.get_or_insert(why);
                }
            }
        }
    }

    pub fn reason(&self) -> FinishReason {
        self.reason.unwrap_or(FinishReason::Length)
    }

    /// The message of a chat. Beside calls, no text is null.
    pub fn into_message(self) -> ChatMessage {
        let reasoning = Some(self.reasoning).filter(|text| !text.is_empty());
        let calls = Some(self.calls).filter(|calls| !calls.is_empty());
        ChatMessage {
            content: Some(self.text).filter(|text| !text.is_empty() || calls.is_none()),
            reasoning: reasoning.clone(),
            reasoning_content: reasoning,
            tool_calls: calls,
            tool_parse_error: self.parse_error,
            ..ChatMessage::default()
        }
    }
}

/// The deltas of a chat's stream that some pieces are.
pub fn chat_deltas(pieces: Vec<Piece>) -> Vec<ChatDelta> {
    let mut deltas: Vec<ChatDelta> = Vec::new();
    for piece in pieces {
        let call = |index: usize, id, kind, function| {
            let call = ToolCallDelta { index: index as u64, id, kind, function };
            ChatDelta { tool_calls: Some(vec![call]), ..ChatDelta::default() }
        };
        match piece {
            Piece::Text(text) => deltas.push(content(text)),
            Piece::Reasoning(text) => deltas.push(ChatDelta {
                reasoning: Some(text.clone()),
                reasoning_content: Some(text),
                ..ChatDelta::default()
            }),
            Piece::CallBegin { index, id, name } => {
                // Clients add up arguments, so there is something to add to.
                let function = FunctionCallDelta { name: Some(name), arguments: Some(String::new()) };
                deltas.push(call(index, id, Some(ToolType::Function), function));
            }
            Piece::Arguments { index, delta } => {
                let function = FunctionCallDelta { name: None, arguments: Some(delta) };
                deltas.push(call(index, None, None, function));
            }
            Piece::CallEnd { .. } => {}
            Piece::Malformed { text, why } => {
                deltas.push(ChatDelta { tool_parse_error: Some(why), ..content(text) });
            }
        }
    }
    deltas
}

/// A delta that is text.
pub fn content(text: String) -> ChatDelta {
    ChatDelta { content: Some(text), ..ChatDelta::default() }
}

/// The text of pieces that nothing was told apart from.
pub fn text_of(pieces: Vec<Piece>) -> String {
    let mut answer = Answer::default();
    answer.add(pieces, Vec::new());
    answer.text
}
