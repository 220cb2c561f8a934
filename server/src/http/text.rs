//! `POST /tokenize`, `/detokenize` and `/apply-template`: the text side of the model, without running it.

use std::sync::Arc;

use actix_web::web::{Data, Payload};
use actix_web::{HttpRequest, HttpResponse};
use serde::Serialize;
use taper_openapi::Body;
use taper_openapi::template::{ApplyTemplateRequest, ApplyTemplateResponse};
use taper_openapi::tokenize::{
    DetokenizeRequest, DetokenizeResponse, Piece, Token, TokenPiece, TokenizeRequest, TokenizeResponse,
};

use super::body::{answer, ignored_header, receive};
use super::error::ApiError;
use super::prompt::{Conversation, ConversationOptions};
use super::request::{refuse_unknown, token_ids};
use super::service::{Server, Service};
use super::tools::toolbox;
use crate::text::{DecodeOptions, EncodeOptions, Tokenizer};

/// Text to tokens.
pub async fn tokenize(server: Data<Server>, request: HttpRequest, payload: Payload) -> Result<HttpResponse, ApiError> {
    respond(
        server,
        &request,
        payload,
        |body: &TokenizeRequest| body.model.as_deref(),
        |server, service, body| {
            let with_strings = body.return_token_strs == Some(true);
            let with_pieces = body.with_pieces == Some(true) && body.messages.is_none();
            let tokens = tokens_of(body, server, service)?;
            let bytes = |id: &u32| String::from_utf8_lossy(service.tokenizer.token_bytes(*id)).into_owned();
            let token = |id: u32| if with_pieces { Token::Piece(piece(&service.tokenizer, id)) } else { Token::Id(id) };
            Ok(TokenizeResponse {
                count: tokens.len() as u64,
                max_model_len: service.max_model_len as u64,
                token_strs: with_strings.then(|| tokens.iter().map(bytes).collect()),
                tokens: tokens.into_iter().map(token).collect(),
            })
        },
    )
    .await
}

/// The tokens of what a request gives: llama-server's `content`, vLLM's `prompt`, or `messages`.
fn tokens_of(body: TokenizeRequest, server: &Server, service: &Service) -> Result<Vec<u32>, ApiError> {
    let (text, options) = match (body.content, body.prompt, body.messages) {
        (Some(text), None, None) => {
            let (add_special, parse_special) = (body.add_special == Some(true), body.parse_special != Some(false));
            (text, EncodeOptions { add_special, parse_special })
        }
        (None, Some(text), None) => {
            (text, EncodeOptions { add_special: body.add_special_tokens != Some(false), parse_special: true })
        }
        (None, None, Some(messages)) => {
            let toolbox = toolbox(body.tools.as_deref(), None, None)?;
            let options = ConversationOptions {
                kwargs: body.chat_template_kwargs,
                add_generation_prompt: body.add_generation_prompt,
                continue_final_message: body.continue_final_message,
                toolbox: toolbox.as_ref(),
                reasoning_effort: None,
            };
            let limits = &server.settings.limits;
            let conversation = Conversation::new(messages, options, &service.dialect, limits)?;
            return Ok(conversation.encode(service, body.add_special_tokens)?.0);
        }
        _ => {
            return Err(ApiError::invalid_param(
                "content",
                "give exactly one of `content`, `prompt` and `messages`: what is to be tokenised",
            ));
        }
    };
    Ok(service.tokenizer.encode(&text, options)?)
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
    respond(
        server,
        &request,
        payload,
        |body: &DetokenizeRequest| body.model.as_deref(),
        |_, service, body| {
            let ids = token_ids("tokens", &body.tokens, service.tokenizer.vocab_size())?;
            let content = service.tokenizer.decode(&ids, DecodeOptions { skip_special: false, starts_text: true });
            Ok(DetokenizeResponse { prompt: content.clone(), content })
        },
    )
    .await
}

/// A conversation as the model sees it.
pub async fn apply_template(
    server: Data<Server>,
    request: HttpRequest,
    payload: Payload,
) -> Result<HttpResponse, ApiError> {
    respond(
        server,
        &request,
        payload,
        |body: &ApplyTemplateRequest| body.model.as_deref(),
        |server, service, body| {
            let toolbox = toolbox(body.tools.as_deref(), body.tool_choice.as_ref(), None)?;
            let options = ConversationOptions {
                kwargs: body.chat_template_kwargs,
                add_generation_prompt: body.add_generation_prompt,
                continue_final_message: body.continue_final_message,
                toolbox: toolbox.as_ref(),
                reasoning_effort: body.reasoning_effort,
            };
            let limits = &server.settings.limits;
            let conversation = Conversation::new(body.messages, options, &service.dialect, limits)?;
            let prompt = conversation.render(&service.template)?;
            let tokens = service.tokenizer.encode_chat(&prompt)?.len() as u64;
            Ok(ApplyTemplateResponse { prompt, tokens })
        },
    )
    .await
}

/// Reads a body, checks the model that it asks for, and answers with what `work` makes of it.
async fn respond<T: Body + 'static, R: Serialize + Send + 'static>(
    server: Data<Server>,
    request: &HttpRequest,
    payload: Payload,
    model: fn(&T) -> Option<&str>,
    work: fn(&Server, &Service, T) -> Result<R, ApiError>,
) -> Result<HttpResponse, ApiError> {
    let service = Arc::clone(server.loaded()?);
    let raw = receive(&server, request, payload).await?;
    let work = {
        let server = server.clone();
        move || {
            let body: T = raw.parse()?;
            service.check_model(model(&body))?;
            refuse_unknown(body.unknown(), server.settings.strict_params)?;
            let ignored = ignored_header(body.unknown().keys());
            Ok((work(&server, &service, body)?, ignored))
        }
    };
    let (response, ignored) = server.off_thread(work).await?;
    Ok(answer(&response, ignored))
}
