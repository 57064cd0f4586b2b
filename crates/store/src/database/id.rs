//! Identifiers of rows, in order of creation.

use std::sync::Mutex;
use std::time::SystemTime;

use uuid::timestamp::context::ContextV7;
use uuid::{Timestamp, Uuid};

/// A new identifier.
#[must_use]
pub fn new_id() -> Uuid {
    id_at(SystemTime::now())
}

/// A UUID of version 7 cannot express a time before 1970, and `Uuid::now_v7` panics then. A wrong clock must not fail requests:
/// those identifiers begin with 1970.
fn id_at(now: SystemTime) -> Uuid {
    static ORDER: Mutex<ContextV7> = Mutex::new(ContextV7::new());
    let since = now.duration_since(SystemTime::UNIX_EPOCH).unwrap_or_default();
    Uuid::new_v7(Timestamp::from_unix(&ORDER, since.as_secs(), since.subsec_nanos()))
}

#[cfg(test)]
mod tests {
    use std::time::Duration;

    use super::*;

    #[test]
    fn identifiers_before_1970_are_unique_and_in_order() {
        let before = SystemTime::UNIX_EPOCH - Duration::from_hours(1);
        let ids: Vec<_> =
            [before, before, before + Duration::from_mins(1), SystemTime::now()].map(id_at).into();
        assert!(ids.iter().is_sorted_by(|one, next| one < next), "{ids:?}");
        assert!(ids.iter().all(|id| id.get_version_num() == 7), "{ids:?}");
    }
}
