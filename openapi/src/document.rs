//! The OpenAPI document: every route of the API, and the types that they take and give.

use utoipa::OpenApi;
use utoipa::openapi::security::{HttpAuthScheme, HttpBuilder, SecurityScheme};
use utoipa::openapi::{Components, Server};

use crate::tokenize::with_exactly_one_text;
use crate::{chat, completions, error, models, props, status, template, tokenize, values};

#[derive(OpenApi)]
#[openapi(
    info(
        title = "Taper",
        description = "Language models behind OpenAI's API, with the routes and fields of llama-server and vLLM that \
            their clients rely on.\n\nOf every optional field `null` means that it is absent. Fields that are not \
            described here are accepted without effect, and named in the response header `x-ignored`. A request that \
            asks for what the server cannot do is refused with 400 and the code `unsupported_parameter`.",
        license(name = "Apache-2.0", identifier = "Apache-2.0"),
    ),
    tags(
        (name = "Generation", description = "Answers of the model: to a conversation, or following a text."),
        (name = "Models", description = "Which models are served."),
        (name = "Text", description = "What the model sees of a text: tokens and chat templates."),
        (name = "Status", description = "How the server is, for people, proxies and supervisors."),
    ),
    paths(
        chat::paths::chat_completions,
        completions::paths::completions,
        models::paths::models,
        models::paths::model,
        tokenize::paths::tokenize,
        tokenize::paths::detokenize,
        template::paths::apply_template,
        props::paths::props,
        props::paths::slots,
        status::paths::health,
        status::paths::health_v1,
        status::paths::live,
        status::paths::ready,
        status::paths::version,
        status::paths::metrics,
        status::paths::openapi,
    ),
    components(
        // What only hand-written schemas and shared responses name; the macro looks into neither.
        schemas(
            chat::AllowedTools,
            chat::ContentPart,
            chat::FunctionName,
            values::TokenId,
            error::ErrorResponse,
            status::HealthError,
        ),
        responses(
            error::BadRequest,
            error::Unauthorized,
            error::Forbidden,
            error::ModelNotFound,
            error::RequestTimeout,
            error::PayloadTooLarge,
            error::UnsupportedMediaType,
            error::TooManyRequests,
            error::InternalError,
            error::Unavailable,
        ),
    ),
)]
struct Api;

/// The document of a server that is reached at the root of its host.
pub fn document() -> utoipa::openapi::OpenApi {
    document_at("")
}

/// The document of a server that a proxy shows under `prefix`, for example `/llm`.
pub fn document_at(prefix: &str) -> utoipa::openapi::OpenApi {
    let mut document = Api::openapi();
    document.servers = Some(vec![Server::new(base(prefix))]);
    let components = document.components.get_or_insert_default();
    add_bearer(components);
    if let Some(request) = components.schemas.remove("TokenizeRequest") {
        components.schemas.insert("TokenizeRequest".to_owned(), with_exactly_one_text(request).into());
    }
    document
}

/// The path that all paths of the document follow. It begins with a slash, so that it does not depend on where the
/// document itself was found, and a lone slash is what OpenAPI takes when no server is named.
fn base(prefix: &str) -> String {
    format!("/{}", prefix.trim_matches('/'))
}

fn add_bearer(components: &mut Components) {
    let description = "An API key. Needed if the server was started with keys, except for /health, /v1/health, /live \
        and /ready. A browser that opens a page may send it as the password of HTTP basic auth, with any user name.";
    let bearer = HttpBuilder::new().scheme(HttpAuthScheme::Bearer).description(Some(description)).build();
    components.add_security_scheme("bearer", SecurityScheme::Http(bearer));
}
