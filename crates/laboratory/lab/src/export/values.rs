//! Columns of tables.

/// A column of rows.
#[derive(Clone, Debug, PartialEq)]
pub struct Column {
    /// Its heading, including the unit.
    pub name: String,
    /// One for each row.
    pub values: Values,
}

/// The values of a column.
#[derive(Clone, Debug, PartialEq)]
pub enum Values {
    /// Numbers; unmeasured ones are missing.
    Numbers(Numbers),
    /// A few numbers with their original spelling, for CSV.
    Spelled(Chosen<(String, f64)>),
    /// Whole numbers.
    Counts(Vec<u64>),
    /// Texts.
    Texts(Vec<String>),
    /// A few texts.
    Named(Chosen<String>),
    /// The same text in this many rows.
    Same(String, usize),
}

/// Numbers, some of which may be missing.
#[derive(Clone, Debug, Default)]
pub struct Numbers {
    pub(super) values: Vec<f64>,
    pub(super) missing: usize,
}

/// For each row one of a few values, which are stored once.
#[derive(Clone, Debug, PartialEq)]
pub struct Chosen<T> {
    known: Vec<T>,
    /// Indices into `known`.
    rows: Vec<u32>,
}

impl Numbers {
    /// One for each row, NaN where it is missing.
    pub fn as_slice(&self) -> &[f64] {
        &self.values
    }

    /// How many are missing.
    pub fn missing(&self) -> usize {
        self.missing
    }

    /// One for each row.
    pub fn iter(&self) -> impl ExactSizeIterator<Item = Option<f64>> {
        self.values.iter().map(|value| Some(*value).filter(|value| !value.is_nan()))
    }
}

impl FromIterator<Option<f64>> for Numbers {
    fn from_iter<I: IntoIterator<Item = Option<f64>>>(numbers: I) -> Self {
        let values: Vec<f64> =
            numbers.into_iter().map(|number| number.unwrap_or(f64::NAN)).collect();
        let missing = values.iter().filter(|value| value.is_nan()).count();
        Self { values, missing }
    }
}

/// Missing numbers are equal.
impl PartialEq for Numbers {
    fn eq(&self, other: &Self) -> bool {
        self.iter().eq(other.iter())
    }
}

impl<T> Chosen<T> {
    /// Rows are indices into `known`; those that are not are left out.
    pub(super) fn new(known: Vec<T>, rows: impl Iterator<Item = usize>) -> Self {
        let rows = rows.filter(|row| *row < known.len()).map(|row| row as u32).collect();
        Self { known, rows }
    }

    /// One for each row.
    pub fn iter(&self) -> impl Iterator<Item = &T> {
        self.rows.iter().filter_map(|row| self.known.get(*row as usize))
    }

    fn get(&self, row: usize) -> Option<&T> {
        self.known.get(*self.rows.get(row)? as usize)
    }
}

impl Values {
    /// How many rows there are.
    #[expect(clippy::len_without_is_empty, reason = "nobody asks")]
    pub fn len(&self) -> usize {
        match self {
            Self::Numbers(numbers) => numbers.values.len(),
            Self::Spelled(chosen) => chosen.rows.len(),
            Self::Counts(values) => values.len(),
            Self::Texts(values) => values.len(),
            Self::Named(chosen) => chosen.rows.len(),
            Self::Same(_, rows) => *rows,
        }
    }

    /// A row as CSV has it; empty if it is missing.
    pub(super) fn spelled(&self, row: usize) -> String {
        let spelled = match self {
            Self::Numbers(numbers) => {
                let value = numbers.values.get(row).filter(|value| !value.is_nan());
                value.map(f64::to_string)
            }
            Self::Spelled(chosen) => chosen.get(row).map(|(text, _)| text.clone()),
            Self::Counts(values) => values.get(row).map(u64::to_string),
            Self::Texts(values) => values.get(row).cloned(),
            Self::Named(chosen) => chosen.get(row).cloned(),
            Self::Same(text, _) => Some(text.clone()),
        };
        spelled.unwrap_or_default()
    }
}
