//! The models that a repository in the cache holds, as a list for people: whole ones, and those that are not.

use std::time::SystemTime;

use super::begun::Begun;
use super::gguf_names::{GgufModel, gguf_models};
use super::name::HubName;
use super::resolve::missing;
use super::scan::{CachedRepo, CachedRevision};
use super::select::{Kind, RepoFile, SelectError, Selection, select};

/// A model in the cache.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct CachedModel {
    /// What to type for it.
    pub name: HubName,
    /// `None`: a download that has not got so far.
    pub commit: Option<String>,
    pub refs: Vec<String>,
    pub format: Format,
    pub quant: Option<String>,
    /// Bytes of its files that are here.
    pub size: u64,
    /// Of a download that has not ended: bytes of all files that it has begun, where those are known.
    pub expected: Option<u64>,
    /// When a file of it was last read or written.
    pub used: Option<SystemTime>,
    /// Files that are known to be missing.
    pub missing: Vec<String>,
    /// Nothing is missing; of a download that has not ended, what is missing is not known by name.
    pub complete: bool,
}

/// How a model is stored.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Format {
    Gguf,
    Safetensors,
    /// Nothing that we read: pickles, a tokenizer alone, or only the beginning of a download.
    Other,
}

impl Format {
    /// For people and for JSON.
    pub fn name(self) -> &'static str {
        match self {
            Self::Gguf => "GGUF",
            Self::Safetensors => "safetensors",
            Self::Other => "other",
        }
    }
}

/// The models of `repo`, commit by commit, and then those of which a download has only begun.
pub fn cached_models(repo: &CachedRepo) -> Vec<CachedModel> {
    let mut models: Vec<CachedModel> = repo.revisions.iter().flat_map(|revision| of_revision(repo, revision)).collect();
    let (known, unknown): (Vec<&Begun>, Vec<&Begun>) = repo.begun.iter().partition(|begun| begun.file.is_some());
    models.extend(begun_models(repo, &known));
    if unknown.is_empty() {
        return models;
    }
    let bytes: u64 = unknown.iter().map(|begun| begun.present).sum();
    // Which file such a download was for is not known; a model that lacks some is the likeliest.
    match models.iter_mut().find(|model| !model.complete && model.commit.is_some()) {
        Some(model) => model.size += bytes,
        None => models.push(CachedModel { size: bytes, ..only_begun(repo.name.clone(), Format::Other) }),
    }
    models
}

/// The models that the files of `known` are to become.
fn begun_models(repo: &CachedRepo, known: &[&Begun]) -> Vec<CachedModel> {
    let file = |begun: &Begun| RepoFile { name: begun.file.clone().unwrap_or_default(), size: begun.present };
    let (ggufs, others): (Vec<RepoFile>, Vec<RepoFile>) =
        known.iter().map(|begun| file(begun)).partition(|file| file.name.to_ascii_lowercase().ends_with(".gguf"));
    let gguf = |model: GgufModel| {
        let begun = only_begun(gguf_name(&repo.name, &model), Format::Gguf);
        with_files(CachedModel { quant: model.quant, ..begun }, &model.files, known)
    };
    let mut models: Vec<CachedModel> = gguf_models(&ggufs).into_iter().map(gguf).collect();
    if !others.is_empty() {
        models.push(with_files(only_begun(repo.name.clone(), Format::Safetensors), &others, known));
    }
    models
}

/// `model`, which so far is nothing but `files`.
fn with_files(model: CachedModel, files: &[RepoFile], known: &[&Begun]) -> CachedModel {
    let size_of = |file: &RepoFile| known.iter().find(|begun| begun.file.as_ref() == Some(&file.name))?.size;
    CachedModel {
        size: files.iter().map(|file| file.size).sum(),
        expected: files.iter().map(size_of).sum(),
        missing: files.iter().map(|file| file.name.clone()).collect(),
        ..model
    }
}

/// A model of which nothing is whole.
fn only_begun(name: HubName, format: Format) -> CachedModel {
    CachedModel {
        name,
        commit: None,
        refs: Vec::new(),
        format,
        quant: None,
        size: 0,
        expected: None,
        used: None,
        missing: Vec::new(),
        complete: false,
    }
}

/// What to type for `model` of `repository`.
fn gguf_name(repository: &HubName, model: &GgufModel) -> HubName {
    match &model.quant {
        Some(quant) => HubName { quant: Some(quant.clone()), ..repository.clone() },
        None => HubName { file: Some(model.files[0].name.clone()), ..repository.clone() },
    }
}

fn of_revision(repo: &CachedRepo, revision: &CachedRevision) -> Vec<CachedModel> {
    let files = revision.repo_files();
    let mut models: Vec<_> = gguf_models(&files).into_iter().map(|model| of_gguf(repo, revision, model)).collect();
    let (_, others): (Vec<_>, Vec<_>) =
        files.into_iter().partition(|file| file.name.to_ascii_lowercase().ends_with(".gguf"));
    match select(&repo.name, &others) {
        Ok(selection) => models.push(model(repo, revision, Format::Safetensors, &selection, Vec::new())),
        Err(SelectError::MissingParts { missing, .. }) => {
            let selection = Selection { kind: Kind::Safetensors, files: others, choice: None };
            models.push(model(repo, revision, Format::Safetensors, &selection, vec![missing]));
        }
        Err(_) if models.is_empty() => {
            let selection = Selection { kind: Kind::Gguf { quant: None }, files: others, choice: None };
            let mut other = model(repo, revision, Format::Other, &selection, Vec::new());
            other.complete &= repo.begun.is_empty();
            models.push(other);
        }
        Err(_) => {}
    }
    models
}

fn of_gguf(repo: &CachedRepo, revision: &CachedRevision, gguf: GgufModel) -> CachedModel {
    let name = gguf_name(&repo.name, &gguf);
    let selection = Selection { kind: Kind::Gguf { quant: gguf.quant.clone() }, files: gguf.files, choice: None };
    let found = model(repo, revision, Format::Gguf, &selection, gguf.missing);
    CachedModel { name: HubName { revision: found.name.revision.clone(), ..name }, quant: gguf.quant, ..found }
}

fn model(
    repo: &CachedRepo,
    revision: &CachedRevision,
    format: Format,
    selection: &Selection,
    mut lacking: Vec<String>,
) -> CachedModel {
    let is_of_model = |name: &str| selection.files.iter().any(|file| file.name == name);
    let files = revision.files.iter().filter(|file| is_of_model(&file.name)).filter_map(|file| file.blob.as_ref());
    let used = files.clone().flat_map(|blob| [blob.modified, blob.accessed]).flatten().max();
    lacking.extend(missing(repo, revision, selection));
    // `main` is what a name without a revision means.
    let is_main = revision.refs.iter().any(|name| name == "main");
    let at = (!is_main).then(|| revision.refs.first().unwrap_or(&revision.commit).clone());
    CachedModel {
        name: HubName { revision: at, ..repo.name.clone() },
        commit: Some(revision.commit.clone()),
        refs: revision.refs.clone(),
        format,
        quant: None,
        size: files.map(|blob| blob.size).sum(),
        expected: None,
        used,
        complete: lacking.is_empty(),
        missing: lacking,
    }
}
