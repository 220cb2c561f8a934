//! How log lines look. Of a server: each with time and place, as text or JSON. Of the other commands: warnings and errors as the program's own messages (`warning: ...`), since whoever uses a
//! command is told something; the levels below, for whoever looks into it, with time and place.

use std::fmt;
use std::io::IsTerminal;

use tracing::{Event, Level, Subscriber};
use tracing_subscriber::EnvFilter;
use tracing_subscriber::fmt::FmtContext;
use tracing_subscriber::fmt::format::{Format, FormatEvent, FormatFields, Writer};
use tracing_subscriber::registry::LookupSpan;

struct Plain(Format);

/// The three forms of log lines.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Lines {
    /// A command's messages to its user.
    Plain,
    /// A server's, for people.
    Text,
    /// A server's, for programs: an object a line.
    Json,
}

/// Logs what `filter` lets through to standard error.
pub fn start(filter: EnvFilter, lines: Lines) {
    let subscriber = tracing_subscriber::fmt().with_env_filter(filter).with_writer(std::io::stderr);
    match lines {
        Lines::Plain => subscriber.event_format(Plain(Format::default())).init(),
        // Colours are for people, not for files and pipes.
        Lines::Text => subscriber.with_ansi(std::io::stderr().is_terminal()).init(),
        Lines::Json => subscriber.json().flatten_event(true).init(),
    }
}

impl<S: Subscriber + for<'a> LookupSpan<'a>, N: for<'a> FormatFields<'a> + 'static> FormatEvent<S, N> for Plain {
    fn format_event(&self, context: &FmtContext<'_, S, N>, mut writer: Writer<'_>, event: &Event<'_>) -> fmt::Result {
        let level = match *event.metadata().level() {
            Level::ERROR => "error",
            Level::WARN => "warning",
            _ => return self.0.format_event(context, writer, event),
        };
        write!(writer, "{level}: ")?;
        context.field_format().format_fields(writer.by_ref(), event)?;
        writeln!(writer)
    }
}
