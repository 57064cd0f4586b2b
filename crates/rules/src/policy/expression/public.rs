//! The language of `${{ … }}`: parsed and rewritten to CEL.
//!
//! Called by [`Condition::parse`](super::Condition::parse). In CEL, a missing tag is an error. The rewritten expression
//! therefore tests each value that may be absent: a comparison with an absent value is false, and `!=` and `not in` are the
//! negations of `==` and `in`.

use super::error::ExpressionError;
use super::tokens::{Kind, Token, tokens, unexpected};

/// Maximum depth of parentheses and of `not`.
const MAX_DEPTH: usize = 16;

/// The type of an operand.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
enum Type {
    Text,
    Number,
    Boolean,
    List,
    Flow,
}

/// A part of the expression as CEL.
#[derive(Debug, Clone)]
struct Term {
    cel: String,
    /// CEL that is true if the value is not absent; `None` if it is always there.
    presence: Option<String>,
    kind: Type,
    offset: usize,
}

impl Term {
    /// A part whose value is never absent.
    fn new(cel: String, kind: Type, offset: usize) -> Self {
        Self { cel, presence: None, kind, offset }
    }
}

/// Rewrites an expression, without `${{` and `}}`, to CEL.
pub(super) fn to_cel(text: &str) -> Result<String, ExpressionError> {
    let mut parser = Parser { tokens: tokens(text)?, next: 0, depth: 0, end: text.len() };
    let whole = parser.or()?;
    if let Some(token) = parser.peek() {
        return Err(unexpected(token, "the end, \"and\" or \"or\""));
    }
    condition(whole)
}

/// The CEL of a term that is a condition.
fn condition(term: Term) -> Result<String, ExpressionError> {
    if term.kind == Type::Boolean {
        return Ok(term.cel);
    }
    Err(ExpressionError::new(term.offset, "expected a condition, such as a comparison or exists(…)"))
}

/// A text as a CEL literal.
fn literal(text: &str) -> String {
    let mut cel = String::from("\"");
    for character in text.chars() {
        match character {
            '"' | '\\' => cel.extend(['\\', character]),
            c if c.is_control() => cel.extend(format!("\\u{:04x}", u32::from(c)).chars()),
            c => cel.push(c),
        }
    }
    cel.push('"');
    cel
}

struct Parser {
    tokens: Vec<Token>,
    next: usize,
    depth: usize,
    /// The length of the text.
    end: usize,
}

impl Parser {
    fn peek(&self) -> Option<&Token> {
        self.tokens.get(self.next)
    }

    fn take(&mut self, expected: &str) -> Result<Token, ExpressionError> {
        let token = self.peek().cloned();
        self.next += 1;
        token.ok_or_else(|| ExpressionError::new(self.end, format!("expected {expected}, got the end")))
    }

    /// Whether the next token is this word or sign.
    fn is_next(&self, expected: &str) -> bool {
        self.peek().is_some_and(|token| match &token.kind {
            Kind::Word(word) => word == expected,
            Kind::Sign(sign) => *sign == expected,
            Kind::Text(_) | Kind::Number(_) => false,
        })
    }

    fn takes(&mut self, expected: &str) -> bool {
        let found = self.is_next(expected);
        self.next += usize::from(found);
        found
    }

    fn expect_sign(&mut self, sign: &str) -> Result<(), ExpressionError> {
        if self.takes(sign) {
            return Ok(());
        }
        let expected = format!("\"{sign}\"");
        let token = self.take(&expected)?;
        Err(unexpected(&token, &expected))
    }

    /// A text in quotes as a CEL literal.
    fn quoted(&mut self, expected: &str) -> Result<String, ExpressionError> {
        let token = self.take(expected)?;
        match &token.kind {
            Kind::Text(text) => Ok(literal(text)),
            _ => Err(unexpected(&token, expected)),
        }
    }

    fn or(&mut self) -> Result<Term, ExpressionError> {
        let first = self.and()?;
        self.chain(first, "or", "||", Self::and)
    }

    fn and(&mut self) -> Result<Term, ExpressionError> {
        let first = self.not()?;
        self.chain(first, "and", "&&", Self::not)
    }

    fn chain(
        &mut self,
        first: Term,
        word: &str,
        sign: &str,
        next: fn(&mut Self) -> Result<Term, ExpressionError>,
    ) -> Result<Term, ExpressionError> {
        let offset = first.offset;
        if !self.is_next(word) && !self.is_next(sign) {
            return Ok(first);
        }
        let mut parts = vec![condition(first)?];
        while self.takes(word) || self.takes(sign) {
            parts.push(condition(next(self)?)?);
        }
        let cel = format!("({})", parts.join(&format!(" {sign} ")));
        Ok(Term::new(cel, Type::Boolean, offset))
    }

    fn nested(
        &mut self,
        part: fn(&mut Self) -> Result<Term, ExpressionError>,
    ) -> Result<Term, ExpressionError> {
        if self.depth == MAX_DEPTH {
            let offset = self.peek().map_or(self.end, |token| token.offset);
            return Err(ExpressionError::new(offset, format!("expected at most {MAX_DEPTH} nested levels")));
        }
        self.depth += 1;
        let part = part(self);
        self.depth -= 1;
        part
    }

    fn not(&mut self) -> Result<Term, ExpressionError> {
        let offset = self.peek().map_or(self.end, |token| token.offset);
        if !self.takes("not") {
            return self.comparison();
        }
        let cel = format!("!{}", condition(self.nested(Self::not)?)?);
        Ok(Term::new(cel, Type::Boolean, offset))
    }

    fn comparison(&mut self) -> Result<Term, ExpressionError> {
        let left = self.operand()?;
        let start = self.next;
        let Some(token) = self.peek().cloned() else { return Ok(left) };
        let (operator, is_negated) = match &token.kind {
            Kind::Sign("==") => ("==", false),
            Kind::Sign("!=") => ("==", true),
            Kind::Sign(sign @ ("<" | ">" | "<=" | ">=")) => (*sign, false),
            Kind::Word(word) if word == "in" => ("in", false),
            Kind::Word(word) if word == "not" => ("in", true),
            _ => return Ok(left),
        };
        self.next = start + 1;
        if token.kind == Kind::Word("not".to_owned()) && !self.takes("in") {
            return Err(unexpected(&token, "an operator"));
        }
        let right = self.operand()?;
        let fits = match operator {
            "in" => left.kind == Type::Text && right.kind == Type::List,
            "==" => left.kind == right.kind && matches!(left.kind, Type::Text | Type::Number | Type::Boolean),
            _ => left.kind == right.kind && matches!(left.kind, Type::Text | Type::Number),
        };
        if !fits {
            let expected = match operator {
                "in" => "a text before \"in\" and a list after it, such as [\"a\", \"b\"] or namespaces",
                _ => "two texts, two numbers or two conditions: texts are quoted",
            };
            return Err(ExpressionError::new(token.offset, format!("expected {expected}")));
        }
        let comparison = format!("{} {operator} {}", left.cel, right.cel);
        let parts: Vec<String> =
            left.presence.into_iter().chain(right.presence).chain([comparison]).collect();
        let (not, all) = (if is_negated { "!" } else { "" }, parts.join(" && "));
        Ok(Term::new(format!("{not}({all})"), Type::Boolean, left.offset))
    }

    fn operand(&mut self) -> Result<Term, ExpressionError> {
        const EXPECTED: &str = "a value, such as flow.name, a text in quotes or a number";
        let token = self.take(EXPECTED)?;
        let offset = token.offset;
        let value = |cel: String, kind| Ok(Term::new(cel, kind, offset));
        match &token.kind {
            Kind::Text(text) => value(literal(text), Type::Text),
            Kind::Number(number) => {
                // CEL does not compare whole numbers with fractions for equality.
                let fraction = if number.contains('.') { "" } else { ".0" };
                value(format!("{number}{fraction}"), Type::Number)
            }
            Kind::Sign("(") => {
                let inner = self.nested(Self::or)?;
                if inner.kind == Type::Text && self.takes(",") {
                    return self.list(vec![inner], ")", offset);
                }
                self.expect_sign(")")?;
                Ok(inner)
            }
            Kind::Sign("[") => self.list(Vec::new(), "]", offset),
            Kind::Word(word) => match word.as_str() {
                "true" | "True" => value("true".to_owned(), Type::Boolean),
                "false" | "False" => value("false".to_owned(), Type::Boolean),
                "namespaces" => value("namespaces".to_owned(), Type::List),
                "exists" => self.exists(offset),
                "matches" => self.matches(offset),
                "flow" => self.flow(offset),
                "artifact" => self.artifact(offset),
                _ => Err(unexpected(&token, "flow, artifact, namespaces, exists(…), matches(…) or not")),
            },
            Kind::Sign(_) => Err(unexpected(&token, EXPECTED)),
        }
    }

    /// The rest of a list of texts.
    fn list(&mut self, first: Vec<Term>, end: &str, offset: usize) -> Result<Term, ExpressionError> {
        let mut elements: Vec<String> = first.into_iter().map(|term| term.cel).collect();
        while !self.takes(end) {
            elements.push(self.quoted("a text in quotes")?);
            if !self.takes(",") {
                self.expect_sign(end)?;
                break;
            }
        }
        Ok(Term::new(format!("[{}]", elements.join(", ")), Type::List, offset))
    }

    fn exists(&mut self, offset: usize) -> Result<Term, ExpressionError> {
        self.expect_sign("(")?;
        let value = self.operand()?;
        self.expect_sign(")")?;
        let cel = value.presence.unwrap_or_else(|| "true".to_owned());
        Ok(Term::new(cel, Type::Boolean, offset))
    }

    fn matches(&mut self, offset: usize) -> Result<Term, ExpressionError> {
        self.expect_sign("(")?;
        let value = self.operand()?;
        if value.kind != Type::Text {
            return Err(ExpressionError::new(value.offset, "expected a text, such as artifact.name"));
        }
        self.expect_sign(",")?;
        let pattern = self.quoted("a regular expression in quotes")?;
        self.expect_sign(")")?;
        let presence = value.presence.map(|presence| format!("{presence} && ")).unwrap_or_default();
        let cel = format!("({presence}matches({}, {pattern}))", value.cel);
        Ok(Term::new(cel, Type::Boolean, offset))
    }

    fn artifact(&mut self, offset: usize) -> Result<Term, ExpressionError> {
        let field = self.field("artifact.name or artifact.fingerprint")?;
        match &field.kind {
            Kind::Word(word) if word == "name" || word == "fingerprint" => {
                Ok(Term::new(format!("artifact.{word}"), Type::Text, offset))
            }
            _ => Err(unexpected(&field, "artifact.name or artifact.fingerprint")),
        }
    }

    fn flow(&mut self, offset: usize) -> Result<Term, ExpressionError> {
        let present = |cel: &str, presence: String, kind| {
            Ok(Term { cel: cel.to_owned(), presence: Some(presence), kind, offset })
        };
        if !self.is_next(".") {
            return present("flow", "has(flow.name)".to_owned(), Type::Flow);
        }
        let field = self.field("flow.name or flow.tags")?;
        match &field.kind {
            Kind::Word(word) if word == "name" => {
                present("flow.name", "has(flow.name)".to_owned(), Type::Text)
            }
            Kind::Word(word) if word == "tags" => {
                let key = self.tag()?;
                present(&format!("flow.tags[{key}]"), format!("{key} in flow.tags"), Type::Text)
            }
            _ => Err(unexpected(&field, "flow.name or flow.tags")),
        }
    }

    /// The key of a tag as a CEL literal: `.key`, which may contain dots, or `["key"]`.
    fn tag(&mut self) -> Result<String, ExpressionError> {
        const EXPECTED: &str = "the key of a tag, such as flow.tags.team";
        if self.takes("[") {
            let key = self.quoted(EXPECTED)?;
            self.expect_sign("]")?;
            return Ok(key);
        }
        let mut key = String::new();
        loop {
            let part = self.field(EXPECTED)?;
            match &part.kind {
                Kind::Word(part) | Kind::Number(part) => key.push_str(part),
                _ => return Err(unexpected(&part, EXPECTED)),
            }
            if !self.is_next(".") {
                return Ok(literal(&key));
            }
            key.push('.');
        }
    }

    /// The token after a dot.
    fn field(&mut self, expected: &str) -> Result<Token, ExpressionError> {
        if !self.takes(".") {
            let token = self.take(expected)?;
            return Err(unexpected(&token, expected));
        }
        self.take(expected)
    }
}
