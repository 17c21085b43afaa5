//! Calls, as a mount makes them.

use crate::core::{Core, State};
use hearth_proto::{
    Buf, Copies, FileId, Handle, Input, OpenRequest, RawErrno, Request, Semantics, Stamp, Ticket,
    WriteAt,
};
use std::sync::mpsc;

/// An answer to a call.
pub(crate) enum Answer {
    Opened(Handle),
    Bytes(Vec<u8>),
    Done,
    Failed(RawErrno),
}

/// A call that has no answer yet.
pub(crate) struct Waiting {
    pub(crate) tell: mpsc::Sender<Answer>,
    pub(crate) call: Call,
}

/// The part of a call that its answer needs.
pub(crate) enum Call {
    Open(FileId),
    Read {
        handle: Handle,
        offset: u64,
        len: u32,
        keep: bool,
    },
    Write {
        handle: Handle,
        offset: u64,
        buf: Buf,
    },
    Plain,
}

impl Core {
    fn call(&self, call: impl FnOnce(&mut State) -> (Call, Request)) -> Answer {
        let (tell, told) = mpsc::channel();
        self.drive_with(|state| {
            let (call, request) = call(state);
            state.given += 1;
            let ticket = Ticket(state.given);
            state.waiting.insert(ticket, Waiting { tell, call });
            Input::Request(ticket, request)
        });
        told.recv().unwrap_or(Answer::Failed(0))
    }

    pub(crate) fn open_file(&self, file: u64, stamp: Stamp) -> Answer {
        let file = FileId(file);
        let open = OpenRequest {
            view: hearth_proto::View(1),
            file,
            write: true,
            stamp,
            private: false,
            semantics: Semantics::default(),
        };
        self.call(|_| (Call::Open(file), Request::Open(open)))
    }

    pub(crate) fn read(&self, handle: Handle, offset: u64, len: u32) -> Answer {
        self.call(|state| {
            let keep = state.node().config().rules().copies == Copies::Many;
            let call = Call::Read {
                handle,
                offset,
                len,
                keep,
            };
            let request = Request::Read {
                handle,
                offset,
                len,
                keep,
                aside: false,
            };
            (call, request)
        })
    }

    pub(crate) fn write(&self, handle: Handle, offset: u64, bytes: Vec<u8>) -> Answer {
        let len = bytes.len() as u32;
        self.call(|state| {
            self.want_write_rings(state);
            let buf = state.buffers.add(bytes);
            let call = Call::Write {
                handle,
                offset,
                buf,
            };
            let request = Request::Write {
                handle,
                at: WriteAt::Offset(offset),
                buf,
                len,
                mtime_ns: crate::session::wall_clock_ns(),
                aside: false,
            };
            (call, request)
        })
    }

    pub(crate) fn plain(&self, request: Request) -> Answer {
        self.call(|_| (Call::Plain, request))
    }

    /// Tells what nobody waits for.
    pub(crate) fn inform(&self, input: Input) {
        self.drive_with(|_| input);
    }

    pub(crate) fn close(&self, handle: Handle) {
        self.drive_with(|state| {
            state.given += 1;
            Input::Request(Ticket(state.given), Request::Close(handle))
        });
    }
}
