//! Lines over a socket, each of which may carry descriptors.

use std::io::{self, IoSlice, IoSliceMut};
use std::mem::MaybeUninit;
use std::os::fd::{BorrowedFd, OwnedFd};
use std::os::unix::net::UnixStream;

use rustix::net::{
    RecvAncillaryBuffer, RecvAncillaryMessage, RecvFlags, SendAncillaryBuffer,
    SendAncillaryMessage, SendFlags, recvmsg, sendmsg,
};
use serde::Serialize;
use serde::de::DeserializeOwned;

/// Longest line; status of many peers is the longest there is.
const LINE_BYTES_MAX: usize = 4 << 20;

/// Descriptors with one line: a device and two namespaces.
const FDS_MAX: usize = 3;

/// Sends one line and at most [`FDS_MAX`] descriptors with it.
pub(super) fn send(
    stream: &UnixStream,
    line: &impl Serialize,
    fds: &[BorrowedFd<'_>],
) -> io::Result<()> {
    let mut bytes = serde_json::to_vec(line)?;
    bytes.push(b'\n');
    let mut sent = send_some(stream, &bytes, fds)?;
    while sent < bytes.len() {
        sent += send_some(stream, &bytes[sent..], &[])?;
    }
    Ok(())
}

fn send_some(stream: &UnixStream, bytes: &[u8], fds: &[BorrowedFd<'_>]) -> io::Result<usize> {
    let mut space = [MaybeUninit::uninit(); rustix::cmsg_space!(ScmRights(FDS_MAX))];
    let mut control = SendAncillaryBuffer::new(&mut space);
    if !fds.is_empty() {
        let fits = control.push(SendAncillaryMessage::ScmRights(fds));
        assert!(fits, "no line has more descriptors than FDS_MAX");
    }
    let slices = [IoSlice::new(bytes)];
    let flags = SendFlags::NOSIGNAL;
    Ok(rustix::io::retry_on_intr(|| {
        sendmsg(stream, &slices, &mut control, flags)
    })?)
}

/// Reads lines from one socket.
pub(super) struct Reader<'a> {
    stream: &'a UnixStream,
    bytes: Vec<u8>,
    fds: Vec<OwnedFd>,
}

impl<'a> Reader<'a> {
    pub(super) fn new(stream: &'a UnixStream) -> Reader<'a> {
        Reader {
            stream,
            bytes: Vec::new(),
            fds: Vec::new(),
        }
    }

    /// Waits for a line.
    pub(super) fn line<T: DeserializeOwned>(&mut self) -> io::Result<T> {
        let end = loop {
            if let Some(end) = self.bytes.iter().position(|byte| *byte == b'\n') {
                break end;
            }
            if self.bytes.len() > LINE_BYTES_MAX {
                return Err(io::Error::other("the line is too long"));
            }
            self.receive()?;
        };
        let line: Vec<u8> = self.bytes.drain(..=end).collect();
        Ok(serde_json::from_slice(&line)?)
    }

    /// The descriptors that came so far.
    pub(super) fn take_fds(&mut self) -> Vec<OwnedFd> {
        std::mem::take(&mut self.fds)
    }

    fn receive(&mut self) -> io::Result<()> {
        let mut space = [MaybeUninit::uninit(); rustix::cmsg_space!(ScmRights(FDS_MAX))];
        let mut control = RecvAncillaryBuffer::new(&mut space);
        let mut bytes = [0; 4096];
        let flags = RecvFlags::CMSG_CLOEXEC;
        let received = rustix::io::retry_on_intr(|| {
            let slices = &mut [IoSliceMut::new(&mut bytes)];
            recvmsg(self.stream, slices, &mut control, flags)
        })?;
        for message in control.drain() {
            if let RecvAncillaryMessage::ScmRights(fds) = message {
                self.fds.extend(fds);
            }
        }
        if received.bytes == 0 {
            return Err(io::ErrorKind::UnexpectedEof.into());
        }
        self.bytes.extend_from_slice(&bytes[..received.bytes]);
        Ok(())
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use std::fs::File;
    use std::io::Read;
    use std::os::fd::AsFd;
    use std::thread;

    #[test]
    fn a_line_carries_a_descriptor() {
        let (here, there) = UnixStream::pair().unwrap();
        let mut file = tempfile::tempfile().unwrap();
        io::Write::write_all(&mut file, b"hello").unwrap();
        io::Seek::rewind(&mut file).unwrap();
        send(&here, &"one", &[file.as_fd()]).unwrap();
        send(&here, &"two", &[]).unwrap();
        let mut reader = Reader::new(&there);
        assert_eq!(reader.line::<String>().unwrap(), "one");
        let mut text = String::new();
        let mut file = File::from(reader.take_fds().remove(0));
        file.read_to_string(&mut text).unwrap();
        assert_eq!(text, "hello");
        assert_eq!(reader.line::<String>().unwrap(), "two");
        assert!(reader.take_fds().is_empty());
    }

    #[test]
    fn long_lines_come_whole_and_endless_ones_are_cut() {
        let (here, there) = UnixStream::pair().unwrap();
        let long = "x".repeat(1 << 20);
        let sent = long.clone();
        let sender = thread::spawn(move || {
            send(&here, &sent, &[]).unwrap();
            let endless = "y".repeat(LINE_BYTES_MAX + (1 << 20));
            let _ = send(&here, &endless, &[]);
        });
        let mut reader = Reader::new(&there);
        assert_eq!(reader.line::<String>().unwrap(), long);
        assert!(reader.line::<String>().is_err());
        drop(there);
        sender.join().unwrap();
    }
}
