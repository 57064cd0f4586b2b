//! A paged list as a state machine: an answer in, the next request out.
//!
//! `cluster` drives it. The rules are those of the Kubernetes API ("Retrieving large results sets
//! in chunks") and one of our own: the inconsistent token that an expired continuation offers is
//! never used, since a list that goes on with it is no snapshot.

/// What to request next.
#[derive(Debug, Clone, PartialEq, Eq)]
pub enum Ask {
    /// A page: the first, or the one behind this continue token.
    Page(Option<String>),
    /// The whole list in one answer, which cannot expire.
    Whole,
}

/// What the API server answered.
#[derive(Debug, Clone, PartialEq, Eq)]
pub enum Answer {
    /// A list that was read to its end, with the continue token in its metadata (empty: none).
    Read(String),
    /// 410: the continue token has expired.
    Expired,
}

/// What follows from an answer.
#[derive(Debug, Clone, PartialEq, Eq)]
pub enum Step {
    /// Go on.
    Ask(Ask),
    /// Forget what was read so far, then go on.
    StartOver(Ask),
    /// The list is complete.
    Complete,
}

/// One list, from its first request to its last.
#[derive(Debug, Clone, Default)]
pub struct Paging {
    expirations: u32,
}

impl Paging {
    /// The first request.
    #[must_use]
    pub fn first(&self) -> Ask {
        Ask::Page(None)
    }

    /// What to do after an answer. A list that expires is read again from its first page, and when
    /// that expires too, without pages.
    pub fn after(&mut self, answer: Answer) -> Step {
        match answer {
            Answer::Read(token) if token.is_empty() => Step::Complete,
            Answer::Read(token) => Step::Ask(Ask::Page(Some(token))),
            Answer::Expired => {
                self.expirations += 1;
                Step::StartOver(if self.expirations == 1 { Ask::Page(None) } else { Ask::Whole })
            }
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn pages_are_followed_until_one_has_no_token() {
        let mut paging = Paging::default();
        assert_eq!(paging.first(), Ask::Page(None));
        assert_eq!(paging.after(Answer::Read("t1".into())), Step::Ask(Ask::Page(Some("t1".into()))));
        assert_eq!(paging.after(Answer::Read(String::new())), Step::Complete);
    }

    #[test]
    fn an_expired_token_begins_again_once_in_pages_and_then_as_a_whole() {
        let mut paging = Paging::default();
        assert_eq!(paging.after(Answer::Expired), Step::StartOver(Ask::Page(None)));
        assert_eq!(paging.after(Answer::Read("t".into())), Step::Ask(Ask::Page(Some("t".into()))));
        assert_eq!(paging.after(Answer::Expired), Step::StartOver(Ask::Whole));
        assert_eq!(paging.after(Answer::Read(String::new())), Step::Complete);
    }
}
