//! The bytes of one file: pieces over several connections, each begun again where it broke off.

use std::cell::RefCell;
use std::io;
use std::ops::Range;
use std::sync::Arc;
use std::sync::atomic::Ordering;

use futures_util::{StreamExt, stream};
use tokio::sync::Semaphore;
use tokio::time::{sleep, timeout};

use super::failure::Failure;
use super::partial::{Partial, missing};
use super::remote::{Remote, RemoteFile};
use super::{Event, Report};

/// What all transfers of a pull share.
pub(super) struct Transfers<'a> {
    pub remote: &'a Remote,
    pub commit: &'a str,
    /// One permit for each connection.
    pub connections: Semaphore,
    pub report: RefCell<&'a mut Report<'a>>,
}

impl Transfers<'_> {
    pub fn tell(&self, event: Event<'_>) {
        (self.report.borrow_mut())(event);
    }

    /// Brings what `partial` does not have of `file`.
    pub async fn fill(&self, file: &RemoteFile, partial: &Arc<Partial>, present: &[Range<u64>]) -> Result<(), Failure> {
        let pieces = missing(present, file.size, self.remote.limits.piece_of(file.size));
        let in_one = pieces.first() == Some(&(0..file.size));
        match self.bring_all(file, partial, pieces).await {
            Err(Failure::TooLong) if !in_one => self.bring_whole(file, partial).await,
            result => result,
        }
    }

    async fn bring_all(
        &self,
        file: &RemoteFile,
        partial: &Arc<Partial>,
        pieces: Vec<Range<u64>>,
    ) -> Result<(), Failure> {
        let pieces = pieces.into_iter().map(|piece| self.bring(file, Arrived::new(partial, piece), true));
        let mut pieces = std::pin::pin!(stream::iter(pieces).buffer_unordered(self.connections_at_most()));
        while let Some(piece) = pieces.next().await {
            piece?;
        }
        Ok(())
    }

    /// For a server that knows no ranges: from the beginning, in one go.
    async fn bring_whole(&self, file: &RemoteFile, partial: &Arc<Partial>) -> Result<(), Failure> {
        let path = partial.path();
        self.tell(Event::Lost(partial.reported.swap(0, Ordering::Relaxed)));
        partial.forget().map_err(Failure::disk(path))?;
        tracing::debug!(file = file.name, "the server knows no ranges");
        self.bring(file, Arrived::new(partial, 0..file.size), false).await
    }

    /// Brings one piece. `ranges`: a broken answer can be continued.
    async fn bring(&self, file: &RemoteFile, mut arrived: Arrived, ranges: bool) -> Result<(), Failure> {
        let limits = &self.remote.limits;
        let mut failures = 0;
        loop {
            let before = arrived.at;
            let Err(failure) = self.receive(file, &mut arrived).await else { return arrived.note().await };
            // The connection broke after the last byte; whether it was the right one the checksum says.
            if arrived.at == arrived.end && !arrived.doubtful && !matches!(failure, Failure::TooLong) {
                return arrived.note().await;
            }
            if !ranges || arrived.doubtful || matches!(failure, Failure::TooLong) {
                let lost = arrived.forget(before);
                arrived.partial.reported.fetch_sub(lost, Ordering::Relaxed);
                self.tell(Event::Lost(lost));
            }
            failures = if arrived.at > before { 1 } else { failures + 1 };
            let Some(wait) = failure.wait(failures, limits.attempts, limits) else { return Err(failure) };
            self.tell(Event::Again { file: &file.name, why: &failure.to_string() });
            sleep(wait).await;
        }
    }

    /// One request for what has not arrived yet.
    async fn receive(&self, file: &RemoteFile, arrived: &mut Arrived) -> Result<(), Failure> {
        let _turn = self.connections.acquire().await.expect("nobody closes the semaphore");
        let stall = self.remote.limits.stall;
        let silent = |_| Failure::Silent(stall);
        let (asked, whole) = (arrived.end - arrived.at, arrived.at == 0 && arrived.end == file.size);
        let range = (!whole).then_some(arrived.at..arrived.end);
        let open = self.remote.open(self.commit, &file.name, range);
        let (length, mut bytes) = timeout(stall, open).await.map_err(silent)?.map_err(Failure::Hub)?;
        arrived.doubtful = length.is_some_and(|length| length != asked);
        let mut received = 0;
        while let Some(chunk) = timeout(stall, bytes.next()).await.map_err(silent)? {
            let chunk = chunk.map_err(Failure::Hub)?;
            received += chunk.as_ref().len() as u64;
            if received > asked {
                return Err(Failure::TooLong);
            }
            arrived.write(chunk.as_ref())?;
            arrived.partial.reported.fetch_add(chunk.as_ref().len() as u64, Ordering::Relaxed);
            self.tell(Event::Received(chunk.as_ref().len() as u64));
            if !arrived.doubtful && arrived.at - arrived.noted >= self.remote.limits.unnoted_bytes {
                arrived.note().await?;
            }
        }
        if received < asked {
            return Err(Failure::Short { received, asked });
        }
        arrived.doubtful = false;
        Ok(())
    }

    /// More than permits would only wait.
    pub fn connections_at_most(&self) -> usize {
        self.remote.limits.connections.max(1)
    }
}

/// A piece of a file, and how far it is here. What has arrived is noted at the latest when this is dropped, which is
/// also how an interrupted pull ends.
struct Arrived {
    partial: Arc<Partial>,
    /// Up to here it is noted, or was there.
    noted: u64,
    at: u64,
    end: u64,
    /// The answer's length is not that of the range: it may be other bytes than those asked for, until all are there.
    doubtful: bool,
}

impl Arrived {
    fn new(partial: &Arc<Partial>, piece: Range<u64>) -> Self {
        Self { partial: Arc::clone(partial), noted: piece.start, at: piece.start, end: piece.end, doubtful: false }
    }

    fn write(&mut self, bytes: &[u8]) -> Result<(), Failure> {
        self.partial.write(bytes, self.at).map_err(Failure::disk(self.partial.path()))?;
        self.at += bytes.len() as u64;
        Ok(())
    }

    /// Goes back to `before`, and says how many bytes that were. What is noted already stays noted: were it wrong, the
    /// checksum would tell.
    fn forget(&mut self, before: u64) -> u64 {
        self.doubtful = false;
        self.noted = self.noted.min(before);
        std::mem::replace(&mut self.at, before) - before
    }

    /// Notes what has arrived; on a thread of its own, since it waits for the disk.
    async fn note(&mut self) -> Result<(), Failure> {
        let (partial, range) = (Arc::clone(&self.partial), self.noted..self.at);
        let noted = tokio::task::spawn_blocking(move || partial.note(&range)).await;
        noted.map_err(io::Error::other).flatten().map_err(Failure::disk(self.partial.path()))?;
        self.noted = self.at;
        Ok(())
    }
}

impl Drop for Arrived {
    fn drop(&mut self) {
        if self.at > self.noted && !self.doubtful {
            // Should it fail, these bytes are downloaded again.
            let _ = self.partial.note(&(self.noted..self.at));
        }
    }
}
