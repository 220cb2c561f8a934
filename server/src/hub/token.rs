//! Where the user's token comes from. hf-hub finds and sends it, and does not say; who is refused wants to know.

use std::path::PathBuf;

/// In words, the place of the token that hf-hub sends; `None`: it sends none.
pub(super) fn source() -> Option<String> {
    let set = |name: &str| std::env::var(name).ok().filter(|value| !value.is_empty());
    if set("HF_HUB_DISABLE_IMPLICIT_TOKEN").is_some() {
        return None;
    }
    if set("HF_TOKEN").is_some() {
        return Some("HF_TOKEN".to_owned());
    }
    let home = set("HF_HOME").map(PathBuf::from);
    let home = home.or_else(|| Some(PathBuf::from(set("XDG_CACHE_HOME")?).join("huggingface")));
    let home = home.or_else(|| Some(std::env::home_dir()?.join(".cache/huggingface")));
    let files = set("HF_TOKEN_PATH").map(PathBuf::from).into_iter().chain(home.map(|home| home.join("token")));
    let has_token = |file: &PathBuf| std::fs::read_to_string(file).is_ok_and(|text| !text.trim().is_empty());
    files.into_iter().find(has_token).map(|file| file.display().to_string())
}
