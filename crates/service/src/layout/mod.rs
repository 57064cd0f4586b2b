//! What pages share: the session of a browser, forms and the parts of a page.

pub(crate) mod form;
pub(crate) mod parts;
pub(crate) mod session;
