//! `hearth trace export`.

use std::io::{self, BufWriter, Write};
use std::path::{Path, PathBuf};
use std::process::ExitCode;

use hearth_report::export::{self, ExportError, Exported, Side, Window};
use hearth_trace::Source;
use hearth_trace::file::{ReadError, Reader};
use tempfile::NamedTempFile;

use hearth_set::failure::{Failure, OrFail};
use hearth_set::size::HumanDuration;

/// Options of `hearth trace export`.
#[derive(clap::Args, Debug)]
pub(crate) struct Args {
    /// Trace files, or directories of them; read as one trace
    #[arg(value_name = "FILE", required = true)]
    files: Vec<PathBuf>,
    /// The format
    #[arg(long, value_name = "FORMAT")]
    to: Format,
    /// The file to write; `-` is standard output, for csv and fio
    #[arg(short, long, value_name = "OUT")]
    output: PathBuf,
    /// Leave out what began earlier, counted from the start of the trace
    #[arg(long, value_name = "TIME")]
    from: Option<HumanDuration>,
    /// Leave out what began later, counted from the start of the trace
    #[arg(long, value_name = "TIME")]
    until: Option<HumanDuration>,
    /// How many operations Perfetto is to show, at most; the longest stay
    #[arg(long, value_name = "N", default_value_t = export::SLICES_MAX)]
    slices: usize,
}

/// The formats of other tools.
#[derive(clap::ValueEnum, Clone, Copy, Debug, PartialEq, Eq)]
enum Format {
    /// Tables for DuckDB, pandas, Polars and Spark
    Parquet,
    /// A log for PyDarshan and Drishti
    Darshan,
    /// A timeline for ui.perfetto.dev
    Perfetto,
    /// A log that fio replays
    Fio,
    /// Lines of text
    Csv,
}

/// Writes a trace in the format of another tool.
pub(crate) fn run(args: &Args) -> Result<ExitCode, Failure> {
    let what = || format!("cannot export to `{}`", args.output.display());
    let reader = Reader::open(&args.files).or_fail(what)?;
    for line in reader.missing() {
        hearth_client::say!("missing: {line}");
    }
    let source = Window::new(reader, span(args));
    let exported = if args.output == Path::new("-") {
        to_stdout(args, source)?
    } else {
        to_file(args, source)?
    };
    say(&exported);
    Ok(ExitCode::SUCCESS)
}

fn span(args: &Args) -> export::TimeRange {
    let nanoseconds = |time: HumanDuration| u64::try_from(time.0.as_nanos()).unwrap_or(u64::MAX);
    export::TimeRange {
        from: args.from.map_or(0, nanoseconds),
        to: args.until.map_or(u64::MAX, nanoseconds),
    }
}

fn to_stdout(args: &Args, source: Window<Reader>) -> Result<Exported, Failure> {
    let mut out = BufWriter::with_capacity(1 << 20, io::stdout().lock());
    let result = match args.to {
        Format::Csv => export::csv(source, &mut out),
        Format::Fio => export::fio(source, &mut out, &std::env::temp_dir()),
        Format::Parquet | Format::Darshan | Format::Perfetto => {
            let failure = Failure::new("this format cannot go to standard output");
            return Err(failure.hint("give a file: -o OUT"));
        }
    };
    match result {
        Err(ExportError::Write(error)) if error.kind() == io::ErrorKind::BrokenPipe => {
            Ok(Exported::default())
        }
        result => result.or_fail(|| "cannot export to standard output".to_owned()),
    }
}

/// Writes files under other names and renames them when they are whole.
fn to_file(args: &Args, source: Window<Reader>) -> Result<Exported, Failure> {
    let what = || format!("cannot export to `{}`", args.output.display());
    let dir = directory(&args.output);
    let tables = source.tables().clone();
    let mut file = Pending::new(&args.output).or_fail(what)?;
    let exported = write(args, source, &mut file, dir).or_fail(what)?;
    file.finish().or_fail(what)?;
    if args.to == Format::Parquet {
        for side in Side::ALL {
            let mut file = Pending::new(&beside(&args.output, side)).or_fail(what)?;
            side.write(&tables, &mut file).or_fail(what)?;
            file.finish().or_fail(what)?;
        }
    }
    Ok(exported)
}

fn write(
    args: &Args,
    source: Window<Reader>,
    mut file: &mut Pending,
    dir: &Path,
) -> Result<Exported, ExportError<ReadError>> {
    match args.to {
        Format::Parquet => export::parquet(source, file),
        Format::Darshan => export::darshan(source, &mut file, dir),
        Format::Perfetto => export::perfetto(source, &mut file, args.slices),
        Format::Fio => export::fio(source, &mut file, dir),
        Format::Csv => export::csv(source, &mut file),
    }
}

fn directory(path: &Path) -> &Path {
    match path.parent() {
        Some(dir) if !dir.as_os_str().is_empty() => dir,
        _ => Path::new("."),
    }
}

/// `job.parquet` has `job.streams.parquet` beside it.
fn beside(path: &Path, side: Side) -> PathBuf {
    let extension = path.extension().unwrap_or("parquet".as_ref());
    let mut name = path.file_stem().unwrap_or_default().to_owned();
    name.push(format!(".{}.", side.name()));
    name.push(extension);
    path.with_file_name(name)
}

fn say(exported: &Exported) {
    let Exported {
        kept,
        left_out,
        lost,
        remarks,
    } = exported;
    hearth_client::say!("{kept} operations written, {left_out} left out, {lost} lost before");
    for remark in remarks {
        hearth_client::say!("note: {remark}");
    }
}

/// A file that gets its name when it is whole.
struct Pending {
    out: BufWriter<NamedTempFile>,
    path: PathBuf,
}

impl Pending {
    fn new(path: &Path) -> io::Result<Pending> {
        use std::os::unix::fs::PermissionsExt;
        // The file has the permissions that the user's umask leaves, as any file has.
        let file = tempfile::Builder::new()
            .prefix(".hearth-export")
            .permissions(PermissionsExt::from_mode(0o666))
            .tempfile_in(directory(path))?;
        Ok(Pending {
            out: BufWriter::with_capacity(1 << 20, file),
            path: path.to_owned(),
        })
    }

    fn finish(self) -> io::Result<()> {
        let file = self.out.into_inner()?;
        file.persist(&self.path)?;
        Ok(())
    }
}

impl Write for Pending {
    fn write(&mut self, data: &[u8]) -> io::Result<usize> {
        self.out.write(data)
    }

    fn flush(&mut self) -> io::Result<()> {
        self.out.flush()
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn tables_stand_beside_the_events() {
        let beside = |path: &str| beside(Path::new(path), Side::Gaps);
        assert_eq!(beside("/a/job.parquet"), Path::new("/a/job.gaps.parquet"));
        assert_eq!(beside("job"), Path::new("job.gaps.parquet"));
    }
}
