//! `POST /tokenize`, `/detokenize` and `/apply-template`: the text side of the model, without running it.

use std::sync::Arc;

use actix_web::web::{Data, Payload};
use actix_web::{HttpRequest, HttpResponse};
use taper_openapi::template::{ApplyTemplateRequest, ApplyTemplateResponse};
use taper_openapi::tokenize::{
    DetokenizeRequest, DetokenizeResponse, Piece, Token, TokenPiece, TokenizeRequest, TokenizeResponse,
};
use taper_openapi::{Body, chat::Message};

use super::body::{answer, ignored_header, read};
use super::error::ApiError;
use super::prompt::{Conversation, ConversationOptions};
use super::request::token_ids;
use super::service::{Server, Service};
use crate::text::{DecodeOptions, EncodeOptions, Tokenizer};

/// Text to tokens.
pub async fn tokenize(server: Data<Server>, request: HttpRequest, payload: Payload) -> Result<HttpResponse, ApiError> {
    let (service, body, ignored): (_, TokenizeRequest, _) =
        open(&server, &request, payload, |b: &TokenizeRequest| &b.model).await?;
    let source = Source::of(body, &server)?;
    let Tokenized { tokens, with_pieces, with_strings } = super::off_thread({
        let service = Arc::clone(&service);
        move || source.tokenize(&service)
    })
    .await?;
    let count = tokens.len() as u64;
    let token_strs = with_strings.then(|| {
        tokens.iter().map(|id| String::from_utf8_lossy(service.tokenizer.token_bytes(*id)).into_owned()).collect()
    });
    let token = |id: u32| if with_pieces { Token::Piece(piece(&service.tokenizer, id)) } else { Token::Id(id) };
    let tokens = tokens.into_iter().map(token).collect();
    let response = TokenizeResponse { tokens, count, max_model_len: service.max_model_len as u64, token_strs };
    Ok(answer(&response, ignored))
}

/// What is to be tokenised.
enum Source {
    Text { text: String, options: EncodeOptions, with_pieces: bool, with_strings: bool },
    Conversation { conversation: Conversation, add_special: Option<bool>, with_strings: bool },
}

struct Tokenized {
    tokens: Vec<u32>,
    with_pieces: bool,
    with_strings: bool,
}

impl Source {
    fn of(body: TokenizeRequest, server: &Server) -> Result<Self, ApiError> {
        let with_strings = body.return_token_strs == Some(true);
        let with_pieces = body.with_pieces == Some(true);
        match (body.content, body.prompt, body.messages) {
            (Some(text), None, None) => {
                let options = EncodeOptions {
                    add_special: body.add_special == Some(true),
                    parse_special: body.parse_special != Some(false),
                };
                Ok(Self::Text { text, options, with_pieces, with_strings })
            }
            (None, Some(text), None) => {
                let options =
                    EncodeOptions { add_special: body.add_special_tokens != Some(false), parse_special: true };
                Ok(Self::Text { text, options, with_pieces, with_strings })
            }
            (None, None, Some(messages)) => {
                let options = ConversationOptions {
                    kwargs: body.chat_template_kwargs,
                    add_generation_prompt: body.add_generation_prompt,
                    continue_final_message: body.continue_final_message,
                };
                let conversation = Conversation::new(messages, options, &server.settings.limits)?;
                Ok(Self::Conversation { conversation, add_special: body.add_special_tokens, with_strings })
            }
            _ => Err(ApiError::invalid_param(
                "content",
                "give exactly one of `content`, `prompt` and `messages`: what is to be tokenised",
            )),
        }
    }

    fn tokenize(self, service: &Service) -> Result<Tokenized, ApiError> {
        match self {
            Self::Text { text, options, with_pieces, with_strings } => {
                Ok(Tokenized { tokens: service.tokenizer.encode(&text, options)?, with_pieces, with_strings })
            }
            Self::Conversation { conversation, add_special, with_strings } => {
                let tokens = conversation.encode(&service.template, &service.tokenizer, add_special)?;
                Ok(Tokenized { tokens, with_pieces: false, with_strings })
            }
        }
    }
}

/// A token's text; its bytes where they are only a part of a character.
fn piece(tokenizer: &Tokenizer, id: u32) -> TokenPiece {
    let bytes = tokenizer.token_bytes(id);
    let piece = match std::str::from_utf8(bytes) {
        Ok(text) => Piece::Text(text.to_owned()),
        Err(_) => Piece::Bytes(bytes.to_vec()),
    };
    TokenPiece { id, piece }
}

/// Tokens to text.
pub async fn detokenize(
    server: Data<Server>,
    request: HttpRequest,
    payload: Payload,
) -> Result<HttpResponse, ApiError> {
    let (service, body, ignored): (_, DetokenizeRequest, _) =
        open(&server, &request, payload, |b: &DetokenizeRequest| &b.model).await?;
    let ids = token_ids("tokens", &body.tokens, service.tokenizer.vocab_size())?;
    let content = service.tokenizer.decode(&ids, DecodeOptions { skip_special: false, starts_text: true });
    Ok(answer(&DetokenizeResponse { prompt: content.clone(), content }, ignored))
}

/// A conversation as the model sees it.
pub async fn apply_template(
    server: Data<Server>,
    request: HttpRequest,
    payload: Payload,
) -> Result<HttpResponse, ApiError> {
    let (service, body, ignored): (_, ApplyTemplateRequest, _) =
        open(&server, &request, payload, |b: &ApplyTemplateRequest| &b.model).await?;
    let messages: Vec<Message> = body.messages;
    let options = ConversationOptions {
        kwargs: body.chat_template_kwargs,
        add_generation_prompt: body.add_generation_prompt,
        continue_final_message: body.continue_final_message,
    };
    let conversation = Conversation::new(messages, options, &server.settings.limits)?;
    let response = super::off_thread(move || {
        let prompt = conversation.render(&service.template)?;
        let tokens = service.tokenizer.encode_chat(&prompt)?.len() as u64;
        Ok(ApplyTemplateResponse { prompt, tokens })
    })
    .await?;
    Ok(answer(&response, ignored))
}

/// Reads a body and checks the model that it asks for; with the names of its fields that change nothing.
async fn open<T: Body>(
    server: &Server,
    request: &HttpRequest,
    payload: Payload,
    model: impl Fn(&T) -> &Option<String>,
) -> Result<(Arc<Service>, T, Option<String>), ApiError> {
    let service = Arc::clone(server.loaded()?);
    let (body, _room): (T, _) = read(server, request, payload).await?;
    service.check_model(model(&body).as_deref())?;
    if server.settings.strict_params
        && let Some(name) = body.unknown().keys().next()
    {
        let message = format!("`{name}` is not a field of this request; this server runs with --strict-params");
        return Err(ApiError::unknown_param(name, message));
    }
    let ignored = ignored_header(body.unknown().keys());
    Ok((service, body, ignored))
}
