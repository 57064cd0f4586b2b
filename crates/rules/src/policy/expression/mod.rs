//! Conditions of policies: `${{ … }}` of the public policy file, and CEL.
//!
//! Compiled with the policy, and evaluated for each artifact and flow. Both languages use the `cel` crate; the expression's
//! size, depth and number of steps are limited, and its regular expressions run in linear time.

mod cost;
mod error;
mod public;
mod tokens;

use std::collections::{BTreeMap, HashMap};
use std::fmt;
use std::sync::{Arc, LazyLock, OnceLock};

use cel::common::types::CelBool;
use cel::extractors::This;
use cel::parser::PrattParser;
use cel::{Context, Env, IdedExpr, Value};
use regex::{Regex, RegexBuilder};
use serde::{Deserialize, Deserializer};

use self::cost::Cost;
pub use self::error::ExpressionError;
use super::facts::{Facts, FlowEvidence};

/// Maximum length of an expression, in bytes.
pub const MAX_EXPRESSION: usize = 2_000;

/// Maximum number of regular expressions in an expression.
const MAX_PATTERNS: usize = 16;

/// Maximum size of a compiled regular expression, and of its cache, in bytes.
const MAX_PATTERN_SIZE: usize = 128 * 1024;

/// Maximum number of regular expressions in the conditions of a policy.
const MAX_POLICY_PATTERNS: usize = 64;

const MAX_RECURSION: u16 = 48;

/// Maximum number of operators, names and values in an expression.
const MAX_NODES: usize = 1_000;

/// The standard functions and macros of CEL.
static ENVIRONMENT: LazyLock<Arc<Env>> =
    LazyLock::new(|| Arc::new(Env::stdlib().with_optional_support(false)));

#[derive(Clone)]
pub struct Condition {
    /// As written, with `${{` and `}}` if it has them.
    text: String,
    expression: Arc<IdedExpr>,
    /// Compiled by [`compile_patterns`].
    patterns: Arc<BTreeMap<String, OnceLock<Regex>>>,
    cost: Cost,
    uses_flow: bool,
    uses_namespaces: bool,
}

/// A condition that cannot be evaluated: for example, CEL that reads a missing tag.
#[derive(Debug, Clone, PartialEq, Eq, thiserror::Error)]
#[error("failed to evaluate the condition: {0}")]
pub struct EvaluationError(String);

/// Compiles the regular expressions of all conditions of a policy, and limits the number of them and of steps.
///
/// # Errors
///
/// The problem.
pub(super) fn compile_patterns<'a>(
    conditions: impl IntoIterator<Item = &'a Condition>,
) -> Result<(), String> {
    let (mut cost, mut patterns) = (Cost::default(), Vec::new());
    for condition in conditions {
        cost = cost.plus(condition.cost);
        patterns.extend(&*condition.patterns);
        if patterns.len() > MAX_POLICY_PATTERNS {
            return Err(format!(
                "expected at most {MAX_POLICY_PATTERNS} regular expressions in all conditions"
            ));
        }
    }
    if cost.exceeds_limit(0) {
        return Err(format!("expected at most {} steps in all conditions", cost::MAX_STEPS));
    }
    for (pattern, compiled) in patterns {
        let regex =
            RegexBuilder::new(pattern).size_limit(MAX_PATTERN_SIZE).dfa_size_limit(MAX_PATTERN_SIZE).build();
        let regex = regex.map_err(|error| {
            let why = error.to_string();
            let why = why.lines().last().unwrap_or_default().trim_start_matches("error: ").to_owned();
            format!("invalid regular expression {pattern:?}: {why}")
        })?;
        compiled.get_or_init(|| regex);
    }
    Ok(())
}

impl Condition {
    /// Parses `${{ … }}`.
    ///
    /// # Errors
    ///
    /// [`ExpressionError`] with the position.
    pub fn parse(text: &str) -> Result<Self, ExpressionError> {
        check_length(text)?;
        let trimmed = text.trim();
        let Some(inner) = trimmed.strip_prefix("${{").and_then(|inner| inner.strip_suffix("}}")) else {
            return Err(ExpressionError::new(0, "expected an expression in ${{ and }}"));
        };
        let start = text.len() - text.trim_start().len() + "${{".len();
        let cel = public::to_cel(inner)
            .map_err(|error| ExpressionError { offset: error.offset + start, ..error })?;
        // The position of a problem in CEL that was made from the expression is unknown.
        Self::compile(text, &cel).map_err(|error| ExpressionError { offset: start, ..error })
    }

    /// Parses CEL.
    ///
    /// # Errors
    ///
    /// [`ExpressionError`] with the position.
    pub fn parse_cel(text: &str) -> Result<Self, ExpressionError> {
        check_length(text)?;
        Self::compile(text, text)
    }

    fn compile(text: &str, cel: &str) -> Result<Self, ExpressionError> {
        let invalid = |problem: String| ExpressionError::new(0, problem);
        let parser =
            PrattParser::new().max_recursion_depth(MAX_RECURSION).max_expression_node_count(MAX_NODES);
        let expression = parser.parse(cel).map_err(|errors| {
            let Some(first) = errors.errors.first() else { return invalid("expected CEL".to_owned()) };
            let (line, column) = first.pos;
            ExpressionError::new(offset(cel, line, column), first.msg.clone())
        })?;
        let (cost, uses) = cost::check(&expression).map_err(invalid)?;
        if uses.patterns.len() > MAX_PATTERNS {
            return Err(invalid(format!("expected at most {MAX_PATTERNS} regular expressions")));
        }
        Ok(Self {
            text: text.to_owned(),
            expression: Arc::new(expression),
            cost,
            uses_flow: uses.has_variable("flow"),
            uses_namespaces: uses.has_variable("namespaces"),
            patterns: Arc::new(uses.patterns.into_iter().map(|pattern| (pattern, OnceLock::new())).collect()),
        })
    }

    /// As written.
    #[must_use]
    pub fn text(&self) -> &str {
        &self.text
    }

    /// Whether the result depends on the flow.
    #[must_use]
    pub fn uses_flow(&self) -> bool {
        self.uses_flow
    }

    /// Whether the result depends on the namespaces in which the artifact runs.
    #[must_use]
    pub fn uses_namespaces(&self) -> bool {
        self.uses_namespaces
    }

    /// Whether the condition holds for an artifact and a flow that holds it; `None` if no flow does.
    ///
    /// # Errors
    ///
    /// [`EvaluationError`] if it has no result, such as CEL with a missing tag, or needs too many steps.
    pub fn holds(
        &self,
        facts: &Facts<'_>,
        flow: Option<(&str, &FlowEvidence)>,
    ) -> Result<bool, EvaluationError> {
        let namespaces = facts.namespaces.len();
        if self.cost.exceeds_limit(namespaces) {
            return Err(EvaluationError(format!("too many steps for {namespaces} namespaces")));
        }
        if self.patterns.values().any(|pattern| pattern.get().is_none()) {
            return Err(EvaluationError("its regular expressions are not compiled".to_owned()));
        }
        let mut context = Context::with_env(Arc::clone(&ENVIRONMENT));
        let text = |text: &str| Value::from(text.to_owned());
        if self.uses_flow {
            let mut fields = HashMap::new();
            let mut tags = HashMap::new();
            if let Some((name, evidence)) = flow {
                fields.insert("name".to_owned(), text(name));
                tags.extend(evidence.tags.iter().map(|(key, value)| (key.clone(), text(value))));
            }
            fields.insert("tags".to_owned(), Value::Map(tags.into()));
            context.add_variable_from_value("flow", Value::Map(fields.into()));
        }
        if self.uses_namespaces {
            let namespaces: Vec<Value> = facts.namespaces.iter().map(|name| text(name)).collect();
            context.add_variable_from_value("namespaces", Value::List(namespaces.into()));
        }
        let artifact = HashMap::from([
            ("name".to_owned(), text(facts.name)),
            ("fingerprint".to_owned(), text(&facts.fingerprint.to_string())),
        ]);
        context.add_variable_from_value("artifact", Value::Map(artifact.into()));
        if !self.patterns.is_empty() {
            let patterns = Arc::clone(&self.patterns);
            let matches = move |This(value): This<Arc<String>>, pattern: Arc<String>| {
                patterns
                    .get(pattern.as_str())
                    .and_then(OnceLock::get)
                    .is_some_and(|pattern| pattern.is_match(&value))
            };
            context.add_function("matches", matches).map_err(|error| EvaluationError(error.to_string()))?;
        }
        let value = Value::resolve_val(&self.expression, &context)
            .map_err(|error| EvaluationError(error.to_string()))?;
        let boolean = value.downcast_ref::<CelBool>().map(|boolean| *boolean.inner());
        boolean.ok_or_else(|| EvaluationError("expected true or false".to_owned()))
    }
}

fn check_length(text: &str) -> Result<(), ExpressionError> {
    if text.len() <= MAX_EXPRESSION {
        return Ok(());
    }
    let problem = format!("expected at most {MAX_EXPRESSION} bytes, got {}", text.len());
    Err(ExpressionError::new(MAX_EXPRESSION, problem))
}

/// The offset of a position of the CEL parser, which counts lines and columns from 1.
fn offset(text: &str, line: isize, column: isize) -> usize {
    let line = usize::try_from(line - 1).unwrap_or_default();
    let before: usize = text.split_inclusive('\n').take(line).map(str::len).sum();
    (before + usize::try_from(column - 1).unwrap_or_default()).min(text.len())
}

impl fmt::Debug for Condition {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_tuple("Condition").field(&self.text).finish()
    }
}

impl PartialEq for Condition {
    fn eq(&self, other: &Self) -> bool {
        self.text == other.text
    }
}

impl Eq for Condition {}

impl<'de> Deserialize<'de> for Condition {
    fn deserialize<D: Deserializer<'de>>(deserializer: D) -> Result<Self, D::Error> {
        Self::parse(&String::deserialize(deserializer)?).map_err(serde::de::Error::custom)
    }
}

pub(super) fn deserialize_cel<'de, D: Deserializer<'de>>(
    deserializer: D,
) -> Result<Option<Condition>, D::Error> {
    let Some(text) = Option::<String>::deserialize(deserializer)? else { return Ok(None) };
    Condition::parse_cel(&text).map(Some).map_err(serde::de::Error::custom)
}

#[cfg(test)]
mod tests;
