pub(crate) mod operations;
pub(crate) mod page;
