//! Bounds the cost of a CEL expression before it is evaluated.
//!
//! CEL expressions have no loops except over a list. Only `all`, `exists` and `exists_one` over `namespaces` or a written
//! list are accepted, at most two of them inside each other. The number of steps therefore follows from the expression
//! and the number of namespaces.

use cel::IdedExpr;
use cel::common::ast::{EntryExpr, Expr, LiteralValue};

/// Maximum depth of an expression: its evaluation is recursive.
const MAX_DEPTH: usize = 64;

/// Maximum number of lists that are iterated over inside each other.
const MAX_LOOPS: usize = 2;

/// Maximum number of steps of one evaluation, and of one evaluation of all conditions of a policy without namespaces.
pub(super) const MAX_STEPS: u64 = 20_000;

/// The number of steps, as a polynomial of the number of namespaces.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Default)]
pub(super) struct Cost {
    fixed: u64,
    per_namespace: u64,
    per_pair: u64,
}

/// The names that an expression uses.
#[derive(Debug, Clone, PartialEq, Eq, Default)]
pub(super) struct Uses {
    /// Regular expressions.
    pub(super) patterns: Vec<String>,
    /// Variables, and those that loops declare.
    variables: Vec<String>,
}

impl Uses {
    pub(super) fn has_variable(&self, name: &str) -> bool {
        self.variables.iter().any(|used| used == name)
    }
}

impl Cost {
    pub(super) fn plus(self, other: Self) -> Self {
        Self {
            fixed: self.fixed.saturating_add(other.fixed),
            per_namespace: self.per_namespace.saturating_add(other.per_namespace),
            per_pair: self.per_pair.saturating_add(other.per_pair),
        }
    }

    /// The cost of repeating this for each namespace. Loops are not nested deeper than two levels.
    fn per_namespace(self) -> Self {
        let per_pair = self.per_namespace.saturating_add(self.per_pair);
        Self { fixed: 0, per_namespace: self.fixed, per_pair }
    }

    fn times(self, count: u64) -> Self {
        Self {
            fixed: self.fixed.saturating_mul(count),
            per_namespace: self.per_namespace.saturating_mul(count),
            per_pair: self.per_pair.saturating_mul(count),
        }
    }

    /// Whether an evaluation with this number of namespaces exceeds the limit.
    pub(super) fn exceeds_limit(self, namespaces: usize) -> bool {
        let n = u64::try_from(namespaces).unwrap_or(u64::MAX);
        let for_one = self.per_pair.saturating_mul(n).saturating_add(self.per_namespace);
        for_one.saturating_mul(n).saturating_add(self.fixed) > MAX_STEPS
    }
}

/// The cost of an expression and the names in it, or why it is not accepted.
pub(super) fn check(expression: &IdedExpr) -> Result<(Cost, Uses), String> {
    let mut check = Check { uses: Uses::default(), loops: 0 };
    let cost = check.cost(expression, 0)?;
    for variable in &check.uses.variables {
        if !matches!(variable.as_str(), "flow" | "artifact" | "namespaces") {
            return Err(format!("unknown name \"{variable}\": expected flow, artifact or namespaces"));
        }
    }
    if cost.exceeds_limit(0) {
        return Err(format!("expected at most {MAX_STEPS} steps"));
    }
    Ok((cost, check.uses))
}

struct Check {
    uses: Uses,
    loops: usize,
}

impl Check {
    fn cost(&mut self, expression: &IdedExpr, depth: usize) -> Result<Cost, String> {
        if depth > MAX_DEPTH {
            return Err(format!("expected at most {MAX_DEPTH} nested levels"));
        }
        let mut cost = Cost { fixed: 1, ..Cost::default() };
        let mut add = |check: &mut Self, part: &IdedExpr| {
            cost = cost.plus(check.cost(part, depth + 1)?);
            Ok::<_, String>(())
        };
        match &expression.expr {
            Expr::Unspecified => return Err("expected an expression".to_owned()),
            Expr::Literal(_) => {}
            Expr::Ident(name) => {
                // A comparison with the list compares each of its elements.
                cost.per_namespace = u64::from(name == "namespaces");
                self.uses.variables.push(name.clone());
            }
            Expr::Select(select) => add(self, &select.operand)?,
            Expr::List(list) => list.elements.iter().try_for_each(|element| add(self, element))?,
            Expr::Call(call) => {
                if call.func_name == "matches" {
                    let Some(Expr::Literal(LiteralValue::String(pattern))) =
                        call.args.last().map(|pattern| &pattern.expr)
                    else {
                        return Err("expected a regular expression in quotes in matches(…)".to_owned());
                    };
                    self.uses.patterns.push(pattern.inner().to_owned());
                }
                call.target.iter().try_for_each(|target| add(self, target))?;
                call.args.iter().try_for_each(|argument| add(self, argument))?;
            }
            Expr::Map(map) => {
                for entry in &map.entries {
                    if let EntryExpr::MapEntry(entry) = &entry.expr {
                        add(self, &entry.key)?;
                        add(self, &entry.value)?;
                    }
                }
            }
            Expr::Struct(_) => return Err("structures are not supported".to_owned()),
            Expr::Comprehension(each) => {
                if matches!(each.accu_init.expr, Expr::List(_) | Expr::Map(_)) {
                    return Err("map and filter are not supported: expected all or exists".to_owned());
                }
                if self.loops == MAX_LOOPS {
                    return Err(format!("expected at most {MAX_LOOPS} loops inside each other"));
                }
                add(self, &each.iter_range)?;
                add(self, &each.accu_init)?;
                let before = self.uses.variables.len();
                self.loops += 1;
                let mut body = self.cost(&each.loop_cond, depth + 1)?;
                body = body.plus(self.cost(&each.loop_step, depth + 1)?);
                self.loops -= 1;
                let result = self.cost(&each.result, depth + 1)?;
                let own = [Some(&each.iter_var), Some(&each.accu_var), each.iter_var2.as_ref()];
                let used = self.uses.variables.split_off(before);
                self.uses.variables.extend(used.into_iter().filter(|name| !own.contains(&Some(name))));
                let all = match &each.iter_range.expr {
                    Expr::Ident(name) if name == "namespaces" => body.per_namespace(),
                    Expr::List(list) => body.times(u64::try_from(list.elements.len()).unwrap_or(u64::MAX)),
                    _ => return Err("expected a loop over namespaces or a written list".to_owned()),
                };
                cost = cost.plus(result).plus(all);
            }
        }
        Ok(cost)
    }
}
