//! Tables of columns, written as Parquet.

use std::io::{self, Write};
use std::sync::Arc;

use parquet::basic::{Compression, Encoding};
use parquet::data_type::{BoolType, ByteArray, ByteArrayType, DataType, Int32Type, Int64Type};
use parquet::errors::ParquetError;
use parquet::file::metadata::KeyValue;
use parquet::file::properties::{WriterProperties, WriterPropertiesPtr};
use parquet::file::writer::{
    SerializedColumnWriter, SerializedFileWriter, SerializedRowGroupWriter,
};
use parquet::schema::parser::parse_message_type;
use parquet::schema::types::{ColumnPath, TypePtr};

/// Bytes of different values that a column keeps in a dictionary, for each group of rows.
const DICTIONARY_BYTES: usize = 8 << 20;

/// The type of a column's values.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum Kind {
    /// Nanoseconds since the Unix epoch.
    Time,
    /// A number that grows or jumps: written as differences.
    Varied,
    /// A number of few different values, written once each.
    Repeated,
    /// A small number of few different values, which may be missing.
    SmallOrNone,
    /// A number that may be missing.
    VariedOrNone,
    Text,
    TextOrNone,
    Truth,
}

impl Kind {
    /// Its line in Parquet's language of schemas.
    fn line(self, name: &str) -> String {
        match self {
            Kind::Time => format!("required int64 {name} (timestamp(nanos,false));"),
            Kind::Varied | Kind::Repeated => format!("required int64 {name};"),
            Kind::SmallOrNone => format!("optional int32 {name};"),
            Kind::VariedOrNone => format!("optional int64 {name};"),
            Kind::Text => format!("required binary {name} (string);"),
            Kind::TextOrNone => format!("optional binary {name} (string);"),
            Kind::Truth => format!("required boolean {name};"),
        }
    }

    fn is_delta(self) -> bool {
        matches!(self, Kind::Time | Kind::Varied | Kind::VariedOrNone)
    }
}

/// The values of one column in one group of rows.
pub(super) enum Values {
    Numbers(Vec<i64>),
    NumbersOrNone(Vec<Option<i64>>),
    SmallOrNone(Vec<Option<i32>>),
    Texts(Vec<ByteArray>),
    TextsOrNone(Vec<Option<ByteArray>>),
    Truths(Vec<bool>),
}

/// A column's name and kind.
pub(super) type Column = (&'static str, Kind);

/// A table that is being written.
pub(super) struct Table<W: Write + Send> {
    writer: SerializedFileWriter<W>,
}

impl<W: Write + Send> Table<W> {
    pub(super) fn new(
        columns: &[Column],
        facts: Vec<(&str, String)>,
        out: W,
    ) -> io::Result<Table<W>> {
        let properties = properties(columns, facts);
        let writer = SerializedFileWriter::new(out, schema(columns)?, properties);
        Ok(Table {
            writer: writer.map_err(failed)?,
        })
    }

    /// Writes a group of rows: the values of every column, all equally many.
    pub(super) fn group(&mut self, columns: impl Iterator<Item = Values>) -> io::Result<()> {
        let mut group = self.writer.next_row_group().map_err(failed)?;
        for values in columns {
            put(&mut group, values).map_err(failed)?;
        }
        group.close().map_err(failed)?;
        Ok(())
    }

    pub(super) fn close(self) -> io::Result<()> {
        self.writer.close().map_err(failed)?;
        Ok(())
    }
}

fn schema(columns: &[Column]) -> io::Result<TypePtr> {
    let lines: String = (columns.iter())
        .map(|(name, kind)| kind.line(name))
        .collect();
    let schema = parse_message_type(&format!("message trace {{ {lines} }}"));
    schema.map(Arc::new).map_err(failed)
}

fn properties(columns: &[Column], facts: Vec<(&str, String)>) -> WriterPropertiesPtr {
    let facts = facts.into_iter();
    let facts = facts.map(|(key, value)| KeyValue::new(key.to_owned(), value));
    let mut builder = WriterProperties::builder()
        .set_compression(Compression::SNAPPY)
        .set_dictionary_page_size_limit(DICTIONARY_BYTES)
        .set_created_by(format!("hearth version {}", env!("CARGO_PKG_VERSION")))
        .set_key_value_metadata(Some(facts.collect()));
    for (name, kind) in columns {
        if kind.is_delta() {
            let path = ColumnPath::from(*name);
            builder = builder
                .set_column_dictionary_enabled(path.clone(), false)
                .set_column_encoding(path, Encoding::DELTA_BINARY_PACKED);
        }
    }
    Arc::new(builder.build())
}

fn put<W: Write + Send>(
    group: &mut SerializedRowGroupWriter<'_, W>,
    values: Values,
) -> Result<(), ParquetError> {
    let Some(mut column) = group.next_column()? else {
        return Err(ParquetError::General("more values than columns".to_owned()));
    };
    match values {
        Values::Numbers(all) => put_all::<Int64Type>(&mut column, &all)?,
        Values::Texts(all) => put_all::<ByteArrayType>(&mut column, &all)?,
        Values::Truths(all) => put_all::<BoolType>(&mut column, &all)?,
        Values::NumbersOrNone(some) => put_some::<Int64Type>(&mut column, some)?,
        Values::SmallOrNone(some) => put_some::<Int32Type>(&mut column, some)?,
        Values::TextsOrNone(some) => put_some::<ByteArrayType>(&mut column, some)?,
    }
    column.close()
}

fn put_all<T: DataType>(
    column: &mut SerializedColumnWriter<'_>,
    values: &[T::T],
) -> Result<(), ParquetError> {
    column.typed::<T>().write_batch(values, None, None)?;
    Ok(())
}

fn put_some<T: DataType>(
    column: &mut SerializedColumnWriter<'_>,
    values: Vec<Option<T::T>>,
) -> Result<(), ParquetError> {
    let there: Vec<i16> = (values.iter())
        .map(|value| i16::from(value.is_some()))
        .collect();
    let values: Vec<T::T> = values.into_iter().flatten().collect();
    column
        .typed::<T>()
        .write_batch(&values, Some(&there), None)?;
    Ok(())
}

fn failed(error: ParquetError) -> io::Error {
    io::Error::other(error)
}
