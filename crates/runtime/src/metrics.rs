//! The metrics registry, with the build and process metrics.
//!
//! Created by each process that serves metrics; each module registers its own metrics.

use std::fmt;

use prometheus_client::collector::Collector;
use prometheus_client::encoding::{DescriptorEncoder, EncodeMetric, text};
use prometheus_client::metrics::counter::ConstCounter;
use prometheus_client::metrics::gauge::ConstGauge;
use prometheus_client::metrics::info::Info;
use prometheus_client::registry::{Metric, Registry, Unit};

use super::{logs, machine};

/// Prefix of all metrics but those named by Prometheus.
pub const PREFIX: &str = "supercargo";

/// A registry with `supercargo_build` and the `process_` metrics of the Prometheus documentation
/// ("Writing client libraries", Process metrics).
#[must_use]
pub fn registry() -> Registry {
    let mut registry = Registry::default();
    let build = Info::new([("version", env!("CARGO_PKG_VERSION"))]);
    registry.sub_registry_with_prefix(PREFIX).register("build", "This program", build);
    registry.register_collector(Box::new(OwnProcess));
    registry
}

pub fn register<M: Metric + Clone + Default>(registry: &mut Registry, name: &str, help: &str) -> M {
    let metric = M::default();
    registry.register(name, help, metric.clone());
    metric
}

/// Registers a new metric in seconds.
pub fn register_seconds<M: Metric + Clone + Default>(registry: &mut Registry, name: &str, help: &str) -> M {
    let metric = M::default();
    registry.register_with_unit(name, help, Unit::Seconds, metric.clone());
    metric
}

/// Encodes the registry in the OpenMetrics text format.
#[must_use]
pub fn text(registry: &Registry) -> String {
    let mut text = String::new();
    // Writing to a string cannot fail.
    let _ = text::encode(&mut text, registry);
    text
}

/// Process metrics, read at each scrape. Metrics of the system are absent if `/proc` is unreadable.
#[derive(Debug)]
struct OwnProcess;

impl Collector for OwnProcess {
    fn encode(&self, mut encoder: DescriptorEncoder<'_>) -> fmt::Result {
        let dropped = ConstCounter::new(logs::dropped());
        let help = "Log lines dropped because stderr was blocked";
        let name = "supercargo_log_lines_dropped";
        encode(&mut encoder, name, help, None, &dropped)?;
        let Some(usage) = machine::usage() else { return Ok(()) };
        let (help, cpu) = ("CPU time in user and system mode", ConstCounter::new(usage.cpu));
        encode(&mut encoder, "process_cpu", help, Some(&Unit::Seconds), &cpu)?;
        let gauges = [
            ("process_resident_memory", "Resident memory", Some(Unit::Bytes), usage.resident),
            ("process_virtual_memory", "Virtual memory", Some(Unit::Bytes), usage.virtual_memory),
            ("process_start_time", "Unix time of the start", Some(Unit::Seconds), usage.started),
            ("process_open_fds", "Open file descriptors", None, usage.open_files),
            ("process_max_fds", "Maximum number of open file descriptors", None, usage.max_files),
        ];
        for (name, help, unit, value) in gauges {
            encode(&mut encoder, name, help, unit.as_ref(), &ConstGauge::new(value))?;
        }
        Ok(())
    }
}

/// Encodes a metric of a collector.
///
/// # Errors
///
/// If the encoder's buffer rejects the text.
pub fn encode(
    encoder: &mut DescriptorEncoder<'_>,
    name: &str,
    help: &str,
    unit: Option<&Unit>,
    metric: &dyn EncodeMetric,
) -> fmt::Result {
    metric.encode(encoder.encode_descriptor(name, help, unit, metric.metric_type())?)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    #[cfg(target_os = "linux")]
    fn process_metrics_have_the_names_of_the_prometheus_documentation() {
        let text = text(&registry());
        for line in [
            "supercargo_build_info{version=",
            "process_cpu_seconds_total ",
            "process_resident_memory_bytes ",
            "process_virtual_memory_bytes ",
            "process_start_time_seconds ",
            "process_open_fds ",
            "process_max_fds ",
        ] {
            let value =
                text.lines().find_map(|l| l.strip_prefix(line)).unwrap_or_else(|| panic!("{line}: {text}"));
            let value: f64 = value.split_whitespace().last().unwrap().parse().unwrap();
            assert!(value >= 0.0 && (value > 0.0 || line.contains("cpu")), "{line}{value}");
        }
    }
}
