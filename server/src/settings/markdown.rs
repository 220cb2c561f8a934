//! The settings as a page of documentation, made from the table. A test compares it to the committed page.

use std::fmt::Write;

use super::table::{Default, Setting, table, variable};

const INTRODUCTION: &str = "\
<!-- Made from server/src/settings/table.rs. After a change there: TAPER_UPDATE_DOCS=1 make test -->

# Settings

A setting is looked for on the command line, then in the environment, then in the file that `--config FILE` (or
`TAPER_CONFIG`) names, then in this table. The key in the file is the long flag without its dashes:

```toml
model = \"SmolLM2-135M-Instruct.Q4_1.gguf\"
ctx-size = 4096
stop = [\"###\", \"User:\"]

[aliases]
small = \"ggml-org/Qwen3-0.6B-GGUF:Q8_0\"
```

`[aliases]` gives models names of your own: [models.md](models.md).

Flags are also accepted as `--flag=value`; a switch is taken back by `--switch=false`. An empty variable counts as
unset. `llama.cpp`'s spellings are accepted where it has the same setting; its options that are not needed here, such as
`-ngl 99`, `-fa on`, `--mlock`, are read over with a warning.
";

/// The page.
pub fn markdown() -> String {
    let mut page = INTRODUCTION.to_owned();
    let mut section = "";
    for setting in table() {
        if setting.section != section {
            section = setting.section;
            page += &format!(
                "\n## {section}\n\n| Flag | Variable | Default | Commands | Meaning |\n|---|---|---|---|---|\n"
            );
        }
        writeln!(page, "{}", row(setting)).expect("writing to a String cannot fail");
    }
    page
}

fn row(setting: &Setting) -> String {
    let flags: Vec<_> = setting.spellings().map(|flag| format!("`{flag}`")).collect();
    let default = match setting.default {
        Default::Unset => String::new(),
        Default::Value(value) => format!("`{value}`"),
        Default::Checkpoint(value) => format!("the model's, else `{value}`"),
    };
    let others = setting.other_variables.iter().map(|&other| other.to_owned());
    let variables: Vec<_> = [variable(setting.name)].into_iter().chain(others).collect();
    let commands: Vec<_> = setting.commands.iter().map(|command| command.name()).collect();
    format!(
        "| {} | `{}` | {default} | {} | {} (value: {}) |",
        flags.join(", "),
        variables.join("`, `"),
        commands.join(", "),
        setting.help,
        setting.kind.rule(),
    )
}
