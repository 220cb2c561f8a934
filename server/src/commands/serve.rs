//! `taper serve`: the HTTP server.

use std::sync::Arc;

use actix_web::web::Data;
use anyhow::{Context, Result, anyhow, bail};
use sha2::{Digest, Sha256};
use taper_openapi::models::{ModelCard, ModelMeta};
use taper_openapi::object::ModelName;
use taper_openapi::props::{DefaultGenerationSettings, DefaultParams, Modalities, Props};
use taper_server::breakers::BreakerBook;
use taper_server::engine::sampling::{SamplingOverrides, SamplingParams};
use taper_server::grammar::Grammars;
use taper_server::http::dialect::Dialect;
use taper_server::http::layer::Access;
use taper_server::http::serve::{Ended, Listening, Signals, listen, until_the_end};
use taper_server::http::service::{Server, Service, unix_time};
use taper_server::http::status::build_info;
use taper_server::loading::{Opened, Running, start};
use taper_server::settings::{EngineSettings, Settings};

use super::model::{Served, file_name, local_path, open_at, served};
use super::progress::LoadBar;

/// Loads the model and serves it until a signal ends it.
pub fn run(settings: &Settings) -> Result<()> {
    // What is wrong with the file is told before a port is open.
    let path = local_path(settings)?;
    let (names, opened) = (served(settings, &path)?, open_at(&path, settings)?);
    actix_web::rt::System::new().block_on(serve(settings, opened, names, file_name(&path)))
}

/// `file` is the file's own name, links followed: of a model of the Hub, what its bytes are known by.
async fn serve(settings: &Settings, opened: Opened, names: Served, file: String) -> Result<()> {
    let server = Data::new(Server::new(settings.server.clone()));
    let access = Data::new(Access::new(&settings.server)?);
    let (host, port) = (&settings.server.host, settings.server.port);
    let Listening { address, handle } = listen(server.clone(), access.clone())
        .with_context(|| format!("cannot listen on {host}:{port} (--port chooses another)"))?;
    tracing::info!("listening on http://{address}{}, loading {}", access.prefix(), settings.model);
    // From here to the end, so that no signal falls between two listeners.
    let mut signals = Signals::new()?;
    #[cfg(feature = "hub")]
    super::interrupt::hand_over();
    let (loaded, loading) = tokio::sync::oneshot::channel();
    // Not a thread of the runtime, whose end would wait for it: before there is anything to drain, a signal ends the
    // process at once.
    std::thread::Builder::new().name("loader".to_owned()).spawn({
        let (settings, server) = (settings.clone(), server.clone());
        // Nobody listens once a signal has come.
        move || drop(loaded.send(load(&settings, opened, names, &file, &server)))
    })?;
    let (service, running) = tokio::select! {
        loaded = loading => loaded.context("the loader has failed; its last lines in the log say why")??,
        () = signals.next() => return Ok(()),
    };
    let service = Arc::new(service);
    server.open(Arc::clone(&service));
    actix_web::rt::spawn({
        let service = Arc::clone(&service);
        async move { service.pulse.watch(&service.engine).await }
    });
    announce(&format!("http://{address}{}", access.prefix()), &service, access.keys.is_empty(), settings.log_json);
    match until_the_end(&server, &service.engine, running.thread, &handle, signals).await {
        Ended::Drained => Ok(()),
        Ended::Aborted => {
            tracing::warn!("some answers were cut off by the shutdown");
            Ok(())
        }
        Ended::EngineStopped => bail!("the engine has stopped; its last lines in the log say why"),
    }
}

fn load(settings: &Settings, opened: Opened, names: Served, file: &str, server: &Server) -> Result<(Service, Running)> {
    let tokenizer = Arc::new(opened.tokenizer()?);
    let template = opened.chat_template(&tokenizer, &settings.run)?;
    if template.is_fallback() {
        tracing::warn!(
            "the model has no chat template (it may be a base model); conversations are written as plain \"User:\" and \
             \"Assistant:\" lines"
        );
    }
    let (tool_call_parser, reasoning_parser) = (&settings.server.tool_call_parser, &settings.server.reasoning_parser);
    let dialect = Dialect::new(&template, &tokenizer, tool_call_parser.as_deref(), reasoning_parser.as_deref())?;
    let sampling = SamplingOverrides::merge(&[opened.sampling_defaults(), settings.sampling.overrides.clone()]);
    let params = SamplingOverrides::resolve(std::slice::from_ref(&sampling));
    // Else every request would be refused for what it did not say.
    params
        .validate(opened.spec.vocab_size)
        .map_err(|error| anyhow!(settings.in_words_of_the_user(&error.to_string())))?;
    let mut bar = LoadBar::new();
    let end_tokens = opened.end_tokens(&tokenizer);
    let grammars = Grammars::new(&tokenizer, &end_tokens, opened.spec.vocab_size)
        .map_err(|error| anyhow!("the vocabulary: {error}"))?;
    let running = start(&opened, end_tokens, &settings.engine, &mut |done, total| bar.update(done, total))?;
    bar.finish();
    let name = names.name;
    let max_model_len = running.engine.max_sequence_len().min(running.capacity.max_model_len);
    let text_of = |id: Option<u32>| {
        id.map_or_else(String::new, |id| String::from_utf8_lossy(tokenizer.token_bytes(id)).into_owned())
    };
    let special = tokenizer.special_tokens();
    let props = Props {
        default_generation_settings: DefaultGenerationSettings {
            n_ctx: max_model_len as u64,
            params: default_params(&params, settings),
        },
        total_slots: settings.engine.parallel as u64,
        model_path: names.file,
        model_alias: name.clone(),
        chat_template: template.source().to_owned(),
        bos_token: text_of(special.bos),
        eos_token: text_of(special.eos),
        build_info: build_info(),
        modalities: Modalities::default(),
    };
    let card = card(&opened, &name, max_model_len, &tokenizer);
    let service = Service {
        other_names: names.others,
        fingerprint: fingerprint(file, &card, &props, &params, &settings.engine),
        card,
        engine: running.engine.clone(),
        defaults: sampling,
        max_model_len,
        num_slots: settings.engine.parallel,
        log_prompts: settings.server.log_prompts,
        slots: Arc::default(),
        pulse: Default::default(),
        metrics: Arc::clone(&server.metrics),
        name,
        dialect,
        grammars,
        breakers: BreakerBook::new(Arc::clone(&tokenizer), settings.sampling.dry_sequence_breakers()),
        tokenizer,
        template,
        props,
    };
    Ok((service, running))
}

/// Names what an answer depends on beside the request: build, model, template, defaults, how numbers are kept.
fn fingerprint(
    file: &str,
    card: &ModelCard,
    props: &Props,
    params: &SamplingParams,
    engine: &EngineSettings,
) -> String {
    let ModelMeta { size, quantization, family, .. } = &card.meta;
    let Props { build_info, chat_template, .. } = props;
    let kept = (engine.kv_cache_dtype, card.max_model_len);
    let breakers = &props.default_generation_settings.params.dry_sequence_breakers;
    let all =
        format!("{build_info} {file} {size} {quantization} {family} {chat_template} {params:?} {breakers:?} {kept:?}");
    let digest = Sha256::digest(all);
    format!("taper-{}", digest[..5].iter().map(|byte| format!("{byte:02x}")).collect::<String>())
}

fn card(opened: &Opened, name: &str, max_model_len: usize, tokenizer: &taper_server::text::Tokenizer) -> ModelCard {
    ModelCard {
        id: name.to_owned(),
        object: ModelName::Name,
        created: unix_time(),
        owned_by: "taper".to_owned(),
        max_model_len: max_model_len as u64,
        meta: ModelMeta {
            n_vocab: tokenizer.vocab_size() as u64,
            n_ctx: max_model_len as u64,
            n_ctx_train: opened.spec.max_position as u64,
            n_embd: opened.spec.hidden_size as u64,
            n_params: opened.num_parameters(),
            size: opened.weight_bytes(),
            quantization: opened.main_type(),
            family: opened.family.name.to_owned(),
        },
    }
}

fn default_params(params: &SamplingParams, settings: &Settings) -> DefaultParams {
    let max_tokens = params.max_tokens.map_or(-1, |tokens| tokens as i64);
    DefaultParams {
        temperature: params.temperature.into(),
        dynatemp_range: params.dynatemp_range.into(),
        dynatemp_exponent: params.dynatemp_exponent.into(),
        top_k: params.top_k as u64,
        top_p: params.top_p.into(),
        min_p: params.min_p.into(),
        typical_p: params.typical_p.into(),
        top_n_sigma: params.top_n_sigma.into(),
        xtc_probability: params.xtc_probability.into(),
        xtc_threshold: params.xtc_threshold.into(),
        mirostat: params.mirostat.into(),
        mirostat_tau: params.mirostat_tau.into(),
        mirostat_eta: params.mirostat_eta.into(),
        repeat_penalty: params.repetition_penalty.into(),
        repeat_last_n: params.repeat_last_n.into(),
        presence_penalty: params.presence_penalty.into(),
        frequency_penalty: params.frequency_penalty.into(),
        dry_multiplier: params.dry_multiplier.into(),
        dry_base: params.dry_base.into(),
        dry_allowed_length: params.dry_allowed_length as u64,
        dry_penalty_last_n: params.dry_penalty_last_n.into(),
        dry_sequence_breakers: settings.sampling.dry_sequence_breakers(),
        samplers: params.samplers.iter().map(|kind| kind.name().to_owned()).collect(),
        seed: params.seed,
        max_tokens,
        n_predict: max_tokens,
        ignore_eos: params.ignore_eos,
        stop: Vec::new(),
    }
}

/// Where everything is, and one line that works.
fn announce(url: &str, service: &Service, open: bool, json: bool) {
    let key = if open { "" } else { " -H 'Authorization: Bearer YOUR_KEY'" };
    let text = format!(
        "{} is served with a context of {} tokens, up to {} requests at once.\n  \
         API         {url}/v1\n  Swagger UI  {url}/docs/\n  metrics     {url}/metrics\n\
         Try it:\n  curl {url}/v1/chat/completions -H 'Content-Type: application/json'{key} \
         -d '{{\"messages\": [{{\"role\": \"user\", \"content\": \"Hello!\"}}], \"max_tokens\": 64}}'",
        service.name, service.max_model_len, service.num_slots
    );
    // A log of JSON lines is to be read by a program.
    if json { tracing::info!("{text}") } else { eprintln!("{text}") }
}
