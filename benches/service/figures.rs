//! Time, CPU and size of requests.

/// Measurement of requests.
pub(super) struct Figures {
    pub(super) median: f64,
    pub(super) p99: f64,
    /// CPU time of the service per request, in milliseconds.
    pub(super) cpu: f64,
    pub(super) bytes: usize,
}

impl Figures {
    pub(super) fn new(mut times: Vec<f64>, cpu: f64, bytes: usize) -> Self {
        times.sort_by(f64::total_cmp);
        let at = |percent: usize| times[(times.len() * percent / 100).min(times.len() - 1)];
        Self { median: at(50), p99: at(99), cpu, bytes }
    }

    pub(super) fn print(&self, label: &str, bound: &str) {
        let Self { median, p99, cpu, bytes } = self;
        println!("{label:<52} {median:>9.2} {p99:>9.2} {cpu:>9.3} {bytes:>10}   {bound}");
    }
}

/// CPU time in seconds of a process, if there is one whose name ends like this.
pub(super) fn cpu_of(process: u32, name: &str) -> Option<f64> {
    // Clock ticks are hundredths of a second in user space (proc_pid_stat(5)).
    let stat = std::fs::read_to_string(format!("/proc/{process}/stat")).ok()?;
    let (head, fields) = stat.rsplit_once(')')?;
    let fields: Vec<&str> = fields.split_whitespace().collect();
    let ticks = fields[11].parse::<u64>().unwrap() + fields[12].parse::<u64>().unwrap();
    head.ends_with(name).then_some(ticks as f64 / 100.0)
}
