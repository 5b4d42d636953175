//! Parses formulas by recursive descent.

use super::{Aggregate, Comparison, Condition, Expression, Operator, Selection, Statistic};
use crate::metrics::{self, Names};
use crate::scenario::Axis;

/// Maximum nesting, so that no formula exhausts the stack.
const MAX_DEPTH: usize = 100;

pub(super) fn parse(text: &str, axes: &[Axis], names: &Names) -> Result<Expression, String> {
    let mut parser = Parser { rest: text, axes, names, depth: 0 };
    let expression = parser.sum()?;
    parser.skip();
    if parser.rest.is_empty() {
        Ok(expression)
    } else {
        Err(format!("'{}' is not understood", parser.excerpt()))
    }
}

struct Parser<'a> {
    rest: &'a str,
    axes: &'a [Axis],
    /// Names of paths and transfers, which may occur in metrics.
    names: &'a Names,
    depth: usize,
}

const COMPARISONS: [(&str, Comparison); 6] = [
    ("!=", Comparison::Unequal),
    ("<=", Comparison::AtMost),
    (">=", Comparison::AtLeast),
    ("<", Comparison::Less),
    (">", Comparison::Greater),
    ("=", Comparison::Equal),
];

impl<'a> Parser<'a> {
    fn skip(&mut self) {
        self.rest = self.rest.trim_start();
    }

    fn excerpt(&self) -> String {
        if self.rest.is_empty() {
            "the end".to_owned()
        } else {
            self.rest.chars().take(20).collect()
        }
    }

    fn take(&mut self, symbol: &str) -> bool {
        self.skip();
        match self.rest.strip_prefix(symbol) {
            Some(rest) => {
                self.rest = rest;
                true
            }
            None => false,
        }
    }

    fn expect(&mut self, symbol: &str) -> Result<(), String> {
        if self.take(symbol) {
            Ok(())
        } else {
            Err(format!("'{symbol}' is missing before '{}'", self.excerpt()))
        }
    }

    fn sum(&mut self) -> Result<Expression, String> {
        self.depth += 1;
        if self.depth > MAX_DEPTH {
            return Err("the formula is nested too deeply".to_owned());
        }
        let mut left = self.product()?;
        loop {
            let operator = if self.take("+") {
                Operator::Add
            } else if self.take("-") {
                Operator::Subtract
            } else {
                self.depth -= 1;
                return Ok(left);
            };
            left = Expression::Binary(operator, Box::new(left), Box::new(self.product()?));
        }
    }

    fn product(&mut self) -> Result<Expression, String> {
        let mut left = self.term()?;
        loop {
            let operator = if self.take("*") {
                Operator::Multiply
            } else if self.take("/") {
                Operator::Divide
            } else {
                return Ok(left);
            };
            left = Expression::Binary(operator, Box::new(left), Box::new(self.term()?));
        }
    }

    fn term(&mut self) -> Result<Expression, String> {
        if self.take("-") {
            // Count a sequence of signs as nesting too.
            self.depth += 1;
            if self.depth > MAX_DEPTH {
                return Err("the formula is nested too deeply".to_owned());
            }
            let inner = self.term()?;
            self.depth -= 1;
            return Ok(Expression::Negative(Box::new(inner)));
        }
        if self.take("(") {
            let inner = self.sum()?;
            self.expect(")")?;
            return Ok(inner);
        }
        self.skip();
        if self.rest.starts_with(|c: char| c.is_ascii_digit()) {
            return self.number().map(Expression::Number);
        }
        let name = self.name()?;
        if self.take("(") {
            let call = self.call(name)?;
            self.expect(")")?;
            return Ok(call);
        }
        Ok(Expression::Statistic(Statistic::Mean, self.brackets(name)?))
    }

    fn number(&mut self) -> Result<f64, String> {
        self.skip();
        let negative = self.take("-");
        self.skip();
        let end =
            self.rest.find(|c: char| !c.is_ascii_digit() && c != '.').unwrap_or(self.rest.len());
        let (digits, rest) = self.rest.split_at(end);
        let number: f64 = digits
            .parse()
            .map_err(|_| format!("a number is missing before '{}'", self.excerpt()))?;
        self.rest = rest;
        Ok(if negative { -number } else { number })
    }

    fn name(&mut self) -> Result<&'a str, String> {
        self.skip();
        let end = self
            .rest
            .find(|c: char| !c.is_ascii_alphanumeric() && c != '_')
            .unwrap_or(self.rest.len());
        if end == 0 {
            return Err(format!("a name or number is missing before '{}'", self.excerpt()));
        }
        let (name, rest) = self.rest.split_at(end);
        self.rest = rest;
        Ok(name)
    }

    fn call(&mut self, name: &str) -> Result<Expression, String> {
        let statistic = |statistic, selection| Ok(Expression::Statistic(statistic, selection));
        match name {
            "mean" => statistic(Statistic::Mean, self.selection()?),
            "median" => statistic(Statistic::Quantile(0.5), self.selection()?),
            "deviation" => statistic(Statistic::Deviation, self.selection()?),
            "count" => statistic(Statistic::Count, self.selection()?),
            "quantile" => {
                let selection = self.selection()?;
                self.expect(",")?;
                let share = self.number()?;
                if !(0.0..=1.0).contains(&share) {
                    return Err(format!("the quantile {share} is outside 0 to 1"));
                }
                statistic(Statistic::Quantile(share), selection)
            }
            "share" => {
                let selection = self.selection()?;
                let comparison = self.comparison()?;
                let limit = self.number()?;
                statistic(Statistic::Share(comparison, limit), selection)
            }
            "abs" => Ok(Expression::Absolute(Box::new(self.sum()?))),
            "gain" => {
                let new = self.sum()?;
                self.expect(",")?;
                Ok(Expression::Gain(Box::new(new), Box::new(self.sum()?)))
            }
            "max" => self.aggregate(Aggregate::Largest),
            "min" => self.aggregate(Aggregate::Smallest),
            "average" => self.aggregate(Aggregate::Average),
            "crossing" => self.aggregate(Aggregate::Crossing),
            _ => Err(format!("there is no function '{name}'")),
        }
    }

    fn aggregate(&mut self, aggregate: Aggregate) -> Result<Expression, String> {
        if let Some(condition) = self.binding()? {
            return Ok(Expression::Over(aggregate, condition, Box::new(self.sum()?)));
        }
        let largest = match aggregate {
            Aggregate::Largest => true,
            Aggregate::Smallest => false,
            Aggregate::Average | Aggregate::Crossing => {
                return Err("'axis:' is missing, over whose values it goes".to_owned());
            }
        };
        let mut of = vec![self.sum()?];
        while self.take(",") {
            of.push(self.sum()?);
        }
        Ok(Expression::Extreme { largest, of })
    }

    /// `axis:` or `axis <= value:`, if that follows.
    fn binding(&mut self) -> Result<Option<Condition>, String> {
        let start = self.rest;
        let Ok(name) = self.name() else { return Ok(None) };
        let Some(axis) = self.axes.iter().position(|axis| axis.name == name) else {
            self.rest = start;
            return Ok(None);
        };
        let condition = if self.take(":") {
            let count = self.axes.get(axis).map_or(0, |axis| axis.values.len());
            return Ok(Some(Condition { axis, values: (0..count).collect() }));
        } else {
            self.condition(axis, &[':'])?
        };
        self.expect(":")?;
        Ok(Some(condition))
    }

    fn selection(&mut self) -> Result<Selection, String> {
        let name = self.name()?;
        self.brackets(name)
    }

    fn brackets(&mut self, metric: &str) -> Result<Selection, String> {
        let Some(metric) = metrics::find_named(metric, self.names) else {
            return Err(format!("there is no metric '{metric}': {}", metrics::names()));
        };
        let mut conditions: Vec<Condition> = Vec::new();
        let mut observed = Vec::new();
        if self.take("[") {
            loop {
                let name = self.name()?;
                let Some(axis) = self.axes.iter().position(|axis| axis.name == name) else {
                    let Some(metric) = metrics::find_named(name, self.names) else {
                        return Err(format!("there is no axis '{name}', and no metric"));
                    };
                    observed.push((metric, self.comparison()?, self.number()?));
                    if !self.take(",") {
                        break;
                    }
                    continue;
                };
                let new = self.condition(axis, &[',', ']'])?;
                match conditions.iter_mut().find(|condition| condition.axis == axis) {
                    Some(old) => old.values.retain(|value| new.values.contains(value)),
                    None => conditions.push(new),
                }
                if !self.take(",") {
                    break;
                }
            }
            self.expect("]")?;
        }
        match conditions.iter().find(|condition| condition.values.is_empty()) {
            Some(_) => Err("the brackets select no value of an axis".to_owned()),
            None => Ok(Selection { metric, conditions, observed }),
        }
    }

    fn comparison(&mut self) -> Result<Comparison, String> {
        match COMPARISONS.iter().find(|(symbol, _)| self.take(symbol)) {
            Some((_, comparison)) => Ok(*comparison),
            None => Err(format!("a comparison is missing before '{}'", self.excerpt())),
        }
    }

    fn condition(&mut self, axis: usize, ends: &[char]) -> Result<Condition, String> {
        let comparison = self.comparison()?;
        let end = self.rest.find(ends).unwrap_or(self.rest.len());
        let (text, rest) = self.rest.split_at(end);
        self.rest = rest;
        let Some(named) = self.axes.get(axis) else { return Err("there are no axes".to_owned()) };
        let unknown = |text: &str| {
            let known: Vec<_> = named.values.iter().map(|value| value.text.as_str()).collect();
            let known = known.join(", ");
            format!("the axis '{}' has no value '{}': {known}", named.name, text.trim())
        };
        let listed = text
            .split('|')
            .map(|text| named.find(text).ok_or_else(|| unknown(text)))
            .collect::<Result<Vec<usize>, _>>()?;
        let values = match comparison {
            Comparison::Equal => listed,
            Comparison::Unequal => {
                (0..named.values.len()).filter(|value| !listed.contains(value)).collect()
            }
            _ => {
                let limit = match listed[..] {
                    [one] => named.values.get(one).and_then(|value| value.number),
                    _ => None,
                };
                let Some(limit) = limit else {
                    return Err(format!(
                        "'{}' is not a single number to compare with",
                        text.trim()
                    ));
                };
                let holds =
                    |number: Option<f64>| number.is_some_and(|n| comparison.holds(n, limit));
                let values = named.values.iter().enumerate();
                values.filter(|(_, value)| holds(value.number)).map(|(at, _)| at).collect()
            }
        };
        Ok(Condition { axis, values })
    }
}
