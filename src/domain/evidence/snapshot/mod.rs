//! What a K8S report says, and what changed since the one before.
//!
//! The service reads a body into [`reported::K8sReport`], brings it into one form whatever the
//! order of its parts, and compares that with the pods and artifacts that it holds as running.
//! Pure: it sees values, never a database.

pub mod change;
pub mod reported;
