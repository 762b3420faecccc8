//! What all rows have in common: their columns, and how a cell is written as JSON and read from it.

use crate::platform::{Bdf, GpuId, Pair, Rank};
use serde_json::{Value, json};
use std::fmt;
use std::net::Ipv4Addr;
use std::slice;

/// A column of a table.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct Column {
    /// Its heading.
    pub heading: &'static str,
    /// The unit of its values; empty for texts and counts.
    pub unit: &'static str,
}

/// A column of values that have a unit.
pub(super) const fn measured(heading: &'static str, unit: &'static str) -> Column {
    Column { heading, unit }
}

/// A column of texts or counts.
pub(super) const fn plain(heading: &'static str) -> Column {
    Column { heading, unit: "" }
}

impl Column {
    /// As a report has it.
    pub(super) fn json(self) -> Value {
        json!({ "heading": self.heading, "unit": self.unit })
    }
}

/// A row of a table.
pub(super) trait Row: Sized {
    /// The columns, in the order of the cells.
    fn columns() -> Vec<Column>;
    /// The cells, one for each column.
    fn cells(&self) -> Vec<Value>;
    /// Reads the cells; `None` if one has another form.
    fn read(cells: &mut Cells<'_>) -> Option<Self>;
}

/// The cells of a row that are still to be read.
pub(super) struct Cells<'a>(slice::Iter<'a, Value>);

impl<'a> Cells<'a> {
    /// All of these.
    pub(super) fn new(cells: &'a [Value]) -> Self {
        Self(cells.iter())
    }

    /// Reads the next one.
    pub(super) fn take<T: Cell>(&mut self) -> Option<T> {
        T::read(self.0.next()?)
    }
}

/// Declares the struct of a row, the name of its table unless that has a variable part, and for each field its column.
macro_rules! row {
    (
        $(#[$doc:meta])*
        $row:ident $(in $table:literal)? {
            $($(#[$about:meta])* $field:ident: $type:ty = $column:expr;)*
        }
    ) => {
        $(#[$doc])*
        #[derive(Debug, Clone, PartialEq)]
        pub struct $row {
            $($(#[$about])* pub $field: $type,)*
        }

        $(impl $row {
            /// The name of the table.
            pub const TABLE: &'static str = $table;
        })?

        impl $crate::table::row::Row for $row {
            fn columns() -> Vec<Column> {
                vec![$($column),*]
            }

            fn cells(&self) -> Vec<serde_json::Value> {
                vec![$($crate::table::row::Cell::cell(&self.$field)),*]
            }

            fn read(cells: &mut $crate::table::row::Cells<'_>) -> Option<Self> {
                Some(Self { $($field: cells.take()?),* })
            }
        }
    };
}

/// Declares names that tables have, or a part of them.
macro_rules! names {
    ($(#[$doc:meta])* $type:ident { $($(#[$about:meta])* $name:ident = $word:literal,)* }) => {
        $(#[$doc])*
        #[derive(Debug, Clone, Copy, PartialEq, Eq)]
        pub enum $type {
            $($(#[$about])* $name,)*
        }

        impl $type {
            /// All of them.
            pub(super) const ALL: &'static [Self] = &[$(Self::$name),*];

            /// As a table's name has it.
            #[must_use]
            pub const fn word(self) -> &'static str {
                match self {
                    $(Self::$name => $word,)*
                }
            }

            pub(super) fn of(word: &str) -> Option<Self> {
                Self::ALL.iter().copied().find(|one| one.word() == word)
            }
        }
    };
}

pub(super) use {names, row};

/// The value of a cell.
pub(super) trait Cell: Sized {
    /// As a report has it.
    fn cell(&self) -> Value;
    /// Reads it; `None` if it has another form.
    fn read(cell: &Value) -> Option<Self>;
}

/// JSON has no word for a figure that is no number: it is written as `null`.
impl Cell for f64 {
    fn cell(&self) -> Value {
        (*self).into()
    }

    fn read(cell: &Value) -> Option<Self> {
        if cell.is_null() {
            Some(Self::NAN)
        } else {
            cell.as_f64()
        }
    }
}

impl Cell for u64 {
    fn cell(&self) -> Value {
        (*self).into()
    }

    fn read(cell: &Value) -> Option<Self> {
        cell.as_u64()
    }
}

impl Cell for u32 {
    fn cell(&self) -> Value {
        (*self).into()
    }

    fn read(cell: &Value) -> Option<Self> {
        cell.as_u64()?.try_into().ok()
    }
}

impl Cell for usize {
    fn cell(&self) -> Value {
        (*self).into()
    }

    fn read(cell: &Value) -> Option<Self> {
        cell.as_u64()?.try_into().ok()
    }
}

impl Cell for bool {
    fn cell(&self) -> Value {
        (*self).into()
    }

    fn read(cell: &Value) -> Option<Self> {
        cell.as_bool()
    }
}

impl Cell for String {
    fn cell(&self) -> Value {
        self.as_str().into()
    }

    fn read(cell: &Value) -> Option<Self> {
        cell.as_str().map(str::to_owned)
    }
}

impl<T: Cell> Cell for Option<T> {
    fn cell(&self) -> Value {
        self.as_ref().map_or(Value::Null, T::cell)
    }

    fn read(cell: &Value) -> Option<Self> {
        if cell.is_null() {
            Some(None)
        } else {
            T::read(cell).map(Some)
        }
    }
}

impl Cell for GpuId {
    fn cell(&self) -> Value {
        self.index().into()
    }

    fn read(cell: &Value) -> Option<Self> {
        usize::read(cell).map(Self::new)
    }
}

impl Cell for Rank {
    fn cell(&self) -> Value {
        self.index().into()
    }

    fn read(cell: &Value) -> Option<Self> {
        usize::read(cell).map(Self::new)
    }
}

/// `0000:01:00.0`
impl Cell for Bdf {
    fn cell(&self) -> Value {
        self.to_string().into()
    }

    fn read(cell: &Value) -> Option<Self> {
        cell.as_str()?.parse().ok()
    }
}

/// `10.0.0.1`
impl Cell for Ipv4Addr {
    fn cell(&self) -> Value {
        self.to_string().into()
    }

    fn read(cell: &Value) -> Option<Self> {
        cell.as_str()?.parse().ok()
    }
}

/// `GPU 0 -> 1`
impl Cell for Pair {
    fn cell(&self) -> Value {
        self.to_string().into()
    }

    fn read(cell: &Value) -> Option<Self> {
        let (from, to) = cell.as_str()?.strip_prefix("GPU ")?.split_once(" -> ")?;
        Some(Self::of(from.parse().ok()?, to.parse().ok()?))
    }
}

/// The numbers of several GPUs: `4,5`.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct GpuList(pub Vec<GpuId>);

impl fmt::Display for GpuList {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let numbers: Vec<_> = self.0.iter().map(ToString::to_string).collect();
        f.write_str(&numbers.join(","))
    }
}

impl Cell for GpuList {
    fn cell(&self) -> Value {
        self.to_string().into()
    }

    fn read(cell: &Value) -> Option<Self> {
        let number = |number: &str| number.parse().ok().map(GpuId::new);
        cell.as_str()?
            .split(',')
            .map(number)
            .collect::<Option<_>>()
            .map(Self)
    }
}

/// `yes` or `no`.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct YesNo(pub bool);

impl Cell for YesNo {
    fn cell(&self) -> Value {
        if self.0 { "yes" } else { "no" }.into()
    }

    fn read(cell: &Value) -> Option<Self> {
        match cell.as_str()? {
            "yes" => Some(Self(true)),
            "no" => Some(Self(false)),
            _ => None,
        }
    }
}

/// What the contents of transfers were made from, in 16 hexadecimal digits.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct Seed(pub u64);

impl Cell for Seed {
    fn cell(&self) -> Value {
        format!("{:016x}", self.0).into()
    }

    fn read(cell: &Value) -> Option<Self> {
        u64::from_str_radix(cell.as_str()?, 16).ok().map(Self)
    }
}
