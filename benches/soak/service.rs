//! What the gate knows of a service behind it. There is none here: the gate says itself what the interface
//! says, since the service's own work is not what is soaked.

pub const ADMIN: &str = "t";

/// A service; nobody starts one.
pub struct Running {
    pub base: String,
    pub database: Database,
}

pub struct Database;

impl Database {
    #[expect(clippy::unused_async, reason = "that of the tests asks a database")]
    pub async fn rows(&self, _sql: &str) -> Vec<String> {
        Vec::new()
    }
}
