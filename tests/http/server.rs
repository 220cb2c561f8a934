//! The server under test: the real binary on a free port, with a tiny model that has room for long answers.

use std::io::{BufRead, BufReader, Read};
use std::net::SocketAddr;
use std::path::{Path, PathBuf};
use std::process::{Child, ChildStderr, Command, Stdio};
use std::sync::mpsc::{Receiver, channel};
use std::sync::{LazyLock, Mutex};
use std::time::{Duration, Instant};

/// What the shared server is started with.
const SHARED: &[&str] = &["--max-body", "1M", "--sse-ping-interval", "0"];
/// Nothing here takes this long, however busy the machine is.
const PATIENCE: Duration = Duration::from_secs(60);

/// A running `taper serve`; killed when dropped.
pub struct Server {
    pub address: SocketAddr,
    child: Mutex<Child>,
    log: Mutex<Receiver<String>>,
}

/// One server for all tests that leave it as it was.
pub fn shared() -> &'static Server {
    // A static is never dropped. The shell kills the server when this process, and with it the pipe, is gone.
    static SERVER: LazyLock<Server> = LazyLock::new(|| {
        let mut shell = Command::new("sh");
        shell.args(["-c", "\"$@\" & read _; kill $!", "sh", env!("CARGO_BIN_EXE_taper")]).stdin(Stdio::piped());
        Server::start_with(shell, &model(), SHARED)
    });
    &SERVER
}

/// A path for a file of this run.
pub fn scratch(name: &str) -> PathBuf {
    static DIRECTORY: LazyLock<PathBuf> = LazyLock::new(|| {
        let path = Path::new(env!("CARGO_TARGET_TMPDIR")).join("http");
        std::fs::create_dir_all(&path).expect("cargo's directory for tests can be written");
        path
    });
    DIRECTORY.join(format!("{}-{name}", std::process::id()))
}

pub fn fixture(name: &str) -> PathBuf {
    Path::new(env!("CARGO_MANIFEST_DIR")).join("../tests/fixtures").join(name)
}

/// The tiny Llama, said to be made for 8192 tokens instead of 256: so an answer can take long enough to be left.
pub fn model() -> PathBuf {
    const KEY: &[u8] = b"llama.context_length";
    static PATH: LazyLock<PathBuf> = LazyLock::new(|| {
        let mut file = std::fs::read(fixture("tiny_gguf/llama.gguf")).expect("the fixture is there");
        let key = file.windows(KEY.len()).position(|window| window == KEY).expect("every GGUF says its context");
        // After the key comes the value's type, u32.
        let value = key + KEY.len() + 4;
        assert_eq!(file[value..value + 4], 256_u32.to_le_bytes());
        file[value..value + 4].copy_from_slice(&8192_u32.to_le_bytes());
        // Written aside and moved: another run of the tests may be reading it.
        let (written, path) = (scratch("tiny.part"), scratch("").with_file_name("tiny.gguf"));
        std::fs::write(&written, file).expect("scratch files can be written");
        std::fs::rename(&written, &path).expect("scratch files can be moved");
        path
    });
    PATH.clone()
}

/// `taper serve` on the tiny model, without the caller's settings.
pub fn taper() -> Command {
    Command::new(env!("CARGO_BIN_EXE_taper"))
}

/// Starts `command serve MODEL ARGUMENTS`.
pub fn spawn(mut command: Command, model: &Path, arguments: &[&str]) -> Child {
    for (name, _) in std::env::vars_os().filter(|(name, _)| name.to_string_lossy().starts_with("TAPER_")) {
        command.env_remove(name);
    }
    command.arg("serve").arg(model).args(["-t", "1", "--alias", "tiny"]).args(arguments);
    command.stdout(Stdio::null()).stderr(Stdio::piped()).spawn().expect("taper was built for this test")
}

impl Server {
    /// Starts a server and waits until it takes requests.
    pub fn start(arguments: &[&str]) -> Self {
        Self::start_with(taper(), &model(), arguments)
    }

    fn start_with(command: Command, model: &Path, arguments: &[&str]) -> Self {
        let port = if arguments.contains(&"--port") { &[][..] } else { &["--port", "0"] };
        Self::of(spawn(command, model, &[port, arguments].concat()))
    }

    /// Waits until `child` says where it listens.
    pub fn of(mut child: Child) -> Self {
        let log = lines(child.stderr.take().expect("it is piped"));
        let mut seen = Vec::new();
        let address = loop {
            match log.recv_timeout(PATIENCE) {
                Ok(line) => seen.push(line),
                Err(error) => panic!("the server does not start ({error}): {seen:#?}"),
            }
            let address = seen.last().and_then(|line| line.split_once("API  ")?.1.trim().strip_prefix("http://"));
            if let Some(address) = address {
                let address = address.split('/').next().expect("a split has a first part");
                break address.parse().unwrap_or_else(|error| panic!("{address:?}: {error}"));
            }
        };
        Self { address, child: Mutex::new(child), log: Mutex::new(log) }
    }

    pub fn pid(&self) -> u32 {
        self.child.lock().unwrap().id()
    }

    /// Sends SIGTERM.
    pub fn terminate(&self) {
        terminate(self.pid());
    }

    /// Waits for the end: the exit code.
    pub fn exit_code(&self) -> Option<i32> {
        within(PATIENCE, "the server ends", || self.child.lock().unwrap().try_wait().unwrap()).code()
    }

    /// What was logged since the last call.
    pub fn logged(&self) -> String {
        self.log.lock().unwrap().try_iter().collect::<Vec<_>>().join("\n")
    }
}

impl Drop for Server {
    fn drop(&mut self) {
        let mut child = self.child.lock().unwrap();
        // It may have ended by itself.
        let _ = child.kill();
        let _ = child.wait();
    }
}

/// Sends SIGTERM to the process.
pub fn terminate(pid: u32) {
    let status = Command::new("sh").args(["-c", &format!("kill -TERM {pid}")]).status().unwrap();
    assert!(status.success(), "process {pid} is there");
}

/// The lines of a process, read as they come: a full pipe would stop it.
fn lines(stderr: ChildStderr) -> Receiver<String> {
    let (sender, receiver) = channel();
    std::thread::spawn(move || {
        let mut reader = BufReader::new(stderr);
        let mut line = String::new();
        while reader.read_line(&mut line).is_ok_and(|count| count > 0) {
            // The test may no longer listen; the pipe must be emptied all the same.
            let _ = sender.send(std::mem::take(&mut line).trim_end().to_owned());
        }
        let _ = reader.read_to_end(&mut Vec::new());
    });
    receiver
}

/// Looks again and again until there is something to see.
///
/// # Panics
/// When there is nothing within `limit`.
pub fn within<T>(limit: Duration, what: &str, mut look: impl FnMut() -> Option<T>) -> T {
    let end = Instant::now() + limit;
    loop {
        if let Some(seen) = look() {
            return seen;
        }
        assert!(Instant::now() < end, "not within {limit:?}: {what}");
        std::thread::sleep(Duration::from_millis(5));
    }
}
