//! A program of `workloads/`, built with the compiler of an MPI library.

use super::Mpi;
use crate::bench::rig::run;
use hearth_set::failure::{Failure, OrFail};
use std::path::{Path, PathBuf};
use std::process::{Command, Output, Stdio};

/// The sources of a program. They travel inside the command.
pub(in crate::bench) struct Source {
    pub(in crate::bench) name: &'static str,
    /// Names and texts; what ends in `.c` and `.f90` is compiled.
    pub(in crate::bench) files: &'static [(&'static str, &'static str)],
}

/// A built program.
pub(in crate::bench) struct Program {
    path: PathBuf,
    mpi: Mpi,
}

impl Program {
    /// Builds it in `dir`; `flags` stand at the end of the compiler's last command.
    pub(in crate::bench) fn build(
        source: &Source,
        mpi: Mpi,
        dir: &Path,
        flags: &[String],
    ) -> Result<Program, Failure> {
        let dir = dir.join(format!("{}.{}", source.name, mpi.name()));
        let write = |(name, text): &(&str, &str)| std::fs::write(dir.join(name), text);
        std::fs::create_dir_all(&dir)
            .and_then(|()| source.files.iter().try_for_each(write))
            .or_fail(|| "cannot write the program".to_owned())?;
        let path = dir.join(source.name);
        let mut compiler = Command::new(format!("mpicc.{}", mpi.name()));
        compiler
            .current_dir(&dir)
            .args(["-std=c11", "-O2", "-o"])
            .arg(&path);
        for (name, _) in source.files {
            if name.ends_with(".c") {
                compiler.arg(name);
            }
            if let Some(stem) = name.strip_suffix(".f90") {
                compile_fortran(&dir, stem)?;
                compiler.args([&format!("{stem}.o"), "-lgfortran"]);
            }
        }
        compiler.arg("-lm").args(flags);
        run(&mut compiler).map_err(|failure| {
            failure.hint(format!("apt-get install {} (as root)", mpi.packages()))
        })?;
        Ok(Program { path, mpi })
    }

    pub(in crate::bench) fn path(&self) -> &Path {
        &self.path
    }

    pub(in crate::bench) fn mpi(&self) -> Mpi {
        self.mpi
    }

    /// Runs it as one process without MPI.
    pub(in crate::bench) fn alone<S: AsRef<str>>(&self, words: &[S]) -> Result<(), Failure> {
        let mut command = Command::new(&self.path);
        command.args(words.iter().map(AsRef::as_ref));
        run(&mut command).map(drop)
    }

    /// Runs it as one process without MPI, and gives its answer.
    pub(in crate::bench) fn agrees<S: AsRef<str>>(&self, words: &[S]) -> Result<bool, Failure> {
        let what = || format!("cannot run `{}`", self.path.display());
        let mut command = Command::new(&self.path);
        command.args(words.iter().map(AsRef::as_ref));
        let output: Output = command.stdin(Stdio::null()).output().or_fail(what)?;
        let said = String::from_utf8_lossy(&output.stderr);
        match output.status.code() {
            Some(0) => Ok(true),
            Some(1) => {
                eprint!("{said}");
                Ok(false)
            }
            Some(_) | None => Err(Failure::new(what()).cause(said.trim())),
        }
    }
}

fn compile_fortran(dir: &Path, stem: &str) -> Result<(), Failure> {
    let mut compiler = Command::new("gfortran");
    compiler
        .current_dir(dir)
        .args(["-O2", "-c", &format!("{stem}.f90")]);
    run(&mut compiler)
        .map(drop)
        .map_err(|failure| failure.hint("apt-get install gfortran (as root)"))
}
