//! Actions, which say what notifies whom, and the outbox with their notifications.

pub mod actions;
pub mod deliveries;
pub mod outbox;
pub mod test_messages;
