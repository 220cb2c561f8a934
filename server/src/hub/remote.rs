//! What a repository on the Hub holds, and its bytes, over the crate `hf-hub`: endpoint, token, redirects, Xet.

use std::collections::HashMap;
use std::ops::Range;

use futures_util::{Stream, StreamExt};
use hf_hub::repository::RepoTreeEntry;
use hf_hub::{HFClient, HFRepository, HFResult, RepoTypeModel};

use super::checksum::Checksum;
use super::error::{Asked, PullError};
use super::failure::answer;
use super::limits::Limits;
use super::token;
use crate::store::name::HubName;

/// One repository.
pub(super) struct Remote {
    client: HFClient,
    repository: HFRepository<RepoTypeModel>,
    pub asked: Asked,
    pub limits: Limits,
}

/// A file of a commit.
#[derive(Debug, Clone)]
pub(super) struct RemoteFile {
    /// Its path in the repository. As the server says, so not to be trusted.
    pub name: String,
    pub size: u64,
    /// `None`: stored beside git, under a checksum that the listing does not tell.
    pub checksum: Option<Checksum>,
}

impl Remote {
    /// The repository that `name` is about, at the endpoint and with the token of the environment.
    pub fn new(name: &HubName, limits: Limits) -> Result<Self, PullError> {
        check_endpoint()?;
        // Its own repetitions would be silent, and multiply with ours.
        let agent = concat!("taper/", env!("CARGO_PKG_VERSION"));
        let mut builder = HFClient::builder().retry_max_attempts(0).user_agent(agent);
        if std::env::var("HF_ENDPOINT").is_ok_and(|endpoint| endpoint.is_empty()) {
            // As if it were not set.
            builder = builder.endpoint("https://huggingface.co");
        }
        let client = builder.build();
        let endpoint = || std::env::var("HF_ENDPOINT").unwrap_or_default();
        let client = client.map_err(|error| PullError::Unexpected { endpoint: endpoint(), what: error.to_string() })?;
        let asked = Asked {
            name: name.id(),
            revision: name.revision().to_owned(),
            endpoint: client.endpoint().to_owned(),
            token: token::source(),
        };
        let repository = client.model(&name.owner, &name.name);
        Ok(Self { client, repository, asked, limits })
    }

    /// The commit that the revision stands for now.
    pub async fn commit(&self) -> Result<String, PullError> {
        let ask = async || {
            let only_the_commit = vec!["sha".to_owned()];
            self.repository.info().revision(&self.asked.revision).expand(only_the_commit).send().await
        };
        let info = answer(&self.limits, ask).await.map_err(|failure| self.asked.error(failure))?;
        let commit = info.sha.filter(|sha| Checksum::git_sha1(sha).is_some());
        commit.ok_or_else(|| self.asked.unexpected("it names no commit".to_owned()))
    }

    /// All files of `commit`.
    pub async fn files(&self, commit: &str) -> Result<Vec<RemoteFile>, PullError> {
        let ask = async || files(self.repository.list_tree().revision(commit).recursive(true).send()?).await;
        answer(&self.limits, ask).await.map_err(|failure| self.asked.error(failure))
    }

    /// The SHA-256 of files that are stored beside git, by name.
    ///
    /// hf-hub 1.0 reads the tree's files with the field names of another listing, and so leaves the checksums out. That
    /// other listing it can read but not ask for (`?blobs=true`), which is why the question is put in the name: hf-hub
    /// puts names into addresses as they are. The name is checked, see `HubName`, and the commit is hexadecimal.
    pub async fn sha256s(&self, commit: &str) -> Result<HashMap<String, Checksum>, PullError> {
        let (owner, name) = (self.repository.owner(), self.repository.name());
        let repository = self.client.model(owner, format!("{name}/revision/{commit}?blobs=true"));
        let ask = async || repository.info().send().await;
        let info = answer(&self.limits, ask).await.map_err(|failure| self.asked.error(failure))?;
        let files = info.siblings.unwrap_or_default().into_iter();
        Ok(files.filter_map(|file| Some((file.rfilename, Checksum::sha256(&file.lfs?.sha256?)?))).collect())
    }

    /// The bytes of `file`, or a range of them; and how many there will be, as far as the server says that.
    ///
    /// Of some servers the number is the file's, not the range's.
    pub async fn open(
        &self,
        commit: &str,
        file: &str,
        range: Option<Range<u64>>,
    ) -> HFResult<(Option<u64>, impl Stream<Item = HFResult<impl AsRef<[u8]> + use<>>> + Unpin + use<>)> {
        self.repository.download_file_stream().filename(file).revision(commit).maybe_range(range).send().await
    }
}

/// What is no address would be found out by the HTTP client, in its words.
fn check_endpoint() -> Result<(), PullError> {
    match std::env::var("HF_ENDPOINT") {
        Ok(given) if !given.is_empty() => {
            let host = given.strip_prefix("http://").or_else(|| given.strip_prefix("https://"));
            if host.is_some_and(|host| !host.is_empty()) { Ok(()) } else { Err(PullError::Endpoint { given }) }
        }
        _ => Ok(()),
    }
}

async fn files(entries: impl Stream<Item = HFResult<RepoTreeEntry>>) -> HFResult<Vec<RemoteFile>> {
    let mut entries = std::pin::pin!(entries);
    let mut files = Vec::new();
    while let Some(entry) = entries.next().await {
        if let RepoTreeEntry::File { oid, size, path, lfs, .. } = entry? {
            let checksum = match lfs {
                Some(lfs) => lfs.sha256.as_deref().and_then(Checksum::sha256),
                None => Checksum::git_sha1(&oid),
            };
            files.push(RemoteFile { name: path, size, checksum });
        }
    }
    Ok(files)
}
