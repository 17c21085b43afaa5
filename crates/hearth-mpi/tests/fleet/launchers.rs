//! How jobs are started on one machine, whoever starts them: more ranks than processors, none bound to one.

/// Open MPI's, without transports that look for hardware, and with ranks that yield while they wait.
pub(crate) const OPEN_MPI: &[&str] = &[
    "mpirun.openmpi",
    "--allow-run-as-root",
    "--oversubscribe",
    "--bind-to",
    "none",
    "--mca",
    "btl",
    "self,vader",
    "--mca",
    "pml",
    "ob1",
    "--mca",
    "mpi_yield_when_idle",
    "1",
];

/// MPICH's.
pub(crate) const MPICH: &[&str] = &["mpiexec.mpich", "-bind-to", "none"];
