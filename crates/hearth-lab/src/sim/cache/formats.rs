//! Formats of traces.
//!
//! | format | a record |
//! |---|---|
//! | csv | a line whose columns the first line names |
//! | msr | a line: time, host, disk, `Read` or `Write`, offset, size, response time |
//! | oracle-general | 24 bytes, little-endian: u32 time, u64 object, u32 size, i64 next use |
//! | vscsi | 32 or 40 bytes: see [`vscsi`] |

mod vscsi;

use std::fs::File;
use std::io::{self, BufRead, BufReader, Read};
use std::path::Path;

use super::trace::{Builder, Trace};
use hearth_set::failure::{Failure, OrFail};
use hearth_set::size::Size;

/// Bytes of a record of oracleGeneral.
const RECORD_LEN: usize = 24;
/// Blocks of one request, at most.
const BLOCKS_MAX: u64 = 1 << 20;
/// Reads of a trace, at most: objects have 32-bit numbers, and memory ends.
const READS_MAX: u64 = 1 << 28;

/// Format of a trace.
#[derive(Clone, Copy, Debug, PartialEq, Eq, clap::ValueEnum)]
pub(super) enum Format {
    /// Lines with named columns
    Csv,
    /// Block traces of MSR Cambridge
    Msr,
    /// libCacheSim's binary layout
    OracleGeneral,
    /// Binary traces of virtual disks by CloudPhysics
    Vscsi,
}

/// Reads up to `requests` records of a trace.
pub(super) fn read(
    path: &Path,
    format: Option<Format>,
    block: Size,
    requests: u64,
) -> Result<Trace, Failure> {
    let what = || format!("cannot read the trace `{}`", path.display());
    let mut input = BufReader::with_capacity(1 << 20, File::open(path).or_fail(what)?);
    let requests = requests.min(READS_MAX);
    let format = match format {
        Some(format) => format,
        None => guess(path, input.fill_buf().or_fail(what)?),
    };
    let trace = match format {
        Format::Csv => csv(input, block, requests),
        Format::Msr => msr(input, block, requests),
        Format::OracleGeneral => oracle_general(input, requests),
        Format::Vscsi => {
            let begin = input.fill_buf().or_fail(what)?.to_owned();
            vscsi::read(input, &begin, block, requests)
        }
    };
    let trace = trace.map_err(|why| match why {
        Wrong::Input(error) => Failure::new(what()).because(error),
        Wrong::Content(why) => Failure::new(what())
            .cause(why)
            .hint("--format says what it is; compressed traces are to be unpacked first"),
    })?;
    if trace.queue.is_empty() {
        return Err(Failure::new(what()).cause("no read is in it"));
    }
    Ok(trace)
}

/// Why a trace cannot be read.
enum Wrong {
    Input(io::Error),
    Content(String),
}

impl From<io::Error> for Wrong {
    fn from(error: io::Error) -> Wrong {
        match error.kind() {
            io::ErrorKind::InvalidData => Wrong::Content("it is no text".to_owned()),
            _ => Wrong::Input(error),
        }
    }
}

fn guess(path: &Path, begin: &[u8]) -> Format {
    let name = path
        .file_name()
        .unwrap_or_default()
        .to_string_lossy()
        .to_lowercase();
    if name.contains("oraclegeneral") {
        return Format::OracleGeneral;
    }
    if name.contains("vscsi") {
        return Format::Vscsi;
    }
    let line = begin
        .split(|byte| *byte == b'\n')
        .next()
        .unwrap_or_default();
    let line = String::from_utf8_lossy(line);
    let fields: Vec<&str> = line.split(',').collect();
    let is_msr = fields.len() == 7 && matches!(fields[3], "Read" | "Write");
    if is_msr { Format::Msr } else { Format::Csv }
}

fn oracle_general(mut input: impl Read, requests: u64) -> Result<Trace, Wrong> {
    let mut trace = Builder::new();
    let mut record = [0; RECORD_LEN];
    for number in 0..requests {
        match fill(&mut input, &mut record)? {
            0 => break,
            RECORD_LEN => {}
            len => {
                return Err(Wrong::Content(format!(
                    "record {number} is cut off: {len} of {RECORD_LEN} bytes"
                )));
            }
        }
        let object = u64::from_le_bytes(record[4..12].try_into().expect("eight bytes"));
        let size = u32::from_le_bytes(record[12..16].try_into().expect("four bytes"));
        trace.read(object, u64::from(size));
    }
    Ok(trace.done())
}

/// Fills `record` as far as the input goes.
fn fill(input: &mut impl Read, record: &mut [u8]) -> io::Result<usize> {
    let mut len = 0;
    while len < record.len() {
        match input.read(&mut record[len..])? {
            0 => break,
            more => len += more,
        }
    }
    Ok(len)
}

fn msr(input: impl BufRead, block: Size, requests: u64) -> Result<Trace, Wrong> {
    let mut trace = Builder::new();
    for (number, line) in (1..=requests).zip(input.lines()) {
        let line = line?;
        let fields: Vec<&str> = line.trim_end().split(',').collect();
        let [_, host, disk, op, offset, size, _] = fields.as_slice() else {
            let why = format!("line {number} has {} fields instead of 7", fields.len());
            return Err(Wrong::Content(why));
        };
        if *op != "Read" && *op != "Write" {
            trace.skipped += 1;
            continue;
        }
        let offset = parse_number(offset, number)?;
        let len = parse_number(size, number)?;
        let disk = format!("{host},{disk}");
        blocks(&mut trace, &disk, Span { offset, len }, block, number)?;
    }
    Ok(trace.done())
}

fn parse_number(text: &str, line: u64) -> Result<u64, Wrong> {
    let number = text.trim().parse();
    number.map_err(|_| Wrong::Content(format!("line {line}: `{text}` is no number of bytes")))
}

/// Bytes of a file or a disk.
#[derive(Clone, Copy)]
struct Span {
    offset: u64,
    len: u64,
}

/// Each block that a request touches is an object.
fn blocks(
    trace: &mut Builder<(String, u64)>,
    name: &str,
    span: Span,
    block: Size,
    line: u64,
) -> Result<(), Wrong> {
    let last = span.offset.saturating_add(span.len.max(1) - 1) / block.0;
    let first = span.offset / block.0;
    if last - first >= BLOCKS_MAX {
        let why = format!(
            "line {line}: {} bytes are more than {BLOCKS_MAX} blocks",
            span.len
        );
        return Err(Wrong::Content(why));
    }
    for number in first..=last {
        trace.read((name.to_owned(), number), block.0);
    }
    Ok(())
}

/// Places of the columns that count.
#[derive(Debug)]
struct Columns {
    object: usize,
    size: usize,
    offset: Option<usize>,
    op: Option<usize>,
}

impl Columns {
    fn of(head: &str) -> Result<Columns, Wrong> {
        let names: Vec<String> = fields(head)
            .iter()
            .map(|name| name.to_lowercase())
            .collect();
        let find = |wanted: &[&str]| {
            let mut found = wanted
                .iter()
                .filter_map(|name| names.iter().position(|n| n == name));
            found.next()
        };
        let object = find(&["id", "obj_id", "object", "key", "path", "file", "lba"]);
        let size = find(&["size", "obj_size", "bytes", "asked", "length"]);
        let (Some(object), Some(size)) = (object, size) else {
            return Err(Wrong::Content(format!(
                "its first line names no column for objects (id, key, path) and sizes (size, bytes): `{}`",
                head.chars().take(80).collect::<String>()
            )));
        };
        Ok(Columns {
            object,
            size,
            offset: find(&["offset"]),
            op: find(&["op"]),
        })
    }
}

/// Operations that read or write bytes; lines of others are passed over.
const OPS: [&str; 10] = [
    "read", "write", "pread", "pwrite", "readv", "writev", "preadv", "pwritev", "get", "set",
];

fn csv(input: impl BufRead, block: Size, requests: u64) -> Result<Trace, Wrong> {
    let mut lines = input.lines();
    let head = lines.next().transpose()?.unwrap_or_default();
    let columns = Columns::of(&head)?;
    let mut trace = Builder::new();
    for (number, line) in (2..)
        .zip(lines)
        .take(usize::try_from(requests).unwrap_or(usize::MAX))
    {
        let line = line?;
        let fields = fields(&line);
        let field = |column: usize| fields.get(column).map_or("", String::as_str).trim();
        let op = columns.op.map(field);
        let object = field(columns.object);
        if object.is_empty() || op.is_some_and(|op| !OPS.contains(&op.to_lowercase().as_str())) {
            trace.skipped += 1;
            continue;
        }
        let len = parse_number(field(columns.size), number)?;
        match columns.offset {
            None => trace.read((object.to_owned(), 0), len),
            Some(column) => {
                let offset = parse_number(field(column), number)?;
                blocks(&mut trace, object, Span { offset, len }, block, number)?;
            }
        }
    }
    Ok(trace.done())
}

/// Fields of a line; one may be quoted, with `""` for a quote.
fn fields(line: &str) -> Vec<String> {
    let mut fields = vec![String::new()];
    let mut is_quoted = false;
    let mut letters = line.trim_end().chars().peekable();
    while let Some(letter) = letters.next() {
        let field = fields.last_mut().expect("there is a first field");
        match letter {
            '"' if is_quoted && letters.peek() == Some(&'"') => {
                letters.next();
                field.push('"');
            }
            '"' => is_quoted = !is_quoted,
            ',' if !is_quoted => fields.push(String::new()),
            letter => field.push(letter),
        }
    }
    fields
}

#[cfg(test)]
mod tests {
    use super::*;
    use hearth_plan::{Bytes, FileIndex};

    const BLOCK: Size = Size(100);

    fn why(result: Result<Trace, Wrong>) -> String {
        match result {
            Ok(trace) => panic!("it was read: {trace:?}"),
            Err(Wrong::Input(error)) => error.to_string(),
            Err(Wrong::Content(why)) => why,
        }
    }

    fn reads(result: Result<Trace, Wrong>) -> Vec<(u32, u64)> {
        let trace = result.unwrap_or_else(|_| panic!("it cannot be read"));
        let queue = &trace.queue;
        let at = 0..queue.len();
        at.map(|at| (queue.file(at).0, queue.size_at(at).0))
            .collect()
    }

    #[test]
    fn columns_are_found_by_name() {
        let text = "time,Size,key\n1,5,a\n2,7,\"b,c\"\n3,5,a\n4,9,\n";
        assert_eq!(
            reads(csv(text.as_bytes(), BLOCK, u64::MAX)),
            [(0, 5), (1, 7), (0, 5)]
        );
        let text = "op,path,offset,asked\nread,f,150,100\nopen,f,0,0\nread,f,0,1\n";
        let trace = csv(text.as_bytes(), BLOCK, u64::MAX);
        assert_eq!(reads(trace), [(0, 100), (1, 100), (2, 100)]);
    }

    #[test]
    fn requests_to_a_disk_are_cut_into_blocks() {
        let text = "1,h,0,Read,0,150,9\n2,h,0,Write,100,100,9\n3,h,1,Read,0,1,9\n";
        let trace = msr(text.as_bytes(), BLOCK, u64::MAX);
        assert_eq!(reads(trace), [(0, 100), (1, 100), (1, 100), (2, 100)]);
    }

    #[test]
    fn records_of_oracle_general_are_read() {
        let record = |object: u64, size: u32| {
            let fields: [&[u8]; 4] = [&[0; 4], &object.to_le_bytes(), &size.to_le_bytes(), &[0; 8]];
            fields.concat()
        };
        let bytes = [record(7, 3), record(9, 4), record(7, 8)].concat();
        let trace = oracle_general(bytes.as_slice(), u64::MAX).unwrap_or_else(|_| panic!("three"));
        assert_eq!(trace.footprint(), Bytes(7));
        assert_eq!(
            trace.queue.size(FileIndex(0)),
            Bytes(3),
            "the first size stands"
        );
        let cut = oracle_general(&bytes[..30], u64::MAX);
        assert_eq!(why(cut), "record 1 is cut off: 6 of 24 bytes");
    }

    #[test]
    fn what_is_wrong_is_said() {
        let from = |text: &'static str| csv(text.as_bytes(), BLOCK, u64::MAX);
        assert!(why(from("a,b\n1,2\n")).starts_with("its first line names no column"));
        assert_eq!(
            why(from("id,size\na,-3\n")),
            "line 2: `-3` is no number of bytes"
        );
        assert_eq!(
            why(from("id,size\na\n")),
            "line 2: `` is no number of bytes"
        );
        let huge = "id,size,offset\na,18446744073709551615,0\n";
        assert!(why(from(huge)).contains("more than"));
        assert_eq!(
            why(msr("1,2\n".as_bytes(), BLOCK, 9)),
            "line 1 has 2 fields instead of 7"
        );
    }

    #[test]
    fn the_format_is_told_from_name_and_first_line() {
        let guess = |name: &str, begin: &str| guess(Path::new(name), begin.as_bytes());
        assert_eq!(guess("w10.oracleGeneral.bin", ""), Format::OracleGeneral);
        assert_eq!(guess("a.csv", "1,h,0,Read,0,1,2\n"), Format::Msr);
        assert_eq!(guess("a.csv", "id,size\n"), Format::Csv);
    }
}
