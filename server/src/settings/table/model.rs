//! Settings of which model is opened, and with how many threads.

use super::row::{ENGINE, Kind, MODEL, NAMING, OPENING, PULL, REMOVE, Setting, setting};

pub(super) static ROWS: &[Setting] = &[
    setting("model", "MODEL", Kind::Text { set: |s, v| s.model = v })
        .short('m')
        .also(&["-hf", "-hfr", "--hf-repo"])
        .positional()
        .must_agree()
        .of(MODEL, NAMING)
        .help(
            "A GGUF file (of a split one, its first part), a directory with safetensors, an alias of the settings file, \
             or owner/name[@revision][:quantisation] on the Hugging Face Hub",
        ),
    setting("model", "MODEL", Kind::Texts { set: |s, v| s.models = v })
        .short('m')
        .positional()
        .of(MODEL, REMOVE)
        .help(
            "Model of the Hub's cache, or an alias of one; several may be named. Without a quantisation, all there is \
             of it. Counts on the command line only",
        ),
    setting("revision", "REV", Kind::Text { set: |s, v| s.revision = Some(v) })
        .of(MODEL, NAMING)
        .help("Branch, tag or commit of a model on the Hub; without it, main"),
    setting("offline", "", Kind::Switch { set: |s, v| s.offline = v })
        .other_variables(&["HF_HUB_OFFLINE", "TRANSFORMERS_OFFLINE"])
        .default("false")
        .of(MODEL, NAMING)
        .help("Ask nothing of the Hub: files and what is already in its cache"),
    setting("jobs", "N", Kind::Integer { min: 1, max: 64, set: |s, v| s.jobs = v as usize })
        .default("8")
        .of(MODEL, PULL)
        .help("Most connections that download at once"),
    setting("yes", "", Kind::Switch { set: |s, v| s.yes = v })
        .short('y')
        .default("false")
        .of(MODEL, REMOVE)
        .help("Remove without asking"),
    setting("device", "NAME", Kind::Choice { values: &["cpu"], set: |_, _| {} })
        .default("cpu")
        .of(MODEL, ENGINE)
        .help("Where the model runs; so far on the CPU only"),
    setting(
        "ctx-size",
        "TOKENS",
        Kind::Integer { min: 0, max: u32::MAX as i64, set: |s, v| s.engine.ctx_size = positive(v) },
    )
    .short('c')
    .also(&["--max-model-len"])
    .default("0")
    .of(MODEL, OPENING)
    .help("Longest context of a sequence; 0: the model's limit, or what fits"),
    setting("threads", "N", Kind::Integer { min: -1, max: 1024, set: |s, v| s.engine.threads = positive(v) })
        .short('t')
        .default("0")
        .of(MODEL, ENGINE)
        .help("Compute threads; 0 or -1: one per physical core; more than the logical CPUs: slower, with a warning"),
];

fn positive(value: i64) -> Option<usize> {
    usize::try_from(value).ok().filter(|&value| value > 0)
}
