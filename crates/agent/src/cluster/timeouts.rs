//! Timeouts of requests to an API server and of the credentials for them.

use std::time::Duration;

#[derive(Debug, Clone, Copy)]
pub struct ClusterTimeouts {
    /// For reading the file of a token or a client certificate. After it, the last one is used.
    pub token_file: Duration,
    /// From sending a request to the headers of its response.
    pub headers: Duration,
    /// Between two frames of a body.
    pub frame: Duration,
    /// For the body of an error response.
    pub error_text: Duration,
    /// Pause after all bytes of a watch that arrived were read. The events that arrive meanwhile are read together.
    pub read_pause: Duration,
}

impl Default for ClusterTimeouts {
    fn default() -> Self {
        Self::scaled(1)
    }
}

impl ClusterTimeouts {
    /// The default timeouts, divided by `divisor`.
    #[must_use]
    pub fn scaled(divisor: u32) -> Self {
        let seconds = |seconds| Duration::from_secs(seconds) / divisor;
        Self {
            token_file: seconds(10),
            headers: seconds(30),
            frame: seconds(60),
            error_text: seconds(2),
            read_pause: Duration::from_millis(25) / divisor,
        }
    }
}
