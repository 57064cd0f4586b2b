//! Reports, what they say of environments, and notifications.

pub(crate) mod absence;
pub(crate) mod agents;
pub(crate) mod archive;
pub(crate) mod creation;
pub(crate) mod digests;
pub(crate) mod exclusion;
pub(crate) mod live_artifacts;
pub(crate) mod mail;
pub(crate) mod notifications;
pub(crate) mod reading;
pub(crate) mod report;
pub(crate) mod silence;
pub(crate) mod unusual_pods;
