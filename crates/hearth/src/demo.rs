//! `hearth demo`: the main job on one machine, no root and no cluster.

use hearth_agent::Policy;
use hearth_set::failure::{Failure, OrFail};
use hearth_set::options::warn_of;
use hearth_set::output::{progress, progress_over};
use hearth_set::program;
use hearth_set::report::Format;
use hearth_set::signals::{self, Signals};
use hearth_set::trial::ProcessArgs;
use hearth_set::trial::matmul::{self, MATRIX, Sample, System, from_store, own_bytes};
use hearth_set::typed::parser;
use std::io::{self, Write};
use std::process::ExitCode;

const STORE: &str = "model";
const BAR: usize = 46;

/// Options of `hearth demo`.
#[derive(clap::Args, Debug)]
pub(crate) struct Args {
    /// Policies to show beside none and home [default: hint]
    #[arg(
        long,
        value_name = "P",
        value_delimiter = ',',
        value_parser = parser::<Policy>(),
        hide_possible_values = true
    )]
    policy: Vec<Policy>,
    /// One JSON object per line instead of words
    #[arg(long)]
    json: bool,
}

/// Options of the hidden `hearth workload`.
#[derive(clap::Args, Debug)]
pub(crate) struct Process {
    #[arg(value_enum)]
    program: Program,
    #[command(flatten)]
    seat: ProcessArgs,
}

/// The programs that the demonstration runs as processes of their own.
#[derive(Clone, Copy, Debug, PartialEq, Eq, clap::ValueEnum)]
enum Program {
    /// C = A x B.
    Matmul,
}

/// Runs one process of the demonstration's program.
pub(crate) fn work(process: &Process) -> Result<ExitCode, Failure> {
    let seat = &process.seat;
    let ran = match process.program {
        Program::Matmul => matmul::program::run(&seat.dir, seat.size, seat.rank, seat.of),
    };
    seat.tell(ran.map(|times| (times, true).into()))
}

/// Runs the matrix program under each system and shows what happened.
pub(crate) fn run(args: &Args) -> Result<ExitCode, Failure> {
    let signals = Signals::catch(signals::ENDS)?;
    args.policy.iter().copied().for_each(warn_of);
    let systems = &System::chosen(&args.policy, System::MAIN);
    let samples = matmul::sample(
        &program::this()?,
        systems,
        (STORE, MATRIX),
        1,
        &signals,
        progress,
    )?;
    progress_over();
    let what = || "cannot print the result".to_owned();
    if args.json {
        let report = matmul::report(systems, STORE, MATRIX, &samples);
        report.print(Format::Json).or_fail(what)?;
    } else {
        show(&samples).or_fail(what)?;
    }
    match samples.iter().all(|sample| sample.verified) {
        true => Ok(ExitCode::SUCCESS),
        false => Err(Failure::new("the product is wrong")),
    }
}

fn show(samples: &[Sample]) -> io::Result<()> {
    let mut out = io::stdout().lock();
    let mib = matmul_mib();
    writeln!(
        out,
        "C = A x B, {MATRIX} x {MATRIX} floats, by four processes with an agent and a mount each."
    )?;
    writeln!(
        out,
        "Every process reads its rows of A and all {mib} MiB of B, row by row, and writes its rows of C."
    )?;
    writeln!(
        out,
        "The store is a model: one I/O server, 0.58 ms a request, 110 MB/s.\n"
    )?;
    table(&mut out, samples)?;
    for (title, figure) in [
        (
            "time in reads, all processes",
            (|s| s.times.read_s) as fn(&Sample) -> f64,
        ),
        ("time in writes, all processes", |s| s.times.write_s),
    ] {
        chart(&mut out, title, samples, figure)?;
    }
    origins(&mut out, samples)?;
    words(&mut out, samples)
}

fn matmul_mib() -> usize {
    (MATRIX * MATRIX * size_of::<f32>()) >> 20
}

fn table(out: &mut impl Write, samples: &[Sample]) -> io::Result<()> {
    writeln!(
        out,
        "system       read s  write s  store reads  store writes  read MiB  product"
    )?;
    for sample in samples {
        let Sample { times, counts, .. } = sample;
        writeln!(
            out,
            "{:10} {:8.3} {:8.3} {:12} {:13} {:9.1}  {}",
            sample.system.name(),
            times.read_s,
            times.write_s,
            counts.store_read_requests,
            counts.store_write_requests,
            counts.store_read_bytes as f64 / f64::from(1 << 20),
            if sample.verified { "right" } else { "WRONG" },
        )?;
    }
    writeln!(out)
}

fn chart(
    out: &mut impl Write,
    title: &str,
    samples: &[Sample],
    figure: fn(&Sample) -> f64,
) -> io::Result<()> {
    writeln!(out, "{title}")?;
    let most = samples.iter().map(figure).fold(f64::MIN_POSITIVE, f64::max);
    for sample in samples {
        let value = figure(sample);
        let bar = "#".repeat(((value / most * BAR as f64).round() as usize).max(1));
        writeln!(out, "  {:10} {bar} {value:.3} s", sample.system.name())?;
    }
    writeln!(out)
}

fn origins(out: &mut impl Write, samples: &[Sample]) -> io::Result<()> {
    writeln!(out, "where the bytes that were read came from (MiB)")?;
    writeln!(out, "  system      own memory     peers     store")?;
    for sample in samples {
        let mib = |bytes: u64| bytes as f64 / f64::from(1 << 20);
        let (own, peers) = (mib(own_bytes(sample)), mib(sample.counts.peer_bytes));
        let store = mib(from_store(sample));
        writeln!(
            out,
            "  {:10} {own:11.1} {peers:9.1} {store:9.1}",
            sample.system.name()
        )?;
    }
    writeln!(out)
}

fn words(out: &mut impl Write, samples: &[Sample]) -> io::Result<()> {
    let of = |system| samples.iter().find(|sample| sample.system == system);
    let (Some(native), Some(none), Some(home)) =
        (of(System::Native), of(System::NONE), of(System::HOME))
    else {
        return Ok(());
    };
    let mib = |bytes: u64| bytes as f64 / f64::from(1 << 20);
    let reads = |sample: &Sample| compared(home.times.read_s, sample.times.read_s);
    writeln!(
        out,
        "Without a client cache (none, as PVFS was) each of the {} reads went to the store. With a\n\
         cache on every node for itself (native) each node fetched B again: {:.1} MiB. With homes\n\
         the store was read for {:.1} MiB, and the inputs have {:.1}: {}.\n\
         Reads took {} none and {} native. The {} row\n\
         writes of C were gathered into {} store writes: writes took {} none.",
        none.counts.store_read_requests,
        mib(native.counts.store_read_bytes),
        mib(home.counts.store_read_bytes),
        mib(matmul::program::input_bytes(MATRIX)),
        found(home),
        reads(none),
        reads(native),
        none.counts.store_write_requests,
        home.counts.store_write_requests,
        compared(home.times.write_s, none.times.write_s),
    )?;
    let Some(hint) = of(System::HINT) else {
        return Ok(());
    };
    writeln!(
        out,
        "With hints {}. Each write goes through to the\n\
         store within a window: writes took {} homes.",
        found(hint),
        compared(hint.times.write_s, home.times.write_s),
    )
}

/// The places of what was read, as the table has them.
fn found(sample: &Sample) -> String {
    let mib = |bytes: u64| bytes as f64 / f64::from(1 << 20);
    format!(
        "nodes found {:.1} MiB in\ntheir own memory, {:.1} at peers and {:.1} in the store",
        mib(own_bytes(sample)),
        mib(sample.counts.peer_bytes),
        mib(from_store(sample))
    )
}

/// One time beside another, in words that are true whichever is longer.
fn compared(this: f64, that: f64) -> String {
    let times = |a: f64, b: f64| a / b.max(f64::MIN_POSITIVE);
    let (less, more) = (times(that, this), times(this, that));
    match () {
        () if less >= 1.1 => format!("{less:.1} times less than"),
        () if more >= 1.1 => format!("{more:.1} times as long as"),
        () => "about as long as".to_owned(),
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn times_are_compared_in_words_that_are_true() {
        assert_eq!(compared(1.0, 18.0), "18.0 times less than");
        assert_eq!(compared(1.0, 1.02), "about as long as");
        assert_eq!(compared(7.0, 1.0), "7.0 times as long as");
    }
}
