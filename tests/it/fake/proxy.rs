//! A TCP proxy on loopback that injects faults into connections.
//!
//! The seed and the connection's number determine its fault. TCP delivers bytes in order or not at all, so reordering
//! means that a later connection overtakes an earlier one. Changed bytes simulate a middlebox; only TLS detects them.

use std::collections::{BTreeMap, BTreeSet};
use std::net::SocketAddr;
use std::sync::atomic::{AtomicUsize, Ordering};
use std::sync::{Arc, Mutex, MutexGuard};
use std::time::Duration;

use fastrand::Rng;
use tokio::io::{AsyncReadExt, AsyncWriteExt};
use tokio::net::tcp::{OwnedReadHalf, OwnedWriteHalf};
use tokio::net::{TcpListener, TcpStream};
use tokio::sync::{mpsc, oneshot, watch};
use tokio::task::JoinSet;
use tokio::time::timeout;

/// Fault kinds, besides cutting, half closing and stalling connections.
#[derive(Debug, Clone, Copy)]
pub struct FaultKinds {
    /// Resets every connection after this many bytes, since clients reuse connections that work.
    pub max_bytes: usize,
    /// Delays and throttles bytes, and lets connections overtake others. A request may then arrive after its sender
    /// gave up, and after later requests.
    pub delays: bool,
    /// Changes bytes.
    pub corrupts: bool,
}

#[derive(Debug, Clone, Copy, PartialEq)]
enum Direction {
    ToServer,
    ToClient,
}

#[derive(Debug, Clone, Copy)]
enum End {
    /// Both sides see a reset.
    Reset,
    /// The receiver sees the end of the stream; the other direction continues.
    HalfClosed,
    /// Bytes stop, and both connections stay open.
    Stalled,
}

#[derive(Debug, Clone, Copy)]
enum Fault {
    Passed,
    Refused,
    /// Ends with the next byte in this direction, once both directions passed `after` bytes.
    Ended {
        direction: Direction,
        after: usize,
        by: End,
    },
    Throttled {
        bytes: usize,
        pause: Duration,
    },
    Delayed(Duration),
    /// Held until a later connection has passed bytes.
    Overtaken,
    /// Once both directions passed `after` bytes, swaps the halves of a chunk or flips a bit.
    Changed {
        direction: Direction,
        after: usize,
        is_swapped: bool,
    },
}

/// A received chunk. The channel ends with the stream.
enum Chunk {
    Bytes(Vec<u8>),
    Reset,
}

/// Whether a client waits for a response.
#[derive(Clone, Copy, PartialEq)]
enum ClientState {
    Waiting,
    Idle,
    Closed,
}

struct Shared {
    server: SocketAddr,
    seed: u64,
    kinds: FaultKinds,
    is_disabled: watch::Sender<bool>,
    /// The highest number of a connection that passed bytes.
    passed: watch::Sender<usize>,
    stats: Mutex<Stats>,
}

#[derive(Default)]
struct Stats {
    faults: BTreeMap<&'static str, usize>,
    clients: BTreeMap<usize, ClientState>,
    max_waiting: usize,
}

/// A running proxy.
pub struct Proxy {
    address: SocketAddr,
    shared: Arc<Shared>,
    stop: Option<oneshot::Sender<()>>,
    thread: Option<std::thread::JoinHandle<()>>,
}

impl Proxy {
    /// Starts a proxy in front of the server at this URL.
    pub fn start(url: &str, seed: u64, kinds: FaultKinds) -> Self {
        let server = url.rsplit_once("://").unwrap().1.parse().unwrap();
        let shared = Arc::new(Shared {
            server,
            seed,
            kinds,
            is_disabled: watch::Sender::default(),
            passed: watch::Sender::default(),
            stats: Mutex::default(),
        });
        let listener = std::net::TcpListener::bind("127.0.0.1:0").unwrap();
        let address = listener.local_addr().unwrap();
        listener.set_nonblocking(true).unwrap();
        let (stop, stopped) = oneshot::channel();
        let serving = Arc::clone(&shared);
        let thread = std::thread::spawn(move || {
            let runtime = tokio::runtime::Builder::new_current_thread().enable_all().build().unwrap();
            runtime.block_on(async move {
                let listener = TcpListener::from_std(listener).unwrap();
                tokio::select! {
                    () = accept(&serving, &listener) => {}
                    _ = stopped => {}
                }
            });
        });
        Self { address, shared, stop: Some(stop), thread: Some(thread) }
    }

    /// The server's URL with the proxy's address.
    pub fn proxied_url(&self, url: &str) -> String {
        format!("{}://{}", url.rsplit_once("://").unwrap().0, self.address)
    }

    /// Stops injecting faults. Stalled connections stay stalled.
    pub fn disable_faults(&self) {
        self.shared.is_disabled.send_replace(true);
    }

    /// Injects faults again.
    pub fn enable_faults(&self) {
        self.shared.is_disabled.send_replace(false);
    }

    /// Number of injected faults by name.
    pub fn faults(&self) -> BTreeMap<&'static str, usize> {
        self.shared.stats().faults.clone()
    }

    /// Maximum number of clients that waited for responses at the same time. Clients in a TLS handshake count.
    pub fn max_waiting(&self) -> usize {
        self.shared.stats().max_waiting
    }
}

impl Drop for Proxy {
    fn drop(&mut self) {
        drop(self.stop.take());
        if let Some(thread) = self.thread.take() {
            let _ = thread.join();
        }
    }
}

impl Fault {
    fn random(random: &mut Rng, kinds: FaultKinds) -> Self {
        let direction = if random.bool() { Direction::ToServer } else { Direction::ToClient };
        // Within a handshake, a head or a body: less than 32 KiB.
        let max = 1 << random.u8(1..16);
        let after = random.usize(..max);
        loop {
            return match random.u8(..16) {
                0 => Self::Passed,
                1 => Self::Refused,
                2..5 => Self::Ended { direction, after, by: End::Reset },
                5..8 => Self::Ended { direction, after, by: End::HalfClosed },
                8..10 => Self::Ended { direction, after, by: End::Stalled },
                10 if kinds.delays => {
                    let pause = Duration::from_millis(random.u64(1..5));
                    Self::Throttled { bytes: random.usize(100..2_000), pause }
                }
                11 if kinds.delays => Self::Delayed(Duration::from_millis(random.u64(1..80))),
                12..14 if kinds.delays => Self::Overtaken,
                14.. if kinds.corrupts => Self::Changed { direction, after, is_swapped: random.bool() },
                _ => continue,
            };
        }
    }
}

impl Shared {
    fn stats(&self) -> MutexGuard<'_, Stats> {
        self.stats.lock().unwrap()
    }

    fn is_disabled(&self) -> bool {
        *self.is_disabled.borrow()
    }

    async fn sleep_unless_disabled(&self, pause: Duration) {
        let _ = timeout(pause, self.is_disabled.subscribe().wait_for(|is_disabled| *is_disabled)).await;
    }

    fn count_fault(&self, name: &'static str) {
        *self.stats().faults.entry(name).or_default() += 1;
    }

    fn set_client(&self, connection: usize, client: ClientState) {
        self.stats().clients.insert(connection, client);
    }

    fn count_waiting(&self) {
        let mut stats = self.stats();
        let waiting = stats.clients.values().filter(|client| **client == ClientState::Waiting).count();
        stats.max_waiting = stats.max_waiting.max(waiting);
    }
}

async fn accept(shared: &Arc<Shared>, listener: &TcpListener) {
    for number in 0.. {
        let client = listener.accept().await.unwrap().0;
        let shared = Arc::clone(shared);
        tokio::spawn(async move { connection(&shared, number, client).await });
    }
}

async fn connection(shared: &Arc<Shared>, number: usize, client: TcpStream) {
    let mut random = Rng::with_seed(shared.seed.wrapping_mul(1_000_003).wrapping_add(number as u64));
    let fault = if shared.is_disabled() { Fault::Passed } else { Fault::random(&mut random, shared.kinds) };
    client.set_nodelay(true).unwrap();
    client.set_zero_linger().unwrap();
    if let Fault::Refused = fault {
        return shared.count_fault("refused");
    }
    let (from_client, mut to_client) = client.into_split();
    let (there, mut from_there) = mpsc::unbounded_channel();
    let mut readers = JoinSet::new();
    readers.spawn(read(from_client, there, Some((Arc::clone(shared), number))));
    if let Fault::Overtaken = fault {
        shared.count_fault("overtaken");
        let (mut passed, mut disabled) = (shared.passed.subscribe(), shared.is_disabled.subscribe());
        tokio::select! {
            _ = passed.wait_for(|passed| *passed > number) => {}
            _ = disabled.wait_for(|is_disabled| *is_disabled) => {}
        }
    }
    let Ok(server) = TcpStream::connect(shared.server).await else {
        return shared.set_client(number, ClientState::Closed);
    };
    server.set_nodelay(true).unwrap();
    server.set_zero_linger().unwrap();
    let (from_server, mut to_server) = server.into_split();
    let (back, mut from_back) = mpsc::unbounded_channel();
    readers.spawn(read(from_server, back, None));
    let passed = AtomicUsize::new(0);
    let connection = Connection { shared, number, fault, passed: &passed };
    let ended = {
        let there = forward(connection, Direction::ToServer, &mut from_there, &mut to_server);
        let back = forward(connection, Direction::ToClient, &mut from_back, &mut to_client);
        let (mut there, mut back) = (std::pin::pin!(there), std::pin::pin!(back));
        tokio::select! {
            ended = &mut there => match ended { Ok(()) => back.await, reset => reset },
            ended = &mut back => match ended { Ok(()) => there.await, reset => reset },
        }
    };
    shared.set_client(number, ClientState::Closed);
    if let Err(Reset) = ended {
        // Without lingering, both sides see a reset, and no end of the stream before it.
        to_client.forget();
        to_server.forget();
    }
}

/// Reads independently of forwarding, so that the end of a client is known at once.
async fn read(
    mut from: OwnedReadHalf,
    to: mpsc::UnboundedSender<Chunk>,
    client: Option<(Arc<Shared>, usize)>,
) {
    let mut buffer = vec![0; 16 * 1024];
    loop {
        let chunk = match from.read(&mut buffer).await {
            Ok(0) => break,
            Ok(n) => Chunk::Bytes(buffer[..n].to_vec()),
            Err(_) => Chunk::Reset,
        };
        if let (Some((shared, number)), Chunk::Bytes(_)) = (&client, &chunk) {
            shared.set_client(*number, ClientState::Waiting);
            // Let the readers of other connections notice clients that closed before this chunk.
            for _ in 0..8 {
                tokio::task::yield_now().await;
            }
            shared.count_waiting();
        }
        let is_over = matches!(chunk, Chunk::Reset);
        if to.send(chunk).is_err() || is_over {
            break;
        }
    }
    if let Some((shared, number)) = client {
        shared.set_client(number, ClientState::Closed);
    }
}

struct Reset;

/// State that both directions of a connection share.
#[derive(Clone, Copy)]
struct Connection<'a> {
    shared: &'a Shared,
    number: usize,
    fault: Fault,
    /// Bytes passed in both directions.
    passed: &'a AtomicUsize,
}

async fn forward(
    connection: Connection<'_>,
    direction: Direction,
    from: &mut mpsc::UnboundedReceiver<Chunk>,
    to: &mut OwnedWriteHalf,
) -> Result<(), Reset> {
    let Connection { shared, number, fault, .. } = connection;
    let mut is_counted = false;
    while let Some(chunk) = from.recv().await {
        let Chunk::Bytes(mut bytes) = chunk else { return Err(Reset) };
        let mut count_fault = |name| {
            let is_first = !std::mem::replace(&mut is_counted, true);
            if is_first {
                shared.count_fault(name);
            }
            is_first
        };
        let passed = connection.passed.load(Ordering::Relaxed);
        let length = bytes.len();
        let mut at_a_time = length;
        match fault {
            _ if shared.is_disabled() => {}
            _ if passed > shared.kinds.max_bytes => {
                shared.count_fault("reset");
                return Err(Reset);
            }
            Fault::Ended { direction: affected, after, by }
                if affected == direction && passed + length > after =>
            {
                bytes.truncate(after.saturating_sub(passed));
                write(to, &bytes).await?;
                match by {
                    End::Reset => {
                        count_fault("reset");
                        return Err(Reset);
                    }
                    End::HalfClosed => {
                        count_fault("half closed");
                        let _ = to.shutdown().await;
                        return Ok(());
                    }
                    End::Stalled => {
                        count_fault("stalled");
                        return std::future::pending().await;
                    }
                }
            }
            Fault::Throttled { bytes, .. } => {
                count_fault("throttled");
                at_a_time = bytes;
            }
            Fault::Delayed(pause) => {
                count_fault("delayed");
                shared.sleep_unless_disabled(pause).await;
            }
            Fault::Changed { direction: affected, after, is_swapped }
                if affected == direction && passed + length > after =>
            {
                let rest = &mut bytes[after.saturating_sub(passed)..];
                if is_swapped && rest.len() > 1 {
                    if count_fault("swapped") {
                        rest.rotate_left(rest.len() / 2);
                    }
                } else if count_fault("changed") {
                    rest[0] ^= 0x20;
                }
            }
            _ => {}
        }
        for piece in bytes.chunks(at_a_time) {
            write(to, piece).await?;
            if let Fault::Throttled { pause, .. } = fault {
                shared.sleep_unless_disabled(pause).await;
            }
        }
        connection.passed.fetch_add(length, Ordering::Relaxed);
        if direction == Direction::ToClient {
            shared.set_client(number, ClientState::Idle);
        } else {
            shared.passed.send_if_modified(|last| std::mem::replace(last, number.max(*last)) < number);
        }
    }
    let _ = to.shutdown().await;
    Ok(())
}

async fn write(to: &mut OwnedWriteHalf, bytes: &[u8]) -> Result<(), Reset> {
    to.write_all(bytes).await.map_err(|_| Reset)
}

/// Total number of injected faults by name.
pub fn total_faults<'a>(proxies: impl IntoIterator<Item = &'a Proxy>) -> BTreeMap<&'static str, usize> {
    let mut all = BTreeMap::new();
    for (name, count) in proxies.into_iter().flat_map(Proxy::faults) {
        *all.entry(name).or_default() += count;
    }
    all
}

/// Names of all faults.
pub fn fault_names() -> BTreeSet<&'static str> {
    let ended = ["refused", "reset", "half closed", "stalled"];
    let delayed = ["throttled", "delayed", "overtaken"];
    ended.into_iter().chain(delayed).chain(["swapped", "changed"]).collect()
}
