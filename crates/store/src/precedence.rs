//! Which of the origins that flows claim for an artifact counts.

/// Matches a claim `c` that counts rather than the origin `p`: of the higher priority, or else recorded first. The requests of an
/// artifact have increasing times.
macro_rules! precedes {
    () => {
        "(c.priority > p.priority OR (c.priority = p.priority
          AND (c.recorded_at, c.flow, c.repository) < (p.recorded_at, p.flow, p.repository)))"
    };
}

pub(crate) use precedes;
