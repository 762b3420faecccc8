//! The tables of a report, each with rows of its own type. Each type of row has its columns and the name of its table
//! beside it, and cells are written and read in one place. In JSON a table has a name, columns with heading and unit,
//! and rows of cells.

mod gpu;
mod nccl;
mod p2p;
mod rdma;
mod row;

pub use gpu::{GpuState, MemoryRow, ProductsRow, SampleRow};
pub use nccl::{
    Arm, CallRow, CallTable, Channels, ChannelsRow, GainRow, GraphRow, LibraryRow, TransportRow,
};
pub use p2p::{
    AllReduceRow, BySizeRow, ExpectedRow, IntegrityRow, PairRow, ProcessesRow, ReachRow, SoakRow,
    SpreadRow, TogetherRow,
};
pub use rdma::{
    CountersRow, GdrRow, GpuWithAddress, Ibdev2netdevRow, NearestCards, NicPathRow, NicPaths,
    PortBytesRow, PortRow, RateRow, RdmaMemory,
};
pub use row::{Column, GpuList, Seed, YesNo};

use nccl::{GRAPH, TRANSPORT};
use p2p::TRIED;
use rdma::COUNTERS;
use row::{Cells, Row};
use schemars::{JsonSchema, Schema, SchemaGenerator};
use serde::{Deserialize, Deserializer, Serialize, Serializer};
use serde_json::{Map, Value, json};
use std::borrow::Cow;

/// A table of what was measured. The name of some tables has a variable part, which is a field. None is larger than a
/// [`Value`], which is what a reader of reports counts for each.
#[derive(Debug, Clone, PartialEq)]
pub enum Table {
    /// What was predicted about peer access, and what CUDA and NVML report.
    Expected(Vec<ExpectedRow>),
    /// The result of each ordered pair of GPUs.
    Pairs(Vec<PairRow>),
    /// What `p2p-integrity` tried with each pair.
    Integrity(Vec<IntegrityRow>),
    /// What `p2p-processes` tried with each pair.
    Processes(Vec<ProcessesRow>),
    /// What `p2p-reach` tried with each pair.
    Reach(Vec<ReachRow>),
    /// Times of all-reduces in kernels.
    AllReduce(Vec<AllReduceRow>),
    /// Bandwidth by size.
    BySize(Vec<BySizeRow>),
    /// The spread of the samples of bandwidths.
    Spread(Vec<SpreadRow>),
    /// Transfers of many pairs at the same time.
    Together(Vec<TogetherRow>),
    /// Each second of transfers of all pairs.
    Soak(Vec<SoakRow>),
    /// The states of GPUs under load.
    Samples(Vec<SampleRow>),
    /// Matrix products.
    Products(Vec<ProductsRow>),
    /// The test of GPUs' memory.
    Memory(Vec<MemoryRow>),
    /// Calls of NCCL's collectives.
    Calls(CallTable, Box<[CallRow]>),
    /// The gain by peer-to-peer.
    Gain(Vec<GainRow>),
    /// The transports that NCCL logs.
    Transports(Arm, Box<[TransportRow]>),
    /// The graphs that NCCL searched for.
    Graphs(Arm, Box<[GraphRow]>),
    /// NCCL's libraries.
    Libraries(Vec<LibraryRow>),
    /// Numbers of channels.
    Channels(Vec<ChannelsRow>),
    /// RDMA cards, as `ibdev2netdev` prints them.
    Ibdev2netdev(Vec<Ibdev2netdevRow>),
    /// RDMA ports.
    Ports(Vec<PortRow>),
    /// The distances from GPUs to network cards.
    NicPaths(Box<NicPaths>),
    /// GPUDirect RDMA.
    Gdr(Vec<GdrRow>),
    /// What ports carried while all rails were busy.
    PortBytes(Vec<PortBytesRow>),
    /// Rates of RDMA.
    Rates(RdmaMemory, Box<[RateRow]>),
    /// What ports sent by RDMA.
    Counters(RdmaMemory, Box<[CountersRow]>),
    /// A table that this version does not know, or of another form than this version writes, as it was read.
    Other(Value),
}

impl Table {
    /// Its name; `None` if it has none.
    #[must_use]
    pub fn name(&self) -> Option<Cow<'_, str>> {
        Some(match self {
            Self::Expected(_) => ExpectedRow::TABLE.into(),
            Self::Pairs(_) => PairRow::TABLE.into(),
            Self::Integrity(_) | Self::Processes(_) | Self::Reach(_) => TRIED.into(),
            Self::AllReduce(_) => AllReduceRow::TABLE.into(),
            Self::BySize(_) => BySizeRow::TABLE.into(),
            Self::Spread(_) => SpreadRow::TABLE.into(),
            Self::Together(_) => TogetherRow::TABLE.into(),
            Self::Soak(_) => SoakRow::TABLE.into(),
            Self::Samples(_) => SampleRow::TABLE.into(),
            Self::Products(_) => ProductsRow::TABLE.into(),
            Self::Memory(_) => MemoryRow::TABLE.into(),
            Self::Calls(table, _) => table.word().into(),
            Self::Gain(_) => GainRow::TABLE.into(),
            Self::Transports(arm, _) => format!("{TRANSPORT}{}", arm.word()).into(),
            Self::Graphs(arm, _) => format!("{GRAPH}{}", arm.word()).into(),
            Self::Libraries(_) => LibraryRow::TABLE.into(),
            Self::Channels(_) => ChannelsRow::TABLE.into(),
            Self::Ibdev2netdev(_) => Ibdev2netdevRow::TABLE.into(),
            Self::Ports(_) => PortRow::TABLE.into(),
            Self::NicPaths(_) => NicPaths::TABLE.into(),
            Self::Gdr(_) => GdrRow::TABLE.into(),
            Self::PortBytes(_) => PortBytesRow::TABLE.into(),
            Self::Rates(memory, _) => memory.word().into(),
            Self::Counters(memory, _) => format!("{}{COUNTERS}", memory.word()).into(),
            Self::Other(read) => return read["name"].as_str().map(Cow::from),
        })
    }

    /// The table as a report has it.
    #[must_use]
    pub fn json(&self) -> Cow<'_, Value> {
        let (columns, rows) = match self {
            Self::Expected(rows) => written(rows),
            Self::Pairs(rows) => written(rows),
            Self::Integrity(rows) => written(rows),
            Self::Processes(rows) => written(rows),
            Self::Reach(rows) => written(rows),
            Self::AllReduce(rows) => written(rows),
            Self::BySize(rows) => written(rows),
            Self::Spread(rows) => written(rows),
            Self::Together(rows) => written(rows),
            Self::Soak(rows) => written(rows),
            Self::Samples(rows) => written(rows),
            Self::Products(rows) => written(rows),
            Self::Memory(rows) => written(rows),
            Self::Calls(_, rows) => written(rows),
            Self::Gain(rows) => written(rows),
            Self::Transports(_, rows) => written(rows),
            Self::Graphs(_, rows) => written(rows),
            Self::Libraries(rows) => written(rows),
            Self::Channels(rows) => written(rows),
            Self::Ibdev2netdev(rows) => written(rows),
            Self::Ports(rows) => written(rows),
            Self::NicPaths(paths) => (
                paths.columns(),
                paths
                    .rows
                    .iter()
                    .map(|row| NicPaths::cells(row).into())
                    .collect(),
            ),
            Self::Gdr(rows) => written(rows),
            Self::PortBytes(rows) => written(rows),
            Self::Rates(_, rows) => written(rows),
            Self::Counters(_, rows) => written(rows),
            Self::Other(read) => return Cow::Borrowed(read),
        };
        Cow::Owned(json!({ "name": self.name(), "columns": columns, "rows": Value::Array(rows) }))
    }

    /// What this version knows of the table: of one that another version wrote, the rows that have all that this
    /// version needs, without columns that it does not know. Readers of single values look here.
    #[must_use]
    pub fn known(&self) -> Cow<'_, Self> {
        let Self::Other(read) = self else {
            return Cow::Borrowed(self);
        };
        match (read["name"].as_str(), read["rows"].as_array()) {
            (Some(name), Some(rows)) => {
                let form = Form {
                    columns: read["columns"].as_array().map(Vec::as_slice),
                    rows,
                };
                form.table(name, true)
                    .map_or(Cow::Borrowed(self), Cow::Owned)
            }
            _ => Cow::Borrowed(self),
        }
    }

    /// The states of GPUs over time, each with its seconds since the beginning.
    #[must_use]
    pub fn states(&self) -> Vec<(f64, &GpuState)> {
        match self {
            Self::Soak(rows) => rows.iter().map(|row| (row.time, &row.state)).collect(),
            Self::Samples(rows) => rows.iter().map(|row| (row.time, &row.state)).collect(),
            _ => Vec::new(),
        }
    }

    /// Whether its figures are of host memory, or of all links at the same time, and so scatter more than others.
    #[must_use]
    pub const fn is_shared(&self) -> bool {
        matches!(
            self,
            Self::Calls(..) | Self::Together(_) | Self::Products(_)
        )
    }
}

/// The results of all pairs in these tables.
pub fn pair_rows(tables: &[Table]) -> impl Iterator<Item = PairRow> {
    tables
        .iter()
        .flat_map(|table| match table.known().into_owned() {
            Table::Pairs(rows) => rows,
            _ => Vec::new(),
        })
}

/// The columns and the rows as a report has them.
fn written<R: Row>(rows: &[R]) -> (Vec<Value>, Vec<Value>) {
    (
        R::columns().into_iter().map(Column::json).collect(),
        rows.iter().map(|row| row.cells().into()).collect(),
    )
}

/// A table that is being read.
#[derive(Clone, Copy)]
struct Form<'a> {
    /// `None`: it has none, so its cells are in the order of this version's.
    columns: Option<&'a [Value]>,
    rows: &'a [Value],
}

impl Form<'_> {
    /// The table of this name. `lenient`: what can be read of it; otherwise `None` if anything of it would not be
    /// written again.
    fn table(self, name: &str, lenient: bool) -> Option<Table> {
        fn rows<R: Row>(form: Form<'_>, lenient: bool) -> Option<Vec<R>> {
            if lenient {
                Some(form.readable())
            } else {
                form.whole()
            }
        }
        fn boxed<R: Row>(form: Form<'_>, lenient: bool) -> Option<Box<[R]>> {
            rows(form, lenient).map(Vec::into_boxed_slice)
        }
        Some(match name {
            ExpectedRow::TABLE => Table::Expected(rows(self, lenient)?),
            PairRow::TABLE => Table::Pairs(rows(self, lenient)?),
            // Three tables have this name. Their columns tell them apart. No reader needs a single value of them.
            TRIED => {
                let integrity = || self.whole().map(Table::Integrity);
                let processes = || self.whole().map(Table::Processes);
                return integrity()
                    .or_else(processes)
                    .or_else(|| self.whole().map(Table::Reach));
            }
            AllReduceRow::TABLE => Table::AllReduce(rows(self, lenient)?),
            BySizeRow::TABLE => Table::BySize(rows(self, lenient)?),
            SpreadRow::TABLE => Table::Spread(rows(self, lenient)?),
            TogetherRow::TABLE => Table::Together(rows(self, lenient)?),
            SoakRow::TABLE => Table::Soak(rows(self, lenient)?),
            SampleRow::TABLE => Table::Samples(rows(self, lenient)?),
            ProductsRow::TABLE => Table::Products(rows(self, lenient)?),
            MemoryRow::TABLE => Table::Memory(rows(self, lenient)?),
            GainRow::TABLE => Table::Gain(rows(self, lenient)?),
            LibraryRow::TABLE => Table::Libraries(rows(self, lenient)?),
            ChannelsRow::TABLE => Table::Channels(rows(self, lenient)?),
            Ibdev2netdevRow::TABLE => Table::Ibdev2netdev(rows(self, lenient)?),
            PortRow::TABLE => Table::Ports(rows(self, lenient)?),
            NicPaths::TABLE => Table::NicPaths(Box::new(self.nic_paths()?)),
            GdrRow::TABLE => Table::Gdr(rows(self, lenient)?),
            PortBytesRow::TABLE => Table::PortBytes(rows(self, lenient)?),
            name => {
                if let Some(arm) = name.strip_prefix(TRANSPORT) {
                    Table::Transports(Arm::of(arm)?, boxed(self, lenient)?)
                } else if let Some(arm) = name.strip_prefix(GRAPH) {
                    Table::Graphs(Arm::of(arm)?, boxed(self, lenient)?)
                } else if let Some(memory) = name.strip_suffix(COUNTERS) {
                    Table::Counters(RdmaMemory::of(memory)?, boxed(self, lenient)?)
                } else if let Some(memory) = RdmaMemory::of(name) {
                    Table::Rates(memory, boxed(self, lenient)?)
                } else {
                    Table::Calls(CallTable::of(name)?, boxed(self, lenient)?)
                }
            }
        })
    }

    /// The rows, if they and the columns are what this version writes.
    fn whole<R: Row>(self) -> Option<Vec<R>> {
        let columns = R::columns().into_iter().map(Column::json);
        if !columns.eq(self.columns?.iter().cloned()) {
            return None;
        }
        let row = |row: &Value| {
            let cells = row.as_array()?;
            R::read(&mut Cells::new(cells)).filter(|read| are_same(&read.cells(), cells))
        };
        self.rows.iter().map(row).collect()
    }

    /// The rows that have what this version needs, by the columns' headings and units.
    fn readable<R: Row>(self) -> Vec<R> {
        let columns = R::columns();
        let own = |column: &Column| match self.columns {
            Some(all) => all.iter().position(|other| *other == column.json()),
            None => columns.iter().position(|other| other == column),
        };
        let places: Vec<_> = columns.iter().map(own).collect();
        let row = |row: &Value| {
            let cell = |place: &Option<usize>| {
                place
                    .and_then(|place| row.get(place))
                    .cloned()
                    .unwrap_or_default()
            };
            R::read(&mut Cells::new(
                &places.iter().map(cell).collect::<Vec<_>>(),
            ))
        };
        self.rows.iter().filter_map(row).collect()
    }

    fn nic_paths(self) -> Option<NicPaths> {
        let columns = self.columns?;
        let headings: Vec<_> = columns
            .iter()
            .map(|column| column["heading"].as_str())
            .collect::<Option<_>>()?;
        let read = NicPaths::read(&headings, self.rows)?;
        let is_same = |(row, read): (&Value, &NicPathRow)| {
            row.as_array()
                .is_some_and(|cells| are_same(&NicPaths::cells(read), cells))
        };
        (read.columns() == columns && self.rows.iter().zip(&read.rows).all(is_same)).then_some(read)
    }
}

/// Whether cells say the same; a program between may have written a figure without its decimal point.
fn are_same(written: &[Value], read: &[Value]) -> bool {
    let same = |(written, read): (&Value, &Value)| {
        written == read
            || (written.is_f64() && read.is_number() && written.as_f64() == read.as_f64())
    };
    written.len() == read.len() && written.iter().zip(read).all(same)
}

impl From<Value> for Table {
    fn from(read: Value) -> Self {
        let parts = |object: &Map<String, Value>| {
            let columns = object.get("columns")?.as_array()?;
            let form = Form {
                columns: Some(columns),
                rows: object.get("rows")?.as_array()?,
            };
            form.table(object.get("name")?.as_str()?, false)
                .filter(|_| object.len() == 3)
        };
        read.as_object()
            .and_then(parts)
            .unwrap_or(Self::Other(read))
    }
}

impl Serialize for Table {
    fn serialize<S: Serializer>(&self, to: S) -> Result<S::Ok, S::Error> {
        self.json().serialize(to)
    }
}

impl<'de> Deserialize<'de> for Table {
    fn deserialize<D: Deserializer<'de>>(from: D) -> Result<Self, D::Error> {
        Value::deserialize(from).map(Self::from)
    }
}

/// Any value: another version may write tables of other forms.
impl JsonSchema for Table {
    fn schema_name() -> Cow<'static, str> {
        "Table".into()
    }

    fn inline_schema() -> bool {
        true
    }

    fn json_schema(_: &mut SchemaGenerator) -> Schema {
        true.into()
    }
}

#[cfg(test)]
mod tests;
