//! `taper run`: a chat on a terminal, or one answer to a prompt.

use std::io::{IsTerminal, Write, stdin};
use std::path::Path;
use std::sync::Arc;
use std::time::Duration;

use anyhow::{Context, Result, anyhow, bail};
use rustyline::error::ReadlineError;
use serde_json::{Map, Value, json};

use super::keyboard::Keyboard;
use super::model::open;
use super::progress::LoadBar;
use taper_server::breakers::sequence_breakers;
use taper_server::engine::sampling::{SamplingOverrides, SamplingParams};
use taper_server::engine::{EngineHandle, Event, FinishReason, Request, SubmitError, Timings, Usage};
use taper_server::files::{read_text, read_text_from};
use taper_server::loading::{Running, start};
use taper_server::settings::Settings;
use taper_server::text::{
    ChatInput, ChatTemplate, DecodeOptions, Detokenizer, EncodeOptions, Output, StopMatcher, Tokenizer,
};

/// Loads the model and talks.
pub fn run(settings: &Settings) -> Result<()> {
    let prompt = one_shot_prompt(settings)?;
    let opened = open(settings)?;
    let tokenizer = Arc::new(opened.tokenizer()?);
    let template = opened.chat_template(&tokenizer, &settings.run)?;
    let mut params = SamplingOverrides::resolve(&[opened.sampling_defaults(), settings.sampling.overrides.clone()]);
    // The engine would say the same, but after loading, and to every turn.
    params
        .validate(opened.spec.vocab_size)
        .map_err(|error| anyhow!(settings.in_words_of_the_user(&error.to_string())))?;
    if params.dry_multiplier > 0.0 {
        let texts = settings.sampling.dry_sequence_breakers();
        params.dry_sequence_breakers = Arc::new(sequence_breakers(&texts, &tokenizer)?);
    }
    let mut bar = LoadBar::new();
    let Running { engine, capacity, .. } =
        start(&opened, opened.end_tokens(&tokenizer), &settings.engine, &mut |done, total| bar.update(done, total))?;
    bar.finish();
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
    let max_possible_context = opened.spec.context_limit();
    let context = capacity.max_model_len;
    let (is_chat, messages) = (prompt.is_none(), Vec::new());
    let mut talk =
        Talk { settings, engine, tokenizer, template, params, stop, is_chat, context, max_possible_context, messages };
    if let Some(system) = &settings.run.system_prompt {
        talk.messages.push(json!({ "role": "system", "content": system }));
    }
    match prompt {
        Some(prompt) => talk.answer_once(&prompt),
        None => talk.chat(),
    }
}

/// The prompt of a run that answers once: `-p`, `-f`, or standard input that is not a terminal.
fn one_shot_prompt(settings: &Settings) -> Result<Option<String>> {
    let (prompt, from) = match (&settings.run.prompt, settings.run.file.as_deref()) {
        (Some(prompt), _) => {
            note_unread_input(settings);
            (prompt.clone(), settings.spelled("prompt"))
        }
        (None, Some(path)) if path != Path::new("-") => {
            let text = read_text(path).with_context(|| format!("the prompt file {} cannot be read", path.display()))?;
            (text, path.display().to_string())
        }
        (None, None) if stdin().is_terminal() => return Ok(None),
        (None, _) => {
            let text = read_text_from(stdin()).context("standard input cannot be read")?;
            (text, "standard input".to_owned())
        }
    };
    if prompt.is_empty() {
        bail!("there is no prompt: {from} is empty; give one with -p TEXT or -f FILE, or start a chat in a terminal");
    }
    Ok(Some(prompt))
}

/// With `-p`, standard input is left alone (it may never end), but text that waits there was meant for someone.
fn note_unread_input(settings: &Settings) {
    if !stdin().is_terminal() && rustix::io::ioctl_fionread(stdin()).is_ok_and(|bytes| bytes > 0) {
        let given = settings.spelled("prompt");
        tracing::warn!("standard input is not read, since {given} gives the prompt; -f - reads it instead");
    }
}

/// One answer, and how it came about.
struct Answer {
    text: String,
    /// What ended it before the model did.
    stopped: Option<String>,
    usage: Usage,
    timings: Timings,
}

/// One conversation.
struct Talk<'a> {
    settings: &'a Settings,
    engine: EngineHandle,
    tokenizer: Arc<Tokenizer>,
    template: ChatTemplate,
    params: SamplingParams,
    stop: Vec<String>,
    /// Whether there are further turns: then Ctrl-C ends the answer, else the program.
    is_chat: bool,
    /// Tokens that the conversation may have, and those that `-c` could give it at most.
    context: usize,
    max_possible_context: usize,
    messages: Vec<Value>,
}

const HELP: &str = "/clear  forget the conversation\n/help   this list\n/exit   leave (or Ctrl-D)\n\
    A line that ends in a backslash goes on in the next one. Ctrl-C ends an answer, and at the prompt the chat.";

impl Talk<'_> {
    fn answer_once(&mut self, prompt: &str) -> Result<()> {
        if let Some(stopped) = self.answer(prompt)?.stopped {
            eprintln!("[stopped: {stopped}]");
        }
        Ok(())
    }

    /// Reads lines from the terminal until it ends.
    fn chat(&mut self) -> Result<()> {
        eprintln!("/help lists the commands, Ctrl-C ends an answer, Ctrl-D leaves.");
        let mut editor = rustyline::DefaultEditor::new()?;
        loop {
            let Some(line) = read_message(&mut editor)? else { return Ok(()) };
            match line.trim() {
                "" => {}
                "/exit" | "/quit" | "/bye" => return Ok(()),
                "/help" | "/?" => eprintln!("{HELP}"),
                "/clear" => {
                    self.messages.retain(|message| message["role"] == "system");
                    eprintln!("the conversation is forgotten");
                }
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
            Ok(Answer { stopped, usage, timings, .. }) => {
                let rate = |tokens: usize, time: Duration| tokens as f64 / time.as_secs_f64().max(1e-9);
                let stopped = stopped.map(|why| format!("; stopped: {why}")).unwrap_or_default();
                let new = usage.prompt_tokens - usage.cached_tokens;
                eprintln!(
                    "[{} prompt tokens ({} cached), {:.0} tok/s; {} generated, {:.1} tok/s{stopped}]",
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
    fn answer(&mut self, prompt: &str) -> Result<Answer> {
        let raw = self.settings.run.raw;
        let tokens = if raw {
            self.tokenizer.encode(prompt, EncodeOptions { add_special: true, parse_special: true })?
        } else {
            self.messages.push(json!({ "role": "user", "content": prompt }));
            let kwargs = Map::new();
            let input =
                ChatInput { messages: &self.messages, tools: None, add_generation_prompt: true, kwargs: &kwargs };
            self.tokenizer.encode_chat(&self.template.render(&input)?)?
        };
        let answer = self.generate(tokens)?;
        if !raw {
            self.messages.push(json!({ "role": "assistant", "content": answer.text.trim_end() }));
        }
        Ok(answer)
    }

    fn generate(&self, prompt: Vec<u32>) -> Result<Answer> {
        let request = Request { prompt, params: self.params.clone(), ..Request::default() };
        let mut request = self.engine.submit(request).map_err(|error| self.refusal(&error))?;
        let canceller = request.canceller();
        let _keyboard = self.is_chat.then(|| Keyboard::watch(move || canceller.cancel()));
        let options = DecodeOptions { skip_special: true, starts_text: !self.settings.run.raw };
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
                Event::Prompt { .. } => {}
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
        text.pop(); // the line's end is the terminal's, not the answer's
        let stopped = match reason {
            FinishReason::Error(message) | FinishReason::Impossible(message) => {
                bail!("the answer ended early: {message}")
            }
            _ if stopped => None,
            FinishReason::Stop { .. } | FinishReason::Complete => None,
            // Nobody gave it a deadline.
            FinishReason::Cancelled | FinishReason::Deadline => Some("Ctrl-C".to_owned()),
            FinishReason::Repetition => Some("the answer repeats itself".to_owned()),
            FinishReason::Length if self.params.max_tokens == Some(usage.completion_tokens) => {
                Some(format!("{} {} reached", self.settings.spelled("predict"), usage.completion_tokens))
            }
            FinishReason::Length => Some(format!("the context of {} tokens is full", self.context)),
        };
        Ok(Answer { text, stopped, usage, timings })
    }

    /// Why the engine did not take a prompt, in the words of who wrote it.
    fn refusal(&self, error: &SubmitError) -> anyhow::Error {
        let SubmitError::PromptTooLong { prompt_tokens, max_model_len } = error else {
            return anyhow!(self.settings.in_words_of_the_user(&error.to_string()));
        };
        let raise = if self.context < self.max_possible_context {
            format!(", or start again with a larger context: -c {} at most", self.max_possible_context)
        } else {
            String::new()
        };
        let needs = format!("{prompt_tokens} tokens, and the context holds {max_model_len}, the answer included");
        if self.messages.iter().any(|message| message["role"] == "assistant") {
            anyhow!("the conversation is full: with this message it has {needs}. /clear forgets it{raise}")
        } else {
            anyhow!("the prompt is too long: it has {needs}. Shorten it{raise}")
        }
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
