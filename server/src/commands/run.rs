//! `taper run`: a chat on a terminal, or one answer to a prompt.

use std::io::{IsTerminal, Read, Write};
use std::sync::Arc;

use anyhow::{Context, Result, bail};
use rustyline::error::ReadlineError;
use serde_json::{Map, Value, json};

use super::progress::LoadBar;
use taper_server::engine::sampling::{SamplingOverrides, SamplingParams};
use taper_server::engine::{EngineHandle, Event, FinishReason, Request, Timings, Usage};
use taper_server::loading::{Opened, Running, start};
use taper_server::settings::Settings;
use taper_server::text::{
    ChatInput, ChatTemplate, DecodeOptions, Detokenizer, EncodeOptions, Output, StopMatcher, Tokenizer,
};

/// Loads the model and talks.
pub fn run(settings: &Settings) -> Result<()> {
    let prompt = one_shot_prompt(settings)?;
    let opened = Opened::open(&settings.model)?;
    let tokenizer = Arc::new(opened.tokenizer()?);
    let template = opened.chat_template(&tokenizer, &settings.run)?;
    let mut bar = LoadBar::new();
    let Running { engine, capacity, .. } =
        start(&opened, end_tokens(&opened, &tokenizer), &settings.engine, &mut |done, total| bar.update(done, total))?;
    bar.finish();
    let params = SamplingOverrides::resolve(&[opened.sampling_defaults(), settings.sampling.overrides.clone()]);
    let mut stop = settings.sampling.stop.clone();
    if !settings.run.raw {
        stop.extend(template.stop_strings().iter().map(|stop| (*stop).to_owned()));
        if template.is_fallback() {
            eprintln!(
                "note: this model has no chat template (it may be a base model); the conversation is written as plain \
                 \"User:\" and \"Assistant:\" lines. --raw continues a text instead."
            );
        }
    }
    tracing::info!(
        family = opened.family.name,
        context = capacity.max_model_len,
        blocks = capacity.num_blocks,
        "ready"
    );
    let mut talk = Talk { engine, tokenizer, template, params, stop, raw: settings.run.raw, messages: Vec::new() };
    if let Some(system) = &settings.run.system_prompt {
        talk.messages.push(json!({ "role": "system", "content": system }));
    }
    match prompt {
        Some(prompt) => talk.answer(&prompt).map(|_| ()),
        None => talk.chat(),
    }
}

/// Tokens that end a sequence: the tokenizer's, and those that the checkpoint's generation settings name.
fn end_tokens(opened: &Opened, tokenizer: &Tokenizer) -> Vec<u32> {
    let mut ids = tokenizer.special_tokens().end_of_generation.clone();
    ids.extend(&opened.generation.eos_token_ids);
    ids.sort_unstable();
    ids.dedup();
    ids
}

/// The prompt of a run that answers once: `-p`, `-f`, or standard input that is not a terminal.
fn one_shot_prompt(settings: &Settings) -> Result<Option<String>> {
    let stdin = || {
        let mut text = String::new();
        std::io::stdin().read_to_string(&mut text).context("standard input could not be read as text")?;
        Ok::<_, anyhow::Error>(text)
    };
    let prompt = match (&settings.run.prompt, &settings.run.file) {
        (Some(prompt), _) => prompt.clone(),
        (None, Some(path)) if path.as_os_str() == "-" => stdin()?,
        (None, Some(path)) => std::fs::read_to_string(path).with_context(|| path.display().to_string())?,
        (None, None) if !std::io::stdin().is_terminal() => stdin()?,
        (None, None) => return Ok(None),
    };
    if prompt.is_empty() {
        bail!("the prompt is empty; give one with -p, or on standard input");
    }
    Ok(Some(prompt))
}

/// One conversation.
struct Talk {
    engine: EngineHandle,
    tokenizer: Arc<Tokenizer>,
    template: ChatTemplate,
    params: SamplingParams,
    stop: Vec<String>,
    /// Continue texts; there are no turns.
    raw: bool,
    messages: Vec<Value>,
}

const HELP: &str = "/clear  forget the conversation\n/help   this list\n/exit   leave (or Ctrl-D)\n\
    A line that ends in a backslash goes on in the next one. Ctrl-C at the prompt leaves, too.";

impl Talk {
    /// Reads lines from the terminal until it ends.
    fn chat(&mut self) -> Result<()> {
        eprintln!("/help lists the commands, Ctrl-D leaves.");
        let mut editor = rustyline::DefaultEditor::new()?;
        loop {
            let Some(line) = read_message(&mut editor)? else { return Ok(()) };
            match line.trim() {
                "" => {}
                "/exit" | "/quit" | "/bye" => return Ok(()),
                "/help" | "/?" => eprintln!("{HELP}"),
                "/clear" => self.messages.retain(|message| message["role"] == "system"),
                command if command.starts_with('/') && !command.contains(' ') => {
                    eprintln!("there is no command {command}; /help lists them");
                }
                _ => self.chat_turn(&line),
            }
        }
    }

    /// Answers, and tells speed; what goes wrong ends the turn, not the chat.
    fn chat_turn(&mut self, line: &str) {
        let turns = self.messages.len();
        match self.answer(line) {
            Ok((usage, timings)) => {
                let rate = |tokens: usize, time: std::time::Duration| tokens as f64 / time.as_secs_f64().max(1e-9);
                let new = usage.prompt_tokens - usage.cached_tokens;
                eprintln!(
                    "[{} prompt tokens ({} cached), {:.0} tok/s; {} generated, {:.1} tok/s]",
                    usage.prompt_tokens,
                    usage.cached_tokens,
                    rate(new, timings.prefill),
                    usage.completion_tokens,
                    rate(usage.completion_tokens.saturating_sub(1), timings.decode)
                );
            }
            Err(error) => {
                self.messages.truncate(turns);
                eprintln!("error: {error:#}");
            }
        }
    }

    /// Prints the answer to `prompt` as it comes, and keeps both for the next turn.
    fn answer(&mut self, prompt: &str) -> Result<(Usage, Timings)> {
        let tokens = if self.raw {
            self.tokenizer.encode(prompt, EncodeOptions { add_special: true, parse_special: true })?
        } else {
            self.messages.push(json!({ "role": "user", "content": prompt }));
            let kwargs = Map::new();
            let input =
                ChatInput { messages: &self.messages, tools: None, add_generation_prompt: true, kwargs: &kwargs };
            self.tokenizer.encode_chat(&self.template.render(&input)?)?
        };
        let (text, usage, timings) = self.generate(tokens)?;
        if !self.raw {
            self.messages.push(json!({ "role": "assistant", "content": text.trim_end() }));
        }
        Ok((usage, timings))
    }

    fn generate(&self, prompt: Vec<u32>) -> Result<(String, Usage, Timings)> {
        let mut request = self.engine.submit(Request { prompt, params: self.params.clone(), cache_salt: None })?;
        let options = DecodeOptions { skip_special: true, starts_text: !self.raw };
        let detokenizer = Detokenizer::new(Arc::clone(&self.tokenizer), options);
        let mut output = Output::new(detokenizer, StopMatcher::new(self.stop.clone(), false));
        let (mut text, mut stdout) = (String::new(), std::io::stdout());
        let mut show = |piece: &str| -> Result<()> {
            text.push_str(piece);
            write!(stdout, "{piece}")?;
            Ok(stdout.flush()?)
        };
        let mut stopped = false;
        let (reason, usage, timings) = loop {
            match request.blocking_recv().context("the engine has gone")? {
                Event::Token { .. } if stopped => {}
                Event::Token { id, .. } => {
                    let step = output.push(id);
                    show(&step.text)?;
                    if step.stopped_by.is_some() {
                        stopped = true;
                        request.cancel();
                    }
                }
                Event::Finished { reason, usage, timings } => break (reason, usage, timings),
            }
        };
        if !stopped {
            show(&output.finish().text)?;
        }
        show("\n")?;
        if let FinishReason::Error(message) = reason {
            bail!("the answer ended early: {message}");
        }
        text.pop(); // the line's end is the terminal's, not the answer's
        Ok((text, usage, timings))
    }
}

/// One message, of several lines where each but the last ends in a backslash. `None` at the end of input.
fn read_message(editor: &mut rustyline::DefaultEditor) -> Result<Option<String>> {
    let mut message = String::new();
    loop {
        match editor.readline(if message.is_empty() { "> " } else { "… " }) {
            Ok(line) => match line.strip_suffix('\\') {
                Some(begun) => {
                    message.push_str(begun);
                    message.push('\n');
                }
                None => {
                    message.push_str(&line);
                    // History is a convenience; a chat goes on without it.
                    let _ = editor.add_history_entry(&message);
                    return Ok(Some(message));
                }
            },
            Err(ReadlineError::Eof | ReadlineError::Interrupted) => return Ok(None),
            Err(error) => return Err(error.into()),
        }
    }
}
