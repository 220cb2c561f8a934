//! What the names of GGUF files say: which files are one model, in which quantisation, and which are no model.

use super::select::RepoFile;

/// The files of one model: one, or all parts of a split that are there.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct GgufModel {
    /// `Q4_K_M`, in capitals as far as the name has one.
    pub quant: Option<String>,
    /// The parts in order; opening the first opens all.
    pub files: Vec<RepoFile>,
    /// Names of parts that should be there and are not.
    pub missing: Vec<String>,
}

impl GgufModel {
    /// Bytes of all its files.
    pub fn size(&self) -> u64 {
        self.files.iter().map(|file| file.size).sum()
    }
}

/// The model that `tag` means: the one of this quantisation, else the first whose name has the tag as a part.
pub fn tagged<'a>(models: &'a [GgufModel], tag: &str) -> Option<&'a GgufModel> {
    quantised(models, tag).or_else(|| models.iter().find(|model| has_part(&model.files[0].name, tag)))
}

/// The model of this very quantisation.
pub fn quantised<'a>(models: &'a [GgufModel], tag: &str) -> Option<&'a GgufModel> {
    models.iter().find(|model| model.quant.as_ref().is_some_and(|quant| quant.eq_ignore_ascii_case(tag)))
}

/// The models among `files`, short names first: of several that match, the plain one is meant.
pub fn gguf_models(files: &[RepoFile]) -> Vec<GgufModel> {
    let mut files: Vec<&RepoFile> = files.iter().filter(|file| is_model(&file.name)).collect();
    files.sort_by_key(|file| (file.name.len(), &file.name));
    let mut models: Vec<(String, GgufModel)> = Vec::new();
    for file in files {
        // Parts of one split differ in their number only.
        let key = split(&file.name).map_or(file.name.clone(), |part| part.name(0));
        match models.iter_mut().find(|(other, _)| *other == key) {
            Some((_, model)) => model.files.push(file.clone()),
            None => {
                models.push((key, GgufModel { quant: quant(&file.name), files: vec![file.clone()], missing: vec![] }));
            }
        }
    }
    models.into_iter().map(|(_, model)| with_missing(model)).collect()
}

fn with_missing(mut model: GgufModel) -> GgufModel {
    if let Some(part) = split(&model.files[0].name) {
        let names = (1..=part.count).map(|number| part.name(number));
        model.missing = names.filter(|name| !model.files.iter().any(|file| file.name == *name)).collect();
    }
    model
}

/// One part's place in a split: `x-00002-of-00003.gguf`.
struct Part<'a> {
    base: &'a str,
    count: u32,
}

impl Part<'_> {
    fn name(&self, number: u32) -> String {
        format!("{}-{number:05}-of-{:05}.gguf", self.base, self.count)
    }
}

/// More parts than any model has; what is beyond is only a name that looks like one.
const MAX_PARTS: u32 = 1000;

fn split(name: &str) -> Option<Part<'_>> {
    let (rest, count) = without_extension(name)?.rsplit_once("-of-")?;
    let (base, number) = rest.rsplit_once('-')?;
    let five = |digits: &str| (digits.len() == 5).then(|| digits.parse::<u32>().ok())?;
    let (number, count) = (five(number)?, five(count)?);
    ((1..=count).contains(&number) && count <= MAX_PARTS).then_some(Part { base, count })
}

fn without_extension(name: &str) -> Option<&str> {
    let (stem, extension) = name.rsplit_once('.')?;
    extension.eq_ignore_ascii_case("gguf").then_some(stem)
}

/// Whether a file holds a text model, not what goes beside one: a vision projector, an importance matrix, a draft.
fn is_model(name: &str) -> bool {
    let base = name.rsplit('/').next().unwrap_or(name).to_ascii_lowercase();
    without_extension(&base).is_some()
        && !base.contains("mmproj")
        && !base.contains("imatrix")
        && !base.starts_with("mtp-")
}

/// The quantisation that a file's name, or else its folder's, ends in.
pub fn quant(name: &str) -> Option<String> {
    let name = name.to_ascii_uppercase();
    let starts = name.char_indices().filter(|(at, _)| *at == 0 || is_boundary(name.as_bytes()[at - 1]));
    let labels: Vec<_> = starts.filter_map(|(at, _)| Some((at, label(&name[at..])?))).collect();
    let (at, label) = labels.last()?;
    // Unsloth's own mixtures, beside which a repository may have the plain ones.
    let ud = if name[..*at].ends_with("UD-") { "UD-" } else { "" };
    Some(format!("{ud}{label}"))
}

/// The quantisation that `text`, in capitals, begins with.
fn label(text: &str) -> Option<&str> {
    let end = text.find(|c: char| !c.is_ascii_alphanumeric()).unwrap_or(text.len());
    let head = &text[..end];
    let is_quant =
        ["Q", "IQ", "TQ"].iter().any(|kind| matches!(head.strip_prefix(kind).map(str::as_bytes), Some([b'1'..=b'8'])));
    if !is_quant && !["F32", "F16", "BF16", "FP16", "MXFP4", "NVFP4"].contains(&head) {
        return None;
    }
    let mut length = end;
    for part in text[end..].split('_').skip(usize::from(text[end..].starts_with('_'))) {
        let part = part.split(['-', '.', '/']).next().unwrap_or_default();
        let is_variant = ["0", "1", "4", "8", "K", "S", "M", "L", "XS", "XXS", "XL", "NL", "MOE"].contains(&part);
        if !is_variant || text.as_bytes().get(length) != Some(&b'_') {
            break;
        }
        length += 1 + part.len();
    }
    Some(&text[..length])
}

fn is_boundary(byte: u8) -> bool {
    matches!(byte, b'-' | b'.' | b'_' | b'/')
}

/// Whether `tag` is a part of `name`, in any case. `Q4_K` is not a part of `Q4_K_M`: what ends it is no underscore.
fn has_part(name: &str, tag: &str) -> bool {
    let (name, tag) = (name.to_ascii_uppercase(), tag.to_ascii_uppercase());
    let bytes = name.as_bytes();
    name.match_indices(&tag).any(|(at, _)| {
        let after = bytes.get(at + tag.len());
        (at == 0 || is_boundary(bytes[at - 1])) && after.is_none_or(|byte| matches!(byte, b'-' | b'.' | b'/'))
    })
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_quantisation_is_read_from_the_name() {
        for (name, expected) in [
            ("SmolLM2-135M-Instruct.Q4_1.gguf", Some("Q4_1")),
            ("qwen3-0.6b-q4_k_m.gguf", Some("Q4_K_M")),
            ("Qwen3-0.6B-UD-Q4_K_XL.gguf", Some("UD-Q4_K_XL")),
            ("Llama-3.2-1B-Instruct-IQ4_NL.gguf", Some("IQ4_NL")),
            ("model_q4_k_m_v2.gguf", Some("Q4_K_M")),
            ("gpt-oss-20b-MXFP4_MOE.gguf", Some("MXFP4_MOE")),
            ("BF16/model-00001-of-00002.gguf", Some("BF16")),
            ("gemma-3-270m-f16.gguf", Some("F16")),
            ("bitnet-TQ1_0.gguf", Some("TQ1_0")),
            ("Q5_K_M/x-Q8_0.gguf", Some("Q8_0")),
            ("Qwen3-Q.gguf", None),
            ("model.gguf", None),
            ("é-q8_0-é.gguf", Some("Q8_0")),
        ] {
            assert_eq!(quant(name).as_deref(), expected, "{name}");
        }
    }

    #[test]
    fn parts_of_a_split_are_one_model_whose_missing_parts_are_named() {
        let file = |name: &str| RepoFile { name: name.to_owned(), size: 10 };
        let models = gguf_models(&[file("a/x-00003-of-00003.gguf"), file("a/x-00001-of-00003.gguf"), file("y.gguf")]);
        assert_eq!(models.len(), 2);
        assert_eq!(models[1].files[0].name, "a/x-00001-of-00003.gguf");
        assert_eq!((models[1].size(), models[1].missing.clone()), (20, vec!["a/x-00002-of-00003.gguf".to_owned()]));
    }

    #[test]
    fn a_name_that_claims_many_parts_is_one_file() {
        let models = gguf_models(&[RepoFile { name: "x-00001-of-99999.gguf".to_owned(), size: 1 }]);
        assert!(models[0].missing.is_empty());
    }
}
