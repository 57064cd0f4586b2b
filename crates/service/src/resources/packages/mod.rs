mod find;
pub(crate) mod operations;
pub(crate) mod page;
