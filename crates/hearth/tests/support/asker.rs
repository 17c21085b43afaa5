//! A program that asks what is at paths, under `hearth run`.

use std::io::{BufRead, BufReader, Lines, Write};
use std::path::{Path, PathBuf};
use std::process::{Child, ChildStdin, ChildStdout, Command, Stdio};

/// It runs until it is dropped.
pub(crate) struct Asker {
    child: Child,
    asked: Option<ChildStdin>,
    said: Lines<BufReader<ChildStdout>>,
}

impl Asker {
    /// Starts `command`, which is to run the program in the end.
    pub(crate) fn start(command: &mut Command) -> Asker {
        let command = command.stdin(Stdio::piped()).stdout(Stdio::piped());
        let mut child = command.spawn().expect("hearth is there");
        let said = BufReader::new(child.stdout.take().expect("a pipe")).lines();
        Asker {
            asked: child.stdin.take(),
            child,
            said,
        }
    }

    /// The program's answer about a path to the question that a letter stands for.
    pub(crate) fn ask(&mut self, letter: char, path: &Path) -> String {
        let asked = self.asked.as_mut().expect("it was not told to end");
        writeln!(asked, "{letter} {}", path.display()).expect("it listens");
        let said = self.said.next().expect("it answers");
        said.expect("it answers in words")
    }

    /// Ends it; whether it ended well.
    pub(crate) fn end(mut self) -> bool {
        self.asked = None;
        self.child.wait().expect("our own child").success()
    }
}

impl Drop for Asker {
    fn drop(&mut self) {
        // It ends by itself when nobody asks any more.
        self.asked = None;
        let _ = self.child.wait();
    }
}

/// The program, built.
pub(crate) fn program(test: &str, into: &Path) -> Option<PathBuf> {
    crate::cc::workload(test, "asker", into)
}
