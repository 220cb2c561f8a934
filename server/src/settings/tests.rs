//! The settings as a user meets them: what is given, where, and what comes of it.

use std::path::PathBuf;

use crate::engine::sampling::{SamplingOverrides, SamplingParams};

use super::table::{Default, Setting, settings_of, table, variable};
use super::{Command, KvCacheDtype, Origin, Settings, SettingsError, markdown};

fn load(line: &str, environment: &[(&str, &str)]) -> Result<Settings, SettingsError> {
    let argv = line.split(' ').map(str::to_owned).collect();
    let value = |variable: &str| environment.iter().find(|(name, _)| *name == variable).map(|(_, v)| (*v).to_owned());
    Settings::load(argv, value).map(|(_, settings)| settings)
}

fn error(line: &str, environment: &[(&str, &str)]) -> String {
    load(line, environment).expect_err(line).to_string()
}

/// A settings file in a directory of its own, which goes when the test ends.
fn file(text: &str) -> (tempfile::TempDir, String) {
    let directory = tempfile::tempdir().unwrap();
    let path = directory.path().join("taper.toml");
    std::fs::write(&path, text).unwrap();
    (directory, path.to_str().unwrap().to_owned())
}

#[test]
fn the_more_specific_source_wins() {
    let (_directory, path) = file("ctx-size = 1\nbatch-size = 10\nparallel = 3\n");
    let line = format!("taper run m.gguf -c 3 --config {path}");
    let settings = load(&line, &[("TAPER_CTX_SIZE", "2"), ("TAPER_BATCH_SIZE", "20")]).unwrap();
    let engine = &settings.engine;
    assert_eq!((engine.ctx_size, engine.step_tokens, engine.parallel), (Some(3), 20, 3));
    assert_eq!(engine.block_size, 32);
}

#[test]
fn each_value_keeps_its_origin() {
    let (_directory, path) = file("parallel = 3\n");
    let settings = load("taper run m.gguf -c 3", &[("TAPER_CONFIG", &path), ("TAPER_BATCH_SIZE", "20")]).unwrap();
    let origin = |name| settings.resolved[name].origin.clone();
    assert_eq!(origin("ctx-size"), Origin::CommandLine);
    assert_eq!(origin("batch-size"), Origin::Environment);
    assert_eq!(origin("parallel"), Origin::File(PathBuf::from(&path)));
    assert_eq!(origin("block-size"), Origin::Default);
}

#[test]
fn llama_cpp_spellings_are_understood() {
    let settings = load(
        "taper run -m m.gguf -c 512 -n 7 -t 2 -b 64 -ub 32 -np 2 -ctk f32 -ctv f32 -s 5 --temp 0.5 -sys be -p hi",
        &[],
    )
    .unwrap();
    let engine = &settings.engine;
    assert_eq!((engine.ctx_size, engine.threads, engine.step_tokens), (Some(512), Some(2), 32));
    assert_eq!((engine.parallel, engine.kv_cache_dtype), (2, KvCacheDtype::F32));
    let sampling = &settings.sampling.overrides;
    assert_eq!((sampling.max_tokens, sampling.seed, sampling.temperature), (Some(7), Some(5), Some(0.5)));
    assert_eq!((settings.run.system_prompt.as_deref(), settings.run.prompt.as_deref()), (Some("be"), Some("hi")));
}

#[test]
fn bench_reads_lists() {
    let settings = load("taper bench m.gguf -p 128,512 -n 16 -d 0,3900 --streams 1,8 -r 5", &[]).unwrap();
    let bench = &settings.bench;
    assert_eq!((bench.n_prompt.as_slice(), bench.n_gen.as_slice()), ([128, 512].as_slice(), [16].as_slice()));
    assert_eq!((bench.n_depth.as_slice(), bench.streams.as_slice()), ([0, 3900].as_slice(), [1, 8].as_slice()));
    assert_eq!(bench.repetitions, 5);
}

#[test]
fn sampling_that_nobody_gave_is_left_to_the_checkpoint() {
    let overrides = load("taper run m.gguf --top-k 40", &[]).unwrap().sampling.overrides;
    assert_eq!((overrides.top_k, overrides.top_p, overrides.temperature), (Some(40), None, None));
}

#[test]
fn what_help_shows_for_sampling_is_what_the_engine_falls_back_on() {
    let mut shown = Settings::default();
    for setting in table() {
        if let Default::Checkpoint(value) = setting.default {
            setting.kind.set(&mut shown, &[value.to_owned()]).unwrap();
        }
    }
    assert_eq!(SamplingOverrides::resolve(&[shown.sampling.overrides]), SamplingParams::default());
}

#[test]
fn the_last_of_several_values_wins() {
    assert_eq!(load("taper run m.gguf -c 5 --ctx-size 7", &[]).unwrap().engine.ctx_size, Some(7));
}

#[test]
fn repeated_settings_are_collected() {
    let settings = load("taper run m.gguf -r a --stop b --logit-bias 5+1.5 --logit-bias 7-inf", &[]).unwrap();
    assert_eq!(settings.sampling.stop, ["a", "b"]);
    assert_eq!(settings.sampling.overrides.logit_bias, Some(vec![(5, 1.5), (7, f32::NEG_INFINITY)]));
}

#[test]
fn repeated_settings_are_an_array_in_the_file() {
    let (_directory, path) = file("stop = ['a', 'b']\nn-gen = [16, 32]\n");
    assert_eq!(load(&format!("taper run m.gguf --config {path}"), &[]).unwrap().sampling.stop, ["a", "b"]);
    assert_eq!(load(&format!("taper bench m.gguf --config {path}"), &[]).unwrap().bench.n_gen, [16, 32]);
}

#[test]
fn memory_is_read_with_its_unit() {
    for (text, bytes) in [("auto", None), ("4096", Some(4096)), ("512M", Some(512 << 20)), ("1.5GiB", Some(3 << 29))] {
        let settings = load(&format!("taper run m.gguf --kv-cache-memory {text}"), &[]).unwrap();
        assert_eq!(settings.engine.kv_cache_memory, bytes, "{text}");
    }
}

#[test]
fn a_switch_can_be_taken_back() {
    let environment = [("TAPER_NO_PREFIX_CACHE", "1")];
    assert!(!load("taper run m.gguf", &environment).unwrap().engine.prefix_cache);
    assert!(load("taper run m.gguf --no-prefix-cache=false", &environment).unwrap().engine.prefix_cache);
}

#[test]
fn an_empty_variable_counts_as_unset() {
    assert_eq!(load("taper run m.gguf", &[("TAPER_CTX_SIZE", "")]).unwrap().engine.ctx_size, None);
}

#[test]
fn a_chunk_is_never_larger_than_a_step() {
    assert_eq!(load("taper run m.gguf -b 100", &[]).unwrap().engine.step_tokens, 100);
}

#[test]
fn the_more_specific_of_two_exclusive_settings_stays() {
    let settings = load("taper run m.gguf -f question.txt", &[("TAPER_PROMPT", "hi")]).unwrap();
    assert_eq!((settings.run.prompt, settings.run.file), (None, Some(PathBuf::from("question.txt"))));
}

#[test]
fn mistakes_are_named_where_they_were_made() {
    let (_directory, path) = file("ctx-size = 'many'\n");
    for (line, environment, expected) in [
        ("taper run m.gguf -c many", &[][..], "-c is \"many\"; it must be a whole number of at least 0"),
        ("taper run m.gguf", &[("TAPER_TOP_P", "1.5")], "TAPER_TOP_P is \"1.5\"; it must be a number above 0"),
        ("taper run m.gguf --device rocm", &[], "--device is \"rocm\"; it must be cpu"),
        ("taper run m.gguf -ctk f16 -ctv f32", &[], "-ctv was given twice, as \"f16\" and as \"f32\""),
        ("taper run a.gguf -m b.gguf", &[], "-m was given twice, as \"b.gguf\" and as \"a.gguf\""),
        ("taper run m.gguf -p a -f b", &[], "-p and -f exclude each other"),
        ("taper run m.gguf --raw -sys a", &[], "--raw and -sys exclude each other"),
        ("taper run m.gguf -n 0", &[], "-n is \"0\"; it must be a whole number of at least 1, or -1"),
        ("taper run m.gguf --top-p 0", &[], "--top-p is \"0\"; it must be a number above 0 and at most 1"),
        ("taper run m.gguf --logit-bias 5+200", &[], "--logit-bias is \"5+200\"; it must be"),
        ("taper bench m.gguf -p 0 -n 0", &[], "-p and -n are both 0, so there is nothing to measure"),
        ("taper bench", &[], "no model was given: name one, as in `taper bench MODEL`"),
        ("taper run m.gguf --logit-bias 5", &[], "--logit-bias is \"5\"; it must be a token id, a sign and a number"),
    ] {
        let message = error(line, environment);
        assert!(message.starts_with(expected), "{line}: {message}");
    }
    let message = error(&format!("taper run m.gguf --config {path}"), &[]);
    assert_eq!(message, format!("ctx-size in {path} is \"many\"; it must be a whole number of at least 0"));
}

#[test]
fn the_engines_fields_are_named_as_the_user_gave_them() {
    let settings = load("taper run m.gguf -n 5 --repeat-penalty 2", &[("TAPER_MIN_TOKENS", "3")]).unwrap();
    for (message, expected) in [
        ("`min_tokens` is 9; it must be at most `max_tokens`", "TAPER_MIN_TOKENS is 9; it must be at most -n"),
        ("`repetition_penalty` is 2", "--repeat-penalty is 2"),
        ("`top_p` is 0", "the model's own top-p is 0"),
        ("`num_blocks` is 0", "`num_blocks` is 0"),
    ] {
        assert_eq!(settings.in_words_of_the_user(message), expected);
    }
}

#[test]
fn settings_of_sampling_that_contradict_each_other_are_refused_before_a_model_is_loaded() {
    for (given, expected) in [
        (
            "--repetition-max-pattern-size 5 --repetition-min-pattern-size 9",
            "--repetition-min-pattern-size is 9; it must be at most --repetition-max-pattern-size, which is 5",
        ),
        ("-n 5 --min-tokens 9", "--min-tokens is 9; it must be at most -n"),
    ] {
        assert_eq!(error(&format!("taper run m.gguf {given}"), &[]), expected);
    }
}

#[test]
fn an_unknown_key_is_named_with_the_nearest_one() {
    let (_directory, path) = file("ctx_size = 4096\n");
    let message = error(&format!("taper run m.gguf --config {path}"), &[]);
    assert_eq!(message, format!("{path}: there is no setting \"ctx_size\"; the nearest is \"ctx-size\""));
}

#[test]
fn no_two_settings_of_a_subcommand_share_a_spelling() {
    for &command in Command::ALL {
        let mut spellings: Vec<String> = settings_of(command).flat_map(Setting::spellings).collect();
        spellings.sort();
        let twice: Vec<_> = spellings.windows(2).filter(|pair| pair[0] == pair[1]).collect();
        assert!(twice.is_empty(), "{}: {twice:?}", command.name());
    }
}

#[test]
fn every_default_satisfies_its_own_rule() {
    for setting in table() {
        if let Default::Value(value) | Default::Checkpoint(value) = setting.default {
            let command = setting.commands[0].name();
            let given = load(&format!("taper {command} m.gguf"), &[(variable(setting.name).as_str(), value)]);
            assert!(given.is_ok(), "{}: {given:?}", setting.name);
        }
    }
}

#[test]
fn the_documented_settings_are_the_table() {
    let path = PathBuf::from(env!("CARGO_MANIFEST_DIR")).join("../docs/settings.md");
    if std::env::var_os("TAPER_UPDATE_DOCS").is_some() {
        std::fs::write(&path, markdown()).unwrap();
    }
    let committed = std::fs::read_to_string(&path).unwrap_or_default();
    assert_eq!(committed, markdown(), "docs/settings.md is out of date: TAPER_UPDATE_DOCS=1 make test writes it");
}

#[test]
fn the_file_gives_models_names() {
    let (_directory, path) = file("ctx-size = 512\n[aliases]\nsmall = 'o/n:Q8_0'\nlocal = './m.gguf'\n");
    let settings = load(&format!("taper run small --config {path}"), &[]).unwrap();
    let aliases: Vec<_> = settings.aliases.iter().map(|(alias, model)| (alias.as_str(), model.as_str())).collect();
    assert_eq!(aliases, [("local", "./m.gguf"), ("small", "o/n:Q8_0")]);
    assert_eq!((settings.model.as_str(), settings.engine.ctx_size), ("small", Some(512)));
}

#[test]
fn an_alias_is_a_model_and_not_another_alias() {
    for (text, expected) in [
        ("[aliases]\na = 'b'\nb = 'o/n'\n", "the alias \"a\" is not valid: it stands for another alias"),
        ("[aliases]\na = 3\n", "the alias \"a\" is not valid: it must be a path, or a name"),
        ("aliases = 'a'\n", "aliases stand in a table"),
    ] {
        let (_directory, path) = file(text);
        let message = error(&format!("taper run a --config {path}"), &[]);
        assert!(message.contains(expected), "{message}");
    }
}

#[test]
fn variables_of_the_hubs_tools_count_below_ours() {
    for variable in ["TAPER_OFFLINE", "HF_HUB_OFFLINE", "TRANSFORMERS_OFFLINE"] {
        let settings = load("taper run o/n", &[(variable, "TRUE")]).unwrap();
        assert_eq!((settings.offline, settings.spelled("offline")), (true, variable.to_owned()));
    }
    assert!(!load("taper run o/n", &[("HF_HUB_OFFLINE", "1"), ("TAPER_OFFLINE", "0")]).unwrap().offline);
}

#[test]
fn models_to_remove_are_named_on_the_command_line_only() {
    let settings = load("taper rm o/a o/b -y", &[("TAPER_MODEL", "o/precious")]).unwrap();
    assert_eq!((settings.models, settings.yes), (vec!["o/a".to_owned(), "o/b".to_owned()], true));
    assert!(error("taper rm", &[("TAPER_MODEL", "o/precious")]).contains("name those to remove"));
}

#[test]
fn commands_without_a_model_need_none() {
    assert_eq!(load("taper list", &[("TAPER_MODEL", "o/n")]).unwrap().model, "");
    assert_eq!(load("taper completions zsh", &[]).unwrap().shell, "zsh");
    assert!(error("taper completions", &[]).contains("`taper completions bash`"));
}
