//! What stands between two peers and treats their bytes badly: a TCP proxy on loopback.
//!
//! What a connection meets is said by a seed and by its number. TCP hands bytes over in order or not at all, so what
//! comes in another order is a connection that the next one overtakes, or, from a middle box, bytes that TCP calls
//! good and that are others than were sent. TLS has to notice those; in the clear nobody can.

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

/// What a proxy does to connections, besides cutting, half closing and stalling them.
#[derive(Debug, Clone, Copy)]
pub struct Kinds {
    /// Whatever befalls one, it is reset after so many bytes: clients keep those that serve them well.
    pub most: usize,
    /// It delays and throttles bytes, and lets connections overtake others: what was sent may then arrive after its
    /// sender has given it up, and behind what it sent since.
    pub holds_back: bool,
    /// It hands over other bytes than were sent.
    pub changes: bool,
}

#[derive(Debug, Clone, Copy, PartialEq)]
enum Way {
    /// From the client to the server.
    There,
    Back,
}

#[derive(Debug, Clone, Copy)]
enum End {
    /// Both sides are told that the connection broke off.
    Reset,
    /// The receiver is told that this was all; the other way goes on.
    HalfClosed,
    /// Nobody is told anything, for ever.
    Stalled,
}

#[derive(Debug, Clone, Copy)]
enum Fate {
    Passed,
    Refused,
    /// After so many bytes of both ways, with the next of this one.
    Ended {
        way: Way,
        after: usize,
        by: End,
    },
    /// So many bytes at a time.
    Throttled {
        bytes: usize,
        pause: Duration,
    },
    /// Each piece by so much.
    Delayed(Duration),
    /// Held until a later one has passed something.
    Overtaken,
    /// After so many bytes of both ways, the two halves of what arrives together change places, or a bit is another.
    Changed {
        way: Way,
        after: usize,
        is_swapped: bool,
    },
}

/// What arrived; the channel ends with the stream.
enum Arrived {
    Bytes(Vec<u8>),
    Reset,
}

/// Whether a client waits for an answer.
#[derive(Clone, Copy, PartialEq)]
enum Client {
    Waits,
    Rests,
    Gone,
}

struct Shared {
    server: SocketAddr,
    seed: u64,
    kinds: Kinds,
    is_calm: watch::Sender<bool>,
    /// The last connection that passed anything.
    passed: watch::Sender<usize>,
    kept: Mutex<Kept>,
}

#[derive(Default)]
struct Kept {
    struck: BTreeMap<&'static str, usize>,
    clients: BTreeMap<usize, Client>,
    most_at_once: usize,
}

/// One that runs, until it is dropped.
pub struct Proxy {
    address: SocketAddr,
    shared: Arc<Shared>,
    stop: Option<oneshot::Sender<()>>,
    thread: Option<std::thread::JoinHandle<()>>,
}

impl Proxy {
    /// Before the server of this URL.
    pub fn before(url: &str, seed: u64, kinds: Kinds) -> Self {
        let server = url.rsplit_once("://").unwrap().1.parse().unwrap();
        let shared = Arc::new(Shared {
            server,
            seed,
            kinds,
            is_calm: watch::Sender::default(),
            passed: watch::Sender::default(),
            kept: Mutex::default(),
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

    /// The server's URL, through here.
    pub fn leads_to(&self, url: &str) -> String {
        format!("{}://{}", url.rsplit_once("://").unwrap().0, self.address)
    }

    /// Passes what is sent from now on, as it is. What stalled stays so.
    pub fn calm(&self) {
        self.shared.is_calm.send_replace(true);
    }

    /// Goes on with its faults.
    pub fn storm(&self) {
        self.shared.is_calm.send_replace(false);
    }

    /// How often it did what.
    pub fn struck(&self) -> BTreeMap<&'static str, usize> {
        self.shared.kept().struck.clone()
    }

    /// How many clients waited for answers at once, at most. Over TLS, one that greets its server waits as well.
    pub fn most_at_once(&self) -> usize {
        self.shared.kept().most_at_once
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

impl Fate {
    fn of(random: &mut Rng, kinds: Kinds) -> Self {
        let way = if random.bool() { Way::There } else { Way::Back };
        // Within a handshake, a head, or what follows; up to some 30 kB.
        let most = 1 << random.u8(1..16);
        let after = random.usize(..most);
        loop {
            return match random.u8(..16) {
                0 => Self::Passed,
                1 => Self::Refused,
                2..5 => Self::Ended { way, after, by: End::Reset },
                5..8 => Self::Ended { way, after, by: End::HalfClosed },
                8..10 => Self::Ended { way, after, by: End::Stalled },
                10 if kinds.holds_back => {
                    let pause = Duration::from_millis(random.u64(1..5));
                    Self::Throttled { bytes: random.usize(100..2_000), pause }
                }
                11 if kinds.holds_back => Self::Delayed(Duration::from_millis(random.u64(1..80))),
                12..14 if kinds.holds_back => Self::Overtaken,
                14.. if kinds.changes => Self::Changed { way, after, is_swapped: random.bool() },
                _ => continue,
            };
        }
    }
}

impl Shared {
    fn kept(&self) -> MutexGuard<'_, Kept> {
        self.kept.lock().unwrap()
    }

    fn is_calm(&self) -> bool {
        *self.is_calm.borrow()
    }

    async fn is_calm_after(&self, pause: Duration) {
        let _ = timeout(pause, self.is_calm.subscribe().wait_for(|is_calm| *is_calm)).await;
    }

    fn strikes(&self, what: &'static str) {
        *self.kept().struck.entry(what).or_default() += 1;
    }

    fn note(&self, connection: usize, client: Client) {
        self.kept().clients.insert(connection, client);
    }

    fn count_waiting(&self) {
        let mut kept = self.kept();
        let waiting = kept.clients.values().filter(|client| **client == Client::Waits).count();
        kept.most_at_once = kept.most_at_once.max(waiting);
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
    let fate = if shared.is_calm() { Fate::Passed } else { Fate::of(&mut random, shared.kinds) };
    client.set_nodelay(true).unwrap();
    client.set_zero_linger().unwrap();
    if let Fate::Refused = fate {
        return shared.strikes("refused");
    }
    let (from_client, mut to_client) = client.into_split();
    let (there, mut from_there) = mpsc::unbounded_channel();
    let mut readers = JoinSet::new();
    readers.spawn(read(from_client, there, Some((Arc::clone(shared), number))));
    if let Fate::Overtaken = fate {
        shared.strikes("overtaken");
        let (mut passed, mut calm) = (shared.passed.subscribe(), shared.is_calm.subscribe());
        tokio::select! {
            _ = passed.wait_for(|passed| *passed > number) => {}
            _ = calm.wait_for(|is_calm| *is_calm) => {}
        }
    }
    let Ok(server) = TcpStream::connect(shared.server).await else {
        return shared.note(number, Client::Gone);
    };
    server.set_nodelay(true).unwrap();
    server.set_zero_linger().unwrap();
    let (from_server, mut to_server) = server.into_split();
    let (back, mut from_back) = mpsc::unbounded_channel();
    readers.spawn(read(from_server, back, None));
    let passed = AtomicUsize::new(0);
    let met = Met { shared, number, fate, passed: &passed };
    let ended = {
        let there = carry(met, Way::There, &mut from_there, &mut to_server);
        let back = carry(met, Way::Back, &mut from_back, &mut to_client);
        let (mut there, mut back) = (std::pin::pin!(there), std::pin::pin!(back));
        tokio::select! {
            ended = &mut there => match ended { Ok(()) => back.await, reset => reset },
            ended = &mut back => match ended { Ok(()) => there.await, reset => reset },
        }
    };
    shared.note(number, Client::Gone);
    if let Err(Reset) = ended {
        // Both sides hear of a reset, as nothing lingers, and of no end before it.
        to_client.forget();
        to_server.forget();
    }
}

/// Reads all that is sent, as it is sent: so a client's end is known at once, whatever becomes of its bytes.
async fn read(
    mut from: OwnedReadHalf,
    to: mpsc::UnboundedSender<Arrived>,
    client: Option<(Arc<Shared>, usize)>,
) {
    let mut buffer = vec![0; 16 * 1024];
    loop {
        let arrived = match from.read(&mut buffer).await {
            Ok(0) => break,
            Ok(n) => Arrived::Bytes(buffer[..n].to_vec()),
            Err(_) => Arrived::Reset,
        };
        if let (Some((shared, number)), Arrived::Bytes(_)) = (&client, &arrived) {
            shared.note(*number, Client::Waits);
            // Whoever went away before this one sent anything is known to have gone, once it was looked.
            for _ in 0..8 {
                tokio::task::yield_now().await;
            }
            shared.count_waiting();
        }
        let is_over = matches!(arrived, Arrived::Reset);
        if to.send(arrived).is_err() || is_over {
            break;
        }
    }
    if let Some((shared, number)) = client {
        shared.note(number, Client::Gone);
    }
}

/// The connection is reset.
struct Reset;

/// What both ways of a connection share.
#[derive(Clone, Copy)]
struct Met<'a> {
    shared: &'a Shared,
    number: usize,
    fate: Fate,
    /// How many bytes it has passed.
    passed: &'a AtomicUsize,
}

async fn carry(
    met: Met<'_>,
    way: Way,
    from: &mut mpsc::UnboundedReceiver<Arrived>,
    to: &mut OwnedWriteHalf,
) -> Result<(), Reset> {
    let Met { shared, number, fate, .. } = met;
    let mut has_struck = false;
    while let Some(arrived) = from.recv().await {
        let Arrived::Bytes(mut bytes) = arrived else { return Err(Reset) };
        let mut strikes = |what| {
            let is_first = !std::mem::replace(&mut has_struck, true);
            if is_first {
                shared.strikes(what);
            }
            is_first
        };
        let passed = met.passed.load(Ordering::Relaxed);
        let length = bytes.len();
        let mut at_a_time = length;
        match fate {
            _ if shared.is_calm() => {}
            _ if passed > shared.kinds.most => {
                shared.strikes("reset");
                return Err(Reset);
            }
            Fate::Ended { way: meant, after, by } if meant == way && passed + length > after => {
                bytes.truncate(after.saturating_sub(passed));
                write(to, &bytes).await?;
                match by {
                    End::Reset => {
                        strikes("reset");
                        return Err(Reset);
                    }
                    End::HalfClosed => {
                        strikes("half closed");
                        let _ = to.shutdown().await;
                        return Ok(());
                    }
                    End::Stalled => {
                        strikes("stalled");
                        return std::future::pending().await;
                    }
                }
            }
            Fate::Throttled { bytes, .. } => {
                strikes("throttled");
                at_a_time = bytes;
            }
            Fate::Delayed(pause) => {
                strikes("delayed");
                shared.is_calm_after(pause).await;
            }
            Fate::Changed { way: meant, after, is_swapped } if meant == way && passed + length > after => {
                let rest = &mut bytes[after.saturating_sub(passed)..];
                if is_swapped && rest.len() > 1 {
                    if strikes("swapped") {
                        rest.rotate_left(rest.len() / 2);
                    }
                } else if strikes("changed") {
                    rest[0] ^= 0x20;
                }
            }
            _ => {}
        }
        for piece in bytes.chunks(at_a_time) {
            write(to, piece).await?;
            if let Fate::Throttled { pause, .. } = fate {
                shared.is_calm_after(pause).await;
            }
        }
        met.passed.fetch_add(length, Ordering::Relaxed);
        if way == Way::Back {
            shared.note(number, Client::Rests);
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

/// What was done to connections, all in all.
pub fn all_of<'a>(proxies: impl IntoIterator<Item = &'a Proxy>) -> BTreeMap<&'static str, usize> {
    let mut all = BTreeMap::new();
    for (what, times) in proxies.into_iter().flat_map(Proxy::struck) {
        *all.entry(what).or_default() += times;
    }
    all
}

/// Everything that is done to connections, by name.
pub fn every_kind() -> BTreeSet<&'static str> {
    let ended = ["refused", "reset", "half closed", "stalled"];
    let held = ["throttled", "delayed", "overtaken"];
    ended.into_iter().chain(held).chain(["swapped", "changed"]).collect()
}
