//! The pre-tokenizers that `tokenizer.ggml.pre` can name: regular expressions which cut text into words before BPE.
//!
//! Data, not logic. Each expression is the one of the model's published tokenizer; each cuts what the one before left,
//! and what lies between matches is a word too. The names are those llama.cpp's converter writes.

/// One pre-tokenizer and what its models have in common besides.
#[derive(Debug)]
pub(super) struct PreTokenizer {
    pub(super) names: &'static [&'static str],
    pub(super) expressions: &'static [&'static str],
    /// A word that is a token is taken whole, even if no merges lead there.
    pub(super) ignore_merges: bool,
    /// Whether the begin token is put before a text if the file does not say.
    pub(super) add_bos: bool,
}

impl PreTokenizer {
    /// The pre-tokenizer called `name`.
    pub(super) fn named(name: &str) -> Option<&'static Self> {
        ALL.iter().find(|pre| pre.names.contains(&name))
    }

    /// All names, for messages.
    pub(super) fn all_names() -> String {
        ALL.iter().flat_map(|pre| pre.names).copied().collect::<Vec<_>>().join(", ")
    }
}

const GPT2: &str = r"'s|'t|'re|'ve|'m|'ll|'d| ?\p{L}+| ?\p{N}+| ?[^\s\p{L}\p{N}]+|\s+(?!\S)|\s+";
const LLAMA3: &str = r"(?i:'s|'t|'re|'ve|'m|'ll|'d)|[^\r\n\p{L}\p{N}]?\p{L}+|\p{N}{1,3}| ?[^\s\p{L}\p{N}]+[\r\n]*|\s*[\r\n]+|\s+(?!\S)|\s+";
const QWEN2: &str =
    r"(?i:'s|'t|'re|'ve|'m|'ll|'d)|[^\r\n\p{L}\p{N}]?\p{L}+|\p{N}| ?[^\s\p{L}\p{N}]+[\r\n]*|\s*[\r\n]+|\s+(?!\S)|\s+";
const QWEN35: &str = r"(?i:'s|'t|'re|'ve|'m|'ll|'d)|[^\r\n\p{L}\p{N}]?[\p{L}\p{M}]+|\p{N}| ?[^\s\p{L}\p{M}\p{N}]+[\r\n]*|\s*[\r\n]+|\s+(?!\S)|\s+";
const MINICPM5: &str =
    r"(?i:'s|'t|'re|'ve|'m|'ll|'d)|[^\r\n\p{L}\p{N}]?\p{L}+|\p{N}+| ?[^\s\p{L}\p{N}]+[\r\n]*|\s*[\r\n]+|\s+(?!\S)|\s+";
const SEED_CODER: &str =
    r"(?i:'s|'t|'re|'ve|'m|'ll|'d)|[^\r\n\p{L}\p{N}]?\p{L}+|\p{N}{1}| ?[^\s\p{L}\p{N}\r\n]+|\s*[\r\n]+|\s+(?!\S)|\s+";
const BAILING: &str =
    r"'(?i:[sdmt]|ll|ve|re)|[^\r\n\p{L}\p{N}]?+\p{L}+|\p{N}| ?[^\s\p{L}\p{N}]++[\r\n]*|\s*[\r\n]|\s+(?!\S)|\s+";
const EXAONE_MOE: &str = r"(?i:'s|'t|'re|'ve|'m|'ll|'d)|[^\r\n\p{L}\p{N}]?(?:\p{L}\p{M}*(?: \p{L}\p{M}*)*)+|\p{N}| ?[^\s\p{L}\p{N}]+[\r\n/]?|\s*[\r\n]|\s+(?!\S)|\s+";
const TEKKEN: &str = r"[^\r\n\p{L}\p{N}]?[\p{Lu}\p{Lt}\p{Lm}\p{Lo}\p{M}]*[\p{Ll}\p{Lm}\p{Lo}\p{M}]+|[^\r\n\p{L}\p{N}]?[\p{Lu}\p{Lt}\p{Lm}\p{Lo}\p{M}]+[\p{Ll}\p{Lm}\p{Lo}\p{M}]*|\p{N}| ?[^\s\p{L}\p{N}]+[\r\n/]*|\s*[\r\n]+|\s+(?!\S)|\s+";
const GPT4O: &str = r"[^\r\n\p{L}\p{N}]?[\p{Lu}\p{Lt}\p{Lm}\p{Lo}\p{M}]*[\p{Ll}\p{Lm}\p{Lo}\p{M}]+(?i:'s|'t|'re|'ve|'m|'ll|'d)?|[^\r\n\p{L}\p{N}]?[\p{Lu}\p{Lt}\p{Lm}\p{Lo}\p{M}]+[\p{Ll}\p{Lm}\p{Lo}\p{M}]*(?i:'s|'t|'re|'ve|'m|'ll|'d)?|\p{N}{1,3}| ?[^\s\p{L}\p{N}]+[\r\n/]*|\s*[\r\n]+|\s+(?!\S)|\s+";
const DEEPSEEK_V3: &str = r##"[!"#$%&'()*+,\-./:;<=>?@\[\\\]^_`{|}~][A-Za-z]+|[^\r\n\p{L}\p{P}\p{S}]?[\p{L}\p{M}]+| ?[\p{P}\p{S}]+[\r\n]*|\s*[\r\n]+|\s+(?!\S)|\s+"##;
/// Letters with case, as they were when DeepSeek's first tokenizer was made.
const DEEPSEEK_WORD: &str = r"\s?[A-Za-zµÀ-ÖØ-öø-ƺƼ-ƿǄ-ʓʕ-ʯͰ-ͳͶͷͻ-ͽͿΆΈ-ΊΌΎ-ΡΣ-ϵϷ-ҁҊ-ԯԱ-ՖႠ-ჅᎠ-Ᏽᏸ-ᏽᲐ-ᲺᲽ-Ჿᴀ-ᴫᵫ-ᵷᵹ-ᶚḀ-ἕἘ-Ἕἠ-ὅὈ-Ὅὐ-ὗὙὛὝὟ-ώᾀ-ᾴᾶ-ᾼιῂ-ῄῆ-ῌῐ-ΐῖ-Ίῠ-Ῥῲ-ῴῶ-ῼℂℇℊ-ℓℕℙ-ℝℤΩℨK-ℭℯ-ℴℹℼ-ℿⅅ-ⅉⅎↃↄⰀ-ⱻⱾ-ⳤⳫ-ⳮⳲⳳꙀ-ꙭꚀ-ꚛꜢ-ꝯꝱ-ꞇꞋ-ꞎꭰ-ꮿﬀ-ﬆﬓ-ﬗＡ-Ｚａ-ｚ𐐀-𐑏𐒰-𐓓𐓘-𐓻𐲀-𐲲𐳀-𐳲𑢠-𑣟𞤀-𞥃]+";
const DEEPSEEK_PUNCTUATION: &str = r"\s?[!-/:-~！-／：-～‘-‟　-。]+";

/// A plain pre-tokenizer: merges decide, and no begin token unless the file asks for one.
const fn plain(names: &'static [&'static str], expressions: &'static [&'static str]) -> PreTokenizer {
    PreTokenizer { names, expressions, ignore_merges: false, add_bos: false }
}

#[rustfmt::skip]
static ALL: &[PreTokenizer] = &[
    plain(&["default"], &[r"[\p{P}\$\+<=>\^~\|]+", GPT2, r"\p{N}+", r"[0-9][0-9][0-9]"]),
    plain(
        &["gpt-2", "phi-2", "mpt", "olmo", "jais", "trillion", "granite-docling", "gigachat", "a.x-4.0", "mellum",
          "exaone4"],
        &[GPT2],
    ),
    plain(
        &["smollm", "starcoder", "refact", "command-r", "codeshell", "exaone", "minerva-7b", "mellum2"],
        &[r"\p{N}", GPT2],
    ),
    plain(&["falcon"], &[r"[\p{P}\$\+<=>\^~\|`]+", GPT2, r"[0-9][0-9][0-9]"]),
    PreTokenizer {
        names: &["llama-bpe", "llama3", "llama-v3", "falcon3", "falcon-h1", "pixtral", "midm-2.0", "lfm2"],
        expressions: &[LLAMA3],
        ignore_merges: true,
        add_bos: true,
    },
    plain(&["smaug-bpe", "dbrx", "chatglm-bpe"], &[LLAMA3]),
    PreTokenizer { names: &["glm4", "glm5"], expressions: &[LLAMA3], ignore_merges: true, add_bos: false },
    plain(
        &["qwen2", "deepseek-r1-qwen", "kormo", "stablelm2", "hunyuan", "solar-open", "megrez", "grok-2"],
        &[QWEN2],
    ),
    plain(&["qwen35"], &[QWEN35]),
    plain(&["laguna"], &[r"[^\n]+|[\n]+", QWEN2]),
    PreTokenizer { names: &["minicpm5"], expressions: &[r"\p{N}{1,3}", MINICPM5], ignore_merges: true, add_bos: false },
    plain(&["seed-coder"], &[SEED_CODER]),
    plain(&["bailingmoe", "bailingmoe2", "llada-moe"], &[BAILING]),
    plain(&["exaone-moe"], &[EXAONE_MOE]),
    PreTokenizer { names: &["tekken"], expressions: &[TEKKEN], ignore_merges: true, add_bos: true },
    plain(&["gpt-4o", "llama4", "kanana2", "minimax-m2"], &[GPT4O]),
    plain(&["tiny_aya", "cohere2moe"], &[r"\d{1,3}(?=(?:\d{3})*\b)", GPT4O]),
    plain(
        &["deepseek-llm"],
        &[r"[\r\n]", DEEPSEEK_WORD, DEEPSEEK_PUNCTUATION, r"\s+$", "[一-龥ࠀ-一가-퟿]+", r"\p{N}+"],
    ),
    plain(&["deepseek-coder"], &[r"[\r\n]", r"\s?\p{L}+", r"\s?\p{P}+", "[一-龥ࠀ-一가-퟿]+", r"\p{N}"]),
    plain(
        &["deepseek-v3", "hunyuan-dense", "joyai-llm", "hy_v4"],
        &[r"\p{N}{1,3}", "[一-龥぀-ゟ゠-ヿ]+", DEEPSEEK_V3],
    ),
];

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn every_name_occurs_once() {
        let mut names: Vec<_> = ALL.iter().flat_map(|pre| pre.names).collect();
        names.sort_unstable();
        let repeated: Vec<_> = names.windows(2).filter(|pair| pair[0] == pair[1]).collect();
        assert!(repeated.is_empty(), "{repeated:?}");
    }

    #[test]
    fn every_expression_compiles() {
        for expression in ALL.iter().flat_map(|pre| pre.expressions) {
            if let Err(error) = tokenizers::utils::SysRegex::new(expression) {
                panic!("{expression}: {error}");
            }
        }
    }
}
