//! Stubs of the service for the gate, which responds to reports itself here.

pub const ADMIN: &str = "t";

/// A service that is never started.
pub struct TestService {
    pub base: String,
    pub database: Database,
}

pub struct Database;

impl Database {
    #[expect(clippy::unused_async, reason = "the tests query a database")]
    pub async fn rows(&self, _sql: &str) -> Vec<String> {
        Vec::new()
    }
}
