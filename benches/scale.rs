//! What one report costs: `supercargo agent --once` against an API server in another process.
//!
//! `cargo bench --bench scale` lists synthetic pods over TLS in protobuf pages and reports them over
//! TLS, as in a cluster, and prints the program's peak memory, CPU and wall time for several numbers
//! and sizes of pods. Memory should follow the number and not the size. Figures are those of the
//! operating system for the finished process.

#![expect(unreachable_pub, dead_code, reason = "the fakes are shared with the tests, which use all of them")]
#![expect(
    clippy::cast_possible_truncation,
    clippy::cast_precision_loss,
    clippy::expect_used,
    clippy::indexing_slicing,
    clippy::print_stdout,
    clippy::unwrap_used,
    reason = "a bench that cannot go on has failed"
)]

#[path = "../tests/it/fake/mod.rs"]
mod fake;

use std::io::{BufRead, BufReader, Read};
use std::path::Path;
use std::process::{Child, Command, Stdio};
use std::time::Instant;

use fake::kube::{User, kubeconfig, parameters, protobuf};
use fake::pki::Authority;
use fake::pods::{Message, list, pod};
use fake::{Reply, Server};
use nix::sys::resource::{UsageWho, getrusage};
use nix::sys::time::TimeValLike;

const PROGRAM: &str = env!("CARGO_BIN_EXE_supercargo");

/// Numbers of pods, and the bytes of annotations in each.
const CASES: [(usize, usize); 6] =
    [(1, 4_000), (1_000, 4_000), (10_000, 4_000), (10_000, 400), (10_000, 40_000), (100_000, 4_000)];

fn main() {
    let args: Vec<String> = std::env::args().skip(1).filter(|arg| arg != "--bench").collect();
    match args.iter().map(String::as_str).collect::<Vec<_>>().as_slice() {
        ["serve", pods, padding, folder] => {
            serve(pods.parse().unwrap(), padding.parse().unwrap(), Path::new(folder));
        }
        ["measure", folder, endpoint] => measure(folder, endpoint),
        _ => {
            println!(
                "{:>8} {:>10} {:>12} {:>9} {:>9} {:>9}",
                "pods", "bytes each", "peak RSS MiB", "user s", "sys s", "wall s"
            );
            let peaks: Vec<f64> = CASES.iter().map(|(pods, padding)| run(*pods, *padding)).collect();
            // Ten thousand pods of 400 bytes, and the same with a hundred times as much in each.
            let ratio = peaks[4] / peaks[3];
            println!("peak RSS of large pods to small ones: {ratio:.2} (at most 1.2)");
            assert!(ratio < 1.2, "memory must not grow with the size of pods");
        }
    }
}

/// Prints a row; gives the peak RSS in MiB.
fn run(pods: usize, padding: usize) -> f64 {
    let folder = tempfile::tempdir().unwrap();
    let folder = folder.path().to_str().unwrap();
    let mut server = again(&["serve", &pods.to_string(), &padding.to_string(), folder]);
    let mut endpoint = String::new();
    BufReader::new(server.stdout.take().unwrap()).read_line(&mut endpoint).unwrap();
    // A process of its own, whose only child is the program: what the system counts is that child's.
    let mut measured = again(&["measure", folder, endpoint.trim()]);
    let mut figures = String::new();
    measured.stdout.take().unwrap().read_to_string(&mut figures).unwrap();
    assert!(measured.wait().unwrap().success());
    drop(server.stdin.take());
    server.wait().unwrap();
    println!("{pods:>8} {padding:>10} {figures}");
    figures.split_whitespace().next().unwrap().parse().unwrap()
}

fn again(args: &[&str]) -> Child {
    Command::new(std::env::current_exe().unwrap())
        .args(args)
        .stdin(Stdio::piped())
        .stdout(Stdio::piped())
        .spawn()
        .unwrap()
}

fn measure(folder: &str, endpoint: &str) {
    let start = Instant::now();
    let outcome = Command::new(PROGRAM)
        .env_clear()
        .env("SUPERCARGO_TOKEN", "t")
        .args(["agent", "--once", "--environment", "bench", "--org", "bench", "--timeout", "10m"])
        .args(["--kubeconfig", &format!("{folder}/kubeconfig"), "--ca-file", &format!("{folder}/ca.pem")])
        .args(["--base-url", endpoint])
        .output()
        .unwrap();
    let wall = start.elapsed().as_secs_f64();
    assert!(outcome.status.success(), "{}", String::from_utf8_lossy(&outcome.stderr));
    let used = getrusage(UsageWho::RUSAGE_CHILDREN).unwrap();
    let seconds = |time: nix::sys::time::TimeVal| time.num_microseconds() as f64 / 1e6;
    let rss = used.max_rss() as f64 / 1024.0;
    print!("{rss:>12.1} {:>9.3} {:>9.3} {wall:>9.3}", seconds(used.user_time()), seconds(used.system_time()));
}

/// An API server with so many pods, and a service; it stops when its standard input closes.
fn serve(pods: usize, padding: usize, folder: &Path) {
    let authority = Authority::new();
    let api = Server::start_tls(authority.server(None), move |seen| {
        let parameters = parameters(seen);
        let limit: usize = parameters["limit"].parse().unwrap();
        let first: usize = parameters.get("continue").map_or(0, |token| token.parse().unwrap());
        let end = pods.min(first + limit);
        let token = if end < pods { end.to_string() } else { String::new() };
        let page: Vec<Message> = (first..end).map(|n| synthetic(n, padding)).collect();
        protobuf(200, list(&page, &token))
    });
    let endpoint = Server::start_tls(authority.server(None), |_| Reply::json(201, "\"created\""));
    std::fs::write(folder.join("ca.pem"), authority.pem()).unwrap();
    let kubeconfig = kubeconfig(&api.url(), Some(&authority.pem()), &User::Token("t"));
    std::fs::write(folder.join("kubeconfig"), kubeconfig).unwrap();
    println!("{}", endpoint.url());
    let _ = std::io::stdin().read(&mut [0]);
}

/// Pods in the order of the API server, in `ReplicaSet`s of 25, of which a namespace has 40.
fn synthetic(n: usize, padding: usize) -> Message {
    let owner = format!("service-{:02}-6d5f8b7c9d", n / 25 % 40);
    let namespace = format!("team-{:04}", n / 1_000);
    let name = format!("{owner}-{n:07}");
    let image = format!("registry.example.com/{namespace}/service-{:02}:1.{}.0", n / 25 % 40, n / 25);
    pod(&namespace, &name, &owner, &image, &format!("{:064x}", n / 25), padding)
}
