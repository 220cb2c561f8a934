//! Settings of what is said to a model.

use super::row::{CHAT, Kind, PROMPT, Setting, TALK, setting};

pub(super) static ROWS: &[Setting] = &[
    setting("prompt", "TEXT", Kind::Text { set: |s, v| s.run.prompt = Some(v) }).short('p').of(PROMPT, TALK).help(
        "Answer this and end, without reading standard input; without a prompt: a chat, or what standard input holds",
    ),
    setting("file", "FILE", Kind::Path { set: |s, v| s.run.file = Some(v) })
        .short('f')
        .of(PROMPT, TALK)
        .help("Read the prompt from a file; -: from standard input"),
    setting("system-prompt", "TEXT", Kind::Text { set: |s, v| s.run.system_prompt = Some(v) })
        .also(&["-sys"])
        .of(PROMPT, TALK)
        .help("What the model is told before the conversation"),
    setting("raw", "", Kind::Switch { set: |s, v| s.run.raw = v })
        .also(&["-no-cnv", "--no-cnv", "--no-conversation"])
        .default("false")
        .of(PROMPT, TALK)
        .help("Continue the prompt as it is, without a chat template"),
    setting("chat-template", "JINJA", Kind::Text { set: |s, v| s.run.chat_template = Some(v) })
        .of(PROMPT, CHAT)
        .help("Chat template to use instead of the model's"),
    setting("chat-template-file", "FILE", Kind::Path { set: |s, v| s.run.chat_template_file = Some(v) })
        .of(PROMPT, CHAT)
        .help("As chat-template, read from a file"),
];
