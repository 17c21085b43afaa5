//! Comma-separated values: one line per event, in the order of the source.

use std::io::Write;

use hearth_trace::{Event, Source, StreamId, Tables, TracedProcess};

use super::{ExportError, Exported, each_event};

const HEADER: &str = "start_ns,took_ns,host,rank,pid,tid,op,layer,path,offset,asked,result,\
                      near,request,peer,depth,seq,flags\n";

/// Writes every event as a line. Text is quoted where it must be; an unknown rank, file or request
/// is an empty field.
pub fn csv<S: Source>(
    mut source: S,
    out: &mut impl Write,
) -> Result<Exported, ExportError<S::Error>> {
    let mut exported = Exported::of(source.tables());
    out.write_all(HEADER.as_bytes())?;
    let places: Vec<String> = streams(source.tables());
    let paths: Vec<String> = quoted_paths(source.tables());
    let mut line = Vec::with_capacity(512);
    each_event(&mut source, |stream, event| {
        line.clear();
        let path = event.file.map_or("", |file| &paths[file.0 as usize]);
        put_line(&mut line, event, &places[stream.0 as usize], path)?;
        exported.kept += 1;
        out.write_all(&line)
    })?;
    out.flush()?;
    Ok(exported)
}

/// The four fields that are the same in each line of a stream.
fn streams(tables: &Tables) -> Vec<String> {
    let ids = (0..).map(StreamId).take(tables.streams.len());
    ids.map(|id| {
        let TracedProcess {
            host, rank, pid, ..
        } = tables.process_of(id);
        let host = quoted(&tables.hosts[host.0 as usize].name);
        let rank = rank.map_or(String::new(), |rank| rank.to_string());
        let tid = tables.streams[id.0 as usize].tid;
        format!("{host},{rank},{pid},{tid}")
    })
    .collect()
}

fn quoted_paths(tables: &Tables) -> Vec<String> {
    let paths = tables.files.iter().map(|file| quoted(&file.path));
    paths.collect()
}

fn put_line(line: &mut Vec<u8>, event: &Event, place: &str, path: &str) -> std::io::Result<()> {
    let Event {
        start,
        took,
        op,
        layer,
        flags,
        offset,
        asked,
        result,
        file: _,
        request,
        near,
        peer,
        depth,
        caller: _,
        seq,
    } = event;
    let (op, layer) = (op.name(), layer.name());
    write!(line, "{start},{took},{place},{op},{layer},{path},")?;
    write!(line, "{offset},{asked},{result},{near},")?;
    if *request != 0 {
        write!(line, "{request}")?;
    }
    write!(line, ",{peer},{depth},{seq},")?;
    for (at, name) in flags.names().enumerate() {
        let between = if at == 0 { "" } else { " " };
        write!(line, "{between}{name}")?;
    }
    line.push(b'\n');
    Ok(())
}

/// A field as RFC 4180 has it.
fn quoted(field: &str) -> String {
    if field.contains([',', '"', '\n', '\r']) {
        format!("\"{}\"", field.replace('"', "\"\""))
    } else {
        field.to_owned()
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn fields_that_would_break_a_line_are_quoted() {
        assert_eq!(quoted("/a b"), "/a b");
        assert_eq!(quoted("/a,b"), "\"/a,b\"");
        assert_eq!(quoted("/a\"b\n"), "\"/a\"\"b\n\"");
    }
}
