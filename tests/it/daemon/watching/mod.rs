//! What the daemon does with lists and watches: none loses a pod.

pub(crate) mod churn;
pub(crate) mod credentials;
pub(crate) mod labels;
pub(crate) mod lists;
pub(crate) mod namespaces;
pub(crate) mod outage;
pub(crate) mod overload;
pub(crate) mod pods;
pub(crate) mod selections;
pub(crate) mod watches;
